"""From marks to figures: rows in are rows out, both averages have their names, and POPE is counted from predictions."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.evals.scoring import (
    Mark,
    Rule,
    averages,
    failed,
    pope_by_split,
    pope_metrics,
    score_answer,
    tally,
    tally_by_category,
)


@dataclass(frozen=True)
class Row:
    id: str
    gold: str | None = "A"
    category: str = ""
    group: str = ""


RIGHT, WRONG, UNREAD = Mark("A", True, "letter"), Mark("B", False, "cue"), Mark(None, False, "unparsed")


def numbered(marks: list[Mark], **fields: str) -> list[tuple[Row, Mark]]:
    return [(Row(str(index), **fields), mark) for index, mark in enumerate(marks)]


def test_failed_calls_neither_vanish_nor_hide() -> None:
    found = tally(numbered([RIGHT] * 5 + [WRONG] * 2 + [UNREAD] + [failed("A")] * 2))
    assert found.rows == 10
    assert (found.accuracy.successes, found.accuracy.n) == (5, 10)
    assert (found.accuracy_answered.successes, found.accuracy_answered.n) == (5, 8)
    assert (found.unparsed, found.errors) == (("7",), ("8", "9"))
    assert found.how == {"letter": 5, "cue": 2, "error": 2, "unparsed": 1}
    assert found.headline() is None
    assert found.headline(0.2) == 0.5


def test_what_is_not_known_is_in_no_share() -> None:
    found = tally(
        [*numbered([RIGHT, WRONG]), (Row("x", None), Mark("A", None, "letter")), (Row("y", None), failed(None))]
    )
    assert found.rows == 4
    assert found.accuracy.n == 2
    assert found.unknown == ("x", "y")
    assert found.errors == ("y",)
    assert tally([]).accuracy.value is None


def test_by_category() -> None:
    found = tally_by_category([*numbered([RIGHT], category="b"), *numbered([WRONG, RIGHT], category="a")])
    assert [(name, part.accuracy.value) for name, part in found.items()] == [("a", 0.5), ("b", 1.0)]


def rotated(*groups: list[Mark], category: str = "single") -> list[tuple[Row, Mark]]:
    return [
        (Row(f"{category}{group}/{turn}", "A", category, f"{category}{group}"), mark)
        for group, marks in enumerate(groups)
        for turn, mark in enumerate(marks)
    ]


def test_three_of_four_rotations_right_is_three_quarters_by_one_average_and_nothing_by_the_other() -> None:
    found = averages(rotated([RIGHT, RIGHT, WRONG, RIGHT]))
    assert found.each_rotation.value == 0.75
    assert found.all_rotations.value == 0.0
    assert found.rotations == 4


def test_averages_by_category_with_errors_and_incomplete_groups() -> None:
    rows = rotated([RIGHT] * 4, [RIGHT, RIGHT, failed("A"), UNREAD], [RIGHT] * 3)
    rows += rotated([RIGHT] * 4, category="cross")
    found = averages(rows)
    assert (found.each_rotation.successes, found.each_rotation.n) == (13, 15)
    assert (found.all_rotations.successes, found.all_rotations.n) == (2, 3)
    assert found.incomplete == ("single2",)
    assert (found.errors, found.unparsed) == (("single1/2",), ("single1/3",))
    assert found.categories["cross"].all_rotations.value == 1.0
    assert (found.categories["single"].all_rotations.successes, found.categories["single"].all_rotations.n) == (1, 2)
    assert json.loads(json.dumps(found.as_json(), allow_nan=False))["categories"]["cross"]["rotations"] == 4


def test_averages_refuse_what_has_no_rotations() -> None:
    with pytest.raises(InputError, match="0 belongs to no group"):
        averages(numbered([RIGHT]))
    with pytest.raises(InputError, match="more than one category"):
        averages([(Row("1", "A", "a", "g"), RIGHT), (Row("2", "A", "b", "g"), RIGHT)])
    with pytest.raises(InputError, match="asked 5 times, with only 4"):
        averages(rotated([RIGHT] * 5), rotations=4)


@given(st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=20))
def test_all_rotations_is_never_above_each_rotation(groups: list[list[bool]]) -> None:
    found = averages(rotated(*[[RIGHT if right else WRONG for right in group] for group in groups]))
    assert found.all_rotations.value is not None
    assert found.each_rotation.value is not None
    assert found.all_rotations.value <= found.each_rotation.value
    assert found.all_rotations.n * 4 == found.each_rotation.n


def said(*rows: tuple[str, str | None], rule: Rule = Rule.STRICT) -> list[tuple[Row, Mark]]:
    """(right answer, what was said); None is an error."""
    return [
        (Row(str(index), gold), failed(gold) if text is None else score_answer(text, (gold, ()), rule))
        for index, (gold, text) in enumerate(rows)
    ]


def test_pope_by_hand() -> None:
    rows = said(
        ("yes", "Yes"), ("yes", "Yes."), ("yes", "no"), ("yes", "Indeed"), ("no", "yes"), ("no", "No"), ("no", None)
    )
    found = pope_metrics(rows)
    assert (found.true_yes, found.false_yes, found.true_no, found.false_no) == (2, 1, 1, 1)
    assert found.accuracy == pytest.approx(3 / 7)
    assert found.accuracy_answered == pytest.approx(3 / 6)
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(2 / 4)
    assert found.f1 == pytest.approx(2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert found.yes_ratio == pytest.approx(3 / 5)
    assert found.label_yes_ratio == pytest.approx(4 / 7)
    assert (found.unparsed, found.errors) == (("3",), ("6",))


def test_the_yes_ratio_is_that_of_the_answers() -> None:
    found = pope_metrics(said(*[("yes", "yes")] * 2, *[("no", "yes")] * 2))
    assert (found.yes_ratio, found.label_yes_ratio) == (1.0, 0.5)


def test_the_projects_part_where_an_answer_says_neither() -> None:
    texts = (("yes", "yes"), ("yes", "Yes, no doubt"), ("no", "no"))
    strict, lmms, kit, original = (
        pope_metrics(said(*texts, rule=rule), rule) for rule in (Rule.STRICT, Rule.LMMS, Rule.VLMEVALKIT, Rule.POPE)
    )
    assert (strict.recall, strict.unparsed) == (1.0, ())
    assert (lmms.recall, lmms.accuracy, lmms.unparsed) == (1.0, pytest.approx(2 / 3), ("1",))
    assert (kit.recall, kit.accuracy, kit.unparsed) == (0.5, pytest.approx(2 / 3), ("1",))
    assert (original.recall, original.false_no, original.unparsed) == (0.5, 1, ())


def test_pope_without_anything_to_divide_by() -> None:
    found = pope_metrics(said(("no", "no")))
    assert (found.precision, found.recall, found.f1, found.accuracy) == (None, None, None, 1.0)
    found = pope_metrics(said(("no", "no"), rule=Rule.LMMS), Rule.LMMS)
    assert (found.precision, found.recall, found.f1) == (0.0, 0.0, 0.0)
    assert pope_metrics([]).accuracy is None
    with pytest.raises(InputError, match="neither yes nor no"):
        pope_metrics([(Row("1", "C"), RIGHT)])


def test_pope_splits() -> None:
    rows = [(Row("1", "yes", "popular"), Mark("yes", True, "word")), (Row("2", "no", "adversarial"), failed("no"))]
    found = pope_by_split(rows)
    assert [(name, part.accuracy) for name, part in found.items()] == [("adversarial", 0.0), ("popular", 1.0)]


answers = st.sampled_from(["yes", "no", "Yes.", "Yes, no doubt", "perhaps", None])


@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), answers), min_size=1), st.sampled_from(list(Rule)))
def test_pope_figures_are_shares_and_add_up(rows: list[tuple[str, str | None]], rule: Rule) -> None:
    found = pope_metrics(said(*rows, rule=rule), rule)
    known = found.true_yes + found.false_yes + found.true_no + found.false_no
    assert known + len(found.unparsed) + len(found.errors) == found.rows == len(rows)
    for value in (found.accuracy, found.precision, found.recall, found.f1, found.yes_ratio, found.label_yes_ratio):
        assert value is None or 0.0 <= value <= 1.0
    json.dumps(found.as_json(), allow_nan=False)
