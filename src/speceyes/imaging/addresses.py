"""Which network addresses a fetch on behalf of a client may dial: public ones, unless the operator says more.

A server that fetches URLs for strangers stands inside a network that the strangers do not. So a host's name is looked
up once, here; every address that it has must be allowed; and the caller dials one of exactly these addresses. Names are
not judged by how they look: `0x7f.1`, `localhost.` and a domain that points home are all caught by where they lead.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

Resolver = Callable[[str], Awaitable[Iterable[str]]]
"""From a host's name to its addresses. Raises OSError where there are none."""


def _networks(*written: str) -> tuple[Network, ...]:
    return tuple(ip_network(network) for network in written)


_NOT_PUBLIC = _networks(
    "0.0.0.0/8",  # this network; 0.0.0.0 is this machine
    "10.0.0.0/8",  # private
    "100.64.0.0/10",  # shared behind a carrier's address translation
    "127.0.0.0/8",  # loopback
    "169.254.0.0/16",  # link-local
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.0.2.0/24",  # documentation
    "192.88.99.0/24",  # once 6to4 relays
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarks
    "198.51.100.0/24",  # documentation
    "203.0.113.0/24",  # documentation
    "224.0.0.0/4",  # multicast
    "240.0.0.0/4",  # reserved, and broadcast
    "2001::/23",  # protocol assignments, Teredo among them
    "2001:db8::/32",  # documentation
    "2002::/16",  # 6to4
    "3fff::/20",  # documentation
)
"""Written out, and not asked of `ipaddress`, whose idea of "global" differs between Python's versions.

Source: IANA, IPv4 and IPv6 Special-Purpose Address Registries."""

_GLOBAL_UNICAST = IPv6Network("2000::/3")
"""All of IPv6 that is given out for public use (RFC 4291). Loopback, local, mapped and NAT64 addresses lie outside."""

_METADATA = _networks(
    "169.254.169.254/32",  # most clouds
    "169.254.170.2/32",  # containers on AWS
    "192.0.0.192/32",  # Oracle
    "100.100.100.200/32",  # Alibaba
    "168.63.129.16/32",  # Azure; in a public range
    "fd00:ec2::254/128",  # AWS
    "fd20:ce::254/128",  # Google
)
"""Where clouds hand a machine its own credentials. Refused even inside a network that the operator allows."""

_NAT64 = IPv6Network("64:ff9b::/96")
_MOST_DIALLED = 4
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


class NotAllowedError(Exception):
    """A host may not be dialled, or its name leads nowhere. Which of the two is nobody's business outside."""


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which hosts and addresses may be dialled.

    Attributes:
        allow_hosts: Where it is not empty, no other hosts. `example.com` is that name, `*.example.com` all below it.
        deny_hosts: Never these, written alike.
        allow_networks: May be dialled although not public, for a picture store of one's own.
        deny_networks: May not be dialled although public.
        ports: TCP ports that may be dialled.
    """

    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    allow_networks: tuple[Network, ...] = ()
    deny_networks: tuple[Network, ...] = ()
    ports: tuple[int, ...] = (80, 443)

    def permits_host(self, host: str) -> bool:
        """Whether the lists of names let a host pass; its addresses still have to."""
        if any(_matches(host, pattern) for pattern in self.deny_hosts):
            return False
        return not self.allow_hosts or any(_matches(host, pattern) for pattern in self.allow_hosts)

    def permits(self, address: Address) -> bool:
        """Whether an address may be dialled, and with it the IPv4 address that it may carry inside."""
        inner = _carried(address)
        return self._permits(address) and (inner is None or self._permits(inner))

    def _permits(self, address: Address) -> bool:
        if _within(address, _METADATA) or _within(address, self.deny_networks):
            return False
        return is_public(address) or _within(address, self.allow_networks)

    async def addresses(self, host: str, resolve: Resolver) -> tuple[Address, ...]:
        """The addresses to dial for a host, in order of preference: all of them allowed, and at most four.

        Args:
            host: A name in ASCII, lower case and without a final dot, or an address.
            resolve: Asked once, and not at all for an address.

        Raises:
            NotAllowedError: The host or one of its addresses is not allowed, or there is none.
        """
        if not self.permits_host(host):
            raise NotAllowedError
        found = [literal] if (literal := _literal(host)) else await _looked_up(host, resolve)
        if not found or not all(map(self.permits, found)):
            raise NotAllowedError
        return tuple(dict.fromkeys(found))[:_MOST_DIALLED]


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public Internet and carries no other address inside."""
    if _within(address, _NOT_PUBLIC) or _within(address, _METADATA):
        return False
    return isinstance(address, IPv4Address) or (address in _GLOBAL_UNICAST and _carried(address) is None)


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that a translator or a tunnel would take out of an IPv6 address."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    low = IPv4Address(int(address) & 0xFFFF_FFFF)
    tunnelled = int(address) >> 32 & 0xFFFF_FFFF in _ISATAP
    compatible = 1 < int(address) <= 0xFFFF_FFFF
    return low if tunnelled or compatible or address in _NAT64 else None


def _matches(host: str, pattern: str) -> bool:
    pattern = pattern.lower().rstrip(".")
    if pattern.startswith("*."):
        return host.endswith(pattern[1:])
    return host == pattern


def _literal(host: str) -> Address | None:
    """The address that a host is written as, or None for a name.

    Raises:
        NotAllowedError: It is neither: a number in one of the old spellings, such as 127.1 or 0x7f000001, or no name.
    """
    try:
        return ip_address(host)
    except ValueError:
        labels = host.split(".")
        if _NUMBER.fullmatch(labels[-1]) or not all(_LABEL.fullmatch(label) for label in labels):
            raise NotAllowedError from None
        return None


async def _looked_up(host: str, resolve: Resolver) -> list[Address]:
    try:
        return [ip_address(address) for address in await resolve(host)]
    except (OSError, ValueError) as error:
        raise NotAllowedError from error


class SystemResolver:
    """The operating system's name resolution, in threads of its own: slow names hold up nothing but other names."""

    def __init__(self, threads: int = 8) -> None:
        self._threads = ThreadPoolExecutor(threads, "resolve")

    async def __call__(self, host: str) -> list[str]:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _system_lookup, host)

    def close(self) -> None:
        """Give up what has not begun."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _system_lookup(host: str) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
