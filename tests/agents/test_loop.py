"""The agent's exchange, driven by hand: no server, no event loop."""

from collections.abc import Callable
from itertools import count

import pytest
from PIL import Image

from speceyes.agents import Budget, Generate, RunTool, agent_loop, agent_request, default_budget, make_dialect
from speceyes.agents.dialects.deepeyes import PROMPTS
from speceyes.errors import EngineError, EngineProtocolError, EngineRefused, EngineUnreachable
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box
from speceyes.imaging.resize import QWEN3_VL, render
from speceyes.tools import ToolResult
from speceyes.types import AgentRun, Completion, Finish, Query, ToolCall, Turn, Usage

ZOOM = "image_zoom_in_tool"
IMAGE = DecodedImage.of_pixels(Image.new("RGB", (320, 320), "white"))
QUERY = Query("What number?", (IMAGE,))
DIALECT = make_dialect("deepeyes", limits=QWEN3_VL)
ANSWER = "<think>Seven.</think>\n<answer>7</answer>"


def zoom(box: list[int], label: str = "sign") -> str:
    body = f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": {box}, "label": "{label}"}}}}'
    return f"<think>Look.</think>\n<tool_call>\n{body}\n</tool_call>"


def said(text: str, prompt: int | None = 100, generated: int | None = 10, finish: str = "stop") -> Completion:
    return Completion(text, finish, usage=Usage(prompt, generated, calls=1), seconds=0.5)


def crop(call: RunTool) -> ToolResult:
    left, top, right, bottom = call.call.arguments["bbox_2d"]
    return ToolResult("", (render(IMAGE, Box(left, top, right, bottom), QWEN3_VL),))


class Drive:
    """Plays the server and the tools from a script, and keeps what the loop asked for."""

    def __init__(self, *replies: Completion | Exception, tool: Callable[[RunTool], ToolResult] = crop, **options):
        self.asked: list[Generate] = []
        self.ran: list[RunTool] = []
        self.run: AgentRun = self._play(list(replies), tool, options)

    def _play(self, replies: list, tool: Callable, options: dict) -> AgentRun:
        steps = agent_loop(QUERY, DIALECT, **options)
        step = next(steps)
        try:
            while True:
                if isinstance(step, RunTool):
                    self.ran.append(step)
                    step = steps.send(tool(step))
                    continue
                self.asked.append(step)
                reply = replies.pop(0)
                step = steps.throw(reply) if isinstance(reply, Exception) else steps.send(reply)
        except StopIteration as stop:
            assert not replies, "the loop left replies unused"
            return stop.value

    def messages(self, turn: int) -> list[dict]:
        return [dict(message) for message in self.asked[turn].request.messages]


def all_text(message: dict) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def test_a_zoom_and_then_an_answer() -> None:
    drive = Drive(said(zoom([32, 32, 96, 96])), said(ANSWER, 300, 7))
    run = drive.run
    assert (run.text, run.finish, run.depth) == ("7", Finish.ANSWERED, 1)
    assert run.usage == Usage(400, 17, calls=2)
    first, second = run.turns
    assert (first.tool, first.error, first.text) == (ZOOM, None, zoom([32, 32, 96, 96]))
    assert first.crops[0].box == (32.0, 32.0, 96.0, 96.0)
    assert (first.crops[0].label, first.crops[0].size) == ("sign", (64, 64))
    assert (second.tool, second.text, second.usage, second.seconds) == (
        None,
        ANSWER,
        Usage(300, 7, calls=1),
        0.5,
    )
    roles = [message["role"] for message in drive.messages(1)]
    assert roles == ["system", "user", "assistant", "user"]
    assert drive.messages(1)[2]["content"] == zoom([32, 32, 96, 96])
    assert all_text(drive.messages(1)[3]) == f"<tool_response>\n\n{PROMPTS.reminder}\n</tool_response>"


def test_each_request_begins_with_the_one_before() -> None:
    drive = Drive(*(said(zoom([n, n, n + 64, n + 64])) for n in range(3)), said(ANSWER))
    for before, after in zip(drive.asked, drive.asked[1:], strict=False):
        assert after.request.messages[: len(before.request.messages)] == before.request.messages
        assert (after.request.tools, after.request.stop) == (DIALECT.tools, DIALECT.stop)


