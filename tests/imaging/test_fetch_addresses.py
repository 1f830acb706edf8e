"""Which addresses may be dialled: public ones, whatever they are called and however they are written."""

from __future__ import annotations

import asyncio
import threading
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speceyes.imaging import addresses
from speceyes.imaging.addresses import AddressPolicy, NotAllowedError, SystemResolver, is_public

PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.215.14", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1"]
PUBLIC_6 = ["2600::1", "2a00:1450:4001:82a::200e", "2001:4860:4860::8888", "2001:200::1"]
PRIVATE = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254"),
    *("169.254.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1"),
    *("192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1"),
    *("255.255.255.255", "168.63.129.16", "100.100.100.200"),
]
PRIVATE_6 = [
    *("::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::ffff:0:7f00:1", "64:ff9b::7f00:1"),
    *("64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "2002:808:808::1"),
    *("3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%1", "fec0::1", "ff02::1"),
    *("ff0e::1", "2600::5efe:7f00:1", "2600::200:5efe:a00:1"),
]


async def nobody(host: str) -> list[str]:
    raise AssertionError(f"{host} was looked up")


@pytest.mark.parametrize("written", PUBLIC + PUBLIC_6)
def test_public_addresses_may_be_dialled(written: str) -> None:
    assert is_public(ip_address(written))
    assert AddressPolicy().permits(ip_address(written))


@pytest.mark.parametrize("written", PRIVATE + PRIVATE_6)
def test_all_others_may_not(written: str) -> None:
    assert not is_public(ip_address(written))
    assert not AddressPolicy().permits(ip_address(written))


@given(st.ip_addresses())
@example(IPv6Address("::1"))
def test_nothing_that_python_calls_private_is_public(address: IPv4Address | IPv6Address) -> None:
    shut = (
        address.is_private,
        address.is_loopback,
        address.is_link_local,
        address.is_multicast,
        address.is_unspecified,
        address.is_reserved,
    )
    assert not (any(shut) and is_public(address))


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_never_public(inner: IPv4Address) -> None:
    low, sixtofour = int(inner), 0x2002 << 112 | int(inner) << 80
    for outer in (low, 0xFFFF << 32 | low, 0x64FF9B << 96 | low, sixtofour, 0x2600 << 112 | 0x5EFE << 32 | low):
        assert not is_public(IPv6Address(outer))


def test_an_allowed_network_opens_only_itself() -> None:
    policy = AddressPolicy(allow_networks=(ip_network("10.1.2.0/24"),))
    assert policy.permits(ip_address("10.1.2.3"))
    assert not policy.permits(ip_address("10.1.3.3"))
    assert policy.permits(ip_address("8.8.8.8"))


def test_loopback_can_be_allowed_in_both_families() -> None:
    policy = AddressPolicy(allow_networks=(ip_network("127.0.0.0/8"), ip_network("::1/128")))
    assert policy.permits(ip_address("127.0.0.1"))
    assert policy.permits(ip_address("::1"))


@pytest.mark.parametrize("written", ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"])
def test_metadata_stays_shut_inside_an_allowed_network(written: str) -> None:
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    assert not AddressPolicy(allow_networks=everything).permits(ip_address(written))


@pytest.mark.parametrize("written", ["64:ff9b::a9fe:a9fe", "::ffff:169.254.169.254", "2002:a9fe:a9fe::1"])
def test_metadata_stays_shut_inside_another_address_too(written: str) -> None:
    everything = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    assert not AddressPolicy(allow_networks=everything).permits(ip_address(written))


def test_allowing_a_translators_prefix_opens_nothing_private_behind_it() -> None:
    policy = AddressPolicy(allow_networks=(ip_network("64:ff9b::/96"),))
    assert policy.permits(ip_address("64:ff9b::808:808"))
    assert not policy.permits(ip_address("64:ff9b::a00:1"))


def test_a_denied_network_is_shut_although_public() -> None:
    assert not AddressPolicy(deny_networks=(ip_network("8.8.8.0/24"),)).permits(ip_address("8.8.8.8"))


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("example.com", True),
        ("a.example.com", False),
        ("a.pictures.org", True),
        ("a.b.pictures.org", True),
        ("pictures.org", False),
        ("notpictures.org", False),
        ("bad.pictures.org", False),
        ("example.com.evil.net", False),
    ],
)
def test_lists_of_hosts(host: str, passes: bool) -> None:
    policy = AddressPolicy(allow_hosts=("Example.com.", "*.pictures.org"), deny_hosts=("bad.pictures.org",))
    assert policy.permits_host(host) is passes


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0177.0.0.1", "127.0.0.0x1", "0x", "1.2.3"),
        *(
            "134744072",
            "8.8.8",
            "999.1.1.1",
            "%6c%6fcalhost",
            "a b",
            "",
            ".",
            "a..b",
            "-a.com",
            "x" * 64,
            "a/b",
            "[::1]",
        ),
    ],
)
async def test_numbers_in_old_spellings_and_broken_names_are_not_even_looked_up(host: str) -> None:
    with pytest.raises(NotAllowedError):
        await AddressPolicy().addresses(host, nobody)


async def test_an_address_is_not_looked_up() -> None:
    assert await AddressPolicy().addresses("2600::1", nobody) == (ip_address("2600::1"),)
    with pytest.raises(NotAllowedError):
        await AddressPolicy().addresses("127.0.0.1", nobody)


@pytest.mark.parametrize("found", [["8.8.8.8", "127.0.0.1"], ["2600::1", "::1"], ["10.0.0.1"], [], ["nonsense"]])
async def test_every_address_of_a_name_must_be_public(found: list[str]) -> None:
    async def resolve(host: str) -> list[str]:
        return found

    with pytest.raises(NotAllowedError):
        await AddressPolicy().addresses("example.com", resolve)


async def test_the_order_is_kept_without_doubles_and_at_most_four_are_dialled() -> None:
    async def resolve(host: str) -> list[str]:
        return ["8.8.8.1", "8.8.8.1", *(f"8.8.8.{number}" for number in range(2, 9))]

    found = await AddressPolicy().addresses("example.com", resolve)
    assert list(map(str, found)) == ["8.8.8.1", "8.8.8.2", "8.8.8.3", "8.8.8.4"]


async def test_the_system_finds_this_machine_and_the_default_refuses_it() -> None:
    resolver = SystemResolver()
    try:
        assert {"127.0.0.1", "::1"} & set(await resolver("localhost"))
        for host in ("localhost", "127.0.0.1"):
            with pytest.raises(NotAllowedError):
                await AddressPolicy().addresses(host, resolver)
        with pytest.raises(NotAllowedError):
            await AddressPolicy().addresses("no-such-host.invalid", resolver)
    finally:
        resolver.close()


async def test_a_slow_name_holds_up_no_other_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, asked = threading.Event(), threading.Event()

    def slow(host: str) -> list[str]:
        asked.set()
        go_on.wait(10)
        return ["8.8.8.8"]

    monkeypatch.setattr(addresses, "_system_lookup", slow)
    resolver = SystemResolver(threads=1)
    lookups = [asyncio.ensure_future(resolver(f"host{number}.test")) for number in range(50)]
    try:
        await asyncio.to_thread(asked.wait, 10)
        assert await asyncio.to_thread(lambda: "free") == "free"
    finally:
        go_on.set()
        await asyncio.gather(*lookups)
        resolver.close()
