"""POPE: yes and no as its own evaluation script reads them, and the figures that it reports.

The script looks at what stands before the first full stop, takes the commas out, and cuts it at blanks. Where one of
the pieces is "No", "no" or "not", the answer is no; every other answer is yes, an empty one as well. Nothing is ever
unparsed. Described from the public script of Li et al., "Evaluating Object Hallucination in Large Vision-Language
Models", 2023.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from speceyes.errors import InputError
from speceyes.evals.scoring.marks import Mark, Placed, Rule
from speceyes.gating.stated import YES_NO, bare

ORIGINAL = "original"
"""`Mark.how` of the script's reading."""


def read_original(answer: str) -> str:
    """Yes or no, as the original script has it."""
    words = answer.split(".")[0].replace(",", "").split(" ")
    return "no" if {"No", "no", "not"} & set(words) else "yes"


@dataclass(frozen=True, slots=True)
class PopeMetrics:
    """POPE's figures; "yes" is the positive class. A figure is None where there is nothing to compute it from.

    Attributes:
        rows: Questions whose right answer is known.
        true_yes: Right answer yes, said yes.
        false_yes: Right answer no, said yes.
        true_no: Right answer no, said no.
        false_no: Right answer yes, said no.
        accuracy: Right answers over all rows; unparsed answers and errors are wrong.
        accuracy_answered: The same without errors.
        precision: Of the answers that say yes, the share that should.
        recall: Of the questions that should be answered yes, the share that is; an unparsed answer or an error is not.
        f1: Harmonic mean of precision and recall.
        yes_ratio: Of the answers that say yes or no, the share that says yes.
        label_yes_ratio: Of the questions, the share whose right answer is yes: what lmms-eval prints as yes-ratio.
        unparsed: Names of the questions whose answers say neither.
        errors: Names of the questions without an answer.
    """

    rows: int
    true_yes: int
    false_yes: int
    true_no: int
    false_no: int
    accuracy: float | None
    accuracy_answered: float | None
    precision: float | None
    recall: float | None
    f1: float | None
    yes_ratio: float | None
    label_yes_ratio: float | None
    unparsed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        return {**asdict(self), "unparsed": list(self.unparsed), "errors": list(self.errors)}


def pope_metrics(rows: Iterable[tuple[Placed, Mark]], rule: Rule = Rule.STRICT) -> PopeMetrics:
    """The figures of one split.

    Where an answer says neither, the projects part: lmms-eval leaves it out of recall, everyone else counts it there as
    not found. And where there is nothing to divide by, theirs are 0 and not None.

    Args:
        rows: Questions and marks. Those without a known right answer are left out.
        rule: By which the marks were given; `lmms` and `vlmevalkit` also compute as their projects do.

    Raises:
        InputError: A right answer is neither yes nor no.
    """
    known = [(item, mark, _gold(item)) for item, mark in rows if item.gold is not None]
    count = {
        (gold, said): sum(g == gold and mark.parsed == said for _, mark, g in known)
        for gold in YES_NO
        for said in YES_NO
    }
    true_yes, false_yes = count["yes", "yes"], count["no", "yes"]
    true_no, false_no = count["no", "no"], count["yes", "no"]
    wanted = sum(gold == "yes" for _, _, gold in known)
    nothing = 0.0 if rule in (Rule.LMMS, Rule.VLMEVALKIT) else None
    precision = _share(true_yes, true_yes + false_yes, nothing)
    recall = _share(true_yes, true_yes + false_no if rule is Rule.LMMS else wanted, nothing)
    right, errors = true_yes + true_no, [item.id for item, mark, _ in known if mark.failed]
    return PopeMetrics(
        rows=len(known),
        true_yes=true_yes,
        false_yes=false_yes,
        true_no=true_no,
        false_no=false_no,
        accuracy=_share(right, len(known)),
        accuracy_answered=_share(right, len(known) - len(errors)),
        precision=precision,
        recall=recall,
        f1=_f1(precision, recall, nothing),
        yes_ratio=_share(true_yes + false_yes, sum(count.values())),
        label_yes_ratio=_share(wanted, len(known)),
        unparsed=tuple(item.id for item, mark, _ in known if not mark.failed and mark.parsed not in YES_NO),
        errors=tuple(errors),
    )


def pope_by_split(rows: Iterable[tuple[Placed, Mark]], rule: Rule = Rule.STRICT) -> Mapping[str, PopeMetrics]:
    """The figures of each split (`adversarial`, `popular`, `random`), by name."""
    splits: dict[str, list[tuple[Placed, Mark]]] = {}
    for item, mark in rows:
        splits.setdefault(item.category, []).append((item, mark))
    return {name: pope_metrics(found, rule) for name, found in sorted(splits.items())}


def _gold(item: Placed) -> str:
    gold = bare(item.gold or "")
    if gold not in YES_NO:
        raise InputError(f"{item.id}: the right answer {item.gold!r} is neither yes nor no, so it is no POPE question")
    return gold


def _share(part: int, whole: int, nothing: float | None = None) -> float | None:
    return part / whole if whole else nothing


def _f1(precision: float | None, recall: float | None, nothing: float | None) -> float | None:
    if precision is None or recall is None:
        return nothing
    return 2 * precision * recall / (precision + recall) if precision + recall > 0 else nothing or 0.0
