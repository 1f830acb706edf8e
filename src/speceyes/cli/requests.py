"""`speceyes requests`: what a gateway has recorded. List it, look at one, make a run of it, delete what is old."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from speceyes.cli import options, output
from speceyes.errors import ConfigError, InputError

if TYPE_CHECKING:
    from speceyes.config import StoreSettings
    from speceyes.store import RequestRecord, Selection, Store

T = TypeVar("T")

StoreUrl = Annotated[
    str | None,
    typer.Option("--store", metavar="URL", help="sqlite:///FILE or postgresql://...; by default as the settings say."),
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="2h, 7d, or 2026-01-31T12:00 (UTC): not older than this.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="As --since: older than this.")]
Key = Annotated[str | None, typer.Option("--key", metavar="NAME", help="Of one API key.")]
Routes = Annotated[Literal["draft", "agent"] | None, typer.Option("--route", help="Of one route.")]
ReasonName = Annotated[str | None, typer.Option("--reason", metavar="NAME", help="Of one reason.")]
Status = Annotated[int | None, typer.Option("--status", help="Of one HTTP status; 499: the client went away.")]

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    requests = typer.Typer(no_args_is_help=True, help="Look at the requests that a gateway has recorded.")
    requests.command("list")(list_)
    requests.command("show")(show)
    requests.command("export")(export)
    requests.command("prune")(prune)
    app.add_typer(requests, name="requests")


def list_(
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="At most so many, the latest.")] = 20,
    since: Since = None,
    until: Until = None,
    route: Routes = None,
    reason: ReasonName = None,
    status: Status = None,
    key: Key = None,
    store: StoreUrl = None,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
) -> None:
    """List the latest requests, the newest last."""
    from speceyes.cli.requests_report import as_json, table

    output.check_target(json_target)
    settings = _settings(config, assignments)
    chosen = _selection(since, until, route=route, reason=reason, status=status, key=key)

    async def read(open_store: Store) -> tuple[list[RequestRecord], int]:
        return await open_store.newest(limit, chosen), await open_store.count(chosen)

    records, count = _with_store(settings, store, read)
    records.reverse()
    if json_target != output.STDOUT:
        output.console().print(table(records, count))
    output.write_json(json_target, {"count": count, "requests": [as_json(record) for record in records]})


def show(
    id: Annotated[
        str, typer.Argument(metavar="ID", help="As in the header x-speceyes-request-id; its beginning is enough.")
    ],
    store: StoreUrl = None,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
) -> None:
    """Show all that is known of one request."""
    from speceyes.cli.requests_report import as_json, sheet

    output.check_target(json_target)

    async def read(open_store: Store) -> list[RequestRecord]:
        record = await open_store.get(id)
        return [record] if record is not None else await open_store.beginning_with(id)

    found = _with_store(_settings(config, assignments), store, read)
    if len(found) != 1:
        which = "several requests begin with" if found else "there is no record of a request"
        raise InputError(f"{which} {id!r}; `speceyes requests list` shows the latest")
    (record,) = found
    if json_target != output.STDOUT:
        output.console().print(sheet(record))
    output.write_json(json_target, as_json(record, tokens=True))


def export(
    folder: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="The run's folder: new, or empty.")],
    sample: Annotated[
        Literal["observed", "audited"],
        typer.Option(help="All requests of a gateway that observes, or the accepted ones that it audited."),
    ] = "observed",
    since: Since = None,
    until: Until = None,
    key: Key = None,
    store: StoreUrl = None,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
) -> None:
    """Write requests that draft and agent both answered as a recorded run, to sweep and to calibrate on."""
    from speceyes.evals.records.parts import need_pyarrow

    need_pyarrow()
    output.check_target(json_target)
    settings = _settings(config, assignments)
    chosen = _selection(since, until, key=key)
    with output.working("Reading the store") as say:

        async def write(open_store: Store) -> dict[str, Any]:
            from speceyes.evals.records.requests import export_requests

            done = await export_requests(
                open_store, folder, sample, chosen, done=lambda rows: say(f"{rows} requests written")
            )
            return {"folder": str(folder), "sample": sample, "rows": done.rows, "left_out": dict(done.left_out)}

        found = _with_store(settings, store, write)
    if json_target != output.STDOUT:
        typer.echo(f"{found['rows']} {sample} requests as a recorded run in {folder}")
        for cause, count in found["left_out"].items():
            typer.echo(f"left out: {count}, {cause}", err=True)
    output.write_json(json_target, found)


def prune(
    max_age: Annotated[
        str | None, typer.Option("--max-age", metavar="TIME", help="Delete what is older, such as 30d.")
    ] = None,
    max_records: Annotated[int | None, typer.Option("--max-records", min=0, help="Keep so many, the latest.")] = None,
    store: StoreUrl = None,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
) -> None:
    """Delete old records now, and the images that no record mentions; by default as the settings say."""

    output.check_target(json_target)
    settings = _settings(config, assignments)
    age: float | None = None
    if max_age is None and max_records is None:
        age = None if settings.max_age_days is None else settings.max_age_days * _UNITS["d"]
        max_records = settings.max_records
    elif max_age is not None:
        age = _span(max_age, "--max-age")
    with output.working("Deleting old records"):

        async def work(open_store: Store) -> dict[str, int]:
            from speceyes.store import Pictures, Retention

            deleted = await open_store.prune(Retention(age, max_records), time.time())
            oldest = await open_store.oldest()
            images = 0
            if settings.images is not None:
                images = Pictures(settings.images).prune(time.time() if oldest is None else oldest)
            return {"deleted": deleted, "images_deleted": images, "left": await open_store.count()}

        found = _with_store(settings, store, work)
    if json_target != output.STDOUT:
        typer.echo(f"{found['deleted']} records deleted, {found['left']} left")
    output.write_json(json_target, found)


def _settings(config: Path | None, assignments: list[str] | None) -> StoreSettings:
    """The section `store` of the settings.

    Raises:
        ConfigError: What the store needs is not installed; or as `read_settings`.
    """
    try:
        import speceyes.store  # noqa: F401
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"request records need an extra ({error.name} is not installed): pip install 'speceyes[gateway]'"
        ) from None
    return options.read_settings(config, assignments).store


def _with_store(settings: StoreSettings, url: str | None, work: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Open the store that is meant, if it is there, and do something with it."""
    from speceyes.store import Store, default_url, what_failed
    from speceyes.store.database import parse_url

    named = url or (settings.url.get_secret_value() if settings.url else None) or default_url()
    parsed = parse_url(named)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").is_file():
        raise InputError(
            f"there are no request records: the file {parsed.database} does not exist. A running gateway makes it; "
            "--store names another."
        )

    async def run() -> T:
        from sqlalchemy.exc import SQLAlchemyError

        async with await Store.open(named) as opened:
            try:
                return await work(opened)
            except SQLAlchemyError as error:
                raise ConfigError(f"the store of request records failed: {what_failed(error)}") from error

    return asyncio.run(run())


def _selection(since: str | None, until: str | None, **more: Any) -> Selection:
    from speceyes.store.record import Selection

    return Selection(_moment(since, "--since"), _moment(until, "--until"), **more)


def _moment(text: str | None, flag: str) -> float | None:
    """A time of day, or so long ago, as seconds since 1970."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return time.time() - _span(text, flag)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _span(text: str, flag: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if match is None:
        raise ConfigError(f"{flag} {text}: write 90s, 15m, 2h, 7d, or a date such as 2026-01-31 or 2026-01-31T12:00")
    return float(match[1]) * _UNITS[match[2]]
