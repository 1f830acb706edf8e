"""`speceyes ask IMAGE... QUESTION`: one answer, and on request how it came about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speceyes.cli import options, output
from speceyes.errors import InputError

if TYPE_CHECKING:
    from speceyes.config import Settings
    from speceyes.events import Event
    from speceyes.gating import Calibration
    from speceyes.types import Answer, Query


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ask")(ask)


def ask(
    images: Annotated[list[Path], typer.Argument(metavar="IMAGE", help="One or several image files.")],
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="Answer options included, if there are any.")],
    system: Annotated[str | None, typer.Option(help="A system prompt of your own, for both models.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Tell how the answer came about.")] = False,
    json_target: output.JsonTarget = None,
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
    """Answer a question about one or several images."""
    from speceyes.export import as_json

    given = {
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
    output.check_target(json_target)
    query = _query(images, question, system, settings)
    with output.working("Starting") as say:
        answer, gate = asyncio.run(_answer(settings, query, say))
    if explain:
        from speceyes.cli.explain import explanation

        output.console(json_target).print(explanation(answer, query, [path.name for path in images], gate))
    elif json_target != output.STDOUT:
        typer.echo(output.visible(answer.text))
    output.write_json(json_target, as_json(answer))


def _query(images: Sequence[Path], question: str, system: str | None, settings: Settings) -> Query:
    from speceyes.imaging import DecodeLimits, load
    from speceyes.types import Query

    if not question.strip():
        raise InputError("the question is empty; it is the last argument, after the images")
    limits = DecodeLimits(max_bytes=settings.images.max_bytes, max_pixels=settings.images.max_pixels)
    return Query(question, tuple(load(path, limits) for path in images), system)


async def _answer(settings: Settings, query: Query, say: Callable[[str], None]) -> tuple[Answer, Calibration]:
    from speceyes.config import FunnelSettings
    from speceyes.wiring import open_funnel

    def listen(event: Event) -> None:
        if text := _progress(event):
            say(text)

    one = settings.model_copy(update={"funnel": FunnelSettings(stateless=1, loops=1)})
    async with open_funnel(one, listen=listen) as funnel:
        say("Would a closer look help?")
        return await funnel.answer(query), funnel.calibration


def _progress(event: Event) -> str:
    from speceyes.events import Decided, PhaseEnded

    match event:
        case PhaseEnded(phase="screen"):
            return "Drafting an answer"
        case Decided(verdict=verdict) if not verdict.accepted:
            return "The agent looks closer"
    return ""
