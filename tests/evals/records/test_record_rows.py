"""Rows: what the phases returned is in them, agreement means what it says, and the documentation lists every column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import observed, row

from speceyes.evals.matching import is_right
from speceyes.evals.records import COLUMNS, SCHEMA_VERSION, Asked, Observed, agree, is_failed, make_row
from speceyes.evals.records.schema import NAMES
from speceyes.types import AgentRun, Draft, Finish, Reason, Screening, Token, Trace, Usage

PAGE = Path(__file__).parents[3] / "docs" / "records.md"
OPTIONS = ("red", "blue", "green", "grey")
said = st.one_of(
    st.sampled_from(["A", "b", "C.", "(D)", "red", "The answer is B.", "A. blue", "", "  ", "yes", "No, it is not."]),
    st.text(max_size=12),
)


def test_a_row_has_the_columns_in_their_order() -> None:
    assert tuple(row(0)) == NAMES


def test_a_row_says_what_the_phases_returned() -> None:
    seen = Observed(
        Screening(0.2, 0.6, Usage(100, 1, 90, 1), 0.5),
        Draft("B", (Token("B", -0.1, (-0.1, -3.0), ("B", "A")),), None, Usage(80, 2, None, 1), 0.25),
        AgentRun("red", (), Finish.UNTAGGED, Usage(None, 30, None, 3), 4.0),
        seconds={"look": 0.125, "screen": 0.75},
    )
    made = make_row(Asked("q", 3, "Which?", category="color", options=OPTIONS, gold="B"), seen)
    expected = {
        "index": 3,
        "p_yes": 0.2,
        "p_no": 0.6,
        "look_seconds": 0.125,
        "screen_seconds": 0.75,  # the wall time of the phase, where it is known
        "draft_seconds": 0.25,
        "agent_seconds": 4.0,
        "screen_cached_tokens": 90,
        "draft_cached_tokens": None,
        "agent_prompt_tokens": None,
        "agent_completion_tokens": 30,
        "agent_calls": 3,
        "tokens": ["B"],
        "logprobs": [-0.1],
        "top_logprobs": [[-0.1, -3.0]],
        "top_tokens": [["B", "A"]],
        "agent_finish": "untagged",
        "agent_depth": 0,
        "draft_right": True,
        "agent_right": False,
        "agrees": False,
    }
    assert {name: made[name] for name in expected} == expected


def test_what_did_not_run_is_null_and_no_error() -> None:
    made = make_row(Asked("q", 0, "Which?", gold="7"), Observed(draft=Draft("7", ())))
    assert [made[name] for name in ("p_yes", "agent_text", "agent_right", "agrees", "agent_error")] == [None] * 5
    assert made["draft_right"] is True
    assert not is_failed(made)


def test_an_error_makes_a_row_failed() -> None:
    made = make_row(Asked("q", 0, "Which?"), Observed(errors={"agent": "EngineTimeout: too slow"}))
    assert is_failed(made)
    assert made["agent_error"] == "EngineTimeout: too slow"
    assert made["agent_calls"] is None


def test_a_trace_in_service_becomes_a_row() -> None:
    seen = observed(1)
    phases = {"screen": 0.1, "speculate": 0.2, "fall_back": 3.0}
    trace = Trace(Reason.BELOW_THRESHOLD, seen.screening, seen.draft, None, seen.run, phase_seconds=phases)
    made = make_row(Asked("q", 0, "Which?"), Observed.of_trace(trace))
    assert [made[f"{phase}_seconds"] for phase in ("screen", "draft", "agent")] == [0.1, 0.2, 3.0]
    assert made["agrees"] in (True, False)
    assert made["draft_right"] is None


@pytest.mark.parametrize(
    ("draft", "agent", "options", "same"),
    [
        ("B", "blue", OPTIONS, True),
        ("(b)", "The answer is B.", OPTIONS, True),
        ("B", "C", OPTIONS, False),
        ("Yes, there is.", "yes", (), True),
        ("seven", "7", (), False),
        ("B", "hard to say", OPTIONS, False),
        ("hard to say", "hard to say", OPTIONS, True),  # neither states an option, but the words are the same
        ("", "", (), False),
    ],
)
def test_agreement(draft: str, agent: str, options: tuple[str, ...], same: bool) -> None:
    assert agree(draft, agent, options) is same
    assert agree(agent, draft, options) is same


@given(said, said, st.sampled_from(["A", "B", "yes", "no", "red", "7"]), st.sampled_from([(), OPTIONS]))
def test_answers_that_agree_are_both_right_or_both_wrong(
    draft: str, agent: str, gold: str, options: tuple[str, ...]
) -> None:
    if agree(draft, agent, options):
        assert is_right(draft, gold, options) == is_right(agent, gold, options)


def test_the_documentation_lists_every_column_and_no_other() -> None:
    listed = re.findall(r"^\| `(\w+)` \| `([\w<>]+)` \|", PAGE.read_text(), re.MULTILINE)
    assert listed == [(column.name, column.type) for column in COLUMNS]
    assert f"schema version {SCHEMA_VERSION}" in PAGE.read_text()
