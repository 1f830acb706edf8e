"""`speceyes dialects`: how each family of agents speaks; whether it is spoken right; and its prompts, to be edited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import output
from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from speceyes.agents import Dialect
    from speceyes.agents.dialects.conformance import Check

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Dialects; without any, all.")]
FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    dialects = typer.Typer(invoke_without_command=True, help="List, check and show the dialects of agentic models.")
    dialects.callback()(listing)
    dialects.command("check")(check)
    dialects.command("show")(show)
    app.add_typer(dialects, name="dialects")


def listing(ctx: typer.Context, json_target: output.JsonTarget = None) -> None:
    """List the dialects: which models speak them, how a call looks, and what the numbers of a box mean."""
    if ctx.invoked_subcommand is not None:
        return
    from speceyes.agents import DIALECTS, make_dialect

    output.check_target(json_target)
    rows = [described(make_dialect(name)) for name in DIALECTS]
    if json_target != output.STDOUT:
        output.console().print(_table(rows))
    output.write_json(json_target, {"dialects": rows})


def described(dialect: Dialect) -> dict[str, Any]:
    """A dialect as the command's JSON.

    Returns:
        `name`, `models`, `calls`, `coordinates`, `needs_sandbox`, `stop`, `tools` (names, without one that runs code),
        `max_turns`, `max_tokens_per_turn`, and `pixels` with `factor`, `least` and `most`.
    """
    limits = dialect.limits
    return {
        "name": dialect.name,
        "models": getattr(dialect, "models", ""),
        "calls": getattr(dialect, "syntax", ""),
        "coordinates": dialect.coordinates.value,
        "needs_sandbox": bool(getattr(dialect, "needs_sandbox", False)),
        "stop": list(dialect.stop),
        "tools": sorted(dialect.toolbox),
        "max_turns": dialect.max_turns,
        "max_tokens_per_turn": dialect.max_tokens_per_turn,
        "pixels": {"factor": limits.factor, "least": limits.min_pixels, "most": limits.max_pixels},
    }


def check(
    names: Names = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Run code in the sandbox of this machine, instead of a stand-in.")
    ] = False,
    json_target: output.JsonTarget = None,
) -> None:
    """Run the conformance suite: right turns, and wrong ones, each of which must become something the model reads.

    Needs no model. Exit code 1 if a check fails.
    """
    output.check_target(json_target)
    chosen = _known(names)
    results: dict[str, list[Check]] = {}
    with output.working("checking") as say:
        for name in chosen:
            say(f"checking {name}")
            results[name] = asyncio.run(_checked(name, sandbox=sandbox))
    failed = [one for checks in results.values() for one in checks if one.outcome == "failed"]
    if json_target != output.STDOUT:
        output.console().print(_report(results))
    output.write_json(json_target, {"passed": not failed, "dialects": [_as_json(*item) for item in results.items()]})
    if failed:
        raise typer.Exit(FAILED)


def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dialect.")], json_target: output.JsonTarget = None
) -> None:
    """Write a dialect's prompts as TOML. Edit them, and pass the file back as the setting agent.prompts."""
    import dataclasses

    from speceyes.agents import make_dialect
    from speceyes.wiring.prompts import prompts_as_toml

    output.check_target(json_target)
    prompts = make_dialect(*_known([name])).prompts
    if json_target != output.STDOUT:
        typer.echo(f"# The prompts of the dialect {name}. Pass them back with --set agent.prompts=FILE; what you leave")
        typer.echo("# out stays as it is.\n")
        typer.echo(prompts_as_toml(prompts), nl=False)
    output.write_json(json_target, dataclasses.asdict(prompts))


def _known(names: Sequence[str] | None) -> list[str]:
    from speceyes.agents import DIALECTS

    for name in names or ():
        if name not in DIALECTS:
            raise ConfigError(f"there is no dialect {name!r}. Known: {', '.join(DIALECTS)}")
    return list(dict.fromkeys(names or DIALECTS))


async def _checked(name: str, *, sandbox: bool) -> list[Check]:
    from speceyes.agents import make_dialect
    from speceyes.agents.dialects.conformance import check_dialect, dialect_to_check

    if not sandbox:
        return await check_dialect(dialect_to_check(name))
    from speceyes.config import SandboxSettings
    from speceyes.wiring.code import code_tools

    tools = await code_tools(make_dialect(name), SandboxSettings(provider="auto"))
    return await check_dialect(dialect_to_check(name, toolbox=tools) if tools else dialect_to_check(name))


def _as_json(name: str, checks: Sequence[Check]) -> dict[str, Any]:
    rows = [{"name": one.name, "outcome": one.outcome, "detail": output.visible(one.detail)} for one in checks]
    return {"name": name, "passed": all(one.outcome != "failed" for one in checks), "checks": rows}


def _table(rows: Sequence[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("dialect", "models", "a call is", "boxes", "sandbox"):
        table.add_column(title, overflow="fold")
    for row in rows:
        needs = "needed" if row["needs_sandbox"] else ""
        table.add_row(row["name"], row["models"], row["calls"], row["coordinates"], needs)
    return table


def _report(results: dict[str, list[Check]]) -> Any:
    from rich.console import Group
    from rich.text import Text

    lines = []
    for name, checks in results.items():
        count = {kind: sum(one.outcome == kind for one in checks) for kind in ("passed", "failed", "skipped")}
        said = ", ".join(f"{number} {kind}" for kind, number in count.items() if number)
        lines.append(Text(f"{name}: {said}", "red" if count["failed"] else "green"))
        for one in checks:
            if one.outcome != "passed":
                style = "red" if one.outcome == "failed" else "dim"
                lines.append(Text(f"    {one.outcome}: {one.name}: {output.visible(one.detail)}", style))
    return Group(*lines)
