"""Recorded runs that were never recorded: arrays with scores and losses as a test wants them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from speceyes.evals.records import RecordTable
from speceyes.gating import AnswerTable, fingerprint

BOUND_TO = {
    "draft_model": "small@sha256:aa",
    "agent_model": "large@sha256:bb",
    "draft_prompt": fingerprint("Answer."),
    "screen_prompt": fingerprint("Would a tool help?"),
    "agent_prompt": fingerprint("Use the tool."),
    "logprob_mode": "raw",
}


def answers_with(scores: ArrayLike) -> AnswerTable:
    """Answers of one token with four log-probs each, whose separability is what is asked for (1.3 or more).

    Rivals at -d - 1, -d and -d + 1 have the spread sqrt(2 / 3); the first one, at 0, stands d above their mean.
    """
    distance = np.asarray(scores, dtype=np.float64) * np.sqrt(2.0 / 3.0)
    rows = np.stack([0.0 * distance, 1.0 - distance, -distance, -1.0 - distance], axis=1)
    return AnswerTable.from_arrays(rows, np.ones(len(rows), dtype=np.int64))


def made_table(scores: ArrayLike, draft_right: ArrayLike, agent_right: ArrayLike, **changes: Any) -> RecordTable:
    """A run in which all phases ran, nothing was screened out, and answers agree where both are right."""
    draft, agent = np.asarray(draft_right, dtype=np.bool_), np.asarray(agent_right, dtype=np.bool_)
    n = len(draft)
    fields: dict[str, Any] = {
        "ids": np.array([f"q{i}" for i in range(n)]),
        "categories": np.array(["large", "small"] * n)[:n],
        "help_probability": np.full(n, 0.1),
        "answers": answers_with(scores),
        "draft_usable": np.ones(n, dtype=np.bool_),
        "labelled": np.ones(n, dtype=np.bool_),
        "draft_right": draft,
        "agent_right": agent,
        "agrees": draft & agent,
        "screen_seconds": np.full(n, 0.1),
        "draft_seconds": np.full(n, 0.1),
        "agent_seconds": np.full(n, 1.0),
        "depth": np.ones(n, dtype=np.int64),
        "bound_to": BOUND_TO,
        "digest": fingerprint(str(n), str(np.asarray(scores).tolist())),
    }
    return RecordTable(**{**fields, **changes})


def drawn_table(n: int, seed: int = 0, **changes: Any) -> RecordTable:
    """A run like many: surer drafts are less often wrong, screening holds some back, the agent is mostly right.

    At a score of S the draft is wrong where the agent is right with chance 8 exp(-S), at most 0.5.
    """
    rng = np.random.default_rng(seed)
    scores = rng.gamma(4.0, 1.1, n) + 1.5
    excess = rng.random(n) < np.minimum(0.5, 8.0 * np.exp(-scores))
    agent_right = excess | (rng.random(n) < 0.9)
    draft_right = ~excess & (agent_right | (rng.random(n) < 0.1))
    both_wrong_alike = ~draft_right & ~agent_right & (rng.random(n) < 0.4)
    fields = {"help_probability": rng.beta(0.6, 0.8, n), "agrees": (draft_right & agent_right) | both_wrong_alike}
    return made_table(scores, draft_right, agent_right, **{**fields, **changes})
