"""Rows to write and read: made from the phases' own results, each one different."""

from __future__ import annotations

import random

from speceyes.evals.records import Asked, DatasetFacts, ImageFacts, Manifest, Observed, Row, make_row
from speceyes.types import AgentRun, Draft, Finish, Reason, Screening, Token, Turn, Usage

MANIFEST = Manifest(
    dataset=DatasetFacts(name="made", kind="made", digest="sha256:0", samples=1000),
    bound_to={"draft_model": "small", "agent_model": "large", "draft_prompt": "p1", "screen_prompt": "p2"},
    k=8,
)


def token(rng: random.Random, text: str, k: int) -> Token:
    values = sorted((-rng.expovariate(0.2) for _ in range(k)), reverse=True)
    return Token(text, values[0] if values else None, tuple(values), tuple(f"t{rng.randrange(300)}" for _ in values))


def observed(seed: int, *, k: int = 8, tokens: int = 2) -> Observed:
    """Results of all phases."""
    rng = random.Random(seed)
    usage = Usage(rng.randrange(900), rng.randrange(90), rng.choice([None, 7]), 1)
    words = [rng.choice("ABCD"), *(f" w{rng.randrange(50)}" for _ in range(tokens - 1))]
    turns = (Turn(0, "look", tool="image_zoom_in_tool"), Turn(1, "done"))
    return Observed(
        Screening(rng.random(), rng.random(), usage, 0.25),
        Draft("".join(words), tuple(token(rng, word, k) for word in words), None, usage, rng.random()),
        AgentRun(rng.choice("ABCD"), turns, Finish.ANSWERED, usage, 1.0 + rng.random()),
        seconds={"look": 0.01, "agent": 2.5},
    )


def row(index: int, seen: Observed | None = None, **about: object) -> Row:
    """A row; without results, one whose phases all failed."""
    facts: dict[str, object] = {"options": ("red", "blue", "green", "grey"), "gold": "B", "category": "color"}
    image = ImageFacts("ab" * 32, (1024, 768), 12_345)
    asked = Asked(f"q{index}", index, f"Which color, {index}?", [image], **(facts | about))  # type: ignore[arg-type]
    return make_row(asked, observed(index) if seen is None else seen, recorded_at=1.7e9 + index)


def failed_row(index: int) -> Row:
    return row(index, Observed(errors={"draft": "EngineTimeout: too slow"}))


FAULTY = Draft("", (), Reason.EMPTY_ANSWER)
