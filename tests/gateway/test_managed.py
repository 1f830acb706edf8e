"""Managed mode over real sockets, with scripted models: what reaches them, and what the client gets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from gateway_server import (
    QUESTION,
    SURE,
    UNSURE,
    ZOOM,
    agent_says,
    asked,
    data_url,
    draft_says,
    events,
    image_part,
    picture,
    picture_width,
    running,
    sent_images,
    sent_text,
    text_part,
    user,
)

from speceyes.engines.scripted import Cut, Hang, Reply, Status, token_reply

EXTENSION = [
    "request_id",
    "route",
    "reason",
    "score",
    "threshold",
    "finish",
    "usage_by_model",
    "images",
    "plan",
    "seconds",
    "notes",
]

LONG = (
    "The sign stands behind the second tree on the left, and a part of it is hidden by a branch, but its digit is one"
)
"""Shorter answers are shown when their turn is over."""


def contents(text: str) -> str:
    return "".join(c["delta"].get("content") or "" for e in events(text) if isinstance(e, dict) for c in e["choices"])


async def test_an_accepted_draft_is_the_answer() -> None:
    async with running() as served:
        reply = await served.ask()
        assert reply.status_code == 200
        body = reply.json()
        assert body["choices"] == [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "7"},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ]
        assert (body["object"], body["model"]) == ("chat.completion", "speceyes")
        told = body["speceyes"]
        assert list(told) == EXTENSION, "and no trace, which was not asked for"
        assert (told["route"], told["reason"], told["threshold"], told["finish"]) == ("draft", "accepted", 6.0, None)
        shown = {"size": [600, 400], "agent": [588, 392], "draft": [608, 384]}
        assert told["images"] == [{**shown, "agent_tokens": 21 * 14, "draft_tokens": 19 * 12}]
        headers = {name: reply.headers[f"x-speceyes-{name}"] for name in ("route", "reason", "score", "threshold")}
        assert headers == {name: str(told[name]) for name in headers}
        assert reply.headers["x-speceyes-request-id"] == told["request_id"]
        assert body["id"] == f"chatcmpl-{told['request_id']}"


async def test_a_refused_draft_makes_the_agent_answer_and_its_own_words_stay_out_of_the_content() -> None:
    async with running(draft_says(top=UNSURE)) as served:
        body = (await served.ask(speceyes={"trace": True})).json()
        assert body["choices"][0]["message"] == {"role": "assistant", "content": "8"}
        told = body["speceyes"]
        assert (told["route"], told["reason"], told["finish"]) == ("agent", "below_threshold", "answered")
        assert told["trace"]["draft"]["text"] == "7"
        assert told["trace"]["run"]["turns"][0]["crops"][0]["label"] == "sign"


async def test_usage_is_the_sum_over_all_calls_the_refused_draft_included() -> None:
    async with running(draft_says(top=UNSURE)) as served:
        body = (await served.ask()).json()
        ledger = [call for server in (served.draft, served.agent) for call in server.completions]
        models = body["speceyes"]["usage_by_model"]
        assert {name: used["calls"] for name, used in models.items()} == {"small": 1, "large": 3}
        assert sum(used["calls"] for used in models.values()) == len(ledger)
        for name in ("prompt_tokens", "completion_tokens"):
            assert body["usage"][name] == sum(used[name] for used in models.values())
        assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]


async def test_usage_that_a_server_does_not_tell_is_null_and_not_zero() -> None:
    silent = Reply(tokens=[token_reply("7", SURE)], usage=None)
    async with running(silent) as served:
        body = (await served.ask()).json()
        assert body["usage"] is None
        assert body["speceyes"]["usage_by_model"]["small"]["prompt_tokens"] is None
        assert body["speceyes"]["usage_by_model"]["large"]["prompt_tokens"] > 0
        stream = events((await served.ask(stream=True, stream_options={"include_usage": True})).text)
        assert [e["usage"] for e in stream if isinstance(e, dict) and not e["choices"]] == [None]


@pytest.mark.parametrize(
    ("model", "route", "reason"), [("draft", "draft", "forced_draft"), ("agent", "agent", "forced_agent")]
)
async def test_a_route_can_be_forced(model: str, route: str, reason: str) -> None:
    async with running() as served:
        body = (await served.ask(model=f"speceyes/{model}")).json()
        assert (body["speceyes"]["route"], body["speceyes"]["reason"]) == (route, reason)
        assert body["choices"][0]["message"]["content"] == {"draft": "7", "agent": "8"}[route]
        assert body["model"] == f"speceyes/{model}"
        assert len(served.draft.completions) == (route == "draft")
        assert len(served.agent.completions) == 2 * (route == "agent")


async def test_the_draft_alone_returns_log_probs() -> None:
    async with running() as served:
        reply = await served.openai.chat.completions.create(
            **asked(model="speceyes/draft", logprobs=True, top_logprobs=3)
        )
        logprobs = reply.choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content is not None
        (token,) = logprobs.content
        assert (token.token, token.logprob, token.bytes) == ("7", -0.01, [55])
        assert [rival.logprob for rival in token.top_logprobs] == sorted(SURE, reverse=True)[:3]
        too_many = await served.ask(model="speceyes/draft", logprobs=True, top_logprobs=9)
        assert (too_many.status_code, too_many.json()["error"]["param"]) == (400, "top_logprobs")
        stream = await served.ask(model="speceyes/draft", logprobs=True, top_logprobs=3, stream=True)
        (with_text,) = [e for e in events(stream.text)[:-1] if e["choices"][0]["delta"].get("content")]
        assert len(with_text["choices"][0]["logprobs"]["content"][0]["top_logprobs"]) == 3


async def test_system_prompt_question_and_images_reach_both_models_in_order() -> None:
    red, blue = picture("red", (112, 112)), picture("blue", (224, 112))
    messages = [
        {"role": "developer", "content": "In French."},
        user(text_part("Compare"), image_part(red), text_part("with"), image_part(blue)),
    ]
    async with running(draft_says(top=UNSURE)) as served:
        assert (await served.ask(messages=messages)).status_code == 200
        for server in (served.draft, served.agent):
            said = sent_text(server)
            assert "In French." in said
            assert "Compare\n[image 1]\nwith\n[image 2]" in said
            first, second = sent_images(server)[:2]
            assert len(sent_images(server)) == 2
            assert first != second
        assert sent_images(served.draft) != []


async def test_a_follow_up_sees_the_image_and_what_was_said() -> None:
    messages = [
        user(image_part(), text_part("What colour is the car?")),
        {"role": "assistant", "content": "Red."},
        {"role": "user", "content": "And the door?"},
    ]
    async with running() as served:
        assert (await served.ask(messages=messages)).json()["speceyes"]["route"] == "draft"
        said = sent_text(served.draft)
        assert "Assistant: Red." in said
        assert said.index("What colour is the car?") < said.index("Red.") < said.index("And the door?")
        assert len(sent_images(served.draft)) == 1


async def test_an_image_of_an_earlier_turn_that_is_not_shown_again_is_told() -> None:
    messages = [user(image_part(), text_part("a?")), {"role": "assistant", "content": "b"}, *asked()["messages"]]
    async with running() as served:
        told = (await served.ask(messages=messages)).json()["speceyes"]
        assert told["notes"] == ["Images of earlier turns that were not shown again: 1."]


async def test_where_the_fields_go() -> None:
    """CASES: stop, seed, length and temperature, each to its phase; a user's stop string never stops the loop."""
    fields = {"temperature": 0.7, "top_p": 0.9, "seed": 7, "stop": ["zoom"], "presence_penalty": 0.5}
    async with running(draft_says(top=UNSURE)) as served:
        body = (await served.ask(**fields, max_completion_tokens=16, user="ann", metadata={"a": "b"})).json()
        assert body["choices"][0]["message"]["content"] == "8"
        (draft,) = (call.json for call in served.draft.completions)
        screen, *turns = (call.json for call in served.agent.completions)
        assert (draft["temperature"], draft["seed"], draft["max_tokens"], "stop" in draft) == (0, 7, 16, False)
        assert (screen["temperature"], screen["max_tokens"]) == (0, 1)
        for turn in turns:
            assert (turn["temperature"], turn["top_p"], turn["seed"], turn["presence_penalty"]) == (0.7, 0.9, 7, 0.5)
            assert "zoom" not in turn["stop"]
            assert turn["max_tokens"] > 16
        for name in ("user", "metadata", "max_completion_tokens", "n", "speceyes"):
            assert not any(name in call.json for call in (*served.draft.completions, *served.agent.completions))


