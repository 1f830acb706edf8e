"""How an accepted draft looks to clients that read the agent's text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.agents import DIALECTS, make_dialect
from speceyes.agents.dialects import Final
from speceyes.errors import ConfigError
from speceyes.gateway.templates import TEMPLATES, TextForm
from speceyes.types import Completion


def test_every_template_is_of_a_dialect_and_fits_it() -> None:
    assert TEMPLATES.keys() <= DIALECTS.keys()
    for name in TEMPLATES:
        assert TextForm(make_dialect(name)).write("7") is not None


def test_the_reply_is_what_a_deepeyes_loop_expects() -> None:
    written = TextForm(make_dialect("deepeyes")).write("7")
    assert written is not None
    assert written.startswith("<think>")
    assert written.endswith("</think><answer>7</answer>")


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=40))
def test_a_written_answer_is_read_as_it_was_or_is_not_written(answer: str) -> None:
    dialect = make_dialect("deepeyes")
    written = TextForm(dialect).write(answer)
    if written is not None:
        found = dialect.parse(Completion(written, "stop"))
        assert isinstance(found, Final)
        assert (found.text, found.tagged) == (answer, True)


@pytest.mark.parametrize("answer", ["7</answer><answer>8", "", "<tool_call>{}</tool_call></answer>"])
def test_an_answer_that_would_be_read_as_another_is_not_written(answer: str) -> None:
    assert TextForm(make_dialect("deepeyes")).write(answer) is None


@pytest.mark.parametrize(
    "reply", ["{answer}", "<answer></answer>", "<answer>{answer} {answer}</answer>", "<answer>x{answer}</answer>"]
)
def test_a_reply_that_the_clients_would_not_understand_is_refused_at_the_start(reply: str) -> None:
    with pytest.raises(ConfigError, match="transparent\\.reply"):
        TextForm(make_dialect("deepeyes"), reply)


def test_another_reply_of_the_right_form() -> None:
    assert TextForm(make_dialect("deepeyes"), "<answer> {answer} </answer>").write("7") == "<answer> 7 </answer>"
