"""The loop with dialects whose history has another form: native calls, numbered observations, turns that go on."""

from __future__ import annotations

from typing import Any

import pytest

from speceyes.agents.dialects import DIALECTS, Malformed
from speceyes.agents.dialects.conformance import dialect_to_check
from speceyes.agents.dialects.conformance.stage import Stage, words_of
from speceyes.agents.loop import GO_ON
from speceyes.types import Completion, Finish


def stage(name: str, **options: Any) -> Stage:
    dialect = dialect_to_check(name, **options)
    return Stage(dialect, dialect)  # type: ignore[arg-type]


async def test_observations_are_numbered_by_pictures_and_actions_by_turns() -> None:
    minio3 = stage("minio3")
    other = minio3.writer.write_call('{"bbox_2d": [0, 0, 0.5, 0.5], "source": "observation_1"}')
    played = await minio3.play(minio3.call(), minio3.writer.write_call("the sign"), other)
    assert "action 1 shows this, observation 1:" in played.told(1)
    assert "no JSON object" in played.told(2)
    assert "action 3 shows this, observation 2:" in played.told(3)


async def test_a_native_run_has_a_result_for_each_call() -> None:
    native = stage("native")
    played = await native.play(native.call(), Completion("", "stop"), native.call(native.arguments(picture=1)))
    roles = [message["role"] for message in played.requests[-1].messages]
    assert roles == ["system", "user", "assistant", "tool", "user", "user", "assistant", "tool", "user"]
    assert (played.run.depth, played.run.finish) == (2, Finish.ANSWERED)


async def test_a_repeated_native_call_is_refused_in_a_tool_message() -> None:
    native = stage("native")
    played = await native.play(native.call(), native.call())
    assert played.requests[2].messages[-1]["role"] == "tool"
    assert native.dialect.prompts.repeated in played.told(2)


async def test_thymes_turn_goes_on_and_stays_one_message() -> None:
    thyme = stage("thyme", result_form="assistant")
    played = await thyme.play(thyme.call(), thyme.writer.write_call('raise ValueError("no")'))
    messages = played.requests[-1].messages
    assert [message["role"] for message in messages] == ["system", "user", "assistant"]
    assert GO_ON.items() <= played.requests[-1].extra.items()
    assert not GO_ON.keys() & played.requests[0].extra.keys()
    words = words_of(messages[-1:])
    assert words.count("<sandbox_output>") == 2
    assert words.index("a part") < words.index("ValueError: no")
    assert played.run.notes == ()


async def test_the_record_says_where_the_trained_form_was_not_used() -> None:
    thyme = stage("thyme")
    used = await thyme.play(thyme.call())
    assert [message["role"] for message in used.requests[-1].messages] == ["system", "user", "assistant", "user"]
    assert [note.partition(":")[0] for note in used.run.notes] == ["thyme"]
    assert (await thyme.play()).run.notes == ()


async def test_a_turn_is_not_lost_whatever_form_its_answer_has() -> None:
    for name in set(DIALECTS) - {"deepeyes"}:
        played = await stage(name).play(Completion("", "stop"))
        assert (played.run.text, len(played.run.turns)) == ("7", 2)
        assert isinstance(stage(name).dialect.parse(Completion("", "stop")), Malformed)
        assert played.requests[1].messages[-1]["role"] == "user"


@pytest.mark.parametrize("turns", [1, 2, 6])
async def test_the_turn_limit_ends_in_one_closing_request_in_every_form(turns: int) -> None:
    for name in ("thyme", "native", "minio3"):
        playing = stage(name)
        zooms = [playing.call(_other(playing, index)) for index in range(turns)]
        played = await playing.play(*zooms, max_turns=turns)
        assert (played.run.text, played.run.finish, played.run.depth) == ("7", Finish.TURN_LIMIT, turns)
        assert playing.dialect.prompts.closing in words_of(played.requests[-1].messages[-1:])


def _other(playing: Stage, index: int) -> dict[str, Any]:
    arguments = playing.arguments()
    if playing.codes:
        return {"code": f"{arguments['code']}  # {index}"}
    return {**arguments, "note": index}
