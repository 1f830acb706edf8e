"""The section `sandbox`: where code that a model writes is run, and what it may use."""

from __future__ import annotations

from typing import Literal

from speceyes.config.section import Count, FilePath, Seconds, Section, Text


class SandboxSettings(Section):
    """Where code that a model writes is run, and what it may use."""

    provider: Literal["off", "auto", "bubblewrap", "container"] = "off"
    """`off`: nowhere; the agent has no tool that runs code. `bubblewrap`: by the program `bwrap`, on Linux.
    `container`: by Docker or Podman. `auto`: the first of the two that works here. Where it does not work, nothing
    starts: code is never run without isolation."""

    timeout_s: Seconds = 20.0
    """Seconds of one step."""
    cpu_s: Count = 120
    """Processor seconds of one process, over all steps of an agent run."""
    memory_mib: Count = 2048
    """Memory of one process."""
    total_memory_mib: Count = 4096
    """Memory of all processes of an agent run; at least `memory_mib`."""
    processes: Count = 64
    """Processes and threads at a time."""
    files_mib: Count = 256
    """All files that the code writes."""
    output_chars: Count = 10_000
    """Characters of what the code prints that the model reads."""
    pictures: Count = 8
    """Pictures that the model is shown of one step."""

    packages: FilePath | None = None
    """A folder made by `speceyes sandbox setup`. None: `~/.local/share/speceyes/sandbox`; where that is missing, the
    packages that SpecEyes itself uses."""
    container_engine: Literal["auto", "docker", "podman"] = "auto"
    """The program that starts containers. `auto`: the first of the two that works."""
    container_image: Text = "speceyes-sandbox"
    """Made by `speceyes sandbox image`, or from `deploy/sandbox/Containerfile`. It is never fetched."""
    container_runtime: Text | None = None
    """The engine's runtime, such as `runc`. None: its default."""
