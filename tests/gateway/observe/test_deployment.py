"""The dashboard, the alerts and the documentation name metrics that exist, with labels that these have."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from speceyes.events import CircuitChanged
from speceyes.gateway.observe import Metrics, Observer, RequestLog
from speceyes.gateway.trust.telling import watch_trust
from speceyes.gating.audit.snapshot import AuditSnapshot
from speceyes.store import Recorder, Store
from speceyes.types import Reason, Usage

ROOT = Path(__file__).parents[3]
BOARD = ROOT / "deploy" / "grafana" / "speceyes.json"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
PAGE = ROOT / "docs" / "observability.md"
SNAPSHOT = {
    **dict.fromkeys(AuditSnapshot.__dataclass_fields__, 1.0),
    "interval": (0.0, 0.1),
    "alarms": (),
    "drift": (),
}


class Pool:
    capacity, held, waiting = 8, 1, 0


@pytest.fixture(scope="module")
def labels() -> dict[str, set[str]]:
    """Every metric, each of which has been used, and its labels."""
    metrics = Metrics(models=["small"])
    log = RequestLog()
    Observer(metrics, recorder=Recorder(Store.open), log=log)
    log.close()
    metrics.request_began()
    metrics.request_ended(
        model="speceyes", key=None, route="draft", reason="accepted", status=200, seconds=1.0, first_token_s=1.0
    )
    metrics.phase_ended("screen", 1.0)
    metrics.turn_ended(True)
    metrics.decided(Reason.ACCEPTED, screened=True, drafted=True)
    metrics.used({"small": Usage(1, 1, 1, 1)})
    metrics.upstream_failed("draft", "EngineTimeout")
    metrics.audited(True)
    metrics.fetched("ok", 1.0, 1)
    metrics.circuit(CircuitChanged("small", "closed"))
    metrics.gauges.watch_pool("loops", Pool())
    metrics.turned_away(401)
    metrics.planned("paper")
    metrics.looked_closer(True)
    drift = (SimpleNamespace(watched="acceptance", found=None),)
    standing = SimpleNamespace(snapshot=AuditSnapshot(**SNAPSHOT | {"drift": drift}), unsaved=None)
    trust = SimpleNamespace(onlooker=None, auditor=None, standing=standing, mode="audit")
    watch_trust(metrics.gauges, trust)  # type: ignore[arg-type]
    return {
        sample.name: set(sample.labels) | {"instance", "job"}
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }


def expressions() -> list[str]:
    board: dict[str, Any] = json.loads(BOARD.read_text())
    shown = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    yaml = pytest.importorskip("yaml")
    rules = [rule["expr"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert shown
    assert rules
    return shown + rules


def test_dashboard_and_alerts_ask_for_what_there_is(labels: dict[str, set[str]]) -> None:
    for expression in expressions():
        asked = re.findall(r"(speceyes_\w+)(?:\{([^}]*)\})?", expression)
        for name, chosen in asked:
            assert name in labels, f"{expression}: there is no metric {name}"
            assert set(re.findall(r"(\w+)\s*[=!]", chosen)) <= labels[name], f"{expression}: no such label"
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression))))
        for name, _ in asked:
            assert grouped <= labels[name], f"{expression}: {name} has no label of {grouped}"
        assert expression.count("(") == expression.count(")")


def test_panels_do_not_lie_on_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(BOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_page_lists_every_metric_and_no_other(labels: dict[str, set[str]]) -> None:
    listed = set(re.findall(r"`(speceyes_\w+?)`", PAGE.read_text()))
    there = {re.sub(r"_(bucket|sum|count)$", "", name) for name in labels if name.startswith("speceyes_")}
    there = {name for name in there if not name.endswith("_created")}
    audit = {name for name in there if name.startswith("speceyes_audit_")}
    assert listed - audit - {"speceyes_audit_alarms_count"} == there - audit
