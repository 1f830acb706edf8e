"""`speceyes data make`: scenes as the files of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from speceyes.cli import output


def register(app: typer.Typer) -> None:
    """Add the command and its sub-command."""
    data = typer.Typer(no_args_is_help=True, help="Make benchmark data.")
    data.callback()(_data)
    data.command("make")(make)
    app.add_typer(data, name="data")


def _data() -> None:
    """Make benchmark data."""


def make(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write to: new, or empty.")],
    count: Annotated[
        int, typer.Option(min=1, help="Scenes. vstar asks one question a scene, hrbench one in four rows, pope six.")
    ] = 100,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same files.")] = 0,
    kind: Annotated[Literal["vstar", "hrbench", "pope"], typer.Option("--format", help="Whose files.")] = "vstar",
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")] = False,
    json_target: output.JsonTarget = None,
) -> None:
    """Write fresh scenes, with questions and truth, in a public benchmark's file format."""
    from rich.console import Console
    from rich.progress import Progress

    from speceyes.evals.datasets.formats import MANIFEST, Format, write_benchmark

    output.check_target(json_target)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(f"{kind} scenes", total=count)
        write_benchmark(folder, Format(kind), count=count, seed=seed, force=force, advance=lambda: bars.advance(task))
    if json_target != output.STDOUT:
        typer.echo(f"{count} scenes as {kind} files in {folder}; {folder / MANIFEST} lists them")
    record = {"folder": str(folder), "format": kind, "count": count, "seed": seed}
    output.write_json(json_target, record)
