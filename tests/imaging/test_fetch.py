"""Fetching pictures from servers that are slow, endless, broken or after something else."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator

import pytest
from hostile_host import Host, always, hosting, known, local_fetcher, picture, response

from speceyes.errors import ImageError
from speceyes.imaging import decode
from speceyes.imaging.fetch import UNREACHABLE, Fetcher, FetchLimits


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    """Answers with a picture."""
    async with hosting(always(response(picture()))) as found:
        yield found


async def refusal(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(ImageError) as caught:
        await fetcher.fetch(url, "image 2")
    return str(caught.value)


async def test_it_is_off_unless_a_policy_is_given(host: Host) -> None:
    said = await refusal(Fetcher(), f"http://127.0.0.1:{host.port}/a.png")
    assert said == "image 2: this server fetches no pictures from URLs. Send it as a data URL."
    assert not host.requests


async def test_a_picture_comes_as_its_bytes(host: Host) -> None:
    data = await local_fetcher(host).fetch(f"http://pictures.test:{host.port}/a.png?sig=1%2F2#part")
    assert data == picture()
    assert decode(data).size == (8, 8)
    assert host.paths == ["/a.png?sig=1%2F2"]
    assert host.header("host") == f"pictures.test:{host.port}"
    assert (host.header("user-agent") or "").startswith("speceyes/")
    assert host.header("accept-encoding") == "identity"
    assert host.header("cookie") is None


async def test_ipv6_addresses_can_be_dialled_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from ipaddress import ip_network

    from speceyes.imaging.addresses import AddressPolicy

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    async with hosting(always(response(picture())), "::1") as there:
        policy = AddressPolicy(allow_networks=(ip_network("::1/128"),), ports=(there.port,))
        assert await Fetcher(policy=policy).fetch(f"http://[::1]:{there.port}/") == picture()
        assert there.header("host") == f"[::1]:{there.port}"


async def test_proxies_in_the_environment_are_not_used(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    async with hosting(always(response(b"proxied"))) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert await local_fetcher(host).fetch(f"http://pictures.test:{host.port}/") == picture()
        assert not proxy.requests


async def test_cookies_are_not_kept(host: Host) -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        there = {"location": "/next"} if path == "/" else {}
        status = "302 Found" if path == "/" else "200 OK"
        writer.write(response(picture(), status, set_cookie="a=b; Path=/", **there))

    async with hosting(handler) as setting:
        fetcher = local_fetcher(setting)
        for _ in range(2):
            await fetcher.fetch(f"http://pictures.test:{setting.port}/")
        assert [setting.header("cookie", number) for number in range(4)] == [None] * 4


async def test_the_next_address_is_dialled_where_one_does_not_answer(host: Host) -> None:
    fetcher = local_fetcher(host, resolve=known(pictures_test=["127.0.0.9", "127.0.0.1"]))
    assert await fetcher.fetch(f"http://pictures.test:{host.port}/") == picture()


# Limits


async def test_an_announced_size_above_the_limit_is_not_read() -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5000000000\r\n\r\n")
        await asyncio.Event().wait()

    async with hosting(handler) as big:
        fetcher = local_fetcher(big, limits=FetchLimits(max_bytes=1000))
        said = await refusal(fetcher, f"http://pictures.test:{big.port}/")
    assert said == "could not fetch image 2: it is larger than the limit of 1,000 bytes."


async def test_an_endless_body_is_cut_off_and_its_connection_closed() -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"x" * 4096 + b"\r\n")
            await writer.drain()

    async with hosting(handler) as endless:
        fetcher = local_fetcher(endless, limits=FetchLimits(max_bytes=100_000))
        said = await refusal(fetcher, f"http://pictures.test:{endless.port}/")
        await asyncio.wait_for(endless.left.wait(), 30)
    assert "larger than the limit of 100,000 bytes" in said


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n"])
async def test_a_drip_ends_with_the_time_limit(head: bytes) -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with hosting(handler) as slow:
        fetcher = local_fetcher(slow, limits=FetchLimits(total_s=0.3))
        said = await refusal(fetcher, f"http://pictures.test:{slow.port}/")
        await asyncio.wait_for(slow.left.wait(), 30)
    assert said == "could not fetch image 2: it took longer than 0.3 s."


async def test_a_slow_name_ends_with_the_time_limit(host: Host) -> None:
    async def resolve(name: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    fetcher = local_fetcher(host, limits=FetchLimits(total_s=0.05), resolve=resolve)
    assert "took longer than 0.05 s" in await refusal(fetcher, f"http://pictures.test:{host.port}/")


async def test_endless_headers_are_an_error() -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-more: " + b"y" * 4096 + b"\r\n")
            await writer.drain()

    async with hosting(handler) as talker:
        said = await refusal(local_fetcher(talker), f"http://pictures.test:{talker.port}/")
    assert said == "could not fetch image 2: the connection broke before the picture was complete."


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (response(picture(), "403 Forbidden"), "the server answered 403"),
        (response(picture(), "404 Not Found"), "the server answered 404"),
        (response(picture(), "500 Oh"), "the server answered 500"),
        (response(picture(), "206 Partial Content"), "the server answered 206"),
        (response(b""), "the server sent nothing"),
        (response(b"  \n<!doctype html><p>Log in", content_type="image/png"), "the server sent a web page"),
        (response(b"<svg xmlns='x'/>", content_type="image/svg+xml"), "a drawing in XML, not a picture"),
        (response(gzip.compress(picture()), content_encoding="gzip"), "the server sent it compressed"),
        (response(picture(), content_length="100000"), "the connection broke before the picture was complete"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the connection broke"),
        (b"", "the connection broke"),
    ],
)
async def test_a_bad_answer_is_named_and_asked_for_once(raw: bytes, said: str) -> None:
    async with hosting(always(raw)) as bad:
        text = await refusal(local_fetcher(bad), f"http://pictures.test:{bad.port}/")
        assert text.startswith("could not fetch image 2: ")
        assert said in text
        assert len(bad.requests) == 1


async def test_a_type_in_a_header_is_not_believed(host: Host) -> None:
    async with hosting(always(response(picture(), content_type="text/html"))) as modest:
        data = await local_fetcher(modest).fetch(f"http://pictures.test:{modest.port}/")
    assert decode(data).format == "PNG"
    async with hosting(always(response(b"MZ program", content_type="image/png"))) as boastful:
        data = await local_fetcher(boastful).fetch(f"http://pictures.test:{boastful.port}/")
    with pytest.raises(ImageError, match="not an image of a known format"):
        decode(data)


async def test_a_cancelled_fetch_closes_its_connection() -> None:
    arrived = asyncio.Event()

    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)

    async with hosting(handler) as silent:
        task = asyncio.create_task(local_fetcher(silent).fetch(f"http://pictures.test:{silent.port}/"))
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(silent.left.wait(), 30)


# Several pictures of one request


async def test_equal_urls_are_fetched_once_and_have_equal_bytes() -> None:
    served = iter([picture("red"), picture("green"), picture("blue")])

    async def changing(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(next(served)))

    async with hosting(changing) as host:
        base = f"http://pictures.test:{host.port}"
        urls = {"image 1": f"{base}/a", "image 2": f"{base}/b", "image 3": f"{base}/a"}
        found = await local_fetcher(host).fetch_all(urls)
    assert list(found) == ["image 1", "image 2", "image 3"]
    assert found["image 1"] == found["image 3"] != found["image 2"]
    assert sorted(host.paths) == ["/a", "/b"]


async def test_one_failure_ends_the_others() -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        if path == "/bad":
            writer.write(response(b"", "404 Not Found"))
            return
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.005)

    async with hosting(handler) as host:
        base = f"http://pictures.test:{host.port}"
        with pytest.raises(ImageError, match="could not fetch image 2: the server answered 404"):
            await local_fetcher(host).fetch_all({"image 1": f"{base}/hangs", "image 2": f"{base}/bad"})
        assert len(asyncio.all_tasks()) <= 3  # this test and what is left of the server's


async def test_pictures_of_one_request_share_a_limit(host: Host) -> None:
    size = len(picture())
    base = f"http://pictures.test:{host.port}"
    urls = {f"image {number}": f"{base}/{number}" for number in (1, 2, 3)}
    enough = local_fetcher(host, limits=FetchLimits(max_total_bytes=3 * size))
    assert len(await enough.fetch_all(urls)) == 3
    short = local_fetcher(host, limits=FetchLimits(max_total_bytes=3 * size - 1))
    with pytest.raises(ImageError, match="together larger than the server allows"):
        await short.fetch_all(urls)
    assert await short.fetch(f"{base}/again") == picture()


async def test_no_pictures_are_no_work() -> None:
    assert await Fetcher().fetch_all({}) == {}


async def test_what_cannot_be_reached_is_said_as_what_is_not_allowed(host: Host) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = Host(port=taken.getsockname()[1])
    fetcher = local_fetcher(host, dead, resolve=known(dead_test="127.0.0.1", private_test="10.0.0.1"))
    said = {
        await refusal(fetcher, f"http://{name}:{port}/")
        for name, port in [("dead.test", dead.port), ("private.test", host.port), ("missing.test", host.port)]
    }
    assert said == {f"could not fetch image 2: {UNREACHABLE}."}
