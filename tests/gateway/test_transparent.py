"""Transparent mode over real sockets, with scripted models and OpenAI's own client: a loop of one's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import openai
import pytest
from gateway_server import (
    QUESTION,
    UNSURE,
    ZOOM,
    Running,
    agent_says,
    draft_says,
    events,
    image_part,
    running,
    sent_images,
    sent_text,
    text_part,
    user,
)

from speceyes.agents import make_dialect
from speceyes.engines.scripted import Cut, Hang, Logprobs, Outcome, Reply, Script, Status
from speceyes.errors import CalibrationMismatch, ConfigError
from speceyes.gating import Calibration
from speceyes.store import RequestRecord, Store
from speceyes.types import ToolCall

TOOLS = [
    {
        "type": "function",
        "function": {"name": "zoom", "parameters": {"type": "object", "properties": {"box": {"type": "array"}}}},
    }
]
CALL = ToolCall("call_1", "zoom", '{"box": [1, 2, 3, 4]}')
SYSTEM = {"role": "system", "content": "You may zoom."}
ASKED = [SYSTEM, user(image_part(), text_part(QUESTION))]
TEXT = "speceyes/transparent-deepeyes"


def native_agent(*turns: Outcome, needs_tool: bool = False) -> Script:
    """Screens; then calls a tool, and answers "8" once there is a result."""
    return agent_says(*(turns or (Reply(tool_calls=[CALL]), Reply("It is 8."))), needs_tool=needs_tool)


def served_for_clients(
    draft: Script | None = None, agent: Script | None = None, settings: Mapping[str, Any] | None = None
) -> AbstractAsyncContextManager[Running]:
    on = {"transparent.enabled": True} | dict(settings or {})
    return running(draft, agent or native_agent(), on)


async def loop(client: openai.AsyncOpenAI, stream: bool = False) -> tuple[str, int]:
    """A tool loop as people write it: until a reply calls nothing. The answer, and the number of turns."""
    messages: list[Any] = list(ASKED)
    for turn in range(1, 5):
        message = await (_streamed(client, messages) if stream else _whole(client, messages))
        if not message.get("tool_calls"):
            return message["content"], turn
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": "cropped"} for call in message["tool_calls"]
        ]
        messages.append(user(text_part("The crop:"), image_part()))
    raise AssertionError("the loop does not end")


async def _whole(client: openai.AsyncOpenAI, messages: Sequence[Any]) -> dict[str, Any]:
    reply = await client.chat.completions.create(model="speceyes", messages=list(messages), tools=TOOLS)  # type: ignore[call-overload]
    assert reply.choices[0].finish_reason == ("tool_calls" if reply.choices[0].message.tool_calls else "stop")
    return dict(reply.choices[0].message.model_dump(exclude_none=True))


async def _streamed(client: openai.AsyncOpenAI, messages: Sequence[Any]) -> dict[str, Any]:
    stream = client.chat.completions.stream(model="speceyes", messages=list(messages), tools=TOOLS)  # type: ignore[arg-type]
    async with stream as heard:
        reply = await heard.get_final_completion()
    message = reply.choices[0].message.model_dump(exclude_none=True)
    calls = [
        {"id": c["id"], "type": "function", "function": {k: c["function"][k] for k in ("name", "arguments")}}
        for c in message.get("tool_calls", [])
    ]
    return {"role": "assistant", "content": message.get("content"), **({"tool_calls": calls} if calls else {})}


@pytest.mark.parametrize("stream", [False, True])
async def test_an_accepted_draft_ends_the_clients_loop_at_once(stream: bool) -> None:
    async with served_for_clients() as served:
        assert await loop(served.openai, stream) == ("7", 1)
        assert len(served.agent.completions) == 1, "the screening, and no turn"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_refused_draft_lets_it_run_and_no_later_turn_is_speculated_on(stream: bool) -> None:
    async with served_for_clients(draft_says(top=UNSURE)) as served:
        assert await loop(served.openai, stream) == ("It is 8.", 2)
        screen, *turns = (call.json for call in served.agent.completions)
        assert (screen["max_tokens"], len(turns)) == (1, 2)
        assert len(served.draft.completions) == 1


async def test_a_question_that_needs_the_tool_is_not_even_drafted() -> None:
    async with served_for_clients(agent=native_agent(needs_tool=True)) as served:
        assert await loop(served.openai) == ("It is 8.", 2)
        assert served.draft.completions == []


async def test_the_screening_is_the_clients_request_and_so_shares_its_prefix() -> None:
    async with served_for_clients(draft_says(top=UNSURE)) as served:
        fields = {"tools": TOOLS, "temperature": 0.3, "seed": 5}
        assert (await served.ask(messages=ASKED, **fields)).status_code == 200
        screen, turn = (call.json for call in served.agent.completions)
        assert turn == {"model": "large", "messages": ASKED, **fields}, "the client's own request"
        assert screen["tools"] == TOOLS
        assert screen["messages"][0] == SYSTEM
        image, said = screen["messages"][1]["content"]
        assert image == ASKED[1]["content"][0], "not encoded anew"
        assert said["text"].startswith(f"{QUESTION}\n\n")
        assert (screen["temperature"], screen["seed"], screen["tool_choice"]) == (0, 5, "none")


async def test_the_draft_is_asked_the_question_and_is_told_the_clients_prompt() -> None:
    async with served_for_clients() as served:
        await served.ask(messages=ASKED, tools=TOOLS, max_tokens=16)
        (draft,) = served.draft.completions
        assert draft.json["messages"][0] == SYSTEM
        assert QUESTION in sent_text(served.draft)
        assert len(sent_images(served.draft)) == 1
        assert "tools" not in draft.json
        assert draft.json["max_tokens"] == 16
    async with served_for_clients(settings={"transparent.draft_system": False}) as served:
        await served.ask(messages=ASKED, tools=TOOLS)
        assert "zoom" not in sent_text(served.draft)


async def test_an_accepted_draft_says_how_it_came_about() -> None:
    async with served_for_clients() as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS, speceyes={"trace": True})
        body = reply.json()
        (choice,) = body["choices"]
        assert choice["message"] == {"role": "assistant", "content": "7"}
        assert choice["finish_reason"] == "stop"
        told = body["speceyes"]
        assert (told["route"], told["reason"], told["threshold"]) == ("draft", "accepted", 6.0)
        assert told["trace"]["screening"]["help_probability"] < 0.5
        assert {name: used["calls"] for name, used in told["usage_by_model"].items()} == {"small": 1, "large": 1}
        for name in ("prompt_tokens", "completion_tokens"):
            assert body["usage"][name] == sum(used[name] for used in told["usage_by_model"].values())
        headers = {name: reply.headers[f"x-speceyes-{name}"] for name in ("route", "reason", "score", "threshold")}
        assert headers == {name: str(told[name]) for name in headers}
        asked = {"messages": ASKED, "tools": TOOLS, "stream": True, "stream_options": {"include_usage": True}}
        stream = await served.ask(**asked)
        first, text, end, usage, done = events(stream.text)
        assert first["speceyes"]["route"] == stream.headers["x-speceyes-route"] == "draft"
        assert text["choices"][0]["delta"] == {"content": "7"}
        assert (end["choices"][0]["finish_reason"], end["speceyes"]["reason"]) == ("stop", "accepted")
        assert (usage["choices"], usage["usage"]["total_tokens"] > 0, done) == ([], True, "[DONE]")


async def test_what_speculating_cost_is_told_beside_a_reply_that_is_not_ours() -> None:
    """CASES: no token of a refused draft is lost, and the agent's own counts stay as they are."""
    async with served_for_clients(draft_says(top=UNSURE)) as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS)
        assert reply.headers["x-speceyes-reason"] == "below_threshold"
        assert reply.headers["x-speceyes-threshold"] == "6.0"
        assert float(reply.headers["x-speceyes-score"]) < 6
        assert int(reply.headers["x-speceyes-speculation-completion-tokens"]) == 2, "one of each model"
        assert "speceyes" not in reply.json()
        later = await served.ask(messages=[*ASKED, {"role": "assistant", "tool_calls": []}], tools=TOOLS)
        assert later.headers["x-speceyes-reason"] == "later_turn"
        assert "x-speceyes-speculation-completion-tokens" not in later.headers


