"""What the tests of trust share: records, metrics, a certified calibration, and when things beside the requests end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway_server import Running
from prometheus_client.parser import text_string_to_metric_families

from speceyes.gateway.trust.auditor import Auditor
from speceyes.gateway.trust.standing import Standing
from speceyes.gating import Calibration, fingerprint
from speceyes.phases.speculate import PROMPT
from speceyes.store import RequestRecord, Store


def kept(tmp_path: Path, **more: Any) -> dict[str, Any]:
    """Settings under which records are kept."""
    return {"store.enabled": True, "store.url": f"sqlite:///{tmp_path / 'requests.db'}", **more}


async def records(served: Running, tmp_path: Path) -> dict[str, RequestRecord]:
    """By id, once all that was offered is written."""
    recorder = served.gateway.observer.recorder
    assert recorder is not None
    await until(lambda: not served.gateway.observer.metrics.under_way)
    await recorder.drained()
    async with await Store.open(f"sqlite:///{tmp_path / 'requests.db'}") as store:
        return {record.id: record async for record in store.iterate()}


async def metrics(served: Running) -> dict[str, float]:
    """Samples as they stand in the text: `name{label="value",...}`."""
    reply = await served.http.get(f"{served.url.removesuffix('/v1')}/metrics")
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


async def until(condition: Callable[[], object]) -> None:
    """Wait for what nobody tells. A condition that never holds ends in an error, not in a wrong result."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)


def auditor(served: Running) -> Auditor:
    found = served.gateway.trust.auditor
    assert found is not None
    return found


def standing(served: Running) -> Standing:
    found = served.gateway.trust.standing
    assert found is not None
    return found


async def audited(served: Running) -> None:
    """Wait until no audit is under way."""
    await until(lambda: not auditor(served).under_way)
    await asyncio.sleep(0)  # a task's last callback


def certified(*thresholds: float, alpha: float = 0.1, **fields: Any) -> Calibration:
    """A calibration for the scripted models that promises at most so much disagreement at each of these thresholds.

    They stand strictest first.
    """
    passed = [
        {"threshold": value, "accepted": 100, "losses": (0,), "bounds": (0.03,), "intervals": ((0.0, 0.04),)}
        for value in thresholds
    ]
    content: dict[str, Any] = {
        "threshold": thresholds[-1],
        "k": 8,
        "method": "made for a test",
        "n": 200,
        "accepted": 100,
        "risk": 0.0,
        "alpha": alpha,
        "delta": 0.05,
        "bound": 0.03,
        "interval": (0.0, 0.04),
        "promises": ({"risk": "disagreement", "alpha": alpha},),
        "certified": tuple(passed),
        "draft_model": "small",
        "agent_model": "large",
        "draft_prompt": fingerprint(PROMPT),
        "data": "made up",
    }
    return Calibration(**content | fields)
