"""Every attack and accident of the suite on a real sandbox; and that the suite sees the holes of a bad one."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from speceyes.sandbox import Bubblewrap, bubblewrap, known_providers, session
from speceyes.sandbox.conformance import CHECKS, Report, check_provider
from speceyes.sandbox.seccomp import ALLOW, Instruction


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    """All checks, once."""
    before = _children()
    found = asyncio.run(check_provider(Bubblewrap()))
    assert found.available, found.reason
    yield found
    assert _children() <= before, "the suite left processes behind"


def _children() -> set[int]:
    tasks = Path(f"/proc/{os.getpid()}/task")
    return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.parametrize("name", [check.name for check in CHECKS])
def test_withstands(report: Report, name: str) -> None:
    (result,) = (result for result in report.results if result.name == name)
    assert result.passed, f"{result.title}: {result.detail}"


def test_there_are_many_checks_and_each_has_a_name_of_its_own() -> None:
    names = [check.name for check in CHECKS]
    assert len(names) == len(set(names)) >= 100
    assert all(check.title and check.group for check in CHECKS)


def test_each_provider_says_what_it_does_not_cover_in_data_and_in_its_first_lines() -> None:
    for provider in known_providers():
        module = __import__(type(provider).__module__, fromlist=["__doc__"])
        assert "What it does not cover:" in (module.__doc__ or "")
        assert len(provider.not_covered) >= 5


def test_what_needs_no_root_holds_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # As anybody else would start it: in a user namespace. The limit of processes is void there for root, who asks here.
    monkeypatch.setattr(bubblewrap.os, "geteuid", lambda: 1000)
    groups = {"reading", "writing", "network", "kernel"}
    chosen = [check for check in CHECKS if check.group in groups]
    found = asyncio.run(check_provider(Bubblewrap(), chosen))
    assert found.available, found.reason
    assert [f"{result.name}: {result.detail}" for result in found.results if not result.passed] == []


# The suite sees holes


def _weakened(names: set[str]) -> dict[str, str]:
    """What the named checks say of Bubblewrap as it has been changed."""
    chosen = [check for check in CHECKS if check.name in names]
    assert len(chosen) == len(names)
    found = asyncio.run(check_provider(Bubblewrap(), chosen))
    assert found.available, found.reason
    return {result.name: result.detail for result in found.results if not result.passed}


def test_a_hole_in_the_mounts_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = bubblewrap._mounts
    hole = ["--perms", "0755", "--dir", "/var", "--bind", "/var/tmp", "/var/tmp", "--ro-bind", "/etc", "/etc"]
    monkeypatch.setattr(bubblewrap, "_mounts", lambda python: [*mounts(python), *hole])
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    names = {"planted_file", "relative_path", "hidden_builtins", "link_to_file", "another_program", "users_and_names"}
    said = _weakened(names)
    assert set(said) == names, said
    assert "planted_file_written" in _weakened({"planted_file_written"})


def test_a_process_list_of_the_host_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = bubblewrap._mounts
    monkeypatch.setattr(bubblewrap, "_mounts", lambda python: [*mounts(python), "--ro-bind", "/proc", "/proc"])
    assert "proc" in _weakened({"proc"})


def test_a_filter_that_lets_everything_pass_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = Instruction(0x06, ALLOW).packed()
    monkeypatch.setattr(session, "filter_bytes", lambda: everything)
    names = {"memory_without_limits", "asynchronous_calls", "traced_child", "other_calls", "personality"}
    said = _weakened(names)
    # What else stands in the way of one of them differs from machine to machine.
    assert {"memory_without_limits", "traced_child", "other_calls", "personality"} <= set(said), said


def test_a_shared_network_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    isolation = bubblewrap._isolation
    everything = Instruction(0x06, ALLOW).packed()
    monkeypatch.setattr(session, "filter_bytes", lambda: everything)
    monkeypatch.setattr(
        bubblewrap, "_isolation", lambda uid: [word for word in isolation(uid) if word != "--unshare-net"]
    )
    names = {"listener_on_the_host", "packets", "abstract_socket", "web"}
    said = _weakened(names)
    assert set(said) == names, said
    assert any("the host was reached" in detail or "ESCAPED" in detail for detail in said.values())


def test_missing_limits_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    config = session.PipeSession._config

    def without(self: session.PipeSession, launch: session.Launch) -> dict[str, object]:
        return {**config(self, launch), "processes": None, "file_bytes": 1 << 40, "output_chars": 50_000}

    monkeypatch.setattr(session.PipeSession, "_config", without)
    names = {"fork_loop", "large_file", "flood"}
    said = _weakened(names)
    assert set(said) == names, said
