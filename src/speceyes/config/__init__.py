"""Configuration: frozen, checked once, from flags over the environment over a file over the defaults."""

from speceyes.config.funnel import BreakerSettings, FunnelSettings
from speceyes.config.sandbox import SandboxSettings
from speceyes.config.settings import (
    AccessSettings,
    AgentSettings,
    DraftSettings,
    EngineSettings,
    FetchSettings,
    GateSettings,
    ImageSettings,
    ObserveSettings,
    ServeSettings,
    Settings,
    StoreSettings,
    TransparentSettings,
)
from speceyes.config.sources import CONFIG_FILE, ENV_PREFIX, load_settings
from speceyes.config.trust import TrustSettings

__all__ = [
    "CONFIG_FILE",
    "ENV_PREFIX",
    "AccessSettings",
    "AgentSettings",
    "BreakerSettings",
    "DraftSettings",
    "EngineSettings",
    "FetchSettings",
    "FunnelSettings",
    "GateSettings",
    "ImageSettings",
    "ObserveSettings",
    "SandboxSettings",
    "ServeSettings",
    "Settings",
    "StoreSettings",
    "TransparentSettings",
    "TrustSettings",
    "load_settings",
]
