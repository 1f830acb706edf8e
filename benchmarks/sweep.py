"""How long a sweep takes: settings of gate, K, plan and threshold over records that are already loaded.

    python benchmarks/sweep.py [--records 10000] [--settings 1000] [--repeats 7] [--json FILE]

A setting is one score with one aggregate at one K, under one plan, at one threshold; for each the figures of
`speceyes sweep` are computed: acceptance, selective and final accuracy, excess loss, and the speedup by recorded times,
by both laws and in work. The clock starts with a table whose log-probs are sorted and nothing else, so scoring every
token is inside. Needs no model: records are made up, and their content does not change how long the arithmetic takes.

What the settings of one gate have in common is computed once. So the benchmark also says how many settings that is if
every distinct score counts as a threshold, and how long the bootstrap intervals take, which are not in the figure.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import machine
from speceyes.evals.records import RecordTable
from speceyes.evals.sweeps import Ledger, Outcomes, Ranking
from speceyes.evals.sweeps.curves import Curve
from speceyes.evals.sweeps.grid import gate_grid
from speceyes.evals.sweeps.separation import separations
from speceyes.evals.sweeps.sweep import Gate, score_gate
from speceyes.gating import AnswerTable
from speceyes.scheduling import SPECULATIVE, Plan

KS = (5, 10, 20, 40)
REPLICATES = 200


def make_records(n: int, tokens: int, k: int, seed: int) -> RecordTable:
    """Records in which easy queries are drafted right more often, screened as easy, and drafted with surer tokens."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=n)
    logits = rng.gumbel(size=(n * tokens, k)) * 2.0
    logits[:, 0] += np.repeat(np.maximum(4.0 + 2.0 * ease, 0.0), tokens)
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    right, agent = rng.random(n) < 1 / (1 + np.exp(-1 - 2 * ease)), rng.random(n) < 0.85
    flags = np.ones(n, dtype=np.bool_)
    return RecordTable(
        ids=np.arange(n).astype(np.str_),
        categories=np.full(n, ""),
        help_probability=1 / (1 + np.exp(2 * ease + rng.normal(size=n))),
        answers=AnswerTable.from_arrays(logprobs, np.full(n, tokens), logprobs.max(axis=1)),
        draft_usable=flags,
        labelled=flags,
        draft_right=right,
        agent_right=agent,
        agrees=right == agent,
        screen_seconds=rng.lognormal(-3, 0.3, n),
        draft_seconds=rng.lognormal(-3, 0.3, n),
        agent_seconds=rng.lognormal(-1, 0.5, n),
        depth=np.ones(n, dtype=np.int64),
        bound_to={},
        digest="made up",
    )


def fresh(table: RecordTable) -> RecordTable:
    """The same records, with no token scored yet."""
    return replace(table, answers=replace(table.answers, _token_scores={}))


def sweep(table: RecordTable, plans: list[Plan], thresholds: int) -> tuple[list[Gate], list[Curve]]:
    """All gates at all K under each plan, each read off at so many thresholds."""
    outcomes = Outcomes.of(table)
    ledgers = [Ledger.of(table, outcomes, plan, 0.5) for plan in plans]
    gates = [score_gate(table, outcomes, setting) for setting in gate_grid(KS)]
    found = []
    for gate in gates:
        wanted = np.quantile(gate.ranking.scores, np.linspace(0.0, 1.0, thresholds))
        points = np.searchsorted(-gate.ranking.thresholds, -wanted, side="right") - 1
        for ledger in ledgers:
            curve = ledger.curve(gate.ranking)
            found.append(Curve(*(getattr(curve, name)[points] for name in Curve.__slots__)))
    return gates, found


