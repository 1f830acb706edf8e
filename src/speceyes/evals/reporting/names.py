"""What systems, data sets, phases and kinds of failure are called on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from speceyes.evals.reporting.plots.axes import SHAPES

AGENT, DRAFT, SPECEYES = "agent", "draft", "speceyes"

SYSTEMS: Final[Mapping[str, str]] = {
    AGENT: "Agent alone",
    DRAFT: "Draft alone",
    SPECEYES: "SpecEyes",
    "specreason": "SpecReason",
    "random": "Random gate",
    "oracle": "Oracle gate",
    "no-screen": "SpecEyes, no screening",
    "no-gate": "SpecEyes, no gate",
    "draft-screen": "SpecEyes, draft screens",
}
ABOUT: Final[Mapping[str, str]] = {
    AGENT: "every question goes into the agent's tool loop",
    DRAFT: "the small model's answer stands, whatever its score",
    SPECEYES: "screening, draft, gate, and the agent for what is left",
    "specreason": "the small model proposes single steps, the agent keeps or rewrites each",
    "random": "accepts as many drafts as SpecEyes, drawn by lot",
    "oracle": "accepts exactly the drafts that are right: what a perfect gate could do",
    "no-screen": "phase I left out: the gate alone decides",
    "no-gate": "phase III left out: every draft that screening lets through stands",
    "draft-screen": "the small model is asked whether a tool would help",
}
PHASES: Final[Mapping[str, str]] = {
    "look": "rendering the image",
    "screen": "I screening",
    "speculate": "II draft",
    "look_closer": "II draft looks closer",
    "gate": "III gate (SpecReason: rating)",
    "fall_back": "IV agent's loop",
}
SETS: Final[Mapping[str, str]] = {
    "nano": "Nano scenes",
    "vstar": "V*",
    "hrbench": "HR-Bench",
    "pope": "POPE",
    "mcq": "Multiple choice",
}


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of failure that cards can be filtered by.

    Attributes:
        name: In the page's tags.
        words: For people.
    """

    name: str
    words: str


KINDS: Final = (
    Kind("wrong", "wrong answer"),
    Kind("unparsed", "unparsed answer"),
    Kind("error", "error"),
    Kind("lost", "wrong where the agent is right"),
    Kind("accepted", "draft accepted and wrong"),
    Kind("gained", "right where the agent is wrong"),
)


def system_words(name: str) -> str:
    """A system for people; a name that is not known stays as it is."""
    return SYSTEMS.get(name, name)


def ordered(names: Sequence[str]) -> list[str]:
    """Systems in the order of every table; those that are not known come last."""
    known = list(SYSTEMS)
    return sorted(dict.fromkeys(names), key=lambda name: known.index(name) if name in known else len(known))


def style_of(name: str) -> str:
    """The page's style of a system."""
    return f"s-{name}" if name in SYSTEMS else "s-other"


def shape_of(name: str) -> str:
    """The mark of a system."""
    return SHAPES[list(SYSTEMS).index(name) % len(SHAPES)] if name in SYSTEMS else "circle"
