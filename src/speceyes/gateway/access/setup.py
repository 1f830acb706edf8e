"""From the settings to everything that stands at the door."""

from __future__ import annotations

from dataclasses import dataclass

from speceyes.config import Settings
from speceyes.gateway.access.admission import Admission
from speceyes.gateway.access.auth import Doors, Keys
from speceyes.gateway.access.bodies import Bodies, BodyLimits
from speceyes.gateway.access.keyfile import Scope
from speceyes.imaging.addresses import AddressPolicy
from speceyes.imaging.fetch import Fetcher, FetchLimits


@dataclass(frozen=True)
class Access:
    """What a request passes on its way in.

    Attributes:
        keys: Who may ask.
        doors: What key each path needs.
        bodies: Reads what they send.
        admission: How much at a time.
        fetcher: Gets the pictures that they name by URL, where the operator allows it.
    """

    keys: Keys
    doors: Doors
    bodies: Bodies
    admission: Admission
    fetcher: Fetcher


def build_access(settings: Settings) -> Access:
    """Put it together.

    Raises:
        ConfigError: The file of keys cannot be read.
    """
    access = settings.access
    return Access(
        keys=Keys(access.keys_file, access.api_key),
        doors=Doors(ready=_scope(access.ready_scope), metrics=_scope(access.metrics_scope)),
        bodies=Bodies(
            BodyLimits(
                max_bytes=settings.serve.max_body_bytes,
                max_total_bytes=access.max_total_body_bytes,
                timeout_s=access.body_timeout_s,
                min_bytes_per_s=access.body_bytes_per_s,
            )
        ),
        admission=Admission(
            access.in_flight,
            access.queue,
            in_flight_per_key=access.in_flight_per_key,
            max_wait_s=access.queue_timeout_s,
        ),
        fetcher=build_fetcher(settings),
    )


def build_fetcher(settings: Settings) -> Fetcher:
    """A fetcher, which refuses everything where fetching is off."""
    fetch = settings.fetch
    limits = FetchLimits(
        max_bytes=fetch.max_bytes,
        max_total_bytes=fetch.max_total_bytes,
        connect_s=fetch.connect_timeout_s,
        total_s=fetch.timeout_s,
        redirects=fetch.redirects,
    )
    policy = AddressPolicy(
        allow_hosts=fetch.allow_hosts,
        deny_hosts=fetch.deny_hosts,
        allow_networks=fetch.allow_networks,
        deny_networks=fetch.deny_networks,
        ports=fetch.ports,
    )
    return Fetcher(limits, policy if fetch.enabled else None)


def _scope(name: str) -> Scope | None:
    return None if name == "none" else Scope(name)
