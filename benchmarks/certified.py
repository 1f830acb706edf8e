"""Does a certified threshold keep its promise on questions that it has never seen, and what does it gain?

    speceyes record nano:2000:0@calibration -o out/calibration
    speceyes calibrate out/calibration --risk excess --alpha 0.02 --delta 0.05 -o out/nano.json
    speceyes record nano:600:0@test -o out/test
    python benchmarks/certified.py out/nano.json out/test [--json FILE]

The calibration's gate is applied to the record of a fresh test set; nothing is chosen on it. Intervals are exact
(Clopper and Pearson, 1934) at 95 %. The speedup comes from the recorded seconds of each phase, in the paper's order.
A calibration for closer looks of the draft model needs a record with them (`--max-depth`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from machine import line, machine
from speceyes.evals.calibrating import GateSetting, collect
from speceyes.evals.law import Costs, law_honest, law_ideal
from speceyes.evals.records.loading import load_run
from speceyes.evals.sweeps import plan_times
from speceyes.gating import Calibration
from speceyes.gating.certify import Limit
from speceyes.gating.certify.binomial import interval
from speceyes.scheduling import Plan


def share(hits: np.ndarray, of: int) -> dict[str, Any]:
    low, high = interval(int(hits.sum()), of, 0.95)
    return {"count": int(hits.sum()), "of": of, "share": float(hits.sum() / of), "interval": [float(low), float(high)]}


def figures(calibration: Calibration, run: Path) -> dict[str, Any]:
    """What the gate would have done with every recorded question."""
    table = load_run(run)
    calibration.check(**table.bound_to)
    if calibration.threshold is None:
        raise SystemExit("this calibration is infeasible: it accepts nothing")
    depth = calibration.max_depth or 0
    if len(table.closer) < depth:
        raise SystemExit(f"{run} has no looks of depth {depth}: record it with --max-depth")
    keep = table.complete_to(depth) & table.labelled
    gate = GateSetting(calibration.score, calibration.k, calibration.aggregate, calibration.screen_threshold)
    evidence = collect(table, gate, [Limit.parse("excess", 0.02)], depth)
    answered_at, (lost,) = evidence.outcomes.answered_at(calibration.threshold)
    screened, accepted, by_draft = table.screened(gate.screen_threshold)[keep], answered_at == 0, answered_at >= 0
    n = int(keep.sum())
    draft, agent = table.draft_right[keep], table.agent_right[keep]
    final, look_s, left = np.where(accepted, draft, agent), np.zeros(n), ~accepted
    for at, look in enumerate(table.closer[:depth], start=1):
        look_s += np.where(left, np.nan_to_num(look.seconds[keep]), 0.0)
        final = np.where(answered_at == at, look.right[keep], final)
        left = left & (answered_at != at)
    beta, alpha = float(screened.sum() / n), float(accepted.sum() / max(1, screened.sum()))
    screen_s, draft_s, agent_s = (t[keep] for t in (table.screen_seconds, table.draft_seconds, table.agent_seconds))
    times = plan_times(Plan.PAPER, screen_s, draft_s, agent_s, screened)
    # a refused query has paid for its agent run there; one that a look has won has not run it
    won = by_draft & ~accepted
    spent = np.where(accepted, times.passed, times.refused) - np.where(won, agent_s, 0.0) + look_s
    looked = float((look_s > 0).mean())
    look_cost = float(look_s.sum() / max(1, (look_s > 0).sum()))
    costs = Costs(float(screen_s.mean()), float(draft_s.mean()), float(agent_s.mean()), queries=n, look=look_cost)
    closer = float(won.sum() / n)
    return {
        "n": n,
        "accepted": share(by_draft, n),
        "after_closer_looks": share(won, n),
        "excess_loss": share(lost, int(by_draft.sum())),
        "accuracy": {"agent": share(agent, n), "draft": share(draft, n), "speceyes": share(final, n)},
        "speedup_recorded": float(agent_s.sum() / spent.sum()),
        "law_honest": law_honest(alpha, beta, costs, closer, looked),
        "law_ideal": law_ideal(alpha, beta, closer),
        "beta": beta,
        "alpha": alpha,
    }


def show(found: dict[str, Any]) -> None:
    console = Console()
    console.print(line(found["machine"]))
    table = Table("", "share", "95 %", "count")
    rows = {"accepted": found["accepted"], "of all, after closer looks": found["after_closer_looks"]}
    rows |= {"excess loss among them": found["excess_loss"]}
    rows |= {f"right: {name}": value for name, value in found["accuracy"].items()}
    for name, row in rows.items():
        low, high = row["interval"]
        table.add_row(name, f"{row['share']:.2%}", f"{low:.2%} to {high:.2%}", f"{row['count']} of {row['of']}")
    console.print(table)
    ideal = "no bound" if found["law_ideal"] is None else f"{found['law_ideal']:.2f}"
    laws = f"honest law {found['law_honest']:.2f}, ideal {ideal}"
    console.print(f"speedup by the recorded times {found['speedup_recorded']:.2f} ({laws})")
    promise = found["calibration"]
    console.print(f"promised: excess loss at most {promise['alpha']:.1%}, bound then {promise['bound']:.2%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("calibration", type=Path)
    parser.add_argument("run", type=Path, help="the record of a fresh test set")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    calibration = Calibration.load(options.calibration)
    facts = ("threshold", "max_depth", "n", "accepted", "risk", "alpha", "delta", "bound", "method")
    promised = {name: getattr(calibration, name) for name in facts}
    found = {"machine": machine(), "calibration": promised, **figures(calibration, options.run)}
    show(found)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
