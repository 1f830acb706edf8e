"""From settings to an observer that runs."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TextIO

from speceyes.config import ObserveSettings, StoreSettings
from speceyes.errors import ConfigError
from speceyes.gateway.observe.logs import RequestLog
from speceyes.gateway.observe.metrics import Metrics
from speceyes.gateway.observe.observation import Agree
from speceyes.gateway.observe.observer import Observer
from speceyes.gateway.observe.telemetry import Telemetry, open_telemetry
from speceyes.store import Pictures, Recorder, Retention, Store, check_url

log = logging.getLogger(__name__)

_COLLECTORS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_DAY_S = 86_400.0


@asynccontextmanager
async def open_observer(
    observe: ObserveSettings,
    store: StoreSettings,
    *,
    draft: str,
    agent: str,
    names: Collection[str] = ("speceyes",),
    keys: Collection[str] = (),
    setup: Mapping[str, str] | None = None,
    agree: Agree | None = None,
    stream: TextIO | None = None,
) -> AsyncIterator[Observer]:
    """An observer as the settings want it; on leaving, what waits is written.

    Args:
        observe: Logs and traces.
        store: Records.
        draft: Name of the draft model.
        agent: Name of the agent.
        names: Model names that clients may ask for.
        keys: Names of the API keys.
        setup: What a calibration is bound to, as `speceyes.phases.gate.in_use` has it.
        agree: Compares a draft's and an agent's answer.
        stream: Where request lines go. None: standard error.

    Raises:
        ConfigError: A setting cannot be followed. A database that cannot be reached is no such case: it may come back.
    """
    recorder = open_recorder(store)
    telemetry = _telemetry(observe, draft, agent)
    lines = RequestLog(stream, content=observe.log_content) if observe.log else None
    metrics = Metrics(names, {draft, agent}, keys)
    observer = Observer(metrics, log=lines, recorder=recorder, telemetry=telemetry, setup=setup, agree=agree)
    if recorder is not None:
        recorder.start()
    try:
        yield observer
    finally:
        await observer.close()


def open_recorder(settings: StoreSettings) -> Recorder | None:
    """A recorder, not started yet; None where no records are wanted, or the default place cannot be written.

    Raises:
        ConfigError: The store's URL cannot be used.
    """
    if not settings.enabled:
        return None
    url = settings.url.get_secret_value() if settings.url else None
    try:
        check_url(url)
    except ConfigError as error:
        if url is not None:
            raise
        log.warning("no request records are kept: %s. Name another place with store.url.", error)
        return None
    age = settings.max_age_days
    return Recorder(
        partial(Store.open, url, content=settings.content),
        capacity=settings.queue,
        retention=Retention(None if age is None else age * _DAY_S, settings.max_records),
        pictures=Pictures(settings.images) if settings.images else None,
    )


def _telemetry(settings: ObserveSettings, draft: str, agent: str) -> Telemetry | None:
    if settings.traces is None and not any(os.environ.get(name) for name in _COLLECTORS):
        return None
    try:
        return open_telemetry(settings.traces, settings.traces_share, draft=draft, agent=agent)
    except ConfigError as error:
        if settings.traces is not None:
            raise
        log.warning("the environment names a collector of traces, but %s", error)
        return None
