"""`speceyes demo`: agent alone, draft alone and SpecEyes on the same fresh scenes, measured, with a picture."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speceyes.cli import options, output

if TYPE_CHECKING:
    from speceyes.evals.demo import Progress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    count: Annotated[int, typer.Option(min=1, help="Questions.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Other seeds show other scenes.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Queries under way at a time.")] = 4,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the figures and pictures.")] = Path("out/demo"),
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
    """Measure SpecEyes against its agent alone and its draft alone, on fresh scenes, and draw what happened."""
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

    from speceyes.cli.demo_report import report
    from speceyes.evals.demo import make_folder, run_demo_on, save_demo

    make_folder(out)
    with _bars(count) as progress:
        finished = asyncio.run(
            run_demo_on(settings, count=count, seed=seed, concurrency=concurrency, progress=progress)
        )
    files = save_demo(finished, out)
    output.console(json_target).print(report(finished, files))
    output.write_json(json_target, finished.summary.as_json())


@contextmanager
def _bars(count: int) -> Iterator[Progress]:
    """A progress bar for each stage, on standard error; where that is no terminal, a line for each finished stage."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from speceyes.evals.demo import stages

    console = Console(stderr=True)
    left = stages(count)
    if not console.is_terminal:

        def tell(stage: str) -> None:
            left[stage] -= 1
            if left[stage] == 0:
                typer.echo(f"done: {stage}", err=True)

        yield tell
        return
    columns = (TextColumn("{task.description:<14}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as shown:
        tasks = {stage: shown.add_task(stage, total=total, start=False) for stage, total in left.items()}
        started: set[str] = set()

        def advance(stage: str) -> None:
            if stage not in started:
                shown.start_task(tasks[stage])
                started.add(stage)
            shown.advance(tasks[stage])

        yield advance