async def test_stop_and_length_cut_the_final_answer() -> None:
    agent = agent_says("<think>stop here</think><answer>one two three four five</answer>")
    async with running(agent=agent) as served:
        stopped = (await served.ask(model="speceyes/agent", stop=[" three"])).json()["choices"][0]
        assert (stopped["message"]["content"], stopped["finish_reason"]) == ("one two", "stop")
        cut = (await served.ask(model="speceyes/agent", max_tokens=2)).json()["choices"][0]
        assert cut["finish_reason"] == "length"
        assert "one two three four five".startswith(cut["message"]["content"])
        assert cut["message"]["content"] != "one two three four five"


async def test_a_turn_limit_is_told() -> None:
    endless = agent_says(*[f"{ZOOM}".replace("112", str(112 + 56 * n)) for n in range(4)], "<answer>9</answer>")
    async with running(agent=endless, settings={"agent.max_turns": 2}) as served:
        for stream in (False, True):
            reply = await served.ask(model="speceyes/agent", stream=stream)
            body = events(reply.text)[-2] if stream else reply.json()
            assert body["speceyes"]["finish"] == "turn_limit"
            assert body["choices"][0]["finish_reason"] in ("stop", "length")


# Streams


async def test_an_accepted_draft_streams_when_the_gate_has_passed_it() -> None:
    async with running() as served:
        reply = await served.ask(stream=True)
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert (reply.headers["x-speceyes-route"], reply.headers["x-speceyes-reason"]) == ("draft", "accepted")
        first, content, end, done = events(reply.text)
        assert (first["choices"][0]["delta"], first["speceyes"]["route"]) == (
            {"role": "assistant", "content": ""},
            "draft",
        )
        assert content["choices"][0]["delta"] == {"content": "7"}
        assert (end["choices"][0]["finish_reason"], list(end["speceyes"])) == ("stop", EXTENSION)
        assert done == "[DONE]"
        assert "usage" not in first


