"""Make the calibration that ships with the nano pair, from recorded outcomes on the calibration split.

    python evaluate.py --split calibration --count 800 --records work/calibration.jsonl
    python calibrate.py work/calibration.jsonl --alpha 0.05 --delta 0.05

What is promised: among the accepted drafts, the share that is wrong where the agent is right is at most alpha, with
confidence 1 - delta over the draw of the calibration questions. It holds for questions drawn like those.

Learn-then-Test with a fixed sequence (Angelopoulos, Bates, Candes, Jordan, Lei, 2021): a third of the records fixes the
thresholds to try, as quantiles of the score; the others test them one after the other, strictest first, by the exact
binomial tail, and the first one that fails ends the sequence. No correction for trying several is needed.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speceyes.config import load_settings
from speceyes.gating import Calibration, confidence
from speceyes.phases.gate import in_use
from speceyes.types import Token
from speceyes.wiring import nano_calibration_file, open_agent, open_draft

K, SCORE, AGGREGATE = 64, "separability", "min"
SCREEN_THRESHOLD = 0.5
SHARES = np.arange(0.40, 1.0001, 0.05)
"""Shares of the screened-in drafts that the thresholds to be tested accept, in the order of testing."""


@dataclass(frozen=True)
class Drafted:
    """A record that phase I lets through: the draft's score, and whether accepting it loses against the agent."""

    score: float
    loss: bool


def screened_in(rows: list[dict]) -> list[Drafted]:
    """The drafts that reach the threshold test; a draft without a score never does."""
    found = []
    for row in rows:
        p = row["help_probability"]
        if p is None or p > SCREEN_THRESHOLD:
            continue
        tokens = [Token("x", top[0], tuple(top)) for top in row["tokens"]]
        score = confidence(tokens, score=SCORE, k=K, aggregate=AGGREGATE).score
        if score is not None:
            found.append(Drafted(score, row["agent_right"] and not row["draft_right"]))
    return found


def tail(losses: int, n: int, p: float) -> float:
    """P(X <= losses) for X binomial (n, p): how likely so few losses are, were the true share p."""
    return math.fsum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(losses + 1))


def upper_bound(losses: int, n: int, delta: float) -> float:
    """The one-sided Clopper-Pearson bound: the largest share under which so few losses have chance delta."""
    low, high = losses / n, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(losses, n, middle) > delta else (low, middle)
    return high


def certify(tuning: list[Drafted], testing: list[Drafted], alpha: float, delta: float) -> tuple[float, int, int] | None:
    """The last threshold of the sequence that passes, with accepted and lost records; None where not one does."""
    found = None
    for share in SHARES:
        threshold = float(np.quantile([d.score for d in tuning], 1 - share))
        accepted = [d for d in testing if d.score >= threshold]
        losses = sum(d.loss for d in accepted)
        passed = bool(accepted) and tail(losses, len(accepted), alpha) <= delta
        print(
            f"accept {share:4.0%} of the screened-in: S >= {threshold:7.3f}, {len(accepted):4d} accepted, "
            f"{losses:3d} lost{'' if passed else '  <- fails, the sequence ends'}"
        )
        if not passed:
            break
        found = (threshold, len(accepted), losses)
    return found


async def bindings() -> dict[str, str]:
    settings = load_settings(env={})
    async with open_draft(settings) as draft, open_agent(settings) as agent:
        return in_use(draft, agent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--delta", type=float, default=0.05)
    options = parser.parse_args()
    text = options.records.read_text()
    rows = [json.loads(line) for line in text.splitlines()]
    # every third record tunes; question kinds come in fours, so both parts hold all kinds alike
    tuning, testing = screened_in(rows[::3]), screened_in([row for i, row in enumerate(rows) if i % 3])
    passed = certify(tuning, testing, options.alpha, options.delta)
    threshold, accepted, losses = passed or (None, 0, 0)
    calibration = Calibration(
        score=SCORE,
        k=K,
        aggregate=AGGREGATE,
        threshold=threshold,
        screen_threshold=SCREEN_THRESHOLD,
        **asyncio.run(bindings()),
        logprob_mode="raw",
        data=f"sha256:{hashlib.sha256(text.encode()).hexdigest()}",
        method="learn-then-test, fixed sequence",
        n=sum(1 for i in range(len(rows)) if i % 3),
        accepted=accepted,
        risk=losses / accepted if accepted else None,
        alpha=options.alpha,
        delta=options.delta,
        bound=upper_bound(losses, accepted, options.delta) if accepted else None,
        notes="risk: excess loss against the agent among the accepted; made on the nano calibration split",
    )
    target = nano_calibration_file()
    calibration.save(target)
    print(f"{target}: threshold {threshold}, risk {calibration.risk}, bound {calibration.bound}")


if __name__ == "__main__":
    main()
