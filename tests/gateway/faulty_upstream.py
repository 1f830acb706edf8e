"""Model servers that fail on demand, over real sockets: the question says which fault is wanted where.

    "What digit is it? [cut at turn no 17]"     the 17th request's first turn of the agent breaks off

So one pair of servers plays all faults at once, sound requests among them, and its ledger says who called how often.
`FAULTS` says of each fault what is right: whether a second try may help, whether the reply is usable all the same, what
becomes of a draft with it, and what a client is told where the agent cannot do without the call.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from gateway_server import SURE, ZOOM

from speceyes.engines.script import Entry, Logprobs
from speceyes.engines.scripted import Cut, Hang, Outcome, Payloads, Reply, Script, Status, token_reply
from speceyes.engines.scripted_http import Connection

DRAFT_KEY, AGENT_KEY = "sk-of-the-drafts-server-9c1e", "sk-of-the-agents-server-77ab"
KEY = "{the key that came with the request}"
"""What stands for it in a server's words."""
PICTURE_MARK = b"\x00marks the picture" * 8
"""Stands behind the picture's end, as cameras put things there; in base64 it is easy to look for."""
SHOWN = "data:image/png;base64," + base64.b64encode(PICTURE_MARK).decode()
"""The picture as a server repeats it."""

DRAFT_TEXT, AGENT_TEXT = "7", "8"
PLACES = ("draft", "screen", "turn", "late")
"""The draft, the screening, the agent's first turn, and the one after its first tool call."""

Make = Callable[[Reply], Outcome]

_ORDER = re.compile(r"\[([a-z0-9 ,:'-]+) at (\w+) no (\d+)\]")
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Fault:
    """One thing that a server does wrong.

    Attributes:
        make: What it answers in place of the sound reply.
        draft: Why a draft with it is refused; "accepted" where it is usable all the same.
        status: What the client gets where the agent cannot do without the call; 200 where the reply is usable.
        code: The same, in the error object.
        again: Whether it is tried again; never once a token has come.
        places: Where it makes sense.
    """

    make: Make
    draft: str = "draft_failed"
    status: int = 502
    code: str = "upstream_bad_reply"
    again: bool = False
    places: tuple[str, ...] = PLACES

    @property
    def harmless(self) -> bool:
        return self.status == 200


def order(fault: str, place: str, number: int) -> str:
    """What to write into a question."""
    return f"What digit is on the sign? [{fault} at {place} no {number}]"


def _slowly(seconds: float) -> Make:
    async def pace() -> None:
        await asyncio.sleep(seconds)

    return lambda reply: replace(reply, pace=pace)


def _says(code: int, message: str, **headers: str) -> Make:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda reply: Status(code, {"error": {"message": message, "type": "x", "code": code}}, named)


def _text(code: int, body: str | bytes, kind: str = "text/plain", **headers: str) -> Make:
    return lambda reply: Status(code, body, {"content-type": kind} | headers)


def _events(*events: Any) -> Make:
    return lambda reply: Payloads(events)


def _begun(*events: Any) -> Make:
    """Faults behind the first word."""
    word = {"choices": [{"index": 0, "delta": {"content": "7"}, "finish_reason": None}]}
    return lambda reply: Payloads([word, *events])


def _rivals(*logprobs: float | None) -> Make:
    def make(reply: Reply) -> Reply:
        rivals = [{"token": DRAFT_TEXT if n == 0 else f"w{n}", "logprob": value} for n, value in enumerate(logprobs)]
        return replace(reply, tokens=[{"token": DRAFT_TEXT, "logprob": logprobs[0], "top_logprobs": rivals}])

    return make


def _sent(form: Logprobs) -> Fault:
    return Fault(lambda reply: replace(reply, logprobs=form), "logprobs_missing", 200, "", places=("draft",))


def _draft(reason: str, make: Make) -> Fault:
    return Fault(make, reason, 200, "", places=("draft",))


def _other(text: str, **fields: Any) -> Make:
    return lambda reply: replace(reply, text=text, **fields)


