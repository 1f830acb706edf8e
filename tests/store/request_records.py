"""Records to store."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from speceyes.store import ImageFacts, RequestRecord, Store
from speceyes.types import Token, Usage

TOKENS = (
    Token("a", -0.125, (-0.125, -3.5, -math.inf), ("a", "b", "c")),
    Token(" cat", None, (-0.3, -9999.0), (" cat", " dog")),
    Token("\ud83d", -0.1),
)
PROMPTS = {"draft_model": "small", "agent_model": "large", "draft_prompt": "sha256:1"}


@dataclass(frozen=True)
class Database:
    """A database to open stores in."""

    url: str

    async def open(self, **options: Any) -> Store:
        return await Store.open(self.url, **options)


def record(number: int = 0, **fields: Any) -> RequestRecord:
    """A request of second `number`."""
    made: dict[str, Any] = {"id": f"r{number:05}", "created": 1000.0 + number, "model": "speceyes", "status": 200}
    return RequestRecord(**(made | fields))


def full(number: int = 0, **fields: Any) -> RequestRecord:
    """A request of which everything is known."""
    known: dict[str, Any] = {
        "key": "team-a",
        "streamed": True,
        "error": "EngineTimeout",
        "trust": "observe",
        "route": "agent",
        "reason": "below_threshold",
        "verdict": "below_threshold",
        "score": 3.25,
        "squashed": 0.875,
        "threshold": 6.5,
        "p_yes": 0.25,
        "p_no": 0.5,
        "draft_tokens": TOKENS,
        "draft_fault": None,
        "agrees": False,
        "question": "What is it?",
        "draft_text": "a cat",
        "agent_text": "a dog",
        "agent_depth": 2,
        "agent_finish": "answered",
        "usage": {"small": Usage(10, 2, None, 1), "large": Usage(None, 30, 5, 3)},
        "phase_usage": {"screen": Usage(9, 1, 0, 1), "speculate": Usage(10, 2, None, 1)},
        "seconds": 2.5,
        "first_token_s": 2.25,
        "phase_seconds": {"screen": 0.25, "speculate": 0.5, "fall_back": 1.5},
        "images": (ImageFacts("ab" * 32, "JPEG", 1234, 640, 480),),
        "user": "u-1",
        "metadata": {"team": "a"},
        "audited": False,
        "setup": PROMPTS,
    }
    return record(number, **(known | fields))
