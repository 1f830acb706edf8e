"""A fetch cannot be turned against the network that it runs in (request forgery, DNS rebinding, redirects, TLS)."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hostile_host import Host, always, hosting, known, local_fetcher, picture, response

from speceyes.errors import ImageError
from speceyes.imaging.addresses import AddressPolicy
from speceyes.imaging.fetch import UNREACHABLE, Fetcher, FetchLimits

SECRET = b"the secret of an inner service"


@pytest.fixture
async def inner() -> AsyncIterator[Host]:
    """A service on this machine that must never be asked."""
    async with hosting(always(response(SECRET))) as found:
        yield found
        assert not found.requests


async def refusal(fetcher: Fetcher, url: str) -> str:
    with pytest.raises(ImageError) as caught:
        await fetcher.fetch(url, "image 1")
    return str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        *(
            "127.0.0.1",
            "[::1]",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "127.1",
            "0177.0.0.1",
            "017700000001",
            "0",
            "0.0.0.0",
        ),
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[::]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *(
            "localhost",
            "localhost.",
            "LOCALHOST",
            "localhost。",
            "127。0。0。1",
            "１２７.0.0.1",
            "①②⑦.0.0.1",
            "ⓛocalhost",
        ),
        *("127.0.0.1.", "foo.localhost", "%6c%6fcalhost", "%31%32%37.0.0.1", "[fe80::1%25lo]", "[::1%251]"),
        *("169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal", "10.0.0.1", "192.168.0.1", "100.64.0.1"),
    ],
)
async def test_no_spelling_of_an_inner_address_is_fetched(inner: Host, written: str) -> None:
    policy = AddressPolicy(ports=(80, 443, inner.port))
    resolve = known(localhost="127.0.0.1", foo_localhost="127.0.0.1", metadata_google_internal="169.254.169.254")
    said = await refusal(Fetcher(policy=policy, resolve=resolve), f"http://{written}:{inner.port}/x")
    assert said in (
        f"could not fetch image 1: {UNREACHABLE}.",
        "could not fetch image 1: its URL cannot be read.",
    )


@pytest.mark.parametrize("written", ["localhost", "127.1", "0x7f.1", "localhost."])
async def test_nor_with_the_names_that_the_system_knows(inner: Host, written: str) -> None:
    fetcher = Fetcher(policy=AddressPolicy(ports=(inner.port,)))
    assert UNREACHABLE in await refusal(fetcher, f"http://{written}:{inner.port}/x")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("file:///etc/hostname", "only http and https URLs are fetched"),
        ("ftp://pictures.test/a", "only http and https URLs are fetched"),
        ("gopher://pictures.test/", "only http and https URLs are fetched"),
        ("data:image/png;base64,AAAA", "only http and https URLs are fetched"),
        ("//pictures.test/a", "only http and https URLs are fetched"),
        ("a.png", "only http and https URLs are fetched"),
        ("", "only http and https URLs are fetched"),
        ("http:///a.png", "its URL names no host"),
        ("http://pictures.test@127.0.0.1/", "a URL with a user's name or password is not fetched"),
        ("http://pictures.test\\@127.0.0.1/", "a URL with a user's name or password is not fetched"),
        ("http://me:secret@pictures.test/", "a URL with a user's name or password is not fetched"),
        ("http://pictures.test:22/", "only the ports 80, 443 are allowed"),
        ("http://pictures.test:0/", "only the ports 80, 443 are allowed"),
        ("http://pictures.test:99999/", "only the ports 80, 443 are allowed"),
        ("http://pictures.test:8e1/", "its URL cannot be read"),
        ("http://pictures.test/\r\nHost: inner", "its URL cannot be read"),
        ("http://pictures.test/\ud800", "its URL cannot be read"),
        ("http://" + "a" * 70_000, "its URL cannot be read"),
        ("http://xn--a\u0301.test/", "its URL cannot be read"),
        ("http://999.1.1.1/", "its URL cannot be read"),
    ],
)
async def test_a_url_that_is_not_for_pictures_is_refused(url: str, said: str) -> None:
    fetcher = Fetcher(policy=AddressPolicy(), resolve=known(pictures_test="8.8.8.8"))
    text = await refusal(fetcher, url)
    assert text == f"could not fetch image 1: {said}."
    assert "secret" not in text


async def test_a_name_is_looked_up_once_and_the_checked_address_is_dialled(inner: Host) -> None:
    """The name server says something good first and this machine afterwards."""
    asked: list[str] = []

    async def rebinding(name: str) -> list[str]:
        asked.append(name)
        return ["127.0.0.2"] if len(asked) == 1 else ["127.0.0.1"]

    async with hosting(always(response(picture())), "127.0.0.2", port=inner.port) as good:
        fetcher = local_fetcher(good, resolve=rebinding)
        assert await fetcher.fetch(f"http://rebind.test:{good.port}/") == picture()
        assert good.header("host") == f"rebind.test:{good.port}"
    assert asked == ["rebind.test"]


async def test_a_name_that_turns_inwards_for_a_redirect_is_refused(inner: Host) -> None:
    answers = iter([["127.0.0.2"], ["10.0.0.1"]])

    async def rebinding(name: str) -> list[str]:
        return next(answers)

    async with hosting(always(response(b"", "302 Found", location="/again")), "127.0.0.2", port=inner.port) as outer:
        said = await refusal(local_fetcher(outer, resolve=rebinding), f"http://rebind.test:{outer.port}/")
    assert UNREACHABLE in said


async def test_one_inner_address_among_outer_ones_is_enough_to_refuse(inner: Host) -> None:
    policy = AddressPolicy(ports=(inner.port,))
    fetcher = Fetcher(policy=policy, resolve=known(mixed_test=["8.8.8.8", "127.0.0.1"]))
    assert UNREACHABLE in await refusal(fetcher, f"http://mixed.test:{inner.port}/")


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://127.0.0.1:{inner}/x", UNREACHABLE),
        ("//127.0.0.1:{inner}/x", UNREACHABLE),
        ("http://inner.test:{inner}/x", UNREACHABLE),
        ("http://2130706433:{inner}/x", UNREACHABLE),
        ("http://169.254.169.254/latest", UNREACHABLE),
        ("http://pictures.test:22/", "only the ports"),
        ("http://me@pictures.test:{outer}/", "user's name or password"),
        ("file:///etc/hostname", "only http and https"),
        ("data:image/png;base64,AAAA", "only http and https"),
        ("http://[", UNREACHABLE),
        ("http://pictures.test:8e1/", "its URL cannot be read"),
        ("", "redirects without saying where to"),
    ],
)
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_each_redirect_is_checked_as_if_it_were_the_first_url(
    inner: Host, location: str, said: str, status: str
) -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        there = location.format(inner=inner.port, outer=outer.port)
        writer.write(response(b"", status, location=there))

    async with hosting(handler, "127.0.0.2") as outer:
        policy = AddressPolicy(allow_networks=(_only("127.0.0.2"),), ports=(outer.port, inner.port, 80))
        resolve = known(pictures_test="127.0.0.2", inner_test="127.0.0.1")
        text = await refusal(Fetcher(policy=policy, resolve=resolve), f"http://pictures.test:{outer.port}/a")
    assert said in text
    assert "127.0.0.1" not in text


async def test_redirects_lead_to_the_picture_and_loops_end() -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        steps = {"/a": "b", "/b": f"http://other.test:{host.port}/c", "/c": "/d", "/loop": "/loop"}
        there = steps.get(path)
        writer.write(response(b"", "302 Found", location=there) if there else response(picture()))

    async with hosting(handler) as host:
        resolve = known(pictures_test="127.0.0.1", other_test="127.0.0.1")
        fetcher = local_fetcher(host, resolve=resolve, limits=FetchLimits(redirects=3))
        assert await fetcher.fetch(f"http://pictures.test:{host.port}/a") == picture()
        assert host.paths == ["/a", "/b", "/c", "/d"]
        assert host.header("host", 2) == f"other.test:{host.port}"
        said = await refusal(fetcher, f"http://pictures.test:{host.port}/loop")
        assert said == "could not fetch image 1: the server redirects more than 3 times."
        assert host.paths.count("/loop") == 4


async def test_lists_of_hosts_hold_for_redirects_too() -> None:
    async def handler(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b"", "302 Found", location=f"http://other.test:{host.port}/"))

    async with hosting(handler) as host:
        resolve = known(pictures_test="127.0.0.1", other_test="127.0.0.1")
        fetcher = local_fetcher(host, resolve=resolve, allow_hosts=("pictures.test",))
        assert UNREACHABLE in await refusal(fetcher, f"http://pictures.test:{host.port}/")
        assert len(host.requests) == 1


# TLS: the name that was asked for, not the address that is dialled, is what the certificate has to hold


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for pictures.test, signed by itself, and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=pictures.test", "-addext", "subjectAltName=DNS:pictures.test"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    both = folder / "both.pem"
    both.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return both


def server_tls(certificate: Path, names: list[str | None]) -> ssl.SSLContext:
    """Notes the names that clients ask for before they trust anything (SNI)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda socket, name, context: names.append(name)
    return context


