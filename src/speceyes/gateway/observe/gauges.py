"""Values that are asked for when somebody scrapes: slots, queues, and the state of an audit."""

from __future__ import annotations

import dataclasses
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

log = logging.getLogger(__name__)

Read = Callable[[], Mapping[str, float]]
"""Values by the label's value; by "" for a metric without a label."""


class Pool(Protocol):
    """What has slots: `speceyes.scheduling.Slots`, or the queue for admission. A `capacity` is shown too."""

    @property
    def held(self) -> int:
        """How many are held now."""

    @property
    def waiting(self) -> int:
        """How many tasks wait for one."""


@dataclass(frozen=True, slots=True)
class _Watched:
    help: str
    label: str | None
    read: Read
    counts: bool


class Gauges(Collector):
    """Metrics that are read at the moment of scraping, so that they cost nothing in between."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._pools: dict[str, Pool] = {}
        self._states: dict[str, object] = {}

    def watch(self, name: str, help: str, read: Read, *, label: str | None = None, counts: bool = False) -> None:
        """Show what `read` returns.

        Args:
            name: The metric's name, with its unit.
            help: What it means.
            read: Is called at every scrape. What it raises is logged, and the metric left out.
            label: Name of the label whose values are the mapping's keys; None for a single value under "".
            counts: Whether it only ever grows.
        """
        self._watched[name] = _Watched(help, label, read, counts)

    def watch_pool(self, name: str, pool: Pool) -> None:
        """Show how many slots a pool has, how many are held, and how many tasks wait for one."""
        self._pools[name] = pool

    def show(self, name: str, state: object) -> None:
        """Show the numbers of a state, such as an audit's snapshot.

        A number or flag becomes `speceyes_<name>_<field>`, a pair of numbers two such metrics with `_low` and `_high`
        behind, any other sequence its length with `_count` behind. None, infinities and texts are left out.

        Args:
            name: The state's name; a later state takes the place of an earlier one.
            state: A dataclass or a mapping; or a function that returns one, which is called at every scrape.
        """
        self._states[_safe(name)] = state

    def describe(self) -> Iterator[Metric]:
        """Nothing: names are added while the gateway is put together."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All values, as they are now."""
        yield self._slots()
        for name, state in self._states.items():
            values: Mapping[str, float] = _read(name, lambda state=state: _numbers(state))  # type: ignore[misc]
            for field, value in values.items():
                yield GaugeMetricFamily(f"speceyes_{name}_{field}", f"{field} of the state {name}.", value=value)
        for name, watched in self._watched.items():
            labels = [watched.label] if watched.label else []
            family = (CounterMetricFamily if watched.counts else GaugeMetricFamily)(name, watched.help, labels=labels)
            for key, value in _read(name, watched.read).items():
                family.add_metric([key] if labels else [], value)
            yield family

    def _slots(self) -> Metric:
        family = GaugeMetricFamily(
            "speceyes_slots", "Places for work at the same time, and who waits for one.", labels=["pool", "state"]
        )
        for name, pool in self._pools.items():
            found = {"held": pool.held, "waiting": pool.waiting, "capacity": getattr(pool, "capacity", None)}
            for state, value in found.items():
                if value is not None:
                    family.add_metric([name, state], value)
        return family


def _read(name: str, read: Read) -> Mapping[str, float]:
    try:
        return read()
    except Exception as error:  # a scrape must not fail for one metric
        log.warning("the metric %s cannot be read: %s", name, error)
        return {}


def _numbers(state: object) -> dict[str, float]:
    state = state() if callable(state) else state
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        values: Mapping[str, Any] = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    else:
        values = state if isinstance(state, Mapping) else {}
    found: dict[str, float] = {}
    for field, value in values.items():
        match value:
            case int() | float():
                found[field] = value
            case (int() | float() as low, int() | float() as high):
                found |= {f"{field}_low": low, f"{field}_high": high}
            case list() | tuple():
                found[f"{field}_count"] = len(value)
    return {_safe(field): float(value) for field, value in found.items() if math.isfinite(value)}


def _safe(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII)
