"""Answers from a file, scored line by line, and the figures of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speceyes.errors import DatasetError, InputError
from speceyes.evals.scoring.judge import Case
from speceyes.evals.scoring.marks import AnswerKey, Mark, Rule, failed
from speceyes.evals.scoring.pope import pope_by_split, pope_metrics
from speceyes.evals.scoring.rotations import averages
from speceyes.evals.scoring.score import score_answer
from speceyes.evals.scoring.tallies import tally, tally_by_category
from speceyes.gating.stated import LETTERS

FIELDS = ("id", "answer", "gold", "options", "question", "category", "group", "error")
"""Of a line. `id` is needed, and `answer` or `error`."""


@dataclass(frozen=True, slots=True)
class AnswerLine:
    """One line: an answer, or why there is none, and what it is held against."""

    id: str
    answer: str | None
    key: AnswerKey
    question: str = ""
    category: str = ""
    group: str = ""
    error: str | None = None

    @property
    def gold(self) -> str | None:
        """The right answer; None where it is not known."""
        return self.key.gold

    @property
    def case(self) -> Case:
        """For a judge."""
        return Case(self.id, self.question, self.key, self.answer or "")


def read_answers(path: Path) -> list[AnswerLine]:
    """The answers of a JSON-lines file.

    Raises:
        DatasetError: It cannot be read, holds none, or a line is wrong or there twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise DatasetError(f"{path} cannot be read: {said}.") from error
    found: dict[str, AnswerLine] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = _answer(_fields(line))
            if row.id in found:
                raise InputError(f"{row.id} is there twice")
        except InputError as error:
            raise DatasetError(f"{path}, line {number}: {error}.") from error
        found[row.id] = row
    if not found:
        raise DatasetError(f"{path} holds no answer.")
    return list(found.values())


def options_of(value: object) -> tuple[str, ...]:
    """Options from JSON: a list of texts in the order shown, or an object from letters, A on, to texts; none for null.

    Raises:
        InputError: It is neither.
    """
    if value is None:
        return ()
    if isinstance(value, dict):
        wanted = LETTERS[: len(value)]
        if sorted(value) != list(wanted):
            raise InputError(f"options have the letters {', '.join(map(str, value))}; they must be A, B, C and so on")
        value = [value[letter] for letter in wanted]
    if not isinstance(value, list) or not all(isinstance(option, str | int | float) for option in value):
        raise InputError("options must be a list of texts, or an object of texts by letter")
    return tuple(str(option) for option in value)


def score_line(row: AnswerLine, rule: Rule, kind: str) -> Mark:
    """A line's mark.

    Raises:
        InputError: The rule does not cover such a question.
    """
    if row.error is not None or row.answer is None:
        return failed(row.gold)
    try:
        return score_answer(row.answer, (row.key.gold, row.key.options), rule, kind=kind)
    except InputError as error:
        raise InputError(f"{row.id}: {error}") from error


def mark_json(row: AnswerLine, mark: Mark) -> dict[str, Any]:
    """A line of the result."""
    record = {"id": row.id, "parsed": mark.parsed, "right": mark.right, "how": mark.how, "form": mark.form}
    return record if row.error is None else {**record, "error": row.error}


def figures(rows: Sequence[AnswerLine], marks: Sequence[Mark], rule: Rule) -> dict[str, Any]:
    """All that can be counted: accuracy, by category, POPE's figures for yes/no, both averages for rotated options."""
    pairs = list(zip(rows, marks, strict=True))
    found: dict[str, Any] = tally(pairs).as_json()
    if any(row.category for row in rows):
        found["categories"] = {name: part.as_json() for name, part in tally_by_category(pairs).items()}
    if all(row.key.yes_no for row in rows):
        found["pope"] = pope_metrics(pairs, rule).as_json()
        if any(row.category for row in rows):
            found["pope_splits"] = {name: part.as_json() for name, part in pope_by_split(pairs, rule).items()}
    if all(row.group for row in rows):
        found["rotations"] = averages(pairs).as_json()
    return found


def _fields(line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"that is not JSON ({error})") from error
    if not isinstance(row, dict):
        raise InputError("that is not a JSON object")
    if unknown := sorted(set(row) - set(FIELDS)):
        raise InputError(f"unknown fields {', '.join(unknown)}; there are {', '.join(FIELDS)}")
    return row


def _answer(row: Mapping[str, Any]) -> AnswerLine:
    texts = {name: row.get(name) for name in ("answer", "gold", "question", "category", "group", "error")}
    if wrong := [name for name, value in texts.items() if not isinstance(value, str | None)]:
        raise InputError(f"{', '.join(wrong)} must be a text or null")
    if not isinstance(row.get("id"), str | int) or row["id"] == "":
        raise InputError("it needs an id")
    if "answer" not in row and not row.get("error"):
        raise InputError("it needs an answer, or an error")
    return AnswerLine(
        id=str(row["id"]),
        answer=texts["answer"],
        key=AnswerKey.of((texts["gold"], options_of(row.get("options")))),
        question=texts["question"] or "",
        category=texts["category"] or "",
        group=texts["group"] or "",
        error=texts["error"] or None,
    )
