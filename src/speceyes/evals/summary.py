"""The figures of a race between the systems, as the screen, the pictures and `summary.json` show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from speceyes.evals.law import Costs, law_honest, law_ideal
from speceyes.evals.race import Course
from speceyes.evals.systems import SystemName
from speceyes.gating.intervals import wilson
from speceyes.types import Reason, Usage


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """One system's figures.

    Attributes:
        n: Queries, failed ones included.
        right: Right answers.
        errors: Queries that failed; they count as not right.
        seconds: Wall time for all queries.
        usage: Tokens of all model calls.
        groups: (right, n) by question kind and size, for example "digit/small".
    """

    n: int
    right: int
    errors: int
    seconds: float
    usage: Usage
    groups: Mapping[str, tuple[int, int]]

    @property
    def accuracy(self) -> float:
        """Right answers among all queries."""
        return self.right / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of the accuracy."""
        return wilson(self.right, self.n)

    @property
    def queries_per_s(self) -> float:
        return self.n / self.seconds if self.seconds > 0 else 0.0

    def as_json(self) -> dict[str, Any]:
        """The figures as they stand in `summary.json`."""
        return {
            "accuracy": self.accuracy,
            "interval": list(self.interval),
            "seconds": self.seconds,
            "n": self.n,
            "right": self.right,
            "errors": self.errors,
            "queries_per_s": self.queries_per_s,
            "tokens": {
                "prompt": self.usage.prompt_tokens,
                "completion": self.usage.completion_tokens,
                "cached": self.usage.cached_tokens,
                "calls": self.usage.calls,
            },
            "groups": {name: {"right": right, "n": n} for name, (right, n) in sorted(self.groups.items())},
        }


@dataclass(frozen=True, slots=True)
class Summary:
    """A race in figures.

    Attributes:
        systems: Each system's.
        reasons: How many queries of SpecEyes went which way, by reason.
        beta: Share of SpecEyes' queries that phase I let through.
        alpha: Share of those that phase III accepted; 0 where phase I let none through.
        looked: Share of SpecEyes' queries at which the draft model looked closer by itself.
        closer: Share of all that it then answered.
        costs: Of the phases, unloaded.
        run: What was run: models, seed, concurrency, thresholds.
    """

    systems: Mapping[SystemName, SystemFigures]
    reasons: Mapping[Reason, int]
    beta: float
    alpha: float
    costs: Costs
    run: Mapping[str, Any]
    looked: float = 0.0
    closer: float = 0.0

    @property
    def speedup(self) -> float | None:
        """The agent's wall time over that of SpecEyes, as measured."""
        agent, speceyes = self.systems[SystemName.AGENT], self.systems[SystemName.SPECEYES]
        return agent.seconds / speceyes.seconds if speceyes.seconds > 0 else None

    @property
    def law_ideal(self) -> float | None:
        return law_ideal(self.alpha, self.beta, self.closer)

    @property
    def law_honest(self) -> float:
        return law_honest(self.alpha, self.beta, self.costs, self.closer, self.looked)

    def as_json(self) -> dict[str, Any]:
        """The content of `summary.json`."""
        return {
            "systems": {name.value: figures.as_json() for name, figures in self.systems.items()},
            "alpha": self.alpha,
            "beta": self.beta,
            "looked": self.looked,
            "closer": self.closer,
            "speedup": self.speedup,
            "law_ideal": self.law_ideal,
            "law_honest": self.law_honest,
            "reasons": {reason.value: count for reason, count in self.reasons.items()},
            "costs": {
                "screen_s": self.costs.screen,
                "draft_s": self.costs.draft,
                "look_s": self.costs.look,
                "agent_s": self.costs.agent,
                "queries": self.costs.queries,
                "how": "mean of sequential queries about further scenes, nothing else running",
            },
            "run": dict(self.run),
        }


def summarise(courses: Mapping[SystemName, Course], costs: Costs, run: Mapping[str, Any]) -> Summary:
    """The figures of a race between the three systems."""
    answers = [r.reply.answer for r in courses[SystemName.SPECEYES].results if r.reply.answer is not None]
    reasons = Counter(answer.reason for answer in answers)
    let_through = sum("speculate" in answer.trace.phase_seconds for answer in answers)
    accepted = reasons[Reason.ACCEPTED]
    return Summary(
        systems={name: figures(course) for name, course in courses.items()},
        reasons=dict(reasons.most_common()),
        beta=let_through / len(answers) if answers else 0.0,
        alpha=accepted / let_through if let_through else 0.0,
        costs=costs,
        run=run,
        looked=sum(bool(answer.trace.closer) for answer in answers) / len(answers) if answers else 0.0,
        closer=reasons[Reason.ACCEPTED_CLOSER] / len(answers) if answers else 0.0,
    )


def figures(course: Course) -> SystemFigures:
    """One system's figures."""
    groups: dict[str, tuple[int, int]] = {}
    for result in course.results:
        name = f"{result.sample.kind}/{result.sample.size}"
        right, n = groups.get(name, (0, 0))
        groups[name] = right + result.right, n + 1
    return SystemFigures(
        n=len(course.results),
        right=sum(result.right for result in course.results),
        errors=sum(result.reply.error is not None for result in course.results),
        seconds=course.seconds,
        usage=sum((result.reply.total for result in course.results), Usage()),
        groups=groups,
    )
