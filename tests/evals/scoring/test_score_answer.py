"""Marks by every rule: the strict one on the awkward inputs, and all of them on the table of answers."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError, InputError
from speceyes.evals.scoring import AnswerKey, Mark, Rule, find_rule, score_answer, tally
from speceyes.gating.agreement import stated

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import scorer_parity

DOCS = Path(__file__).parents[3] / "docs"
COLOURS = ("blue", "green", "red", "white")
CASES = scorer_parity.read_cases()


@pytest.mark.parametrize(
    ("answer", "parsed"),
    [
        ("Based on the sign, the answer is C.", "C"),
        ("Considering the sign, D", "D"),
        ("Dog on the left (A)", "A"),
        ("The answer is B. Note that A is a distractor.", "B"),
        ("c", "C"),
        ("(C) red", "C"),
        ("red", "C"),
        ("C or D", None),
        ("", None),
    ],
)
def test_a_letter_in_running_text(answer: str, parsed: str | None) -> None:
    found = score_answer(answer, ("C", COLOURS))
    assert (found.parsed, found.right) == (parsed, parsed == "C")


def test_the_gold_letter_is_not_found_in_another_word() -> None:
    assert score_answer("Answer: B", ("A", COLOURS)) == Mark("B", False, "cue")


@pytest.mark.parametrize("answer", ["Yes", "Yes.", "Yes, there is no doubt.", "**Yes**", "YES\n"])
def test_gold_yes(answer: str) -> None:
    assert score_answer(answer, ("yes", ())) == Mark("yes", True, "word")
    assert score_answer(answer, ("No", ())) == Mark("yes", False, "word")


@pytest.mark.parametrize(
    "answer", ["Indeed there is", "There is not a dog.", "None", "I notice a dog", "", "yes and no", "maybe"]
)
def test_unparsed_is_neither_yes_nor_no(answer: str) -> None:
    for gold in ("yes", "no"):
        assert score_answer(answer, (gold, ())) == Mark(None, False, "unparsed")


@pytest.mark.parametrize(
    ("reply", "parsed", "form"),
    [
        ("<think>I must write <answer>X</answer></think><answer>B</answer>", "B", "tag"),
        ("<answer></answer>", None, "tag"),
        ("<answer>A</answer> wait <answer>C</answer>", "C", "tag"),
        (r"\boxed{\text{C}}", "C", "box"),
        ("The answer is C", "C", "plain"),
        ("<answer>C", "C", "open_tag"),
    ],
)
def test_a_missing_or_doubled_tag_is_read_and_told(reply: str, parsed: str | None, form: str) -> None:
    found = score_answer(reply, ("C", COLOURS))
    assert (found.parsed, found.form) == (parsed, form)


def test_an_open_question_is_held_against_its_word() -> None:
    assert score_answer(r"\boxed{\frac{1}{2}}", (r"\frac{1}{2}", ())).right
    assert score_answer("The answer is 7.", ("7", ())).right
    assert score_answer("17", ("7", ())) == Mark("17", False, "word")
    assert score_answer("I see a sign with a 7 on it", ("7", ())).unparsed
    assert score_answer(
        "It reads: no smoking in all of this building", ("no smoking in all of this building", ())
    ).unparsed
    assert score_answer("No smoking in all of this building", ("no smoking in all of this building", ())).right


def test_where_the_right_answer_is_not_known_nothing_is_right_or_wrong() -> None:
    assert score_answer("C", (None, COLOURS)) == Mark("C", None, "letter")
    assert score_answer("hm", (None, COLOURS)) == Mark(None, None, "unparsed")


def test_the_right_answer_may_be_an_options_text() -> None:
    assert AnswerKey.of(("Red", COLOURS)).gold == "C"
    assert AnswerKey.of((" c ", COLOURS)).gold == "C"
    for wrong in ("E", "black", "AB"):
        with pytest.raises(InputError, match="none of the options A to D"):
            AnswerKey.of((wrong, COLOURS))
    with pytest.raises(InputError, match="empty"):
        AnswerKey.of((" ", ()))


def test_a_rule_says_what_it_does_not_cover() -> None:
    with pytest.raises(InputError, match=r"pope.*has options"):
        score_answer("A", ("A", COLOURS), Rule.POPE)
    for rule in (Rule.LMMS, Rule.VLMEVALKIT, Rule.POPE):
        with pytest.raises(InputError, match="'7' is neither"):
            score_answer("7", ("7", ()), rule)
    with pytest.raises(ConfigError, match="no scoring rule 'exact'; there are strict, lmms, vlmevalkit, pope"):
        find_rule("exact")
    open_question = SimpleNamespace(id="q7", options=(), gold="7")
    assert find_rule("strict", [open_question]) is Rule.STRICT
    with pytest.raises(ConfigError, match=r"q7: .*Score these with strict"):
        find_rule("lmms", [open_question])


@pytest.mark.parametrize("case", CASES, ids=lambda case: repr(case["answer"][:40]) + " of " + case["gold"])
def test_the_table_of_answers(case: scorer_parity.Case) -> None:
    for column, (parsed, how) in case["marks"].items():
        found = scorer_parity.mark(case, column)
        assert (found.parsed, found.how, found.right) == (parsed, how, parsed == case["gold"]), column


def test_the_table_is_large_and_names_the_reason_of_every_difference() -> None:
    assert len({(case["answer"], case["gold"], str(case["options"])) for case in CASES}) >= 60
    for case in CASES:
        assert set(case["marks"]) == (
            {"strict", "lmms", "lmms-hrbench", "vlmevalkit"}
            if case["options"]
            else {"strict", "lmms", "vlmevalkit", "pope"}
        )
        differ = len({parsed for parsed, _ in case["marks"].values()}) > 1
        assert bool(case["why"]) or not differ, case["answer"]


def test_the_awkward_inputs_are_all_in_the_table() -> None:
    there = {(case["answer"], case["gold"]) for case in CASES}
    letters = [
        "Based on the sign, the answer is C.",
        "Considering the sign, D",
        "Dog on the left (A)",
        "c",
        "(C) red",
        "red",
    ]
    letters.append("The answer is B. Note that A is a distractor.")
    yes = ["Yes", "Yes.", "Yes, there is no doubt.", "**Yes**", "YES\n", "Indeed there is"]
    no = ["No.", "There is not a dog.", "None", "I notice a dog", ""]
    wanted = [*((a, "C") for a in letters), ("Answer: B", "A"), *((a, "yes") for a in yes), *((a, "no") for a in no)]
    assert not [pair for pair in wanted if pair not in there]


def test_the_documentation_has_the_table() -> None:
    page = (DOCS / "scoring.md").read_text()
    assert scorer_parity.table(CASES) in page, "run: python benchmarks/scorer_parity.py --docs docs/scoring.md"
    assert scorer_parity.parity_table(scorer_parity.read_figures()) in page


options = st.lists(st.text("abcd XY", min_size=1, max_size=6), min_size=2, max_size=5)


@given(st.text(max_size=60), options, st.sampled_from(list(Rule)), st.sampled_from(["vstar", "hrbench"]))
def test_no_answer_is_an_error(answer: str, shown: list[str], rule: Rule, kind: str) -> None:
    asked = ("yes", ()) if rule is Rule.POPE else ("A", shown)
    found = score_answer(answer, asked, rule, kind=kind)
    assert found.right is (found.parsed == ("yes" if rule is Rule.POPE else "A"))
    assert not (found.unparsed and found.right)
    assert not (found.unparsed and found.parsed is not None)


@given(st.text("ABCD redblun.,()*isTheaw\n", max_size=50))
def test_strict_and_agreement_read_the_same(answer: str) -> None:
    assert score_answer(answer, ("A", COLOURS)).parsed == stated(answer, COLOURS)


@pytest.mark.parametrize("rule", [Rule.STRICT, Rule.LMMS, Rule.VLMEVALKIT])
def test_a_model_that_always_says_a_scores_chance_once_options_are_shuffled(rule: Rule) -> None:
    rng = random.Random(1)
    rows = []
    for number in range(400):
        order = rng.sample(range(4), 4)  # the file's first option is the right one
        item = SimpleNamespace(id=str(number), category="", group="", gold="ABCD"[order.index(0)])
        rows.append((item, score_answer("A", (item.gold, [COLOURS[place] for place in order]), rule)))
    found = tally(rows)
    low, high = found.accuracy.interval
    assert low < 0.25 < high
    assert found.unparsed == ()