def test_the_first_request_shares_the_screening_requests_form() -> None:
    views = [render(IMAGE, None, QWEN3_VL)]
    drive = Drive(said(ANSWER), views=views, seed=7, extra={"id_slot": 3})
    messages = DIALECT.opening_messages(QUERY, views, screening=True)
    screening = agent_request(DIALECT, messages, 1, top_logprobs=20)
    first = drive.asked[0].request
    assert screening.tools == first.tools
    assert screening.messages[0] == first.messages[0]
    assert screening.messages[1]["content"][:-1] == first.messages[1]["content"][:-1]
    assert first.extra == {"tool_choice": "none", "id_slot": 3}
    assert (first.temperature, first.seed, screening.extra) == (0.0, 7, {"tool_choice": "none"})


def test_the_tool_sees_every_view_so_far() -> None:
    drive = Drive(said(zoom([0, 0, 64, 64])), said(zoom([64, 64, 128, 128])), said(ANSWER))
    assert [len(step.context.views) for step in drive.ran] == [1, 2]
    assert drive.ran[1].context.views[1].region == Box(0, 0, 64, 64)
    assert drive.ran[0].context.images == (IMAGE,)
    assert drive.ran[0].context.limits is QWEN3_VL


def test_plain_text_is_an_untagged_answer() -> None:
    run = Drive(said("It is 7.")).run
    assert (run.text, run.finish, run.depth) == ("It is 7.", Finish.UNTAGGED, 0)


def test_an_unreadable_call_is_observed_and_counted_and_not_lost() -> None:
    drive = Drive(said("<tool_call>{'name': 3}</tool_call>"), said(""), said(ANSWER))
    assert drive.ran == []
    assert (drive.run.text, drive.run.depth, drive.run.usage.calls) == ("7", 0, 3)
    assert [turn.error is not None for turn in drive.run.turns] == [True, True, False]
    told = all_text(drive.messages(1)[-1])
    assert "The call has no name." in told
    assert PROMPTS.retry in told
    assert drive.messages(1)[-2]["content"] == "<tool_call>{'name': 3}</tool_call>"
    assert [message["role"] for message in drive.messages(2)][-2:] == ["user", "user"]


def test_a_tools_error_is_observed_and_counted() -> None:
    drive = Drive(said(zoom([0, 0, 9, 9])), said(ANSWER), tool=lambda _: ToolResult(error="No area."))
    turn = drive.run.turns[0]
    assert (turn.tool, turn.error, turn.observation, turn.crops) == (ZOOM, "No area.", "No area.", ())
    assert "No area." in all_text(drive.messages(1)[-1])


def test_a_second_call_in_a_turn_is_not_run_and_the_model_is_told() -> None:
    drive = Drive(said(zoom([0, 0, 64, 64]) + zoom([1, 1, 65, 65])), said(ANSWER))
    assert len(drive.ran) == 1
    assert "Only the first call" in all_text(drive.messages(1)[-1])
    assert "Only the first call" in drive.run.turns[0].observation


def test_the_same_call_again_shows_nothing_and_asks_for_the_answer() -> None:
    again = zoom([0, 0, 64, 64], label="another word for it")
    drive = Drive(said(zoom([0, 0, 64, 64])), said(again), said(again), said(ANSWER))
    assert len(drive.ran) == 1
    assert (drive.run.depth, drive.run.finish) == (1, Finish.ANSWERED)
    notice = drive.messages(2)[-1]
    assert PROMPTS.repeated in all_text(notice)
    assert all(part["type"] == "text" for part in notice["content"])
    assert [turn.error is not None for turn in drive.run.turns] == [False, True, True, False]


def test_a_call_that_failed_may_be_tried_again() -> None:
    results = iter([ToolResult(error="Busy."), ToolResult("Fine.")])
    drive = Drive(*[said(zoom([0, 0, 64, 64]))] * 2, said(ANSWER), tool=lambda _: next(results))
    assert len(drive.ran) == 2


