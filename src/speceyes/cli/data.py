"""`speceyes data`: make scenes as the files of a benchmark, show what a data set holds, check all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer

from speceyes.cli import output

SetName = Annotated[
    str,
    typer.Argument(
        metavar="SET", help="A folder or file of benchmark data, FORM:PATH, or generated scenes: nano:N:SEED."
    ),
]
FormName = Literal["vstar", "vstar-jsonl", "vstar-parquet", "hrbench", "hrbench-parquet", "pope", "pope-parquet", "mcq"]
FAULTY = 2
"""Exit code of a check that found something."""


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    data = typer.Typer(no_args_is_help=True, help="Make, show and check benchmark data.")
    data.callback()(_data)
    data.command("make")(make)
    data.command("show")(show)
    data.command("check")(check)
    app.add_typer(data, name="data")


def _data() -> None:
    """Make, show and check benchmark data."""


def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to: new, or empty.")],
    count: Annotated[
        int,
        typer.Option(
            min=1, help="Scenes. vstar asks one question a scene, hrbench one in four rows, pope six, mcq two."
        ),
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same files.")] = 0,
    kind: Annotated[FormName, typer.Option("--format", help="Whose files, in which form.")] = "vstar",
    side: Annotated[
        int, typer.Option(min=32, max=1024, metavar="PIXELS", help="Width and height. Small signs need all 1024.")
    ] = 1024,
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")] = False,
    json_target: output.JsonTarget = None,
) -> None:
    """Write fresh scenes, with questions and truth, in a public benchmark's file format."""
    from speceyes.evals.datasets.formats import MANIFEST, Format, write_benchmark

    output.check_target(json_target)
    with _bar(f"{kind} scenes") as (begin, advance):
        begin(count)
        write_benchmark(folder, Format(kind), count=count, seed=seed, side=side, force=force, advance=advance)
    if json_target != output.STDOUT:
        typer.echo(f"{count} scenes as {kind} files in {folder}; {folder / MANIFEST} lists them")
    record = {"folder": str(folder), "format": kind, "count": count, "seed": seed, "side": side}
    output.write_json(json_target, record)


def show(
    name: SetName,
    shuffle_seed: Annotated[
        int, typer.Option("--shuffle-seed", help="Where options are shuffled, draw their order from this.")
    ] = 0,
    json_target: output.JsonTarget = None,
) -> None:
    """Say what a data set holds: kind, questions, categories, options and digest. Pictures are not looked at."""
    output.check_target(json_target)

    from speceyes.cli.data_report import facts_of, table_of
    from speceyes.evals.datasets.readers import open_dataset

    with output.working("Reading the data set"):
        facts = facts_of(open_dataset(name, shuffle_seed=shuffle_seed))
    output.console(json_target).print(table_of(facts))
    output.write_json(json_target, facts)


def check(name: SetName, json_target: output.JsonTarget = None) -> None:
    """Read every row and look at every picture, and list all that is wrong. The exit code is 2 if anything is."""
    output.check_target(json_target)

    from speceyes.cli.data_report import checked_record, faults_of
    from speceyes.evals.datasets.readers import check_dataset

    with _bar("Looking at pictures", before="Reading the data set") as (begin, advance):
        checked = check_dataset(name, begin=begin, advance=advance)
    output.console(json_target).print(faults_of(checked))
    output.write_json(json_target, checked_record(checked))
    if checked.faults:
        raise typer.Exit(FAULTY)


@contextmanager
def _bar(what: str, before: str = "") -> Iterator[tuple[Callable[[int], None], Callable[[], None]]]:
    """A bar on standard error: a function that says how many steps there are, and one for each step.

    Args:
        what: What the steps are.
        before: What is done until their number is known.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(before or what, total=None)
        yield lambda count: bars.update(task, description=what, total=count), lambda: bars.advance(task)