@pytest.mark.parametrize(
    ("fields", "reason", "note"),
    [
        ({"tool_choice": "required"}, "needs_agent", "tool_choice"),
        ({"n": 2}, "needs_agent", "n"),
        ({"foo": [1]}, "needs_agent", "foo"),
        ({"response_format": {"type": "json_object"}}, "needs_agent", "response_format"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "needs_agent", "max_completion_tokens"),
        ({"messages": [user(text_part("Hi"))]}, "no_image", None),
        ({"messages": [user(text_part("Hi"), {"type": "input_audio", "input_audio": {}})]}, "needs_agent", "messages"),
        (
            {"messages": [user(text_part("Hi"), {"type": "image_url", "image_url": "data:image/png;base64,AAAA"})]},
            "needs_agent",
            "image 1",
        ),
        (
            {"messages": [user(text_part("Hi"), {"type": "image_url", "image_url": "https://example.com/a.png"})]},
            "needs_agent",
            "image 1",
        ),
        ({"model": "speceyes/agent"}, "forced_agent", None),
    ],
)
async def test_what_a_draft_cannot_give_passes_whole_and_says_why(
    fields: dict[str, Any], reason: str, note: str | None
) -> None:
    async with served_for_clients() as served:
        asked = {"messages": ASKED, "tools": TOOLS} | fields
        reply = await served.ask(**asked)
        assert (reply.status_code, reply.headers["x-speceyes-reason"]) == (200, reason)
        assert reply.headers["x-speceyes-route"] == "agent"
        assert (note or "") in reply.headers.get("x-speceyes-note", "")
        (call,) = served.agent.completions
        assert call.json == {**asked, "model": "large"}
        assert served.draft.completions == []


