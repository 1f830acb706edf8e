"""Model servers that fail in every way: none is lost, none is accepted without confidence, retries stay in budget.

Counted: every fault in every place where it makes sense, whole and streamed, all at the same time and between sound
requests. What is right for each stands in `faulty_upstream.FAULTS`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from faulty_upstream import (
    AGENT_KEY,
    AGENT_TEXT,
    DRAFT_KEY,
    DRAFT_TEXT,
    FAULTS,
    PICTURE_MARK,
    PLACES,
    Stage,
    order,
    raw_server,
)
from gateway_server import ZOOM, Running, agent_says, data_url, draft_says, events, picture, running, text_part, user

from speceyes.engines.scripted import Cut, Hang, Outcome, Payloads, Reply, Status
from speceyes.gateway.observe.logs import LOGGER
from speceyes.store import Store

CLIENT_KEY = "sk-of-the-client-31f0-and-longer"
RETRIES, BUDGET = 2, 4
"""Of each call, and of all calls of one request; the defaults, as docs/settings.md has them."""

SETTINGS: dict[str, Any] = {
    "draft.api_key": DRAFT_KEY,
    "agent.api_key": AGENT_KEY,
    "access.api_key": CLIENT_KEY,
    "draft.retries": RETRIES,
    "agent.retries": RETRIES,
    "funnel.retries": BUDGET,
    "funnel.stateless": 48,
    "funnel.loops": 48,
    "breaker.failures": 100_000,
    "observe.log": True,
    "serve.keep_alive_s": 600,
}

PICTURE = picture("red", (64, 64)) + PICTURE_MARK
MARKS = [base64.b64encode(PICTURE_MARK[shift:]).decode()[4:44] for shift in range(3)]
"""Of the picture in base64, wherever in a group of three bytes the mark begins."""


@pytest.fixture
def log() -> Iterator[list[str]]:
    """All that is logged, the lines of the request log among it."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(logging.Formatter().format(record))

    handler, loggers = Keep(), [logging.getLogger(name) for name in (None, LOGGER)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    yield lines
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


@dataclass(frozen=True)
class Case:
    """One request, and the fault that it meets."""

    number: int
    fault: str
    place: str
    stream: bool

    @property
    def model(self) -> str:
        return "speceyes/agent" if self.place in ("turn", "late") else "speceyes"

    @property
    def expected_calls(self) -> dict[str, int]:
        """Requests that reach the servers, by place."""
        fault = FAULTS.get(self.fault)
        tries = 1 + RETRIES if fault and fault.again else 1
        sound = fault is None or fault.harmless
        match self.place:
            case "draft":
                by_draft = fault is not None and fault.draft == "accepted"
                return {"screen": 1, "draft": tries} | ({} if by_draft else {"turn": 1, "late": 1})
            case "screen":
                return {"screen": tries} | ({"draft": 1} if sound else {"turn": 1, "late": 1})
            case "turn":
                return {"turn": tries} | ({"late": 1} if sound else {})
            case "late":
                return {"turn": 1, "late": tries}
        return {"screen": 1, "draft": 1}

    @property
    def expected(self) -> tuple[str, str]:
        """(reason, answer), or (code, "") where there can be no answer."""
        fault = FAULTS.get(self.fault)
        match self.place:
            case "draft" if fault is not None and fault.draft != "accepted":
                return fault.draft, AGENT_TEXT
            case "screen" if fault is not None and not fault.harmless:
                return "screen_failed", AGENT_TEXT
            case "turn" | "late" if fault is not None:
                return ("forced_agent", AGENT_TEXT) if fault.harmless else (fault.code, "")
        return "accepted", DRAFT_TEXT


@dataclass(frozen=True)
class Outcomes:
    """What a client found in a response."""

    status: int
    reason: str
    text: str
    told: dict[str, Any]
    raw: str


def all_cases() -> list[Case]:
    """Every fault but those that only time tells, in every place, whole and streamed, and sound requests between."""
    wanted = [("nothing", "nowhere", stream) for stream in (False, True)]
    for name, fault in FAULTS.items():
        places = () if fault.code == "upstream_timeout" else fault.places
        wanted += [(name, place, stream) for place in places for stream in (False, True)]
        wanted.append(("nothing", "nowhere", len(wanted) % 4 == 0))
    return [Case(number, *one) for number, one in enumerate(wanted)]


async def ask_all(served: Running, cases: list[Case], at_once: int = 48) -> list[Outcomes]:
    places = asyncio.Semaphore(at_once)

    async def one(case: Case) -> Outcomes:
        async with places:
            return await ask(served, case)

    return await asyncio.gather(*map(one, cases))


async def ask(served: Running, case: Case) -> Outcomes:
    image = {"type": "image_url", "image_url": {"url": data_url(PICTURE)}}
    body = {
        "model": case.model,
        "messages": [user(image, text_part(order(case.fault, case.place, case.number)))],
        "stream": case.stream,
        "speceyes": {"trace": True},
    }
    reply = await served.post(body, headers={"authorization": f"Bearer {CLIENT_KEY}"}, timeout=300)
    raw = reply.text + str(reply.headers)
    if reply.status_code != 200 or not case.stream:
        body = reply.json()
    else:
        *chunks, last = [event for event in events(reply.text) if not str(event).startswith(":")]
        if last != "[DONE]":
            return refusal(200, last, raw)
        text = "".join(c["delta"].get("content") or "" for e in chunks for c in e["choices"])
        body = chunks[-1] | {"choices": [{"message": {"content": text}}]}
    if "error" in body:
        return refusal(reply.status_code, body, raw)
    told = body["speceyes"]
    return Outcomes(200, told["reason"], body["choices"][0]["message"]["content"], told, raw)


def refusal(status: int, body: dict[str, Any], raw: str) -> Outcomes:
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return Outcomes(status, body["error"]["code"], "", body["error"], raw)


async def test_every_fault_in_every_place_at_the_same_time(tmp_path: Path, log: list[str]) -> None:
    cases, stage, url = all_cases(), Stage(), f"sqlite:///{tmp_path / 'requests.db'}"
    settings = SETTINGS | {"store.enabled": True, "store.url": url}
    async with running(stage.draft, stage.agent, settings) as served:
        found = await ask_all(served, cases)
        header = {"authorization": f"Bearer {CLIENT_KEY}"}
        ready = (await served.http.get(served.url.replace("/v1", "/ready"))).text
        assert (await served.http.get(f"{served.url}/models", headers=header)).status_code == 200
        assert (served.gateway.access.admission.held, served.gateway.access.admission.waiting) == (0, 0)
        assert (served.gateway.funnel.loops.held, served.gateway.funnel.stateless.held) == (0, 0)
        metrics = served.gateway.observer.metrics.text().decode()
        everything = [*served.draft.requests, *served.agent.requests]

    # every one gets an answer or a clear error, and the right one
    pairs = list(zip(cases, found, strict=True))
    wrong = [f"{case}: {one.raw}" for case, one in pairs if (one.reason, one.text) != case.expected]
    assert not wrong, "\n".join(wrong)
    counted = Counter("answer" if one.text else "error" for one in found)
    errors = sum(not case.expected[1] for case in cases)
    assert counted == {"answer": len(cases) - errors, "error": errors}
    assert len(cases) > 300
    assert errors > 100

    # none is accepted without confidence
    accepted = [(case, one) for case, one in pairs if one.reason == "accepted"]
    for case, one in accepted:
        assert case.place != "draft" or FAULTS[case.fault].draft == "accepted"
        assert one.told["score"] >= one.told["threshold"] == 6.0
    for case, one in pairs:
        if case.place == "draft" and FAULTS[case.fault].draft not in ("accepted", "below_threshold"):
            assert one.told["score"] is None

    # retries are not multiplied, and the answer says how many there were
    for case, one in pairs:
        calls = stage.calls_of(case.number)
        assert calls == case.expected_calls, case
        assert sum(calls.values()) <= len(calls) + BUDGET
        if one.text:
            by_model = {"small": calls.get("draft", 0), "large": sum(calls.values()) - calls.get("draft", 0)}
            assert one.told["trace"]["attempts"] == {name: n for name, n in by_model.items() if n}
    assert sum(stage.calls.values()) == len([call for call in everything if call.path.endswith("completions")])
    assert all(call.done for call in everything)

    # none is lost: each is counted and recorded once
    total = sum(
        float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line.startswith("speceyes_requests_total{")
    )
    assert total == len(cases)
    async with await Store.open(url) as store:
        records = [record async for record in store.iterate()]
    assert len({record.id for record in records}) == len(records) == len(cases)
    assert Counter(record.error is None for record in records) == {True: counted["answer"], False: errors}

    # keys and pictures are in nothing that is said, written down or logged
    spoken = [*(one.raw for one in found), ready, metrics, *log]
    kept = (tmp_path / "requests.db").read_bytes().decode("latin-1")
    for secret in (DRAFT_KEY, AGENT_KEY, CLIENT_KEY, *(key[:16] for key in (DRAFT_KEY, AGENT_KEY)), *MARKS):
        guilty = [text for text in (*spoken, kept) if secret in text]
        assert guilty == [], secret
    assert sum("request_id" in line for line in log) == len(cases)


@pytest.mark.parametrize("place", PLACES)
async def test_a_server_that_is_too_slow_is_given_up_and_not_asked_again(place: str) -> None:
    """Only the server at fault has a short time-out, and only in calls that hang: nobody is late by chance."""
    late = [name for name, fault in FAULTS.items() if fault.code == "upstream_timeout"]
    cases = [Case(10 * n + stream, name, place, bool(stream)) for n, name in enumerate(late) for stream in (0, 1)]
    stage, role = Stage(), "draft" if place == "draft" else "agent"
    async with running(stage.draft, stage.agent, SETTINGS | {f"{role}.timeout_s": 4}) as served:
        found = await ask_all(served, cases)
        await served.agent.wait_until(lambda: served.agent.active == served.draft.active == 0)
        hung = [call for call in (*served.agent.completions, *served.draft.completions) if call.closed_by_client]
    for case, one in zip(cases, found, strict=True):
        assert (one.reason, one.text) == case.expected, (case, one.raw)
        assert stage.calls_of(case.number) == case.expected_calls
    assert len(hung) == len(cases), "a call that is given up is cancelled"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("role", ["draft", "agent"])
async def test_a_server_that_is_not_there(role: str, stream: bool) -> None:
    settings = {f"{role}.url": "http://127.0.0.1:9", f"{role}.model": "gone", f"{role}.retries": 1}
    async with running(settings=settings) as served:
        reply = await served.ask(stream=stream)
        if role == "agent":
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "upstream_unreachable")
            assert len(served.draft.completions) == 0, "without a screening there is nothing to accept"
        else:
            body = events(reply.text)[-2] if stream else reply.json()
            assert (body["speceyes"]["route"], body["speceyes"]["reason"]) == ("agent", "draft_failed")
            assert "cannot connect" in body["speceyes"]["notes"][0]