@pytest.mark.parametrize("model", ["speceyes", "speceyes/agent", "speceyes/draft"])
async def test_token_counts_come_once_and_only_if_asked_for(model: str) -> None:
    async with running() as served:
        whole = (await served.ask(model=model)).json()
        for options, count in (({"include_usage": True}, 1), ({"include_usage": False}, 0), (None, 0)):
            stream = events((await served.ask(model=model, stream=True, stream_options=options)).text)
            counted = [e for e in stream if isinstance(e, dict) and e.get("usage")]
            assert len(counted) == count
            for chunk in counted:
                assert (chunk["choices"], chunk["usage"]) == ([], whole["usage"])
                assert stream[-2:] == [chunk, "[DONE]"]


async def test_an_agents_answer_streams_as_it_is_made() -> None:
    """The second word of the answer is written only after the client has seen the first one."""
    go = asyncio.Event()
    pieces = ["<answer>", LONG, " two", "</answer>"]

    async def pace() -> None:
        if len(served.agent.completions) and served.agent.completions[-1].sent == 2:
            await go.wait()

    agent = agent_says(Reply(tokens=pieces, pace=pace))
    async with running(agent=agent) as served:
        seen = ""
        async for chunk in await served.openai.chat.completions.create(**asked(model="speceyes/agent", stream=True)):
            seen += (chunk.choices[0].delta.content or "") if chunk.choices else ""
            if seen == LONG:
                go.set()
        assert seen == f"{LONG} two"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("asked_for", "by_default", "given"),
    [(True, False, True), (None, True, True), (None, False, False), (False, True, False)],
)
async def test_thoughts_are_given_when_they_are_asked_for(
    stream: bool, asked_for: bool | None, by_default: bool, given: bool
) -> None:
    async with running(settings={"serve.reasoning": by_default}) as served:
        reply = await served.ask(model="speceyes/agent", stream=stream, speceyes={"reasoning": asked_for})
        if stream:
            deltas = [c["delta"] for e in events(reply.text)[:-1] for c in e["choices"]]
            thoughts = "".join(delta.get("reasoning_content", "") for delta in deltas)
        else:
            thoughts = reply.json()["choices"][0]["message"].get("reasoning_content", "")
        assert thoughts == ("It is small.\n\nNow I see." if given else "")
        assert "tool_call" not in reply.text