async def test_an_unknown_field_that_was_said_not_to_matter() -> None:
    async with served_for_clients(settings={"transparent.ignore_fields": "foo"}) as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS, foo=1)
        assert reply.headers["x-speceyes-route"] == "draft"
        assert served.agent.completions[0].json["foo"] == 1, "the screening's prompt may depend on it"


async def test_a_forced_draft_answers_whatever_the_gate_says() -> None:
    async with served_for_clients(draft_says(top=UNSURE)) as served:
        body = (await served.ask(messages=ASKED, tools=TOOLS, model="speceyes/draft")).json()
        assert (body["choices"][0]["message"]["content"], body["speceyes"]["reason"]) == ("7", "forced_draft")
        assert served.agent.completions == []


# --- Text dialects


@pytest.mark.parametrize("how", [{"model": TEXT}, {"speceyes": {"mode": "transparent", "dialect": "deepeyes"}}])
@pytest.mark.parametrize("tools", [{}, {"tools": TOOLS, "tool_choice": "none"}])
async def test_a_client_that_reads_the_agents_text_gets_it(how: dict[str, Any], tools: dict[str, Any]) -> None:
    prompts = make_dialect("deepeyes").prompts
    messages = [
        {"role": "system", "content": prompts.system},
        user(image_part(), text_part(f"{QUESTION}\n\n{prompts.act}")),
    ]
    async with served_for_clients(agent=agent_says()) as served:
        reply = await served.ask(messages=messages, **how, **tools)
        text = reply.json()["choices"][0]["message"]["content"]
        assert text.startswith("<think>")
        assert text.endswith("<answer>7</answer>")
        assert sent_text(served.agent).endswith(f"{QUESTION}\n\n{prompts.screen}"), "the gateway's own screening"
        assert sent_text(served.draft).startswith(f"{QUESTION}\n\nAnswer with"), "and its own draft"
        later = [*messages, {"role": "assistant", "content": ZOOM}, user(text_part("<tool_response>"), image_part())]
        reply = await served.ask(messages=later, **how, **tools)
        assert reply.headers["x-speceyes-reason"] == "later_turn"
        assert served.agent.completions[-1].json == {"model": "large", "messages": later, **tools}