WHOLE = b'{"choices": [{"index": 0, "message": {"content": "7"}, "finish_reason": "stop"}]}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
RAW: dict[str, list[bytes]] = {
    "no HTTP": [b"\x16\x03\x01 hello"],
    "half a head": [b"HTTP/1.1 200 OK\r\ncontent-ty"],
    "a bad chunk": [HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n" + WHOLE],
    "no end of the chunks": [HEAD + b"transfer-encoding: chunked\r\n\r\n", b"%x\r\n" % len(WHOLE), WHOLE[:20]],
    "an endless head": [HEAD, *[b"x-%d: %s\r\n" % (n, b"y" * 1000) for n in range(200)]],
}


@pytest.mark.parametrize("kind", RAW)
async def test_what_is_no_http_is_a_clear_error_and_costs_a_draft_only_its_chance(kind: str) -> None:
    async with raw_server(*RAW[kind]) as url:
        async with running(settings={"draft.url": url, "draft.model": "m"}) as served:
            told = (await served.ask()).json()["speceyes"]
            assert (told["route"], told["reason"]) == ("agent", "draft_failed")
        async with running(settings={"agent.url": url, "agent.model": "m"}) as served:
            for stream in (False, True):
                reply = await served.ask(model="speceyes/agent", stream=stream)
                assert (reply.status_code, set(reply.json())) in ((502, {"error"}), (503, {"error"}))


async def test_a_reply_that_comes_byte_by_byte_is_read_to_its_end() -> None:
    """Slow bytes are no fault; without log-probs it is no draft either."""
    body = HEAD + b"content-length: %d\r\n\r\n" % len(WHOLE) + WHOLE
    async with (
        raw_server(*(body[n : n + 1] for n in range(len(body))), pause_s=0.001) as url,
        running(settings={"draft.url": url, "draft.model": "m"}) as served,
    ):
        forced = (await served.ask(model="speceyes/draft")).json()
        assert forced["choices"][0]["message"]["content"] == "7"
        assert (await served.ask()).json()["speceyes"]["reason"] == "logprobs_missing"


async def test_a_redirect_is_not_followed_and_takes_no_key_along() -> None:
    async with running(settings=SETTINGS) as trap:
        for base in (trap.draft.url, trap.agent.url):
            away = Status(307, "", {"location": f"{base}/v1/chat/completions"})
            async with running(
                away, agent_says(away), {"draft.api_key": DRAFT_KEY, "agent.api_key": AGENT_KEY}
            ) as served:
                for model in ("speceyes", "speceyes/agent", "speceyes/draft"):
                    assert (await served.ask(model=model)).status_code == 502
        assert trap.draft.completions == trap.agent.completions == []


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("tools", [False, True])
async def test_what_is_passed_on_comes_back_without_our_key(stream: bool, tools: bool) -> None:
    """Requests without an image, and those of clients with a loop of their own, meet the same servers."""
    long = "x" * 380
    replies: list[Outcome] = [
        Status(401, {"error": {"message": f"Incorrect API key: {AGENT_KEY}"}}),
        Status(400, {"error": {"message": f"{long} {AGENT_KEY}"}}),
        Status(500, f"{long} {AGENT_KEY}"),
        Status(200, {"error": {"message": f"wrong: {AGENT_KEY}"}}, {"content-type": "application/json"}),
        Payloads([{"error": {"message": f"{long} {AGENT_KEY}"}}]),
    ]
    fields: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "zoom"}}]} if tools else {}
    for reply in replies:
        async with running(agent=reply, settings={"agent.api_key": AGENT_KEY}) as served:
            said = await served.ask(messages=[{"role": "user", "content": "Hi"}], stream=stream, **fields)
            assert said.status_code >= 400
            assert AGENT_KEY[:8] not in said.text + str(said.headers)


