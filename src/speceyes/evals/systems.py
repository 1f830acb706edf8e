"""What a system is: it answers one query. Who is compared, and what each leaves behind.

`evals/baselines/` holds the systems, `evals/race.py` lets them answer a crowd of questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from speceyes.types import Answer, Query, Usage

UNKNOWN = Usage(prompt_tokens=None, completion_tokens=None)


class SystemName(StrEnum):
    """Who answers."""

    AGENT = "agent"
    """Each query goes straight into the agent's tool loop."""
    DRAFT = "draft"
    """The draft model's answer stands, whatever its score."""
    SPECEYES = "speceyes"
    """The funnel."""
    SPECREASON = "specreason"
    """Speculation on single steps of reasoning instead of on the whole run."""
    RANDOM = "random"
    """The funnel, with a lot drawn in the gate's place, as often accepting as the gate."""
    ORACLE = "oracle"
    """The funnel, with a gate that knows the right answer."""
    NO_SCREEN = "no-screen"
    """The funnel without phase I."""
    NO_GATE = "no-gate"
    """The funnel without phase III."""
    DRAFT_SCREEN = "draft-screen"
    """The funnel, with the draft model screening in the agent's place."""


class Role(StrEnum):
    """One of the two models."""

    DRAFT = "draft"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Question:
    """One question as systems and marks see it.

    Attributes:
        id: Its name in the set.
        load: The query, its picture loaded. Raises ImageError.
        is_right: Whether an answer is right, by the rule in force; None where the right answer is not known.
    """

    id: str
    load: Callable[[], Query]
    is_right: Callable[[str], bool | None]


@dataclass(frozen=True, slots=True)
class StepNote:
    """About one step of SpecReason, beside its turn.

    Attributes:
        by: Who wrote it.
        rating: The agent's mark for it; None where it was not rated, or not readably.
        kept: Whether it became part of the reasoning.
    """

    by: Role
    rating: int | None = None
    kept: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """What a system said to one query.

    Attributes:
        text: The answer; empty where there is none.
        seconds: Wall time of the query's own work, waiting for its turn left out. None where it failed.
        usage: Tokens by model, of all calls.
        answer: The answer with its trace; None where the query failed.
        error: Why there is no answer: the error's class and message.
        steps: About each turn of the trace's run, from SpecReason only.
    """

    text: str = ""
    seconds: float | None = None
    usage: Mapping[Role, Usage] = field(default_factory=dict)
    answer: Answer | None = None
    error: str | None = None
    steps: tuple[StepNote, ...] = ()

    @property
    def total(self) -> Usage:
        """Tokens of all calls; unknown where the query failed."""
        return UNKNOWN if self.error is not None else sum(self.usage.values(), Usage())

    @classmethod
    def of(cls, answer: Answer, *, screened_by: Role = Role.AGENT, **more: Any) -> Reply:
        """From an answer of the funnel, or of something like it.

        Args:
            answer: The answer.
            screened_by: Whose tokens the screening's are.
            more: Further fields.
        """
        trace, used = answer.trace, dict[Role, Usage]()
        turns = trace.run.turns if trace.run else ()
        drafts = [(Role.DRAFT, draft) for draft in (trace.draft, *trace.closer)]
        parts = [(screened_by, trace.screening), *drafts, *((Role.AGENT, turn) for turn in turns)]
        for role, part in parts:
            if part is not None:
                used[role] = used.get(role, Usage()) + part.usage
        return cls(**{"text": answer.text, "seconds": trace.seconds, "usage": used, "answer": answer, **more})

    @classmethod
    def failed(cls, error: Exception) -> Reply:
        """In the place of an answer that there is not."""
        return cls(error=f"{type(error).__name__}: {error}")


class Answering(Protocol):
    """Answers one query at a time; any number of them may be under way."""

    async def answer(self, query: Query, question: Question) -> Reply:
        """Answer a query.

        Args:
            query: What the models see.
            question: Where it comes from. Only the oracle looks at the right answer.

        Raises:
            SpecEyesError: There is no answer.
        """
        ...


class System(Answering, Protocol):
    """One of those that are compared."""

    @property
    def name(self) -> SystemName: ...