@pytest.mark.parametrize("turns", [1, 2, 6])
def test_used_up_turns_end_in_one_closing_request(turns: int) -> None:
    zooms = [said(zoom([n, n, n + 64, n + 64])) for n in range(turns)]
    drive = Drive(*zooms, said("<answer>9</answer>"), budget=Budget(max_turns=turns))
    assert (drive.run.text, drive.run.finish, drive.run.depth) == ("9", Finish.TURN_LIMIT, turns)
    assert [step.closing for step in drive.asked] == [False] * turns + [True]
    last = drive.asked[-1].request
    assert last.messages[-1] == {"role": "user", "content": PROMPTS.closing}
    assert last.tools == DIALECT.tools
    assert drive.run.usage == Usage(100 * (turns + 1), 10 * (turns + 1), calls=turns + 1)


def test_a_call_in_the_closing_turn_is_not_run_and_not_shown() -> None:
    drive = Drive(*[said(zoom([0, 0, 64, 64]))] * 2, budget=Budget(max_turns=1))
    assert len(drive.ran) == 1
    assert (drive.run.text, drive.run.finish) == ("", Finish.TURN_LIMIT)
    assert len(drive.run.turns) == 2


def test_a_closing_request_that_fails_still_ends_in_a_run() -> None:
    drive = Drive(said(zoom([0, 0, 64, 64])), EngineUnreachable("gone"), budget=Budget(max_turns=1))
    assert (drive.run.text, drive.run.finish) == ("", Finish.TURN_LIMIT)
    assert drive.run.usage == Usage(100, 10, calls=1)
    assert "gone" in (drive.run.turns[-1].error or "")


@pytest.mark.parametrize(
    "error",
    [EngineUnreachable("gone"), EngineRefused("the context is full", status=400)],
    ids=["nobody there", "the first request is too large already"],
)
def test_any_other_failed_request_comes_out(error: EngineError) -> None:
    with pytest.raises(type(error)):
        Drive(error)


@pytest.mark.parametrize(
    "error",
    [EngineUnreachable("gone"), EngineRefused("who are you?", status=401), EngineProtocolError("x", status=500)],
)
def test_what_a_shorter_history_cannot_help_comes_out_of_a_later_turn_too(error: EngineError) -> None:
    with pytest.raises(type(error)):
        Drive(said(zoom([0, 0, 64, 64])), error)


def full(status: int = 400) -> EngineRefused:
    return EngineRefused("HTTP 400: the prompt exceeds the context", status=status)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_history_that_outgrew_the_server_is_closed_without_its_last_turn(status: int) -> None:
    zooms = [said(zoom([n, n, n + 64, n + 64])) for n in range(2)]
    drive = Drive(*zooms, full(status), said(ANSWER))
    assert (drive.run.text, drive.run.finish, drive.run.depth) == ("7", Finish.CONTEXT_LIMIT, 2)
    assert [step.closing for step in drive.asked] == [False, False, False, True]
    # All up to the first zoom, and what it showed; the second is gone.
    assert drive.messages(3) == [*drive.messages(1), {"role": "user", "content": PROMPTS.closing}]
    assert "exceeds the context" in (drive.run.turns[2].error or "")
    assert drive.run.usage == Usage(300, 30, calls=4)


def test_an_error_object_in_a_stream_counts_as_its_status() -> None:
    late = EngineProtocolError("the request exceeds the context", status=400)
    late.retryable = False
    assert Drive(said(zoom([0, 0, 64, 64])), late, said(ANSWER)).run.finish is Finish.CONTEXT_LIMIT


def test_a_closing_request_that_is_too_large_loses_turn_after_turn_and_then_gives_up() -> None:
    zooms = [said(zoom([n, n, n + 64, n + 64])) for n in range(2)]
    budget = Budget(max_turns=2)
    drive = Drive(*zooms, full(), full(), said(ANSWER), budget=budget)
    assert (drive.run.text, drive.run.finish) == ("7", Finish.TURN_LIMIT)
    assert drive.messages(4) == [*drive.messages(0), {"role": "user", "content": PROMPTS.closing}]
    drive = Drive(*zooms, full(), full(), full(), budget=budget)
    assert (drive.run.text, drive.run.finish) == ("", Finish.TURN_LIMIT)
    assert drive.run.usage == Usage(200, 20, calls=4)