# Retries


async def test_a_failure_in_the_fourth_turn_is_repeated_there_and_not_from_the_beginning() -> None:
    """CASE 25."""
    zooms = [ZOOM.replace("112", str(112 + 56 * n)) for n in range(3)]
    failed: list[int] = []

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        outcome = agent_says(*zooms, "<answer>8</answer>")(request, turn)
        if sum(message["role"] == "assistant" for message in request["messages"]) == 3 and not failed:
            failed.append(turn)
            return Status(500, "once")
        return outcome

    async with running(agent=agent, settings=SETTINGS | {"access.api_key": ""}) as served:
        body = (await served.ask(model="speceyes/agent", speceyes={"trace": True})).json()
        assert body["choices"][0]["message"]["content"] == "8"
        assert len(served.agent.completions) == 5
        assert body["speceyes"]["trace"]["attempts"] == {"large": 5}
        assert body["speceyes"]["usage_by_model"]["large"]["calls"] == 5
        first, *_, last = [len(call.json["messages"]) for call in served.agent.completions]
        assert last > first


async def test_all_calls_of_a_request_share_one_budget_of_retries() -> None:
    """CASE 25: each turn stumbles once; after four retries in all the fifth stumble ends the request."""
    zooms = [ZOOM.replace("112", str(112 + 28 * n)) for n in range(8)]
    seen: Counter[int] = Counter()

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        number = sum(message["role"] == "assistant" for message in request["messages"])
        seen[number] += 1
        return Status(500, "stumble") if seen[number] == 1 else Reply(zooms[number])

    settings = SETTINGS | {"access.api_key": "", "agent.max_turns": 8}
    async with running(agent=agent, settings=settings) as served:
        reply = await served.ask(model="speceyes/agent")
        assert (reply.status_code, reply.headers["x-should-retry"]) == (502, "false")
        assert len(served.agent.completions) == 4 * 2 + 1


