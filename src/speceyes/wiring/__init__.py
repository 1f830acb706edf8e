"""From settings to a running funnel: servers are started, clients opened, and all of it closed again.

    async with open_funnel(load_settings()) as funnel:
        answer = await funnel.answer(Query("What digit is on the red sign?", (load("scene.png"),)))

`open_draft` and `open_agent` open one model alone, for a baseline on the same engine.
"""

from speceyes.wiring.engines import OpenEngine, connect, nano_fingerprint, open_engine
from speceyes.wiring.funnel import (
    find_calibration,
    make_funnel,
    nano_calibration_file,
    open_agent,
    open_draft,
    open_funnel,
)
from speceyes.wiring.prompts import read_prompts

__all__ = [
    "OpenEngine",
    "connect",
    "find_calibration",
    "make_funnel",
    "nano_calibration_file",
    "nano_fingerprint",
    "open_agent",
    "open_draft",
    "open_engine",
    "open_funnel",
    "read_prompts",
]
