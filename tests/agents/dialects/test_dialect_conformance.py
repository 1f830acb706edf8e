"""The conformance suite: every dialect passes it, in all its forms, and a dialect that is broken does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speceyes.agents.dialects import DIALECTS, Action, Call, Final, Malformed, Message, Occasion, Qwen3VL, make_dialect
from speceyes.agents.dialects.base import ALONE
from speceyes.agents.dialects.conformance import StandInPython, check_dialect, dialect_to_check
from speceyes.agents.dialects.conformance.stage import Stage
from speceyes.agents.dialects.conformance.wrong_turns import wrong_turns
from speceyes.errors import ConfigError
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import QWEN2_5_VL, QWEN3_VL
from speceyes.tools import ToolResult
from speceyes.types import Completion

FORMS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in DIALECTS),
    ("thyme", {"result_form": "assistant"}),
    ("native", {"result_form": "tool"}),
    ("deepeyes-native", {"result_form": "user"}),
    ("qwen3vl-native", {"result_form": "tool"}),
    ("native", {"coordinates": Coordinates.RESIZED, "limits": QWEN3_VL}),
    ("deepeyes", {"coordinates": Coordinates.ORIGINAL, "zoom_context": 0.2}),
]


@pytest.mark.parametrize(("name", "options"), FORMS, ids=lambda value: value if isinstance(value, str) else len(value))
async def test_every_dialect_passes(name: str, options: dict[str, Any]) -> None:
    checks = await check_dialect(dialect_to_check(name, **options))
    assert [(check.name, check.detail) for check in checks if check.outcome == "failed"] == []
    assert sum(check.outcome == "passed" for check in checks) > 40
    assert len({check.name for check in checks}) == len(checks)
    assert sum(check.outcome == "skipped" for check in checks) <= 2


def test_the_wrong_turns_are_those_that_people_meet() -> None:
    told = {turn.name for turn in wrong_turns(Stage(*[dialect_to_check("deepeyes")] * 2))}
    assert {
        "Python quotes", "a code fence", "extra braces", "arguments encoded three times", "</tool_call> in a string",
        "two calls", "a call in a thought", "a tool that there is not", "no box", "box: corners reversed",
        "box: thinner than a patch", "box: outside the picture", "box: not a number", "an empty turn",
        "a giant turn of brackets",
    } <= told  # fmt: skip
    coded = {turn.name for turn in wrong_turns(Stage(*[dialect_to_check("thyme")] * 2))}
    assert {"code that fails", "</code> in a string", "nothing", "far too much code", "a native call"} <= coded


# What is broken is found.


async def failed(dialect: Qwen3VL) -> dict[str, str]:
    return {check.name: check.detail for check in await check_dialect(dialect) if check.outcome == "failed"}


class _Raises(Qwen3VL):
    def parse(self, completion: Completion) -> Action:
        if completion.text.startswith("<tool_call>{"):
            raise KeyError("teleport")
        return super().parse(completion)


class _Silent(Qwen3VL):
    def notice_messages(self, text: str, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        return ({"role": "user", "content": "Hm."},)


class _Strict(Qwen3VL):
    def parse(self, completion: Completion) -> Action:
        action = super().parse(completion)
        return Malformed("Write JSON.") if isinstance(action, Call) and action.repairs else action


class _Dirty(Qwen3VL):
    def parse(self, completion: Completion) -> Action:
        action = super().parse(completion)
        return replace(action, text=f"<answer>{action.text}") if isinstance(action, Final) else action


class _Blind(Qwen3VL):
    def observation_messages(self, result: ToolResult, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        return super().observation_messages(replace(result, views=()), occasion)


class _Forgetful(Qwen3VL):
    def assistant_messages(self, completion: Completion) -> tuple[Message, ...]:
        return ({"role": "assistant", "content": completion.text},)


class _OtherNumbers(Qwen3VL):
    """Writes thousandths, and its tool reads pixels."""

    def zoom(self, context: float, *, notes: bool) -> Any:
        made = super().zoom(context, notes=notes)
        made._zoom.coordinates = Coordinates.RESIZED  # type: ignore[attr-defined]
        return made


@pytest.mark.parametrize(
    ("broken", "check", "why"),
    [
        (_Raises, "wrong turn: a tool that there is not", "KeyError"),
        (_Silent, "wrong turn: box: no area", "does not read the error"),
        (_Strict, "wrong turn: Python quotes", "refused"),
        (_Dirty, "answers", "is read as"),
        (_Blind, "a right call", "is shown 0 of 1"),
        (_Forgetful, "stop strings kept or cut", "history"),
        (_OtherNumbers, "the right pixels", "the middle"),
    ],
)
async def test_a_broken_dialect_fails(broken: type[Qwen3VL], check: str, why: str) -> None:
    found = await failed(broken())
    assert why in found.get(check, "")


async def test_what_cannot_be_checked_is_said() -> None:
    with pytest.raises(ConfigError, match="no tool"):
        await check_dialect(make_dialect("thyme"))

    class Mute:
        name = "mute"
        toolbox: Mapping[str, Any] = {"python": StandInPython()}

    with pytest.raises(ConfigError, match="cannot write"):
        await check_dialect(Mute())  # type: ignore[arg-type]
    assert make_dialect("deepeyes").limits is QWEN2_5_VL


async def test_the_documented_dialect_of_ones_own_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.agents.dialects.DIALECTS", dict(DIALECTS))
    text = (Path(__file__).parents[3] / "docs" / "dialects.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    checks = await check_dialect(names["Looker"]())
    assert [(check.name, check.detail) for check in checks if check.outcome == "failed"] == []


def test_the_documented_table_is_that_of_the_dialects() -> None:
    text = (Path(__file__).parents[3] / "docs" / "dialects.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \|.*\| (\d+) \|$", text, re.MULTILINE)
    assert [(name, int(turns)) for name, turns in rows] == [(name, make_dialect(name).max_turns) for name in DIALECTS]