@pytest.mark.parametrize(
    ("fields", "ending"),
    [
        ({"stop": ["</tool_call>", "</answer>"]}, "<answer>7"),
        ({"stop": "</answer>", "include_stop_str_in_output": True}, "<answer>7</answer>"),
        ({"stop": ["never"]}, "<answer>7</answer>"),
    ],
)
async def test_stop_strings_end_the_text_as_the_agents_server_would(fields: dict[str, Any], ending: str) -> None:
    async with served_for_clients(agent=agent_says()) as served:
        reply = await served.ask(messages=ASKED, model=TEXT, **fields)
        assert reply.json()["choices"][0]["message"]["content"].endswith(ending)


async def test_a_draft_that_would_be_read_as_something_else_goes_to_the_agent() -> None:
    async with served_for_clients(draft_says("7</answer>"), agent_says(ZOOM)) as served:
        reply = await served.ask(messages=ASKED, model=TEXT)
        assert reply.headers["x-speceyes-reason"] == "needs_agent"
        assert reply.json()["choices"][0]["message"]["content"] == ZOOM


async def test_a_reply_of_ones_own() -> None:
    settings = {"transparent.reply": "<answer>\n{answer}\n</answer>", "serve.aliases": {"deepeyes-7b": TEXT}}
    async with served_for_clients(agent=agent_says(), settings=settings) as served:
        body = (await served.ask(messages=ASKED, model="deepeyes-7b")).json()
        assert (body["choices"][0]["message"]["content"], body["model"]) == ("<answer>\n7\n</answer>", "deepeyes-7b")


@pytest.mark.parametrize(
    "fields",
    [
        {"speceyes": {"mode": "transparent"}},
        {"speceyes": {"dialect": "thyme"}},
        {"model": "speceyes/transparent-thyme"},
        {"tools": TOOLS, "speceyes": {"mode": "managed"}},
    ],
)
async def test_a_mode_that_there_is_not_is_refused_by_name(fields: dict[str, Any]) -> None:
    async with served_for_clients() as served:
        reply = await served.ask(messages=ASKED, **fields)
        param = "model" if "model" in fields else "tools" if "tools" in fields else "speceyes"
        assert (reply.status_code, reply.json()["error"]["param"]) == (404 if param == "model" else 400, param)
        assert served.agent.completions == []


# --- Which threshold


async def test_without_a_threshold_for_it_nothing_is_speculated() -> None:
    async with running(agent=native_agent()) as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS)
        assert reply.headers["x-speceyes-reason"] == "speculation_off"
        assert len(served.agent.completions) == 1
        assert (await served.ask()).json()["speceyes"]["route"] == "draft", "the gateway's own loop has one"


def calibration(**bound: Any) -> Calibration:
    content = {"threshold": 6.0, "k": 8, "method": "test", "n": 1, "data": "x", "draft_model": "small"}
    return Calibration(**content | {"agent_model": "large", "draft_prompt": "y", **bound})


