"""Make the calibration that ships with the nano pair, from recorded outcomes on the calibration split.

    python evaluate.py --split calibration --count 800 --records work/calibration.jsonl
    python calibrate.py work/calibration.jsonl --alpha 0.05 --delta 0.05

What is promised: among the accepted drafts, the share that is wrong where the agent is right is at most alpha, with
confidence 1 - delta over the draw of the calibration questions. It holds for questions drawn like those.

A third of the records fixes the thresholds to try, at shares that stand here and were chosen before; the others test
them one after the other, strictest first. The statistics are those of `speceyes calibrate`: see
`speceyes.gating.certify`.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from pathlib import Path

import numpy as np

from speceyes.config import load_settings
from speceyes.evals.calibrating import GateSetting, make_calibration
from speceyes.gating import confidence
from speceyes.gating.certify import Certificate, Limit, Outcomes, Risk, ThresholdSequence, certify, thresholds_at
from speceyes.phases.gate import in_use
from speceyes.types import Token
from speceyes.wiring import nano_calibration_file, open_agent, open_draft

GATE = GateSetting(score="separability", k=64, aggregate="min", screen_threshold=0.5)
SHARES = np.arange(0.40, 1.0001, 0.05)
"""Shares of the screened-in drafts that the thresholds to be tested accept, in the order of testing."""


def outcomes_of(rows: list[dict]) -> Outcomes:
    """Each draft's score, NaN where phase I keeps it back or it has none, and whether accepting it loses."""
    scores = [score_of(row) for row in rows]
    losses = [row["agent_right"] and not row["draft_right"] for row in rows]
    return Outcomes(np.array(scores, dtype=np.float64), np.array([losses], dtype=np.bool_))


def score_of(row: dict) -> float | None:
    p = row["help_probability"]
    if p is None or p > GATE.screen_threshold:
        return None
    tokens = [Token("x", top[0], tuple(top)) for top in row["tokens"]]
    return confidence(tokens, score=GATE.score, k=GATE.k, aggregate=GATE.aggregate).score


def certificate_of(rows: list[dict], alpha: float, delta: float) -> tuple[Certificate, int]:
    """The certificate, and how many records chose the thresholds."""
    # every third record tunes; question kinds come in fours, so both parts hold all kinds alike
    tuning = outcomes_of(rows[::3])
    sequence = ThresholdSequence.from_start(thresholds_at(tuning.candidates, SHARES))
    testing = outcomes_of([row for i, row in enumerate(rows) if i % 3])
    return certify(testing, sequence, [Limit(Risk.EXCESS, alpha)], delta), len(tuning)


def show(certificate: Certificate) -> None:
    for step in certificate.steps:
        outcome = "certified" if step.passed else "fails, the sequence ends" if step.tested else "not tested"
        print(
            f"S >= {step.threshold:7.3f}: {step.accepted:4d} accepted, {step.losses[0]:3d} lost, "
            f"at most {step.bounds[0]:.4f}: {outcome}"
        )


async def bindings() -> dict[str, str]:
    settings = load_settings(env={})
    async with open_draft(settings) as draft, open_agent(settings) as agent:
        return {**in_use(draft, agent), "logprob_mode": "raw"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--delta", type=float, default=0.05)
    parser.add_argument("--out", type=Path, help="the calibration's file; by default the one that is shipped")
    options = parser.parse_args()
    text = options.records.read_text()
    certificate, tuned_on = certificate_of(
        [json.loads(line) for line in text.splitlines()], options.alpha, options.delta
    )
    show(certificate)
    calibration = make_calibration(
        certificate,
        GATE,
        bound_to=asyncio.run(bindings()),
        data=f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        method="split",
        n_tuning=tuned_on,
        notes="made on the nano calibration split",
    )
    target = options.out or nano_calibration_file()
    calibration.save(target)
    print(f"{target}: threshold {calibration.threshold}, risk {calibration.risk}, bound {calibration.bound}")


if __name__ == "__main__":
    main()
