"""Metrics by themselves: labels that stay few, gauges that are read on scraping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from speceyes.errors import EngineUnreachable
from speceyes.events import CircuitChanged
from speceyes.gateway.observe import Gauges, Metrics
from speceyes.types import Reason, Usage


def samples(metrics: Metrics) -> dict[str, float]:
    text = metrics.text().decode()
    return {
        sample.name + "".join(f" {name}={value}" for name, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def end(metrics: Metrics, **fields: Any) -> None:
    known: dict[str, Any] = {
        "model": "speceyes",
        "key": None,
        "route": "draft",
        "reason": "accepted",
        "status": 200,
        "seconds": 0.3,
        "first_token_s": None,
    }
    metrics.request_began()
    metrics.request_ended(**(known | fields))


def test_clients_cannot_make_labels() -> None:
    metrics = Metrics(["speceyes", "alias"], ["small", "large"], ["team-a"])
    before = len(samples(metrics))
    for i in range(500):
        end(metrics, model=f"model-{i}", key=f"key-{i}")
        metrics.used({f"model-{i}": Usage(1, 2, 3, 1)})
        metrics.upstream_survived("draft_failed", f"Strange{i}: {i}")
        metrics.upstream_failed("agent", f"Error{i}")
        metrics.circuit(CircuitChanged(f"model-{i}", "open"))
    found = samples(metrics)
    assert len(found) - before < 60
    assert found["speceyes_requests_total model=other reason=accepted route=draft status=200"] == 500
    assert found["speceyes_key_requests_total key=other status=200"] == 500
    assert found["speceyes_tokens_total kind=completion model=other"] == 1000
    end(metrics, model="alias", key="team-a")
    metrics.known_key("made-later")
    end(metrics, key="made-later")
    found = samples(metrics)
    assert found["speceyes_requests_total model=alias reason=accepted route=draft status=200"] == 1
    assert found["speceyes_key_requests_total key=team-a status=200"] == 1
    assert found["speceyes_key_requests_total key=made-later status=200"] == 1


def test_unknown_token_counts_are_not_zero_counts() -> None:
    metrics = Metrics(models=["small"])
    metrics.used({"small": Usage(None, 3, None, 2)})
    found = samples(metrics)
    assert "speceyes_tokens_total kind=prompt model=small" not in found
    assert found["speceyes_tokens_total kind=completion model=small"] == 3
    assert found["speceyes_model_calls_total model=small"] == 2


def test_rates_of_screening_and_acceptance() -> None:
    metrics = Metrics()
    metrics.decided(Reason.TOOL_WOULD_HELP, screened=True, drafted=False)
    metrics.decided(Reason.BELOW_THRESHOLD, screened=True, drafted=True)
    metrics.decided(Reason.ACCEPTED, screened=True, drafted=True)
    metrics.decided(Reason.INFEASIBLE, screened=False, drafted=False)
    found = samples(metrics)
    assert found["speceyes_screenings_total passed=true"] == 2
    assert found["speceyes_screenings_total passed=false"] == 1
    assert found["speceyes_drafts_total accepted=true"] == 1
    assert found["speceyes_drafts_total accepted=false"] == 1


def test_a_circuit_is_in_one_state() -> None:
    metrics = Metrics(models=["large"])
    assert samples(metrics)["speceyes_circuit_state model=large state=closed"] == 1
    metrics.circuit(CircuitChanged("large", "open", EngineUnreachable("gone")))
    found = samples(metrics)
    assert [found[f"speceyes_circuit_state model=large state={s}"] for s in ("closed", "half_open", "open")] == [
        0,
        0,
        1,
    ]


def test_the_state_of_an_audit_becomes_gauges() -> None:
    @dataclass
    class Snapshot:
        e_value: float
        alarm: bool
        audited: int
        threshold: float | None
        bound: float
        name: str
        interval: tuple[float, float] | None
        alarms: tuple[str, ...]

    metrics = Metrics()
    metrics.gauges.show("audit", Snapshot(1.5, False, 30, None, math.inf, "excess", (0.01, 0.25), ()))
    found = samples(metrics)
    shown = {name: value for name, value in found.items() if name.startswith("speceyes_audit_")}
    assert shown == {
        "speceyes_audit_e_value": 1.5,
        "speceyes_audit_alarm": 0,
        "speceyes_audit_audited": 30,
        "speceyes_audit_interval_low": 0.01,
        "speceyes_audit_interval_high": 0.25,
        "speceyes_audit_alarms_count": 0,
    }
    metrics.gauges.show("audit", lambda: {"e_value": 40.0, "alarm": True})
    assert samples(metrics)["speceyes_audit_alarm"] == 1


def test_one_gauge_that_breaks_does_not_break_the_others() -> None:
    metrics = Metrics()

    def broken() -> dict[str, float]:
        raise RuntimeError("gone")

    metrics.gauges.watch("speceyes_broken", "Broken.", broken)
    metrics.gauges.watch("speceyes_fine", "Fine.", lambda: {"x": 1.0, "y": 2.0}, label="part")
    found = samples(metrics)
    assert "speceyes_broken" not in found
    assert (found["speceyes_fine part=x"], found["speceyes_fine part=y"]) == (1.0, 2.0)


def test_pools_are_read_when_scraped() -> None:
    @dataclass
    class Pool:
        held: int = 0
        waiting: int = 0

    pool, metrics = Pool(), Metrics()
    metrics.gauges.watch_pool("loops", pool)
    pool.held, pool.waiting = 3, 2
    found = samples(metrics)
    assert (found["speceyes_slots pool=loops state=held"], found["speceyes_slots pool=loops state=waiting"]) == (3, 2)
    assert isinstance(metrics.gauges, Gauges)


def test_every_metric_names_its_unit_or_counts() -> None:
    metrics = Metrics(models=["small"])
    end(metrics, first_token_s=0.1)
    metrics.fetched("ok", 0.2, 1000)
    for family in text_string_to_metric_families(metrics.text().decode()):
        if family.name.startswith("speceyes_"):
            assert family.documentation
            timed = family.type == "histogram"
            assert family.name.endswith("_seconds") or not timed
    assert samples(metrics)["speceyes_fetch_bytes_total"] == 1000
    assert samples(metrics)["speceyes_build_info version=0.1.0"] == 1