async def test_progress_is_told_to_those_who_ask() -> None:
    async with running(draft_says(top=UNSURE)) as served:
        reply = await served.ask(stream=True, speceyes={"progress": True})
        told = [e["speceyes"] for e in events(reply.text)[:-1] if "phase" in e.get("speceyes", {})]
        assert [one["phase"] for one in told] == ["screen", "speculate", "gate", "fall_back", "fall_back", "fall_back"]
        assert told[2] | {"score": 0} == {
            "phase": "gate",
            "route": "agent",
            "reason": "below_threshold",
            "score": 0,
            "threshold": 6.0,
        }
        zoom = told[3]
        assert (zoom["turn"], zoom["tool"], zoom["crop"]["label"]) == (0, "image_zoom_in_tool", "sign")
        assert zoom["crop"]["box"] == pytest.approx(
            [56 * 600 / 588, 56 * 400 / 392, 112 * 600 / 588, 112 * 400 / 392], abs=0.01
        )
        assert all(e["choices"][0]["delta"] == {} for e in events(reply.text)[:-1] if "phase" in e.get("speceyes", {}))


async def test_a_silence_is_filled_with_comments_that_clients_skip() -> None:
    go = asyncio.Event()
    agent = agent_says(Reply("<answer>8</answer>", pace=go.wait))
    async with running(agent=agent, settings={"serve.keep_alive_s": 0.05}) as served:
        seen = b""
        async with served.http.stream(
            "POST", f"{served.url}/chat/completions", json=asked(model="speceyes/agent", stream=True)
        ) as reply:
            async for data in reply.aiter_raw():
                seen += data
                if seen.count(b": still working\n\n") >= 3:
                    go.set()
        assert contents(seen.decode()) == "8"


async def test_a_stream_begins_before_the_decision_if_that_takes_long() -> None:
    go = asyncio.Event()
    draft = Reply(tokens=[token_reply("7", SURE)], pace=go.wait)
    async with running(draft, settings={"serve.keep_alive_s": 0.05}) as served:
        async with served.http.stream("POST", f"{served.url}/chat/completions", json=asked(stream=True)) as reply:
            assert "x-speceyes-route" not in reply.headers
            go.set()
            text = (await reply.aread()).decode()
        assert contents(text) == "7"
        assert events(text)[-2]["speceyes"]["route"] == "draft"


# Failures


async def test_a_failure_in_the_middle_of_a_stream_is_an_error_event() -> None:
    agent = agent_says(Cut(Reply(tokens=["<answer>", LONG, " two", "</answer>"]), chunks=2))
    async with running(agent=agent) as served:
        reply = await served.ask(model="speceyes/agent", stream=True)
        assert reply.status_code == 200
        *_, last = events(reply.text)
        assert last["error"]["code"] == "upstream_unreachable"
        assert contents(reply.text.partition('data: {"error"')[0]) == LONG
        with pytest.raises(openai.APIError, match="broke"):
            async for _ in await served.openai.chat.completions.create(**asked(model="speceyes/agent", stream=True)):
                pass


