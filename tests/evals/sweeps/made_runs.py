"""Recorded runs made from arrays, for the tests of sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from speceyes.evals.records import CloserTable, RecordTable
from speceyes.gating import AnswerTable


def run_of(
    draft_right: Sequence[bool],
    agent_right: Sequence[bool] | None = None,
    *,
    logprobs: Any | None = None,
    lengths: Sequence[int] | None = None,
    **more: Any,
) -> RecordTable:
    """A run of as many records as `draft_right` is long; whatever is not given is plain.

    Without `logprobs` every draft has one token with three log-probs, and the first is the surer the later its record.
    """
    n = len(draft_right)
    if logprobs is None:
        logprobs = np.array([[-0.01, -3.0 - i, -4.0 - i] for i in range(n)], dtype=np.float64).reshape(n, 3)
    rows = np.asarray(logprobs, dtype=np.float64)
    counts = np.ones(n, dtype=np.int64) if lengths is None else np.asarray(lengths)
    sampled = rows[:, 0] if rows.shape[1] else np.full(len(rows), np.nan)
    right = np.asarray(draft_right, dtype=np.bool_)
    agent = np.ones(n, dtype=np.bool_) if agent_right is None else np.asarray(agent_right, dtype=np.bool_)
    fields: dict[str, Any] = {
        "ids": np.array([f"q{i}" for i in range(n)], dtype=np.str_),
        "categories": np.full(n, "", dtype=np.str_),
        "help_probability": np.zeros(n),
        "answers": AnswerTable.from_arrays(rows, counts, sampled),
        "draft_usable": np.ones(n, dtype=np.bool_),
        "labelled": np.ones(n, dtype=np.bool_),
        "draft_right": right,
        "agent_right": agent,
        "agrees": right == agent,
        "screen_seconds": np.full(n, 0.1),
        "draft_seconds": np.full(n, 0.2),
        "agent_seconds": np.full(n, 1.0),
        "depth": np.ones(n, dtype=np.int64),
        "bound_to": {"draft_model": "small", "agent_model": "large"},
        "digest": "sha256:0",
    }
    fields.update(
        {name: np.asarray(value) if name not in ("bound_to", "digest") else value for name, value in more.items()}
    )
    return RecordTable(**fields)


def lifelike(n: int, *, seed: int = 0, k: int = 20, tokens: int = 3, faults: float = 0.02) -> RecordTable:
    """A run in which easy queries are drafted right more often, screened as easy, and drafted with surer tokens."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=n)
    right = rng.random(n) < 1 / (1 + np.exp(-(0.9 + 1.8 * ease)))
    agent = rng.random(n) < 1 / (1 + np.exp(-(2.2 + 0.8 * ease)))
    lengths = rng.integers(1, 2 * tokens, size=n)
    surety = np.repeat(3.5 + 1.2 * ease + 1.6 * right, lengths)
    total = int(lengths.sum())
    logits = rng.gumbel(size=(total, k))
    logits[:, 0] += np.maximum(surety + rng.normal(scale=1.2, size=total), 0.0)
    logprobs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return run_of(
        right.tolist(),
        agent.tolist(),
        logprobs=-np.sort(-logprobs, axis=1),
        lengths=lengths.tolist(),
        help_probability=1 / (1 + np.exp(1.5 * ease + rng.normal(scale=0.8, size=n))),
        draft_usable=rng.random(n) >= faults,
        agrees=np.where(right & agent, True, (right == agent) & (rng.random(n) < 0.3)),
        screen_seconds=rng.lognormal(np.log(0.05), 0.2, n),
        draft_seconds=rng.lognormal(np.log(0.06), 0.2, n),
        agent_seconds=rng.lognormal(np.log(0.40), 0.4, n),
    )


def run_like(table: RecordTable, **changes: Any) -> RecordTable:
    return RecordTable(**{name: changes.get(name, getattr(table, name)) for name in RecordTable.__slots__})


def looks(table: RecordTable, depths: int, *, fails: float = 0.1, broken: float = 0.0, seed: int = 7) -> RecordTable:
    """Each look makes drafts surer and more often right; some come to nothing, of some the server fails."""
    rng, n = np.random.default_rng(seed), len(table)
    going, known, closer = np.ones(n, dtype=np.bool_), np.ones(n, dtype=np.bool_), []
    for _ in range(depths):
        other = lifelike(n, seed=int(rng.integers(1000)))
        fault = rng.random(n) < broken
        known = known & ~(going & fault)
        looked = going & known & (rng.random(n) >= fails)
        right = (table.draft_right | (rng.random(n) < 0.7)) & looked
        closer.append(
            CloserTable(
                answers=other.answers,
                known=known,
                looked=looked,
                usable=looked & (rng.random(n) > 0.02),
                right=right,
                agrees=right & table.agent_right,
                seconds=np.where(going & known, rng.lognormal(np.log(0.08), 0.2, n), np.nan),
            )
        )
        going = looked
    return run_like(table, closer=tuple(closer))
