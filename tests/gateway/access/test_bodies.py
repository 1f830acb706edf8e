"""Bodies: whole, within limits, and refused in a way that a client gets to read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn

from speceyes.errors import ConfigError
from speceyes.gateway.access.bodies import Bodies, BodyLimits
from speceyes.gateway.access.refusals import BodyTooSlow, ClientGone, Full
from speceyes.gateway.wire.errors import ApiError

SMALL = BodyLimits(max_bytes=100, max_total_bytes=100)


def channel(*chunks: bytes, end: str = "done"):
    """An ASGI receive that hands out these chunks, and then is done, gone or silent."""
    left: list[dict[str, Any]] = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    if end == "done":
        left[-1]["more_body"] = False
    if end == "gone":
        left.append({"type": "http.disconnect"})

    async def receive() -> dict[str, Any]:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def length(size: int | bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-length", size if isinstance(size, bytes) else str(size).encode())]


@pytest.mark.parametrize("chunks", [(b"",), (b"abc",), (b"ab", b"", b"c"), (b"a" * 60, b"b" * 40), (b"", b"x", b"")])
@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_comes_whole_and_its_memory_counts_until_the_end(
    chunks: tuple[bytes, ...], announced: bool
) -> None:
    bodies, whole = Bodies(SMALL), b"".join(chunks)
    async with bodies.read(length(len(whole)) if announced else [], channel(*chunks)) as body:
        assert bytes(body) == whole
        assert bodies.memory.held == len(whole)
    assert bodies.memory.held == 0


async def refused(bodies: Bodies, headers: Iterable[tuple[bytes, bytes]], receive: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        async with bodies.read(headers, receive):
            pytest.fail("read")
    assert bodies.memory.held == 0
    return caught.value


async def test_an_announced_body_above_the_limit_is_refused_with_the_number() -> None:
    error = await refused(Bodies(SMALL), length(101), channel(b"x" * 101))
    assert error.status == 413
    assert str(error) == "The limit for a request is 100 bytes, and this is a body of 101 bytes."


async def test_a_client_that_waits_for_leave_is_refused_before_it_sends_anything() -> None:
    async def receive() -> dict[str, Any]:
        raise AssertionError("asked for the body, which makes the server say 100 Continue")

    error = await refused(Bodies(SMALL), [*length(101), (b"expect", b"100-continue")], receive)
    assert error.status == 413


async def test_a_body_that_grows_above_the_limit_is_refused() -> None:
    error = await refused(Bodies(SMALL), [], channel(*[b"x" * 30] * 4))
    assert error.status == 413
    assert "100 bytes, and this is more than that" in str(error)


async def test_a_false_announcement_does_not_help() -> None:
    assert (await refused(Bodies(SMALL), length(3), channel(b"x" * 101))).status == 413


@pytest.mark.parametrize("headers", [length(150), []])
async def test_what_a_refused_client_still_sends_is_taken_in_but_not_without_end(headers: Any) -> None:
    """Else its system would drop the refusal, and it would see a broken connection."""
    taken = 0

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 30
        return {"type": "http.request", "body": b"x" * 30, "more_body": taken < 150}

    assert (await refused(Bodies(SMALL), headers, receive)).status == 413
    assert taken == (120 if headers else 150)

    async def endless() -> dict[str, Any]:
        nonlocal taken
        taken += 30
        return {"type": "http.request", "body": b"x" * 30, "more_body": True}

    taken = 0
    assert (await refused(Bodies(SMALL), headers, endless)).status == 413
    assert taken <= 300


async def test_nobody_lingers_for_ever_on_a_refused_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.gateway.access.bodies._LINGER_S", 0.01)
    assert (await refused(Bodies(SMALL), length(101), channel(b"x", end="silent"))).status == 413
    assert (await refused(Bodies(SMALL), length(101), channel(b"x", end="gone"))).status == 413


@pytest.mark.parametrize("written", [b"ten", b"-1", b"1.5", b"", b"9" * 30, b"\xb2"])
async def test_a_length_that_is_no_number_is_refused(written: bytes) -> None:
    assert (await refused(Bodies(SMALL), length(written), channel(b"x"))).status == 400


@pytest.mark.parametrize("coding", [b"gzip", b"br", b"gzip, identity"])
async def test_a_compressed_body_is_refused(coding: bytes) -> None:
    assert (await refused(Bodies(SMALL), [(b"Content-Encoding", coding)], channel(b"x"))).status == 415


async def test_a_client_that_leaves_is_noticed() -> None:
    assert isinstance(await refused(Bodies(SMALL), length(10), channel(b"x", end="gone")), ClientGone)


async def test_a_silent_client_is_given_up() -> None:
    limits = BodyLimits(max_bytes=100, max_total_bytes=100, grace_s=0.01)
    error = await refused(Bodies(limits), length(10), channel(b"x", end="silent"))
    assert isinstance(error, BodyTooSlow)
    assert (error.status, str(error)) == (408, "The request's body came too slowly: 1 bytes so far.")


async def test_a_drip_is_given_up_although_it_is_never_silent() -> None:
    limits = BodyLimits(max_bytes=10**6, max_total_bytes=10**6, grace_s=0.02, min_bytes_per_s=10**6)

    async def drip() -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"x", "more_body": True}

    assert (await refused(Bodies(limits), [], drip)).status == 408


async def test_a_whole_body_has_a_time_limit_at_any_pace() -> None:
    limits = BodyLimits(max_bytes=10**9, max_total_bytes=10**9, timeout_s=0.02, min_bytes_per_s=1)

    async def steady() -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    assert (await refused(Bodies(limits), [], steady)).status == 408


async def test_twenty_large_bodies_wait_for_each_other() -> None:
    """Twenty of 60 (of whatever) with room for three: all are read, and never more than three at a time."""
    bodies, most, done = Bodies(BodyLimits(max_bytes=60, max_total_bytes=180)), 0, 0

    async def one(announced: bool) -> None:
        nonlocal most, done
        async with bodies.read(length(60) if announced else [], channel(*[b"x" * 20] * 3)) as body:
            most = max(most, bodies.memory.held)
            assert len(body) == 60
            await asyncio.sleep(0)
            done += 1

    await asyncio.wait_for(asyncio.gather(*(one(bool(number % 2)) for number in range(20))), 60)
    assert (done, most, bodies.memory.held) == (20, 180, 0)


async def test_waiting_for_memory_ends_with_429() -> None:
    bodies = Bodies(BodyLimits(max_bytes=100, max_total_bytes=100, max_wait_s=0.01))
    async with bodies.read(length(60), channel(b"x" * 60)):
        with pytest.raises(Full, match="Too many large requests") as caught:
            async with bodies.read(length(60), channel(b"x" * 60)):
                pytest.fail("read")
        assert caught.value.headers["retry-after"] == "5"
    assert bodies.memory.held == 0


def test_one_body_cannot_be_larger_than_all_together() -> None:
    with pytest.raises(ConfigError, match=r"raise access\.max_total_body_bytes, or lower serve\.max_body_bytes"):
        Bodies(BodyLimits(max_bytes=101, max_total_bytes=100))


# With a real server in between


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another task does."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def serving(bodies: Bodies) -> AsyncIterator[str]:
    """A server that says how many bytes came, or why not."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        status, headers, answer = 200, {}, b""
        try:
            async with bodies.read(scope["headers"], receive) as body:
                answer = str(len(body)).encode()
        except ApiError as error:
            status, headers, answer = error.status, error.headers, error.encoded()
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": answer})

    config = uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_level="error", http="httptools")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_client_that_sends_too_much_reads_the_refusal_and_not_a_broken_connection(chunked: bool) -> None:
    bodies = Bodies(BodyLimits(max_bytes=4_000_000, max_total_bytes=8_000_000))

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(60):
            yield b"x" * 100_000

    async with serving(bodies) as url, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        for size in (0, 1, 1_000_000, 4_000_000):
            assert (await client.post(url, content=b"x" * size)).text == str(size)
        answer = await client.post(url, content=pieces() if chunked else b"x" * 6_000_000)
        assert answer.status_code == 413
        assert "4,000,000 bytes" in json.loads(answer.text)["error"]["message"]
        assert (await client.post(url, content=b"again")).text == "5"
    assert bodies.memory.held == 0


async def test_twenty_at_once_over_sockets() -> None:
    bodies = Bodies(BodyLimits(max_bytes=1_000_000, max_total_bytes=2_000_000))
    async with serving(bodies) as url, httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answers = await asyncio.gather(*(client.post(url, content=b"x" * 900_000) for _ in range(20)))
    assert [answer.text for answer in answers] == ["900000"] * 20
    assert bodies.memory.held == 0


async def test_a_client_that_hangs_up_frees_its_memory() -> None:
    bodies = Bodies(BodyLimits(max_bytes=1000, max_total_bytes=1000))
    async with serving(bodies) as url:
        port = int(url.rpartition(":")[2])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\nhalf")
        await writer.drain()
        await until(lambda: bodies.memory.held > 0)
        writer.close()
        await until(lambda: bodies.memory.held == 0)
