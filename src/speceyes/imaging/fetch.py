"""Pictures from URLs that clients name, fetched without becoming a way into the network that we stand in.

    URL --check--> host --look up once--> addresses, all allowed --dial one of these--> bytes
     ^                                                                  |
     +------------------------- a redirect is a new URL ----------------+

The name is never looked up a second time, so a name server that changes its mind (DNS rebinding) changes nothing: the
request goes to the address that was checked, under the name that was asked for (`Host`, SNI, certificate). What comes
is bytes; whether they are a picture is for `decode` to say, not for a header.

A message tells the client which picture and why, but nothing about our network: a host that is forbidden, one that does
not exist and one that does not answer get the same words.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

import httpx

from speceyes.errors import ImageError
from speceyes.imaging.addresses import Address, AddressPolicy, NotAllowedError, Resolver, SystemResolver

_MIB = 1024**2
_REDIRECTS = (301, 302, 303, 307, 308)
_AT_A_TIME = 4
"""Fetches for one request that run side by side."""

UNREACHABLE = "its host cannot be reached from here, or is not allowed"
"""One text for all of it: else a client could map the network inside by what it is told."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What a fetch may cost.

    Attributes:
        max_bytes: Most bytes of one picture.
        max_total_bytes: Most bytes of all pictures of one request.
        connect_s: Seconds for a connection, TLS included.
        total_s: Seconds for one picture, from the look-up of its name to its last byte, redirects included.
        redirects: Most redirects that are followed.
    """

    max_bytes: int = 32 * _MIB
    max_total_bytes: int = 64 * _MIB
    connect_s: float = 5.0
    total_s: float = 20.0
    redirects: int = 3


class Fetcher:
    """Fetches pictures within limits. It keeps no connection, cookie or picture between fetches, and reads no proxy
    from the environment. Nothing is tried twice; only where a host has several addresses and one cannot be
    reached, the next is dialled.

    Args:
        limits: What a fetch may cost.
        policy: Where it may go. None: nowhere; every fetch is refused, in words that say how to send pictures instead.
        resolve: From a name to addresses; the operating system's resolution by default.
        tls: Whose certificates are believed; by default the public authorities', or what `SSL_CERT_FILE` names.
    """

    def __init__(
        self,
        limits: FetchLimits | None = None,
        policy: AddressPolicy | None = None,
        *,
        resolve: Resolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits or FetchLimits()
        self.policy = policy
        self._system = SystemResolver()
        self._resolve = resolve or self._system
        self._tls_given = tls
        self._headers = {
            "accept": "image/*",
            "accept-encoding": "identity",
            "connection": "close",
            "user-agent": f"speceyes/{version('speceyes')}",
        }

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._tls_given or httpx.create_ssl_context()

    async def fetch(self, url: str, name: str = "image") -> bytes:
        """Fetch one picture.

        Args:
            url: With http or https, and without a user's name or password.
            name: What to call the picture in an error, for example "image 2".

        Raises:
            ImageError: It could not be fetched; the message is fit for the client.
        """
        return await self._fetch(url, name, _Allowance(self.limits.max_bytes, self.limits.max_total_bytes))

    async def fetch_all(self, urls: Mapping[str, str]) -> dict[str, bytes]:
        """Fetch the pictures of one request, equal URLs once.

        Args:
            urls: From what to call a picture in an error to its URL.

        Returns:
            From the same names to the bytes. Equal URLs have the same bytes, even where the server would change them.

        Raises:
            ImageError: One of them could not be fetched; the others are given up.
        """
        allowance = _Allowance(self.limits.max_bytes, self.limits.max_total_bytes)
        places = asyncio.Semaphore(_AT_A_TIME)

        async def one(url: str, name: str) -> bytes:
            async with places:
                return await self._fetch(url, name, allowance)

        tasks: dict[str, asyncio.Task[bytes]] = {}
        for name, url in urls.items():
            if url not in tasks:
                tasks[url] = asyncio.create_task(one(url, name))
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        return {name: tasks[url].result() for name, url in urls.items()}

    def close(self) -> None:
        """Give up look-ups that have not begun."""
        self._system.close()

    async def _fetch(self, url: str, name: str, allowance: _Allowance) -> bytes:
        if self.policy is None:
            raise ImageError(f"{name}: this server fetches no pictures from URLs. Send it as a data URL.")
        try:
            async with asyncio.timeout(self.limits.total_s):
                return await self._follow(_read_url(url), self.policy, allowance)
        except _CannotFetchError as error:
            raise ImageError(f"could not fetch {name}: {error}.") from error
        except (NotAllowedError, httpx.ConnectError, httpx.ConnectTimeout) as error:
            why = "its host has no certificate that can be trusted" if _is_about_tls(error) else UNREACHABLE
            raise ImageError(f"could not fetch {name}: {why}.") from error
        except TimeoutError as error:
            raise ImageError(f"could not fetch {name}: it took longer than {self.limits.total_s:g} s.") from error
        except httpx.HTTPError as error:
            raise ImageError(
                f"could not fetch {name}: the connection broke before the picture was complete."
            ) from error

    async def _follow(self, url: httpx.URL, policy: AddressPolicy, allowance: _Allowance) -> bytes:
        for _ in range(self.limits.redirects + 1):
            addresses = await policy.addresses(_check_url(url, policy), self._resolve)
            async with self._get(url, addresses) as response:
                if response.status_code not in _REDIRECTS:
                    return await _read_body(response, allowance)
                if not (target := response.headers.get("location")):
                    raise _CannotFetchError("the server redirects without saying where to")
            url = _read_url(target, url)
        raise _CannotFetchError(f"the server redirects more than {self.limits.redirects} times")

    @asynccontextmanager
    async def _get(self, url: httpx.URL, addresses: tuple[Address, ...]) -> AsyncIterator[httpx.Response]:
        """Dial one of the addresses and ask for a URL.

        The transport is used bare: what a client adds on top of it (cookies, proxies, redirects, a log line with the
        URL) is not wanted here. A transport a request, so that no connection made for one name serves another.
        """
        verify = self._tls if url.scheme == "https" else False
        async with httpx.AsyncHTTPTransport(verify=verify, trust_env=False) as transport:
            response = await self._first_reached(transport, url, addresses)
            try:
                yield response
            finally:
                await response.aclose()

    async def _first_reached(
        self, transport: httpx.AsyncHTTPTransport, url: httpx.URL, addresses: tuple[Address, ...]
    ) -> httpx.Response:
        timeout = httpx.Timeout(None, connect=self.limits.connect_s).as_dict()
        extensions = {"timeout": timeout, "sni_hostname": _host(url)}
        for place, address in enumerate(addresses, 1):
            there = url.copy_with(host=str(address), fragment=None)
            headers = {"host": url.netloc.decode("ascii"), **self._headers}
            try:
                return await transport.handle_async_request(
                    httpx.Request("GET", there, headers=headers, extensions=extensions)
                )
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if place == len(addresses):
                    raise
        raise NotAllowedError


class _CannotFetchError(Exception):
    """Why not, in words for the client."""


@dataclass(slots=True)
class _Allowance:
    """How many bytes one picture, and all of a request together, may still have."""

    each: int
    total: int

    def check(self, size: int, more: int) -> None:
        """Whether a picture may come to `size` bytes, of which `more` are not counted yet."""
        if size > self.each:
            raise _CannotFetchError(f"it is larger than the limit of {self.each:,} bytes")
        if more > self.total:
            raise _CannotFetchError("the pictures of this request are together larger than the server allows")

    def take(self, size: int, more: int) -> None:
        self.check(size, more)
        self.total -= more


def _is_about_tls(error: BaseException | None) -> bool:
    """Whether the certificate was at fault. Only a host that may be dialled gets so far."""
    return error is not None and (isinstance(error, ssl.SSLCertVerificationError) or _is_about_tls(error.__context__))


def _read_url(written: str, base: httpx.URL | None = None) -> httpx.URL:
    try:
        url = httpx.URL(written) if base is None else base.join(written)
        # The name without its final dot: that is what certificates and lists of hosts hold.
        return url.copy_with(host=_host(url)) if _host(url) else url
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise _CannotFetchError("its URL cannot be read") from error


def _check_url(url: httpx.URL, policy: AddressPolicy) -> str:
    """The host of a URL that we would fetch, as far as the URL alone says so."""
    if url.scheme not in ("http", "https"):
        raise _CannotFetchError("only http and https URLs are fetched")
    if url.userinfo:
        raise _CannotFetchError("a URL with a user's name or password is not fetched")
    if not (host := _host(url)):
        raise _CannotFetchError("its URL names no host")
    if (url.port or (443 if url.scheme == "https" else 80)) not in policy.ports or url.port == 0:
        raise _CannotFetchError(f"only the ports {', '.join(map(str, policy.ports))} are allowed")
    return host


def _host(url: httpx.URL) -> str:
    """In ASCII, without the dot that a full name may end with."""
    return url.raw_host.decode("ascii").lower().removesuffix(".")


async def _read_body(response: httpx.Response, allowance: _Allowance) -> bytes:
    if response.status_code != 200:
        raise _CannotFetchError(f"the server answered {response.status_code}")
    if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
        # Unpacking is where a few bytes become gigabytes; pictures are packed already.
        raise _CannotFetchError("the server sent it compressed, which was not asked for")
    announced = response.headers.get("content-length", "")
    if announced.isdecimal():
        allowance.check(int(announced), int(announced))
    body = bytearray()
    async for chunk in response.aiter_raw():
        allowance.take(len(body) + len(chunk), len(chunk))
        body += chunk
        if body[:64].lstrip().startswith(b"<"):
            raise _CannotFetchError("the server sent a web page or a drawing in XML, not a picture")
    if not body:
        raise _CannotFetchError("the server sent nothing")
    return bytes(body)
