"""Which sandboxes there are, and the one that a configuration wants. Where none isolates code, none is given."""

from __future__ import annotations

from speceyes.config.sandbox import SandboxSettings
from speceyes.errors import SandboxUnavailable
from speceyes.sandbox.base import Limits, Provider
from speceyes.sandbox.bubblewrap import Bubblewrap
from speceyes.sandbox.container import Container

_MIB = 1024**2


def known_providers(settings: SandboxSettings | None = None) -> tuple[Provider, ...]:
    """All providers, the one that starts fastest first."""
    chosen = settings or SandboxSettings()
    engine = None if chosen.container_engine == "auto" else chosen.container_engine
    return (
        Bubblewrap(chosen.packages),
        Container(engine, chosen.container_image, chosen.container_runtime),
    )


async def choose_provider(settings: SandboxSettings) -> Provider | None:
    """The provider that the settings name, which has been tried; None where they say `off`.

    Raises:
        SandboxUnavailable: It does not work here; with `auto`, none does. The message has every reason.
    """
    if settings.provider == "off":
        return None
    providers = [one for one in known_providers(settings) if settings.provider in ("auto", one.name)]
    reasons = []
    for provider in providers:
        found = await provider.available()
        if found.available:
            return provider
        reasons.append(f"{provider.name}: {found.reason}")
    raise SandboxUnavailable(f"no sandbox for code that a model writes ({'; '.join(reasons)})")


def limits_of(settings: SandboxSettings) -> Limits:
    """The limits that the settings name; the others have their defaults."""
    return Limits(
        wall_s=settings.timeout_s,
        cpu_s=settings.cpu_s,
        memory_bytes=settings.memory_mib * _MIB,
        total_memory_bytes=max(settings.memory_mib, settings.total_memory_mib) * _MIB,
        processes=settings.processes,
        files_bytes=settings.files_mib * _MIB,
        output_chars=settings.output_chars,
        pictures=settings.pictures,
    )
