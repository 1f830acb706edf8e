"""What a benchmark ran on, so that its figures can be judged."""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("speceyes", "xllamacpp", "numpy", "pillow", "httpx")


def machine() -> dict[str, Any]:
    """Processor, cores, load before the run, and versions."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "cpu": _cpu(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def line(found: dict[str, Any]) -> str:
    """The machine in one line, for the screen."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items())
    return "{cpu}, {cores} cores, load {load_before} before; Python {python}, ".format(**found) + packages


def peak_mb() -> float:
    """Peak resident memory of this process so far, in MB of 10^6 bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # `getrusage` would count what the parent had when it started this process
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return round(int(line.split()[1]) * 1024 / 1e6, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