def check(table: RecordTable, gates: list[Gate], found: list[Curve]) -> None:
    """The figures are those of a plain count over the records, at each threshold of every 16th gate."""
    passes = table.screened(0.5)
    for gate, curve in list(zip(gates, found, strict=True))[::16]:
        for index, threshold in enumerate(curve.thresholds.tolist()):
            accepted = passes & (gate.values >= threshold)
            final = np.where(accepted, table.draft_right, table.agent_right).mean()
            assert abs(curve.acceptance[index] - accepted.mean()) < 1e-12
            assert abs(curve.final_accuracy[index] - final) < 1e-12


@dataclass
class Clock:
    """Wall time, and processor time beside it: what the work takes on a machine that does nothing else."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        wall, processor = time.perf_counter(), time.process_time()
        yield
        self.wall.setdefault(name, []).append(time.perf_counter() - wall)
        self.processor.setdefault(name, []).append(time.process_time() - processor)


def measure(records: int, tokens: int, k: int, settings: int, repeats: int, seed: int) -> dict[str, Any]:
    ran_on = machine.machine()
    table = make_records(records, tokens, k, seed)
    each = -(-settings // len(gate_grid(KS)))
    check(table, *sweep(fresh(table), [Plan.PAPER], each))
    clock = Clock()
    for _ in range(repeats):
        run = fresh(table)
        with clock.reading("settings"):
            gates, found = sweep(run, [Plan.PAPER], each)
        run = fresh(table)
        with clock.reading("all_plans"):
            gates, everywhere = sweep(run, list(SPECULATIVE), each)
        rankings: list[Ranking] = [gate.ranking for gate in gates if gate.setting.k == KS[-1]]
        with clock.reading("intervals"):
            separations(rankings, table.draft_right, np.arange(records), replicates=REPLICATES)
    return {
        "records": records,
        "tokens": tokens,
        "k": k,
        "repeats": repeats,
        "seed": seed,
        "gates": len(gates),
        "settings": sum(curve.thresholds.size for curve in found),
        "settings_all_plans": sum(curve.thresholds.size for curve in everywhere),
        "distinct_thresholds_all_plans": len(Plan) * sum(gate.ranking.scores.size for gate in gates),
        "interval_gates": len(rankings),
        "interval_replicates": REPLICATES,
        "seconds": {name: summary(times) for name, times in clock.wall.items()},
        "processor_seconds": {name: summary(times) for name, times in clock.processor.items()},
        "machine": ran_on,
    }


def summary(seconds: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(seconds, n=4)
    return {"median": middle, "q1": low, "q3": high, "min": min(seconds), "max": max(seconds)}


def report(figures: dict[str, Any]) -> str:
    labels = {
        "settings": "{settings:,} settings, plan paper",
        "all_plans": "{settings_all_plans:,} settings, five plans",
        "intervals": "AUROC and AURC of {interval_gates} gates, {interval_replicates} resamples",
    }
    lines = ["{records:,} records of {tokens} tokens and {k} log-probs, {repeats} repeats".format(**figures)]
    for name, label in labels.items():
        wall = "{median:.3f} s  [{q1:.3f}, {q3:.3f}]".format(**figures["seconds"][name])
        processor = "{median:.3f} s".format(**figures["processor_seconds"][name])
        lines.append(f"  {label.format(**figures):<52}{wall}   processor {processor}")
    lines.append(
        "  at every distinct score: {distinct_thresholds_all_plans:,} settings in the second line".format(**figures)
    )
    lines.append(machine.line(figures["machine"]))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a sweep over recorded answers.")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=3, help="tokens in each answer")
    parser.add_argument("--k", type=int, default=64, help=f"log-probs of each token, at least {KS[-1]}")
    parser.add_argument("--settings", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7, help="at least 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    chosen = parser.parse_args()
    if chosen.records < 2 or chosen.tokens < 1 or chosen.k < KS[-1] or chosen.settings < 1 or chosen.repeats < 2:
        parser.error(f"--records and --repeats need at least 2, --tokens and --settings 1, --k {KS[-1]}")
    figures = measure(chosen.records, chosen.tokens, chosen.k, chosen.settings, chosen.repeats, chosen.seed)
    print(report(figures))
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
