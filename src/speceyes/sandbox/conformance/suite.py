"""The suite: all checks on one provider, one after another, and what came of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from speceyes.errors import SandboxError
from speceyes.sandbox.base import Provider
from speceyes.sandbox.conformance import (
    kernel,
    network,
    output,
    pictures,
    processes,
    reading,
    resources,
    sessions,
    waiting,
    writing,
)
from speceyes.sandbox.conformance.checks import Broken, Check, Ground
from speceyes.sandbox.conformance.host import Host, planted

CHECKS: tuple[Check, ...] = tuple(
    check
    for group in (reading, writing, network, kernel, processes, waiting, resources, output, pictures, sessions)
    for check in group.CHECKS.all
)
"""All checks, in the order in which they are run."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a check.

    Attributes:
        group: What the check is about.
        name: Its name.
        title: What must hold.
        passed: Whether it held.
        detail: How it did not.
        seconds: How long it took.
    """

    group: str
    name: str
    title: str
    passed: bool
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a provider.

    Attributes:
        provider: Its name.
        available: Whether it works here. Only then are there results.
        reason: Why not, or what was found.
        not_covered: What it does not protect from.
        results: One for each check.
    """

    provider: str
    available: bool
    reason: str
    not_covered: tuple[str, ...]
    results: tuple[Result, ...] = ()

    @property
    def failed(self) -> int:
        """How many checks did not hold."""
        return sum(not result.passed for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """The report as the command prints it."""
        counts = {"passed": len(self.results) - self.failed, "failed": self.failed}
        return {
            "provider": self.provider,
            "available": self.available,
            "reason": self.reason,
            **counts,
            "not_covered": list(self.not_covered),
            "checks": [asdict(result) for result in self.results],
        }


async def check_provider(
    provider: Provider,
    checks: Sequence[Check] = CHECKS,
    say: Callable[[str], None] = lambda text: None,
    *,
    at_once: int = 3,
) -> Report:
    """Attack a provider.

    Args:
        provider: The provider.
        checks: Which checks.
        say: Is told which check is under way.
        at_once: Checks under way at a time.
    """
    found = await provider.available()
    if not found.available:
        return Report(provider.name, False, found.reason, provider.not_covered)
    places = asyncio.Semaphore(at_once)
    async with planted() as host:

        async def one(number: int, check: Check) -> Result:
            async with places:
                say(f"{provider.name}: {number} of {len(checks)}, {check.title}")
                return await _result(check, provider, host)

        results = await asyncio.gather(*(one(number, check) for number, check in enumerate(checks, 1)))
    return Report(provider.name, True, found.reason, provider.not_covered, tuple(results))


async def _result(check: Check, provider: Provider, host: Host) -> Result:
    began = time.monotonic()
    ground = Ground(provider, host)
    try:
        await check.run(ground)
        detail = host.harm(ground.outcomes) or ""
    except Broken as broken:
        detail = host.harm(ground.outcomes) or str(broken)
    except SandboxError as error:
        detail = f"the sandbox broke: {error}"
    except Exception as error:  # what an attack leads to in the check's own code is an attack that did something
        detail = f"the check itself failed: {type(error).__name__}: {error}"
    seconds = time.monotonic() - began
    return Result(check.group, check.name, check.title, not detail, detail, round(seconds, 3))
