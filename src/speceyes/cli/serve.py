"""`speceyes serve`: the gateway. The first line on standard output is its base URL; all else is on standard error."""

from __future__ import annotations

import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from speceyes.cli import options, output
from speceyes.errors import ConfigError

_PANEL = "Gateway"
_NEEDED = ("fastapi", "uvicorn", "httptools", "msgspec", "prometheus_client", "sqlalchemy", "aiosqlite")

Host = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Where to listen; 127.0.0.1 if not given.", rich_help_panel=_PANEL),
]
Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="8040 if not given; 0 takes a free one.", rich_help_panel=_PANEL),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--api-key-file", metavar="FILE", help="Keys that clients need: `speceyes keys`.", rich_help_panel=_PANEL
    ),
]
OpenToAll = Annotated[
    bool | None,
    typer.Option(
        "--allow-unauthenticated",
        help="Let other machines ask without a key.",
        rich_help_panel=_PANEL,
        show_default=False,
    ),
]
FetchImages = Annotated[
    bool | None,
    typer.Option(
        "--fetch-images", help="Fetch images that requests name by URL.", rich_help_panel=_PANEL, show_default=False
    ),
]
Trust = Annotated[
    str | None,
    typer.Option(
        metavar="MODE",
        help="observe (the agent answers, drafts are only noted), enforce (the default), or audit.",
        rich_help_panel=_PANEL,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    host: Host = None,
    port: Port = None,
    api_key_file: KeyFile = None,
    allow_unauthenticated: OpenToAll = None,
    fetch_images: FetchImages = None,
    trust: Trust = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    draft_url: options.DraftUrl = None,
    draft_model: options.DraftName = None,
    agent_url: options.AgentUrl = None,
    agent_model: options.AgentName = None,
    dialect: options.DialectName = None,
    calibration: options.CalibrationFile = None,
    threshold: options.Threshold = None,
    k: options.LogprobCount = None,
    max_depth: options.MaxDepth = None,
) -> None:
    """Serve one OpenAI-compatible URL in front of a draft and an agent; without any, of the nano pair."""
    given = {
        "serve.host": host,
        "serve.port": port,
        "serve.allow_unauthenticated": allow_unauthenticated or None,
        "access.keys_file": api_key_file,
        "fetch.enabled": fetch_images or None,
        "trust.mode": trust,
        "draft.url": draft_url,
        "draft.model": draft_model,
        "agent.url": agent_url,
        "agent.model": agent_model,
        "agent.dialect": dialect,
        "gate.calibration": calibration,
        "gate.threshold": threshold,
        "gate.k": k,
        "speculation.max_depth": max_depth,
    }
    settings = options.read_settings(config, assignments, given)
    _need_gateway()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)

    from speceyes.gateway import server

    with output.working("Starting") as say:
        server.serve(settings, ready=_ready, warn=_warn, say=say)


def _ready(url: str) -> None:
    typer.echo(url)
    sys.stdout.flush()


def _warn(sentence: str) -> None:
    typer.echo(f"warning: {output.visible(sentence)}", err=True)


def _need_gateway() -> None:
    """Raises ConfigError where the extra is not installed."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(f"serving needs more packages ({', '.join(missing)}): pip install 'speceyes[gateway]'")
