"""How long the gate's arithmetic takes: the vectorised form beside a plain Python loop, and a sweep.

    python benchmarks/gate_arithmetic.py [--answers 10000] [--tokens 3] [--k 64] [--repeats 7] [--json FILE]

Both forms do the same work on the same numbers: remove unusable values, keep the K largest, score each token,
take each answer's minimum. They must agree before anything is timed. They run by turns, so that whatever else
the machine does falls on both. Needs no model. Building the table (sorting once) is timed on its own and is
part of the ratio; the sweep starts from a built table, as a sweep over recorded answers does.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from speceyes.gating import SCORES, AnswerTable, confidence
from speceyes.types import Token

Row = list[float]


def make_rows(tokens: int, k: int, seed: int) -> np.ndarray:
    """Log-probs with a long tail, unsorted, one sentinel in fifty rows beyond the K that are needed."""
    rng = np.random.default_rng(seed)
    logits = rng.gumbel(size=(tokens, k + 1)) * 2.0
    logits[:, 0] += rng.uniform(0.0, 12.0, tokens)
    rows = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    rows[::50, -1] = -9999.0
    return rng.permuted(rows, axis=1)


def plain_loop(rows: list[Row], tokens: int, k: int) -> list[float]:
    """Separability with the minimum over each answer's tokens, as one would write it without arrays."""
    scores = []
    for row in rows:
        usable = sorted((x for x in row if math.isfinite(x) and x > -9998.0), reverse=True)[:k]
        rivals = usable[1:]
        mean = sum(rivals) / len(rivals)
        spread = math.sqrt(sum((x - mean) ** 2 for x in rivals) / len(rivals))
        scores.append((usable[0] - mean) / (spread + 1e-6))
    return [min(scores[i : i + tokens]) for i in range(0, len(scores), tokens)]


def sweep(table: AnswerTable, k: int, settings: int) -> int:
    """`settings` combinations of score, K, aggregate and threshold; returns how many were computed."""
    ks = sorted({max(3, k * i // 5) for i in range(1, 6)})
    combinations = [(s, n, how) for s in ("separability", "margin") for n in ks for how in SCORES[s].aggregates]
    each = math.ceil(settings / len(combinations))
    done = 0
    for name, n, how in combinations:
        values = table.score(name, n, how).values
        ascending = np.sort(values[~np.isnan(values)])
        thresholds = np.quantile(ascending, np.linspace(0.0, 1.0, each))
        accepted = ascending.size - np.searchsorted(ascending, thresholds)
        done += accepted.size
    return done


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def summary(seconds: list[float]) -> dict[str, float]:
    low, _, high = statistics.quantiles(seconds, n=4)
    return {"median_s": statistics.median(seconds), "q1_s": low, "q3_s": high, "min_s": min(seconds)}


def measure(answers: int, tokens: int, k: int, repeats: int, seed: int) -> dict[str, Any]:
    rows = make_rows(answers * tokens, k, seed)
    as_lists = rows.tolist()
    lengths = np.full(answers, tokens)

    def vectorised() -> np.ndarray:
        return AnswerTable.from_arrays(rows, lengths).score("separability", k, "min").values

    np.testing.assert_allclose(vectorised(), plain_loop(as_lists, tokens, k), rtol=1e-9)
    one = [Token("x", row[0], tuple(row)) for row in as_lists[:tokens]]
    runs: dict[str, list[float]] = {name: [] for name in ("vectorised", "plain_loop", "table", "sweep", "one")}
    computed = 0
    for _ in range(repeats):
        runs["vectorised"].append(timed(vectorised))
        runs["plain_loop"].append(timed(lambda: plain_loop(as_lists, tokens, k)))
        start = time.perf_counter()
        table = AnswerTable.from_arrays(rows, lengths)
        runs["table"].append(time.perf_counter() - start)
        start = time.perf_counter()
        computed = sweep(table, k, 1000)
        runs["sweep"].append(time.perf_counter() - start)
        runs["one"].append(timed(lambda: confidence(one, k=k)))
    ratios = [slow / fast for slow, fast in zip(runs["plain_loop"], runs["vectorised"], strict=True)]
    return {
        "answers": answers,
        "tokens": tokens,
        "k": k,
        "repeats": repeats,
        "seed": seed,
        "sweep_settings": computed,
        **{name: summary(seconds) for name, seconds in runs.items()},
        "speedup": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        "machine": {
            "cpus": os.cpu_count(),
            "processor": platform.machine(),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
    }


def report(figures: dict[str, Any]) -> str:
    labels = {
        "vectorised": "vectorised, table and score",
        "plain_loop": "plain Python loop",
        "table": "building the table alone",
        "sweep": f"sweep of {figures['sweep_settings']} settings, table built",
        "one": "confidence() of one answer",
    }
    lines = [
        "{answers} answers x {tokens} tokens x {k} log-probs, {repeats} turns (median, quartiles)".format(**figures)
    ]
    for name, label in labels.items():
        median, low, high = (figures[name][key] * 1e3 for key in ("median_s", "q1_s", "q3_s"))
        lines.append(f"  {label:<42}{median:>11.3f} ms  [{low:.3f}, {high:.3f}]")
    ratio = figures["speedup"]
    lines.append(f"  loop / vectorised: {ratio['median']:.1f} [{ratio['min']:.1f}, {ratio['max']:.1f}]")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the gate's arithmetic.")
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--tokens", type=int, default=3, help="tokens in each answer")
    parser.add_argument("--k", type=int, default=64, help="log-probs of each token, at least 3")
    parser.add_argument("--repeats", type=int, default=7, help="turns, at least 2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    chosen = parser.parse_args()
    if chosen.answers < 1 or chosen.tokens < 1 or chosen.k < 3 or chosen.repeats < 2:
        parser.error("--answers and --tokens need at least 1, --k 3, --repeats 2")
    figures = measure(chosen.answers, chosen.tokens, chosen.k, chosen.repeats, chosen.seed)
    print(report(figures))
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(figures, indent=2, allow_nan=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