async def test_a_calibration_is_checked_against_what_is_the_gateways_own(
    tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Models and the draft's prompt must fit; that other words were used is a warning, for it was named on purpose."""
    path = tmp_path / "calibration.json"
    async with served_for_clients() as served:
        setup = served.gateway.speculation.setup
        assert setup["agent_prompt"] != setup["screen_prompt"]
    own = calibration(**setup)
    own.save(path)
    settings = {"transparent.enabled": None, "transparent.calibration": path}
    async with running(agent=native_agent(), settings=settings) as served:
        assert (await served.ask(messages=ASKED, tools=TOOLS)).headers["x-speceyes-route"] == "draft"
        assert "guarantee" not in caplog.text
    calibration(**{**setup, "screen_prompt": "managed"}).save(path)
    async with running(agent=native_agent(), settings=settings) as served:
        assert (await served.ask(messages=ASKED, tools=TOOLS)).headers["x-speceyes-route"] == "draft"
        assert "guarantee does not cover" in caplog.text
    calibration(**{**setup, "draft_model": "another"}).save(path)
    with pytest.raises(CalibrationMismatch, match="draft_model"):
        async with running(agent=native_agent(), settings=settings):
            pass


async def test_the_gateways_own_calibration_is_not_taken_over_in_silence(tmp_path: Any) -> None:
    calibration().save(tmp_path / "c.json")
    settings = {"gate.threshold": None, "gate.k": None, "gate.calibration": tmp_path / "c.json"}
    with pytest.raises(ConfigError, match="transparent\\.calibration"):
        async with served_for_clients(settings=settings):
            pass


# --- Faults


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (Status(500, "no"), "draft_failed"),
        (Cut(), "draft_failed"),
        (Reply("7", logprobs=Logprobs.NULL), "logprobs_missing"),
    ],
)
async def test_a_draft_that_fails_costs_no_turn(outcome: Outcome, reason: str) -> None:
    async with served_for_clients(outcome) as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS)
        assert (reply.status_code, reply.headers["x-speceyes-reason"]) == (200, reason)
        assert reply.json()["choices"][0]["message"]["tool_calls"][0]["id"] == "call_1"


async def test_a_screening_that_fails_costs_no_turn() -> None:
    def answer(request: dict[str, Any], turn: int) -> Outcome:
        return Status(500, "no") if request.get("max_tokens") == 1 else Reply(tool_calls=[CALL])

    async with served_for_clients(agent=answer) as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS)
        assert (reply.status_code, reply.headers["x-speceyes-reason"]) == (200, "screen_failed")


JSON = {"content-type": "application/json"}
ERROR = {"error": {"message": "too many images", "type": "BadRequest", "param": None, "code": 400}, "more": 1}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("outcome", "status", "expected"),
    [
        (Status(400, ERROR), 400, ERROR),
        (Status(429, ERROR, {"retry-after": "7"}), 429, ERROR),
        (Status(500, ERROR), 500, ERROR),
        (Status(503, "<html><title>Unavailable</title></html>"), 503, "upstream_overloaded"),
        (Status(422, {"detail": "x"}), 422, "upstream_refused"),
        (Status(401, {"error": {"message": "bad key"}}), 502, "upstream_misconfigured"),
        (Status(200, '{"error": {"message": "no memory"}}', JSON), 502, "upstream_bad_reply"),
        (Status(200, '{"choices": [', JSON), 502, "upstream_bad_reply"),
        (Status(200, '{"choices": []}', JSON), 502, "upstream_bad_reply"),
        (Cut(), 503, "upstream_unreachable"),
    ],
)
async def test_an_error_of_the_agents_server_is_the_clients(
    outcome: Outcome, status: int, expected: Any, later: bool, stream: bool
) -> None:
    """CASES: its status and its words, if they are OpenAI's; what is about our set-up is told as ours."""
    messages = [*ASKED, {"role": "assistant", "tool_calls": []}] if later else ASKED
    async with served_for_clients(draft_says(top=UNSURE), native_agent(outcome, outcome)) as served:
        reply = await served.ask(messages=messages, tools=TOOLS, stream=stream)
        assert reply.status_code == status
        assert (reply.json()["error"]["code"] if isinstance(expected, str) else reply.json()) == expected
        assert reply.headers.get("retry-after") == ("7" if status == 429 else None)
        assert reply.headers["x-speceyes-request-id"]


