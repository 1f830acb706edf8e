"""`speceyes record SET`: screen, draft and agent on every question, kept so that any gate can be tried on it later."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speceyes.cli import options, output

if TYPE_CHECKING:
    from speceyes.evals.records import Row


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("record")(record)


def record(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="SET",
            help="A folder of benchmark files, or generated scenes: nano:N:SEED, or nano:N:SEED@calibration (or @test) "
            "from the splits that are kept apart.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The run: new, or one to go on with.")],
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N questions.")] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, help="Questions under way at a time. Above 1 they disturb each other's timings.")
    ] = 1,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Record questions again whose rows hold an error.")
    ] = False,
    rows_per_part: Annotated[int, typer.Option(min=1, metavar="N", help="Rows of one Parquet file.")] = 1000,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    draft_url: options.DraftUrl = None,
    draft_model: options.DraftName = None,
    agent_url: options.AgentUrl = None,
    agent_model: options.AgentName = None,
    dialect: options.DialectName = None,
    k: Annotated[
        int | None, typer.Option("--k", min=3, help="Log-probs of a token to keep; a gate may use as many or fewer.")
    ] = None,
    max_depth: options.MaxDepth = None,
) -> None:
    """Record a data set once: sweeps and calibrations are then computed from the record. An interrupted run goes on."""
    given = {
        "draft.url": draft_url,
        "draft.model": draft_model,
        "agent.url": agent_url,
        "agent.model": agent_model,
        "agent.dialect": dialect,
        "draft.logprobs": k,
        "speculation.max_depth": max_depth,
    }
    settings = options.read_settings(config, assignments, given)
    output.check_target(json_target)

    from speceyes.cli.record_report import report
    from speceyes.evals.datasets.readers import open_dataset
    from speceyes.evals.records.manifest import shown_command
    from speceyes.evals.records.parts import need_pyarrow
    from speceyes.evals.records.session import record_dataset
    from speceyes.evals.records.summary import summarise_run
    from speceyes.imaging import DecodeLimits

    need_pyarrow()
    with output.working("Reading the data set"):
        limits = DecodeLimits(max_bytes=settings.images.max_bytes, max_pixels=settings.images.max_pixels)
        questions = open_dataset(dataset, limits)
    with _progress() as (begin, done):
        asyncio.run(
            record_dataset(
                settings,
                questions,
                out,
                limit=limit,
                concurrency=concurrency,
                retry_errors=retry_errors,
                rows_per_part=rows_per_part,
                command=shown_command(["speceyes", *sys.argv[1:]]),
                begin=begin,
                done=done,
            )
        )
    summary = summarise_run(out)
    output.console(json_target).print(report(summary, out))
    output.write_json(json_target, summary.as_json())


@contextmanager
def _progress() -> Iterator[tuple[Callable[[int, int], None], Callable[[Row], None]]]:
    """A bar on standard error with rate and time left; where that is no terminal, a line for each tenth."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    from speceyes.evals.records import is_failed

    console = Console(stderr=True)
    state = {"there": 0, "wanted": 0, "new": 0, "failed": 0}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal) as bars:
        task = bars.add_task("Starting the models", total=None)

        def begin(there: int, wanted: int) -> None:
            state.update(there=there, wanted=wanted)
            bars.update(task, description="Recording", total=wanted, completed=there)
            if there:
                console.print(f"{there} of {wanted} questions are recorded already", markup=False, highlight=False)

        def done(row: Row) -> None:
            state["new"] += 1
            state["failed"] += is_failed(row)
            bars.update(task, advance=1, description=_doing(bars.tasks[0].finished_speed or bars.tasks[0].speed, state))
            count, wanted = state["there"] + state["new"], state["wanted"]
            if not console.is_terminal and count * 10 // wanted > (count - 1) * 10 // wanted:
                typer.echo(f"recorded {count} of {wanted}" + _failures(state["failed"]), err=True)

        yield begin, done


def _doing(speed: float | None, state: dict[str, int]) -> str:
    rate = f", {speed:.2g}/s" if speed else ""
    return f"Recording{rate}{_failures(state['failed'])}"


def _failures(count: int) -> str:
    return f", {count} failed" if count else ""