_ERROR = {"error": {"message": "CUDA out of memory", "type": "x", "code": 500}}
_REFUSAL = {"error": {"message": "bad request", "type": "x", "code": 400}}
_LONG = "The server could not read the key. " * 10 + "So it says what it read: "
"""375 characters: with the key behind it, a message is longer than what is kept of one."""
_OVERLOADED: dict[str, Any] = {"status": 503, "code": "upstream_overloaded"}
_GONE: dict[str, Any] = {"status": 503, "code": "upstream_unreachable"}
_LATE: dict[str, Any] = {"status": 504, "code": "upstream_timeout"}
_WRONG: dict[str, Any] = {"status": 502, "code": "upstream_misconfigured"}
# In a later turn a 400 may mean that the history has outgrown the server; the loop has an answer to that.
_REFUSED: dict[str, Any] = {"status": 400, "code": "upstream_refused", "places": PLACES[:3]}
_NINES = [-9999.0] * 7

FAULTS: dict[str, Fault] = {
    # too slow; what is slow and whole is an answer
    "silence": Fault(lambda reply: Hang(), **_LATE),
    "silence after a word": Fault(lambda reply: Hang(reply, 1), **_LATE),
    "slow bytes": Fault(_slowly(60), **_LATE),
    "slow and whole": Fault(_slowly(0.05), "accepted", 200),
    # the status says it
    "500": Fault(_text(500, "oops"), again=True),
    "500 in json": Fault(_says(500, "boom"), again=True),
    "502 of a proxy": Fault(_text(502, "<html><title>Bad Gateway</title></html>", "text/html"), again=True),
    "503 in html": Fault(_text(503, "<html><h1>Sorry</h1></html>", "text/html"), again=True, **_OVERLOADED),
    "429 for long": Fault(_says(429, "slow down", retry_after="70"), status=429, code="upstream_overloaded"),
    "429 for a moment": Fault(
        _says(429, "slow down", retry_after="0"), status=429, code="upstream_overloaded", again=True
    ),
    "400": Fault(_says(400, "no"), **_REFUSED),
    "400 with the picture": Fault(_says(400, f"cannot read {SHOWN}"), **_REFUSED),
    "500 with the picture": Fault(_text(500, f"failed on {SHOWN}"), again=True),
    "401 with the key": Fault(_says(401, f"Incorrect API key: {KEY}."), **_WRONG),
    "401 with the key at the edge": Fault(_says(401, f"{_LONG}{KEY}"), **_WRONG),
    "500 with the key at the edge": Fault(_text(500, f"{_LONG}{KEY}"), again=True),
    "404 no such model": Fault(_says(404, "The model `x` does not exist."), **_WRONG),
    # Names of snapshots, paths and aliases differ from what was asked for on sound servers too, so it is no fault.
    "another name": Fault(lambda reply: replace(reply, model="another-2026"), "accepted", 200),
    "redirect": Fault(_text(307, "", location="http://127.0.0.1:9/v1/chat/completions"), **_WRONG),
    # the connection breaks
    "cut": Fault(lambda reply: Cut(), again=True, **_GONE),
    "reset": Fault(lambda reply: Cut(reset=True), again=True, **_GONE),
    "cut after a word": Fault(lambda reply: Cut(reply, 1), **_GONE),
    "cut before usage": Fault(lambda reply: Cut(reply, len(reply.tokens or ()) + 1), "accepted", 200),
    "body cut": Fault(_text(200, '{"choices": [{"mess', "application/json", **{"content-length": "900"}), **_GONE),
    # what comes is no reply
    "empty body": Fault(_text(200, "", "application/json"), again=True),
    "web page": Fault(_text(200, "<html><body>Log in</body></html>", "text/html"), again=True),
    "half json": Fault(_text(200, '{"choices": [', "application/json")),
    "no choices": Fault(_text(200, "{}", "application/json"), again=True),
    "bytes": Fault(_text(200, bytes(range(256)), "application/json"), again=True),
    "broken gzip": Fault(_text(200, "no gzip", "application/json", **{"content-encoding": "gzip"})),
    "error with 200": Fault(lambda reply: Status(200, _ERROR, _JSON), again=True),
    "the key with 200": Fault(lambda reply: Status(200, {"error": {"message": f"wrong: {KEY}"}}, _JSON), again=True),
    "refusal with 200": Fault(lambda reply: Status(200, _REFUSAL, _JSON), places=PLACES[:3]),
    "no events": Fault(_events(), again=True, **_GONE),
    "only done": Fault(_events("[DONE]"), again=True),
    "garbage events": Fault(_events("{not json"), again=True),
    "list events": Fault(_events("[1, 2]", "[DONE]"), again=True),
    "error event": Fault(_events(_ERROR), again=True),
    "garbage after a word": Fault(_begun("{not json")),
    "error after a word": Fault(_begun(_ERROR)),
    # a draft that says nothing of how sure it is
    "logprobs null": _sent(Logprobs.NULL),
    "logprobs missing": _sent(Logprobs.MISSING),
    "logprobs empty": _sent(Logprobs.EMPTY),
    "logprobs with null content": _sent(Logprobs.NULL_CONTENT),
    "logprobs without rivals": _sent(Logprobs.NO_TOP),
    "logprobs of other words": _draft("logprobs_misaligned", _other("9")),
    "logprobs of a part": _draft("logprobs_misaligned", _other("7 or 9")),
    "too few logprobs": _draft("logprobs_too_few", _rivals(*SURE[:5])),
    "-9999": _draft("logprobs_too_few", _rivals(-0.01, *_NINES)),
    "-inf": _draft("logprobs_too_few", _rivals(-0.01, *[float("-inf")] * 7)),
    "nan": _draft("logprobs_too_few", _rivals(-0.01, *[float("nan")] * 7)),
    "null among logprobs": _draft("logprobs_too_few", _rivals(*SURE[:6], None, None)),
    "positive logprobs": _draft("score_undefined", _rivals(0.9, *SURE[1:])),
    "equal rivals": _draft("score_undefined", _rivals(-0.01, *[-6.0] * 7)),
    "no words": _draft("empty_answer", lambda reply: Reply("", tokens=[])),
    "cut off": _draft("truncated_answer", _other("", finish_reason="length")),
}


