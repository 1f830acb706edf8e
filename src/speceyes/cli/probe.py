"""`speceyes probe URL`: what a server can do, and what the gate and the agent would miss there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import options, output
from speceyes.errors import EngineError

if TYPE_CHECKING:
    from speceyes.engines.probe import Probe

ApiKeyVariable = Annotated[
    str | None,
    typer.Option("--api-key-env", metavar="VARIABLE", help="The environment variable that holds the server's key."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("probe")(probe)


def probe(
    url: Annotated[str, typer.Argument(metavar="URL", help="An OpenAI-compatible server, with or without /v1.")],
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Not needed where the server has one.")] = None,
    k: Annotated[int, typer.Option("--k", min=3, help="Log-probs of a token that the gate will use.")] = 64,
    api_key_env: ApiKeyVariable = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Find out what a model server can do, and warn of what the gate or the agent needs and does not get."""
    key = options.key_from(api_key_env)
    output.check_target(json_target)
    with output.working("Asking the server about 25 small questions"):
        found = asyncio.run(_probe(url, model, k, key))
    warnings = found.warnings(k)
    if json_target != output.STDOUT:
        output.console().print(_report(found, warnings))
    output.write_json(json_target, {**found.as_json(), "warnings": warnings})
    _fail_without_an_answer(found)


async def _probe(url: str, model: str | None, k: int, key: str | None) -> Probe:
    from speceyes.engines.probe import probe as ask_server
    from speceyes.wiring import connect

    async with await connect(url, model, api_key=key) as client:
        return await ask_server(client, want_logprobs=k)


def _fail_without_an_answer(found: Probe) -> None:
    from speceyes.engines.findings import Feature, Outcome

    chat = found[Feature.CHAT]
    if chat.outcome is not Outcome.YES:
        raise EngineError(f"the model {found.model} does not answer: {chat.detail}")


def _report(found: Probe, warnings: list[str]) -> Any:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    head = f"{found.model}, {found.seconds:.1f} s, usable K: {found.usable_k} of {found.want_logprobs}"
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("feature", "", "seen"):
        table.add_column(title, overflow="fold")
    colours = {"yes": "green", "no": "red", "unknown": "yellow"}
    for finding in found.findings:
        outcome = finding.outcome.value
        name = Text(finding.feature.value.replace("_", " "))
        table.add_row(name, Text(outcome, colours[outcome]), Text(output.visible(finding.detail)))
    said = [Text(f"\nwarning: {output.visible(warning)}", "yellow") for warning in warnings]
    return Group(Text(output.visible(head), "bold"), table, *said)
