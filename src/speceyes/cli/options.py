"""The flags by which commands choose models and gate, and the settings that they make together with the rest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from speceyes.config import Settings

_MODELS, _GATE = "Models (without any: the nano pair that comes with SpecEyes)", "Gate"

ConfigFile = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Settings; by default speceyes.toml, if it is there.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Any setting by its name, such as draft.retries=0. Repeatable."),
]
DraftUrl = Annotated[
    str | None,
    typer.Option("--draft-url", "--draft", metavar="URL", help="Server of the draft model.", rich_help_panel=_MODELS),
]
DraftName = Annotated[
    str | None,
    typer.Option("--draft-model", metavar="NAME", help="Its name there; not needed for one.", rich_help_panel=_MODELS),
]
AgentUrl = Annotated[
    str | None,
    typer.Option("--agent-url", "--agent", metavar="URL", help="Server of the agent.", rich_help_panel=_MODELS),
]
AgentName = Annotated[
    str | None,
    typer.Option("--agent-model", metavar="NAME", help="Its name there; not needed for one.", rich_help_panel=_MODELS),
]
DialectName = Annotated[
    str | None,
    typer.Option("--dialect", metavar="NAME", help="How the agent calls tools.", rich_help_panel=_MODELS),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE", help="Threshold and what it was made for.", rich_help_panel=_GATE),
]
Threshold = Annotated[
    float | None,
    typer.Option("--threshold", help="Least score of an accepted draft, set by hand.", rich_help_panel=_GATE),
]
MaxDepth = Annotated[
    int | None,
    typer.Option(
        "--max-depth",
        min=0,
        help="How often the draft model may look closer by itself; 0 if not given.",
        rich_help_panel=_GATE,
    ),
]
LogprobCount = Annotated[
    int | None, typer.Option("--k", help="Log-probs of a token that the score uses.", rich_help_panel=_GATE)
]

_FLAGS = {
    "draft.url": "--draft-url",
    "draft.model": "--draft-model",
    "agent.url": "--agent-url",
    "agent.model": "--agent-model",
    "agent.dialect": "--dialect",
    "gate.calibration": "--calibration",
    "gate.threshold": "--threshold",
    "gate.k": "--k",
    "draft.logprobs": "--k",
    "speculation.max_depth": "--max-depth",
    "serve.host": "--host",
    "serve.port": "--port",
    "serve.allow_unauthenticated": "--allow-unauthenticated",
    "access.keys_file": "--api-key-file",
    "fetch.enabled": "--fetch-images",
    "trust.mode": "--trust",
}


def read_settings(
    config: Path | None = None, assignments: Sequence[str] | None = None, given: Mapping[str, Any] | None = None
) -> Settings:
    """Settings from flags, environment and file.

    Args:
        config: The value of `--config`.
        assignments: The values of `--set`.
        given: The values of the other flags by the setting's dotted name; None where a flag is not given.

    Raises:
        ConfigError: As `load_settings`, or an assignment without a `=`.
    """
    from speceyes.config import load_settings

    overrides: dict[str, Any] = {}
    names: dict[str, str] = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment}: write it as NAME=VALUE, for example draft.retries=0")
        overrides[name.strip()] = value.strip()
        names[name.strip()] = f"--set {name.strip()}"
    for name, value in (given or {}).items():
        if value is not None:
            overrides[name] = value
            names[name] = _FLAGS[name]
    return load_settings(config, overrides=overrides, names=names)


def key_from(variable: str | None) -> str | None:
    """An API key from the environment variable that `--api-key-env` names.

    Raises:
        ConfigError: It is not set.
    """
    if variable is None:
        return None
    if not os.environ.get(variable):
        raise ConfigError(f"--api-key-env {variable}: that environment variable is not set")
    return os.environ[variable]
