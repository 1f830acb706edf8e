"""`speceyes eval SET`: several systems on one data set, with every answer kept and figures that hold up."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from speceyes.cli import options, output
from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from speceyes.evals.runs.running import Progress

DEFAULT = "run"
_PARTS = ("eval_score",)
"""Modules beside this one that add sub-commands."""


class _EvalGroup(TyperGroup):
    """A first word that is no sub-command is the SET of the default command."""

    default = DEFAULT

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        names = {*self.commands, *self.get_help_option_names(ctx)}
        return super().parse_args(ctx, args if not args or args[0] in names else [DEFAULT, *args])


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    group = typer.Typer(
        cls=_EvalGroup, no_args_is_help=True, subcommand_metavar="SET [OPTIONS] | COMMAND [ARGS]...", help=_eval.__doc__
    )
    group.callback()(_eval)
    group.command(DEFAULT, hidden=True)(evaluate)
    for name in _PARTS:
        if importlib.util.find_spec(f"speceyes.cli.{name}") is not None:
            importlib.import_module(f"speceyes.cli.{name}").register(group)
    app.add_typer(group, name="eval")


def _eval() -> None:
    """Compare SpecEyes, its models alone and other systems on a data set: `speceyes eval SET -o run/`.

    `speceyes eval SET --help` shows the options.
    """


def evaluate(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="SET",
            help="A folder of benchmark files, or generated scenes: nano:N:SEED, or nano:N:SEED@test from a split that "
            "is kept apart.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="The run: new, or one to go on with.")],
    systems: Annotated[
        str,
        typer.Option(
            "--systems",
            "--baselines",
            metavar="NAMES",
            help="Who is compared, with commas between: agent, draft, speceyes, specreason, random, oracle, no-screen, "
            "no-gate, draft-screen, or all.",
        ),
    ] = "agent,draft,speceyes",
    rule: Annotated[str, typer.Option(help="What counts as right: strict, lmms, vlmevalkit or pope.")] = "strict",
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first N questions.")] = None,
    concurrency: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Questions that each system has under way at a time. Answers are kept of the first number; at the "
            "others the systems are only timed.",
        ),
    ] = "1",
    batch: Annotated[
        str | None,
        typer.Option(metavar="N[,N...]", help="Also time screening and drafting alone, so many questions at a time."),
    ] = None,
    block: Annotated[
        int, typer.Option(min=1, metavar="N", help="Systems take turns after about so many questions, or fewer.")
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the random gate and of the statistics' resamples.")] = 0,
    shuffle_seed: Annotated[
        int, typer.Option(min=0, help="Of the order of options, where a benchmark's files name the right one first.")
    ] = 0,
    thumbnails: Annotated[
        bool, typer.Option("--thumbnails/--no-thumbnails", help="Keep small pictures for the report.")
    ] = True,
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
    """Let systems answer a data set in turns, keep every answer, and compare them. An interrupted run goes on."""
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

    from speceyes.cli.eval_report import report
    from speceyes.evals.baselines import system_names
    from speceyes.evals.datasets.readers import open_dataset
    from speceyes.evals.records.manifest import shown_command
    from speceyes.evals.runs.headers import EvalOptions
    from speceyes.evals.runs.marking import check_rule
    from speceyes.evals.runs.running import evaluate as run_evaluation
    from speceyes.evals.runs.summary import summarise
    from speceyes.imaging import DecodeLimits

    chosen = EvalOptions(
        systems=system_names(systems),
        rule=rule,
        limit=limit,
        concurrency=_numbers("--concurrency", concurrency),
        batch=_numbers("--batch", batch) if batch else (),
        block=block,
        seed=seed,
        images=thumbnails,
        command=shown_command(["speceyes", *sys.argv[1:]]),
    )
    with output.working("Reading the data set"):
        limits = DecodeLimits(max_bytes=settings.images.max_bytes, max_pixels=settings.images.max_pixels)
        questions = open_dataset(dataset, limits, shuffle_seed=shuffle_seed)
        check_rule(rule, questions)
    try:
        with _bars() as progress:
            run = asyncio.run(run_evaluation(settings, questions, out, chosen, progress))
    except KeyboardInterrupt:
        typer.echo(f"interrupted: what was answered is in {out}. Start the same command again to go on.", err=True)
        raise typer.Exit(130) from None
    summary = summarise(run)
    output.console(json_target).print(report(summary, out))
    output.write_json(json_target, summary)


def _numbers(flag: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ConfigError(f"{flag} {text}: write whole numbers with commas between, such as 1,2,4") from None


@contextmanager
def _bars() -> Iterator[Progress]:
    """A bar for each system on standard error; where that is no terminal, a line when one is done."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    from speceyes.evals.runs.running import Progress

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<28}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left: dict[str, int] = {}
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        starting = bars.add_task("Starting the models", total=None)
        tasks: dict[str, Any] = {}

        def begin(stages: Mapping[str, tuple[int, int]]) -> None:
            bars.remove_task(starting)
            there, wanted = (sum(count[side] for count in stages.values()) for side in (0, 1))
            if there:
                console.print(f"{there} of {wanted} answers are there already", markup=False, highlight=False)
            for stage, (done, total) in stages.items():
                left[stage] = total - done
                tasks[stage] = bars.add_task(stage, total=total, completed=done)

        def advance(stage: str) -> None:
            left[stage] -= 1
            bars.advance(tasks[stage])
            if left[stage] == 0 and not console.is_terminal:
                typer.echo(f"done: {stage}", err=True)

        yield Progress(begin, advance)