class Stage:
    """What both servers do, and what came of it.

    Attributes:
        calls: How often each request, by its number, called each place.
    """

    def __init__(self) -> None:
        self.calls: Counter[tuple[int, str]] = Counter()

    def calls_of(self, number: int) -> dict[str, int]:
        return {place: n for (of, place), n in self.calls.items() if of == number}

    @property
    def draft(self) -> Script:
        reply = Reply(tokens=[token_reply(DRAFT_TEXT, SURE)])
        return lambda request, turn: self._play("draft", reply, request)

    @property
    def agent(self) -> Script:
        answer = f"<think>Now I see.</think><answer>{AGENT_TEXT}</answer>"

        def script(request: dict[str, Any], turn: int) -> Outcome:
            if request.get("max_tokens") == 1:
                return self._play("screen", Reply(tokens=[_screening()]), request)
            late = any(message["role"] == "assistant" for message in request["messages"])
            text = answer if late else f"<think>It is small.</think>{ZOOM}"
            return self._play("late" if late else "turn", Reply(tokens=[text[:9], text[9:]]), request)

        return script

    def _play(self, place: str, sound: Reply, request: dict[str, Any]) -> Outcome:
        found = _ORDER.search(json.dumps(request["messages"]))
        if found is None:
            return sound
        fault, where, number = found.groups()
        self.calls[int(number), place] += 1
        if where != place or fault not in FAULTS:
            return sound
        return _with_key(FAULTS[fault].make(sound), DRAFT_KEY if place == "draft" else AGENT_KEY)


def _with_key(outcome: Outcome, key: str) -> Outcome:
    if not isinstance(outcome, Status) or isinstance(outcome.body, bytes):
        return outcome
    body = outcome.body if isinstance(outcome.body, str) else json.dumps(outcome.body)
    kind = {} if isinstance(outcome.body, str) else _JSON
    return replace(outcome, body=body.replace(KEY, key), headers=kind | dict(outcome.headers))


def _screening() -> Entry:
    return token_reply("no", [("no", -0.02), ("yes", -4.0)])


@asynccontextmanager
async def raw_server(*pieces: bytes, pause_s: float = 0.0) -> AsyncIterator[str]:
    """A server that answers every request with these bytes, whatever HTTP says of them, and closes; yields its URL."""
    tasks: set[asyncio.Task[Any]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())  # type: ignore[arg-type]
        try:
            if await Connection(reader, writer).next_request() is not None:
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(pause_s)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield "http://{}:{}".format(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