@pytest.mark.parametrize("fault", [Status(500, "no"), Status(503, "<html>no</html>"), Cut(), Status(502, "no")])
@pytest.mark.parametrize("stream", [False, True])
async def test_openais_client_does_not_multiply_the_retries(fault: Outcome, stream: bool) -> None:
    """CASE 25: their two retries on top of our two would be nine requests to a server that is in trouble."""
    async with running(agent=agent_says(fault), settings=SETTINGS | {"access.api_key": ""}) as served:
        client = openai.AsyncOpenAI(base_url=served.url, api_key="none", max_retries=2, timeout=300)
        image = {"type": "image_url", "image_url": {"url": data_url(PICTURE)}}
        with pytest.raises(openai.InternalServerError):
            await client.chat.completions.create(
                model="speceyes/agent", messages=[user(image, text_part("?"))], stream=stream
            )
        assert len(served.agent.completions) == 1 + RETRIES
        await client.close()


async def test_after_its_first_word_a_stream_is_never_begun_again() -> None:
    """CASE 25: the text would come twice."""
    words = ["<answer>", *[f"word{n} and so it goes on and on. " for n in range(12)], "</answer>"]
    async with running(
        agent=agent_says(Cut(Reply(tokens=words), 9)), settings=SETTINGS | {"access.api_key": ""}
    ) as served:
        *chunks, last = events((await served.ask(model="speceyes/agent", stream=True)).text)
        text = "".join(c["delta"].get("content") or "" for e in chunks for c in e["choices"])
        assert text.count("word0") == 1
        assert "".join(words[1:]).startswith(text)
        assert last["error"]["code"] == "upstream_unreachable"
        assert len(served.agent.completions) == 1