async def test_the_certificate_is_checked_against_the_name(certificate: Path) -> None:
    names: list[str | None] = []
    async with hosting(always(response(picture())), tls=server_tls(certificate, names)) as host:
        trusting = ssl.create_default_context(cafile=str(certificate))
        resolve = known(pictures_test="127.0.0.1", other_test="127.0.0.1")
        fetcher = local_fetcher(host, resolve=resolve, tls=trusting)
        assert await fetcher.fetch(f"https://Pictures.test.:{host.port}/a") == picture()
        assert host.header("host") == f"pictures.test:{host.port}"
        # The same address under another name: no connection is shared, and the certificate does not fit.
        said = await refusal(fetcher, f"https://other.test:{host.port}/a")
        assert said == "could not fetch image 1: its host has no certificate that can be trusted."
        assert await fetcher.fetch(f"https://pictures.test:{host.port}/b") == picture()
    assert names == ["pictures.test", "other.test", "pictures.test"]
    assert len(host.requests) == 2


async def test_a_certificate_of_an_unknown_authority_is_refused(certificate: Path) -> None:
    async with hosting(always(response(picture())), tls=server_tls(certificate, [])) as host:
        said = await refusal(local_fetcher(host), f"https://pictures.test:{host.port}/")
    assert "no certificate that can be trusted" in said
    assert not host.requests


def _only(address: str):
    from ipaddress import ip_network

    return ip_network(address)
