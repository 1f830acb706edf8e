"""`speceyes keys`: API keys of the gateway, made, listed and revoked in a file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import options, output
from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from speceyes.gateway.access.keyfile import KeyRecord

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is, or what for. Shown in logs and metrics.")]
KeysFile = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="Where the keys are; by default the setting access.keys_file."),
]


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    keys = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys of the gateway.")
    keys.command("create")(create)
    keys.command("list")(show)
    keys.command("revoke")(revoke)
    app.add_typer(keys, name="keys")


def create(
    name: Name,
    file: KeysFile = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope", help="chat: ask questions (the default). admin: see metrics, audit and plan. Repeatable."
        ),
    ] = None,
    days: Annotated[float | None, typer.Option("--days", min=0, help="Valid for so long; without it for ever.")] = None,
    max_in_flight: Annotated[
        int | None, typer.Option("--max-in-flight", min=1, help="Most requests of this key under way at a time.")
    ] = None,
    config: options.ConfigFile = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Make a key. It is shown once, on standard output; the file keeps only a hash of it."""
    from speceyes.gateway.access.keyfile import Scope, create_key

    output.check_target(json_target)
    unknown = set(scope or ()) - set(Scope)
    if unknown:
        raise ConfigError(f"--scope {', '.join(sorted(unknown))}: there are {', '.join(Scope)}")
    path = _file(file, config)
    scopes = frozenset(map(Scope, scope or [Scope.CHAT]))
    key, record = create_key(path, name, scopes, expires=_in_days(days), max_in_flight=max_in_flight)
    if json_target != output.STDOUT:
        typer.echo(key.get_secret_value())
        typer.echo(f"This is the only time that the key of {name} is shown. {path} keeps a hash of it.", err=True)
    output.write_json(json_target, {"key": key.get_secret_value(), **_as_json(record)})


def show(file: KeysFile = None, config: options.ConfigFile = None, json_target: output.JsonTarget = None) -> None:
    """List the keys of a file: whose they are, and what they may. No key is shown; none is known."""
    from speceyes.gateway.access.keyfile import read_keys

    output.check_target(json_target)
    rows = [_as_json(record) for record in read_keys(_file(file, config))]
    if json_target != output.STDOUT:
        output.console().print(_table(rows) if rows else "There are no keys.")
    output.write_json(json_target, {"keys": rows})


def revoke(
    name: Name,
    file: KeysFile = None,
    config: options.ConfigFile = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Revoke a key. A running gateway refuses it from its next request on."""
    from speceyes.gateway.access.keyfile import revoke_key

    output.check_target(json_target)
    record = revoke_key(_file(file, config), name)
    if json_target != output.STDOUT:
        typer.echo(f"The key {record.id} of {name} is revoked.")
    output.write_json(json_target, _as_json(record))


def _file(given: Path | None, config: Path | None) -> Path:
    """The file that a flag names, or else the settings."""
    if given is not None:
        return given
    if (known := options.read_settings(config).access.keys_file) is None:
        raise ConfigError(
            "which file holds the keys? Give --file keys.jsonl, or set access.keys_file in speceyes.toml, where the "
            "gateway reads it too"
        )
    return known


def _in_days(days: float | None) -> datetime | None:
    if days is None:
        return None
    try:
        return datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
    except OverflowError:
        raise ConfigError(
            f"--days {days:g} is beyond the calendar; leave it out for a key that never expires"
        ) from None


def _as_json(record: KeyRecord) -> dict[str, Any]:
    """What may be shown of a key: `name`, `id`, `state`, `scopes`, `created`, `expires`, `revoked`, `max_in_flight`."""
    shown = record.model_dump(mode="json", exclude={"salt", "digest"})
    return shown | {"scopes": sorted(record.scopes), "state": record.state(datetime.now(UTC))}


def _table(rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("name", "id", "state", "scopes", "created", "expires", "in flight"):
        table.add_column(title, overflow="fold")
    for row in rows:
        colour = "green" if row["state"] == "valid" else "red"
        created, expires = row["created"][:10], (row["expires"] or "never")[:16].replace("T", " ")
        limit = str(row["max_in_flight"] or "")
        state = Text(row["state"], colour)
        table.add_row(row["name"], row["id"], state, " ".join(row["scopes"]), created, expires, limit)
    return table
