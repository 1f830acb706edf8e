"""Questions worth a look: where some system failed, or where a system and the agent disagree."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from speceyes.evals.reporting.names import AGENT, SPECEYES
from speceyes.evals.runs import EvalRun, Result, Sample

LEADING: Final = (
    (SPECEYES, "error"),
    (AGENT, "error"),
    (SPECEYES, "accepted"),
    (SPECEYES, "lost"),
    (SPECEYES, "unparsed"),
    (AGENT, "unparsed"),
    (SPECEYES, "gained"),
    (SPECEYES, "wrong"),
    (AGENT, "wrong"),
)
"""What is shown first where not all can be."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question with what each system said.

    Attributes:
        run: Number of its run in the report.
        sample: The question.
        results: By system, in the run's order.
        tags: (system, kind of failure), a kind of `names.KINDS`.
    """

    run: int
    sample: Sample
    results: Mapping[str, Result]
    tags: tuple[tuple[str, str], ...]

    @property
    def leading(self) -> tuple[str, str] | None:
        """The tag that matters most; None where only a baseline failed."""
        return next((tag for tag in LEADING if tag in self.tags), None)


def find_cases(number: int, run: EvalRun) -> list[Case]:
    """The questions of a run on which anything failed or differed, in their order."""
    found = []
    for sample in run.samples:
        results = {name: rows[sample.id] for name, rows in run.answers.items() if sample.id in rows}
        agent = results.get(AGENT)
        tags = tuple((name, kind) for name, result in results.items() for kind in kinds_of(result, agent))
        if tags:
            found.append(Case(number, sample, results, tags))
    return found


def kinds_of(result: Result, agent: Result | None) -> list[str]:
    """What went wrong with a result, or right where the agent's went wrong."""
    if result.error is not None:
        return ["error"]
    kinds = []
    if result.right is False:
        kinds.append("unparsed" if result.unparsed else "wrong")
        if agent is not None and agent.right:
            kinds.append("lost")
        if result.accepted:
            kinds.append("accepted")
    elif result.unparsed:
        kinds.append("unparsed")
    elif result.right and agent is not None and agent.right is False and agent.error is None:
        kinds.append("gained")
    return kinds


def choose(cases: Sequence[Case], most: int) -> list[Case]:
    """At most so many: every run and every kind in turn, those that concern SpecEyes or the agent before the rest."""
    groups: defaultdict[tuple[int, tuple[str, str] | None], list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.run, case.leading].append(case)
    weights = {tag: place for place, tag in enumerate(LEADING)}
    turns = sorted((key for key in groups if key[1] is not None), key=lambda key: (weights[key[1]], key[0]))  # type: ignore[index]
    chosen: list[Case] = []
    for keys in (turns, sorted(key for key in groups if key[1] is None)):
        depth = max((len(groups[key]) for key in keys), default=0)
        chosen += [groups[key][place] for place in range(depth) for key in keys if place < len(groups[key])]
    places = {(case.run, case.sample.id): place for place, case in enumerate(cases)}
    return sorted(chosen[:most], key=lambda case: places[case.run, case.sample.id])


def counted(cases: Sequence[Case]) -> Counter[tuple[str, str]]:
    """How many questions carry each tag."""
    return Counter(tag for case in cases for tag in case.tags)
