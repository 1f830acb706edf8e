"""What the dialects share whose models write Python code: a call is code, and the caller gives a place to run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from speceyes.agents.dialects.base import Message, Occasion, Prompts
from speceyes.agents.dialects.forms import PYTHON, code_call
from speceyes.agents.dialects.tagged import Tagged
from speceyes.agents.dialects.tags import TOOL_CALL
from speceyes.errors import ConfigError
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolResult
from speceyes.types import Query


class Coding(Tagged):
    """A dialect whose calls are Python code, run by the tool `python` with the one argument `code`.

    It has no such tool by default: code that a model writes needs a sandbox, and which one is for the caller to say.
    Without it the dialect reads turns, but begins no run.

    Args:
        toolbox: The tools, the one named `python` among them. Others are called as JSON in `<tool_call>`, and their
            schemas go into the requests.
        limits: Sizes of picture that the model takes. This and all others: None is what the family has.
        prompts: The words said to the model.
        aliases: Further field names to accept in a call's arguments, and what they stand for.
        extra: Further fields of each request.
        max_turns: Turns in which the model may call tools.
        max_tokens_per_turn: Generated tokens of one turn.

    Raises:
        ConfigError: The toolbox or the aliases do not fit together.
    """

    syntax: ClassVar[str] = "Python in <code>"
    needs_sandbox: ClassVar[bool] = True
    coordinates = Coordinates.ORIGINAL
    stop = ("</code>", "</tool_call>", "</answer>")
    forms = (code_call(), TOOL_CALL)
    form = "Write Python code between <code> and </code>."
    described = (PYTHON,)
    words_first = True

    def __init__(
        self,
        *,
        toolbox: Sequence[Tool] = (),
        limits: PixelLimits | None = None,
        prompts: Prompts | None = None,
        aliases: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        max_turns: int | None = None,
        max_tokens_per_turn: int | None = None,
    ) -> None:
        super().__init__(
            toolbox,
            limits=limits,
            prompts=prompts,
            aliases=aliases,
            extra=extra,
            max_turns=max_turns,
            max_tokens_per_turn=max_tokens_per_turn,
        )

    def opening_messages(self, query: Query, views: Sequence[View], *, screening: bool = False) -> tuple[Message, ...]:
        check_sandbox(self.name, self.toolbox)
        return super().opening_messages(query, views, screening=screening)

    def result_parts(self, result: ToolResult, occasion: Occasion) -> list[dict[str, Any]]:
        if not result.views and not result.text.strip() and result.error is None:
            result = replace(result, text="The code ran. It printed nothing and showed nothing.")
        return super().result_parts(result, occasion)


def check_sandbox(name: str, toolbox: Mapping[str, Tool]) -> None:
    """Refuse to begin a run of a dialect that writes code, where nothing runs code.

    Raises:
        ConfigError: The toolbox holds no tool named `python`.
    """
    if PYTHON not in toolbox:
        raise ConfigError(
            f"The dialect {name} writes Python code, and there is nothing here that runs it: it needs a sandbox. Give "
            f"the dialect a tool named {PYTHON!r} in its toolbox, or choose a dialect that zooms."
        )