@pytest.mark.parametrize(
    ("outcome", "status", "code"),
    [
        (Status(400, {"error": {"message": "too many images"}}), 400, "upstream_refused"),
        (Status(429, {"error": {"message": "busy"}}, {"retry-after": "7"}), 429, "upstream_overloaded"),
        (Status(503, "<html><title>Unavailable</title></html>"), 503, "upstream_overloaded"),
        (Status(500, "oops"), 502, "upstream_bad_reply"),
        (
            Status(200, '{"error": {"message": "no memory"}}', {"content-type": "application/json"}),
            502,
            "upstream_bad_reply",
        ),
        (Status(200, '{"choices": [', {"content-type": "application/json"}), 502, "upstream_bad_reply"),
        (Status(401, {"error": {"message": "bad key"}}), 502, "upstream_misconfigured"),
        (Cut(), 503, "upstream_unreachable"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_what_an_agents_server_does_wrong_has_its_own_status(
    outcome: Any, status: int, code: str, stream: bool
) -> None:
    async with running(agent=agent_says(outcome)) as served:
        reply = await served.ask(model="speceyes/agent", stream=stream)
        assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert reply.headers.get("retry-after") == ("7" if status == 429 else None)
        assert reply.headers["x-speceyes-request-id"]
        assert "Traceback" not in reply.text


@pytest.mark.parametrize("outcome", [Status(500, "no"), Cut(), Status(400, "no")])
async def test_a_draft_that_fails_costs_no_answer(outcome: Any) -> None:
    async with running(outcome) as served:
        told = (await served.ask()).json()["speceyes"]
        assert (told["route"], told["reason"]) == ("agent", "draft_failed")
        assert told["notes"]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_deadline_ends_a_request(stream: bool) -> None:
    async with running(agent=agent_says(Hang())) as served:
        reply = await served.ask(model="speceyes/agent", stream=stream, speceyes={"deadline_s": 0.5})
        if reply.status_code == 200:  # the head of the stream was out
            assert events(reply.text)[-1]["error"]["code"] == "deadline_exceeded"
        else:
            assert (reply.status_code, reply.json()["error"]["code"]) == (504, "deadline_exceeded")
        await served.agent.wait_until(lambda: served.agent.active == 0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("hanging", ["draft", "agent"])
async def test_who_hangs_up_stops_all_work_for_them(stream: bool, hanging: str) -> None:
    """Before the first byte, and in the middle of a stream; and the places are free again at once."""
    reply = Hang(Reply(tokens=["<answer>", "one", " two"]), chunks=2 if stream else 0)
    draft, agent = (Hang(), None) if hanging == "draft" else (None, agent_says(reply))
    async with running(draft, agent) as served:
        server = served.draft if hanging == "draft" else served.agent
        asking = asyncio.create_task(served.ask(model=f"speceyes/{hanging}", stream=stream))
        await server.wait_until(lambda: len(server.completions) == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await server.wait_until(lambda: server.completions[0].done)
        assert server.completions[0].closed_by_client
        async with asyncio.timeout(5):
            while served.gateway.access.admission.held:  # noqa: ASYNC110, it tells nobody
                await asyncio.sleep(0.01)
        assert (served.gateway.funnel.loops.held, served.gateway.funnel.stateless.held) == (0, 0)
        assert len(server.completions) == 1, "no further turn begins"


async def test_each_answer_belongs_to_its_own_picture() -> None:
    """CASES: many at a time, some given up; what a model is shown is what its own request held."""

    def answer(request: dict[str, Any], turn: int) -> Reply:
        (part,) = [
            p
            for m in request["messages"]
            if isinstance(m["content"], list)
            for p in m["content"]
            if p["type"] == "image_url"
        ]
        width = picture_width(part["image_url"]["url"])
        return Reply(tokens=[token_reply(str(width), SURE)])

    async with running(answer) as served:

        async def one(number: int) -> tuple[int, str | None]:
            width = 64 + 32 * (number % 12)
            url = data_url(picture(size=(width, 64)))
            messages = [user({"type": "image_url", "image_url": {"url": url}}, text_part(QUESTION))]
            asking = asyncio.create_task(served.ask(messages=messages, model="speceyes/draft"))
            if number % 3 == 0:
                await asyncio.sleep(0.001 * number)
                asking.cancel()
            try:
                return width, (await asking).json()["choices"][0]["message"]["content"]
            except asyncio.CancelledError:
                return width, None

        answers = await asyncio.gather(*map(one, range(36)))
        assert sum(said is not None for _, said in answers) >= 24
        assert all(said in (None, str(width)) for width, said in answers), answers


async def test_answers_are_strict_json() -> None:
    """A model may write half of a surrogate pair, and a log-prob may be no number."""
    rivals = [{"token": "\ud800", "logprob": value} for value in (-0.01, float("nan"), float("-inf"), *SURE[1:])]
    odd = {"token": "\ud800", "logprob": float("nan"), "top_logprobs": rivals}
    async with running(Reply(tokens=[odd])) as served:
        for model in ("speceyes/draft", "speceyes"):
            reply = await served.ask(model=model, speceyes={"trace": True})
            json.loads(reply.text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
            reply.content.decode("utf-8", "strict")