def test_each_turn_is_told_when_it_is_over_even_if_the_run_breaks_off() -> None:
    told: list[Turn] = []
    run = Drive(said(zoom([0, 0, 64, 64])), said(""), said(ANSWER), watch=told.append).run
    assert tuple(told) == run.turns
    told.clear()
    with pytest.raises(EngineUnreachable):
        Drive(said(zoom([0, 0, 64, 64])), EngineUnreachable("gone"), watch=told.append)
    assert [turn.usage for turn in told] == [Usage(100, 10, calls=1)]


def test_what_was_mended_in_a_call_is_on_its_turn() -> None:
    mended = f"<tool_call>{{'name': '{ZOOM}', 'arguments': {{'bbox_2d': [0, 0, 64, 64]}}}}</tool_call>"
    run = Drive(said(mended), said(mended), said(zoom([0, 0, 96, 96])), said(ANSWER)).run
    mend = ("Python literal for JSON",)
    assert [turn.repairs for turn in run.turns] == [mend, mend, (), ()]


def test_tokens_are_kept_back_for_the_closing_request() -> None:
    budget = Budget(max_turns=9, max_tokens_per_turn=50, max_tokens=100, closing_tokens=20)
    zooms = [said(zoom([n, n, n + 64, n + 64]), generated=tokens) for n, tokens in enumerate((50, 30))]
    drive = Drive(*zooms, said(ANSWER, generated=20), budget=budget)
    assert [step.request.max_tokens for step in drive.asked] == [50, 30, 20]
    assert drive.run.finish is Finish.TOKEN_LIMIT


def test_unknown_usage_stays_unknown_and_still_uses_up_the_budget() -> None:
    budget = Budget(max_turns=99, max_tokens_per_turn=100, max_tokens=200, closing_tokens=20)
    text = zoom([0, 0, 64, 64])
    drive = Drive(*[said(text, None, None)] * 4, said(ANSWER, None, None), budget=budget)
    assert drive.run.finish is Finish.TOKEN_LIMIT
    assert drive.run.usage == Usage(None, None, calls=5)


def test_time_is_looked_at_before_each_turn() -> None:
    ticks = count()
    budget = Budget(max_turns=99, max_seconds=4.0)
    # Seconds 0 and 1 begin the run and its first turn, 2 and 3 stand around the tool, 4 is too late.
    replies = [said(zoom([0, 0, 64, 64])), said(ANSWER)]
    drive = Drive(*replies, budget=budget, clock=lambda: float(next(ticks)))
    assert drive.run.finish is Finish.TIME_LIMIT
    assert drive.run.turns[0].tool_seconds == 1.0
    assert drive.run.seconds > 4.0


def test_what_a_server_took_out_of_the_text_is_in_the_history_and_the_record() -> None:
    native = Completion(
        "", "tool_calls", reasoning="Look.", tool_calls=(ToolCall("1", ZOOM, '{"bbox_2d": [0, 0, 64, 64]}'),)
    )
    drive = Drive(native, said(ANSWER))
    text = (
        "<think>Look.</think>\n<tool_call>\n"
        f'{{"name": "{ZOOM}", "arguments": {{"bbox_2d": [0, 0, 64, 64]}}}}\n</tool_call>'
    )
    assert drive.messages(1)[2]["content"] == text
    assert drive.run.turns[0].text == text


def test_a_driver_that_sends_the_wrong_thing_is_told() -> None:
    steps = agent_loop(QUERY, DIALECT)
    next(steps)
    with pytest.raises(TypeError, match="Completion"):
        steps.send(ToolResult())
    steps = agent_loop(QUERY, DIALECT)
    next(steps)
    steps.send(said(zoom([0, 0, 64, 64])))
    with pytest.raises(TypeError, match="ToolResult"):
        steps.send(said(ANSWER))


def test_the_default_budget_is_the_dialects() -> None:
    budget = default_budget(make_dialect("deepeyes", max_turns=3, max_tokens_per_turn=100))
    assert (budget.max_turns, budget.max_tokens_per_turn) == (3, 100)
    assert budget.turn_tokens(spent=200) == 100