async def test_a_stream_that_breaks_off_ends_in_an_error() -> None:
    reply = Reply("one two three")
    async with served_for_clients(draft_says(top=UNSURE), native_agent(Cut(reply, chunks=2))) as served:
        heard = events((await served.ask(messages=ASKED, tools=TOOLS, stream=True)).text)
        assert heard[0]["choices"][0]["delta"]["content"] == "one"
        assert heard[-1]["error"]["code"] == "upstream_unreachable"
        with pytest.raises(openai.APIError, match="broke"):
            async for _ in await served.openai.chat.completions.create(  # type: ignore[call-overload]
                model="speceyes", messages=ASKED, tools=TOOLS, stream=True
            ):
                pass


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("hanging", ["draft", "agent"])
async def test_who_hangs_up_stops_all_work_for_them(stream: bool, hanging: str) -> None:
    reply = Hang(Reply("one two three"), chunks=2 if stream else 0)
    draft, agent = (Hang(), None) if hanging == "draft" else (draft_says(top=UNSURE), native_agent(reply))
    async with served_for_clients(draft, agent) as served:
        server = served.draft if hanging == "draft" else served.agent
        calls = 1 if hanging == "draft" else 2
        asking = asyncio.create_task(served.ask(messages=ASKED, tools=TOOLS, stream=stream))
        await server.wait_until(lambda: len(server.completions) == calls)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await server.wait_until(lambda: server.completions[-1].done)
        assert server.completions[-1].closed_by_client
        async with asyncio.timeout(5):
            while served.gateway.access.admission.held:  # noqa: ASYNC110, it tells nobody
                await asyncio.sleep(0.01)
        assert (served.gateway.funnel.loops.held, served.gateway.funnel.stateless.held) == (0, 0)


async def test_a_deadline_ends_a_turn() -> None:
    async with served_for_clients(draft_says(top=UNSURE), native_agent(Hang())) as served:
        reply = await served.ask(messages=ASKED, tools=TOOLS, speceyes={"deadline_s": 0.5})
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
        await served.agent.wait_until(lambda: served.agent.active == 0)


# --- What is kept


async def test_the_record_has_the_question_the_decision_and_all_tokens(tmp_path: Any) -> None:
    store = {"store.enabled": True, "store.url": f"sqlite:///{tmp_path}/r.db", "store.content": True}
    async with served_for_clients(draft_says(top=UNSURE), settings=store) as served:
        first = await served.ask(messages=ASKED, tools=TOOLS)
        await loop(served.openai)
        recorder = served.gateway.observer.recorder
        assert recorder is not None
        setup = served.gateway.speculation.setup
        metrics = (await served.http.get(served.url.removesuffix("/v1") + "/metrics")).text
        ledger = [*served.draft.completions, *served.agent.completions]
    found = await records(f"sqlite:///{tmp_path}/r.db")
    assert len(found) == 3
    one = next(record for record in found if record.id == first.headers["x-speceyes-request-id"])
    assert (one.route, one.reason, one.verdict) == ("agent", "below_threshold", "below_threshold")
    assert (one.question, one.draft_text, one.setup) == (QUESTION, "7", setup)
    assert {name: used.calls for name, used in one.usage.items()} == {"small": 1, "large": 2}
    assert one.usage["large"].prompt_tokens > 0
    assert one.phase_seconds.keys() == {"screen", "speculate", "relay"}
    assert len(one.images) == 1
    assert sum(used.calls for record in found for used in record.usage.values()) == len(ledger)
    assert 'reason="later_turn"' in metrics


async def records(url: str) -> list[RequestRecord]:
    async with await Store.open(url) as store:
        return [record async for record in store.iterate()]