async def test_a_draft_that_is_down_is_left_alone_while_many_ask() -> None:
    """Who was under way when the circuit opened may still fail; after that nobody asks, and all get an answer."""
    settings = SETTINGS | {"access.api_key": "", "breaker.failures": 5, "breaker.pause_s": 600, "funnel.stateless": 8}
    async with running(Status(500, "down"), settings=settings | {"draft.retries": 0}) as served:
        replies = await asyncio.gather(*(served.ask(stream=bool(n % 2)) for n in range(60)))
        routes = Counter(reply.headers["x-speceyes-reason"] for reply in replies)
        assert routes == {"draft_failed": 60}
        assert 5 <= len(served.draft.completions) <= 5 + 8


async def test_a_draft_that_is_never_sure_is_never_accepted_by_any_stand_in() -> None:
    """With the agent down, and drafts allowed to stand in for it, one without confidence still does not."""
    settings = SETTINGS | {
        "access.api_key": "",
        "breaker.failures": 1,
        "breaker.pause_s": 600,
        "funnel.draft_when_agent_down_threshold": 6.5,
        "agent.retries": 0,
    }
    for name, fault in FAULTS.items():
        if fault.places == ("draft",):
            stage = Stage()
            async with running(stage.draft, Status(500, "down"), settings) as served:
                assert (await served.ask()).status_code == 503
                case = Case(1, name, "draft", stream=False)
                one = await ask(served, case)
                assert (one.status, one.reason) == (503, "upstream_unreachable"), name
    async with running(draft_says(), Status(500, "down"), settings) as served:
        await served.ask()
        assert (await served.ask()).json()["speceyes"]["reason"] == "agent_down", "a sure one does"


async def test_hanging_requests_do_not_keep_others_waiting() -> None:
    """Two of three places for loops are taken by a server that says nothing; accepted drafts pass all the same."""

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        hangs = request.get("max_tokens") != 1
        return Hang() if hangs else agent_says()(request, turn)

    async with running(agent=agent, settings={"funnel.loops": 3}) as served:
        stuck = [asyncio.create_task(served.ask(model="speceyes/agent")) for _ in range(2)]
        await served.agent.wait_until(lambda: served.agent.active == 2)
        answers = [(await served.ask()).json()["speceyes"]["route"] for _ in range(5)]
        assert answers == ["draft"] * 5
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        await served.agent.wait_until(lambda: served.agent.active == 0)
