"""Configuration: frozen, checked once, from flags over the environment over a file over the defaults."""

from speceyes.config.settings import (
    AgentSettings,
    DraftSettings,
    EngineSettings,
    FunnelSettings,
    GateSettings,
    ImageSettings,
    Settings,
)
from speceyes.config.sources import CONFIG_FILE, ENV_PREFIX, load_settings

__all__ = [
    "CONFIG_FILE",
    "ENV_PREFIX",
    "AgentSettings",
    "DraftSettings",
    "EngineSettings",
    "FunnelSettings",
    "GateSettings",
    "ImageSettings",
    "Settings",
    "load_settings",
]
