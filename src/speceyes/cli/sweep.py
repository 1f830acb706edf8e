"""`speceyes sweep RUN`: every gate, K, threshold and plan, computed from a record alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from speceyes.cli import output
from speceyes.errors import ConfigError, InputError

if TYPE_CHECKING:
    from speceyes.evals.sweeps import Sweep


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sweep")(sweep)


def sweep(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `speceyes record` filled.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write pictures and one HTML page with all of them here."),
    ] = None,
    k: Annotated[
        str | None,
        typer.Option("--k", metavar="K", help="Log-probs of a token to try: 5,10,20 or 3-64. [default: six]"),
    ] = None,
    plan: Annotated[
        Literal["paper", "draft-first", "parallel", "hedged", "no-screen"],
        typer.Option(help="Order of the phases in curves and pictures; the others are compared beside it."),
    ] = "paper",
    screen_threshold: Annotated[float, typer.Option(help="Greatest chance that a tool helps.")] = 0.5,
    against: Annotated[
        Literal["auto", "labels", "agent"],
        typer.Option(help="Judge answers by labels, or by whether they agree with the agent; auto: labels, if any."),
    ] = "auto",
    resamples: Annotated[int, typer.Option(metavar="N", help="Bootstrap resamples; 0 for no intervals.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of resamples and of the learned gate's folds.")] = 0,
    json_target: output.JsonTarget = None,
) -> None:
    """Try every gate, K, threshold and plan on recorded answers. No model is asked again."""
    output.check_target(json_target)
    _check_folder(out)
    _need_extra()

    import numpy as np

    from speceyes.cli.sweep_report import report
    from speceyes.evals.records import load_run, read_rows
    from speceyes.evals.sweeps import Against, SweepOptions
    from speceyes.evals.sweeps import sweep as run_sweep
    from speceyes.evals.sweeps.grid import parse_ks, recorded_k
    from speceyes.evals.sweeps.report import sweep_json
    from speceyes.scheduling import Plan

    with output.working("Reading the records"):
        table = load_run(run)
        images = np.array([" ".join(row["image_sha256"] or ()) for row in read_rows(run, ["image_sha256"])])
        if len(images) != len(table):
            raise InputError(f"{run} is being recorded right now and grew while it was read. Try again.")
    options = SweepOptions(
        ks=None if k is None else parse_ks(k, recorded_k(table)),
        screen_threshold=screen_threshold,
        plan=Plan(plan),
        against=None if against == "auto" else Against(against),
        replicates=resamples,
        seed=seed,
    )
    with _progress() as told:
        swept = run_sweep(table, options, groups=images, progress=told)
        files = [] if out is None else write_pictures(swept, out, lambda share: told("drawing", share))
    if json_target != output.STDOUT:
        screen = output.console()
        screen.print(report(swept))
        for path in files[:1]:
            screen.print(f"wrote {path} and {len(files) - 1} pictures beside it", style="dim")
    output.write_json(json_target, sweep_json(swept))


def write_pictures(swept: Sweep, folder: Path, progress: Callable[[float], None]) -> list[Path]:
    """Draw everything: `index.html`, then one PNG each. Returns the files, the page first.

    Raises:
        ConfigError: They cannot be written.
    """
    from speceyes.evals.sweeps.charts import count, draw
    from speceyes.evals.sweeps.page import write_page

    charts = []
    progress(0.0)
    for chart in draw(swept):
        charts.append(chart)
        progress(len(charts) / count(swept))
    page = folder / "index.html"
    files = [page]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for drawn in charts:
            files.append(folder / f"{drawn.name}.png")
            files[-1].write_bytes(drawn.png)
        page.write_text(write_page(swept, charts), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out {folder}: cannot be written ({error.strerror or error})") from error
    progress(1.0)
    return files


@contextmanager
def _progress() -> Iterator[Callable[[str, float], None]]:
    """A bar on standard error with the stage before it; silent where that is no terminal."""
    if not sys.stderr.isatty():
        yield lambda stage, share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=1.0)
        yield lambda stage, share: bars.update(task, description=stage, completed=share)


def _check_folder(folder: Path | None) -> None:
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ConfigError(f"--out {folder}: that is a file; name a folder")


def _need_extra() -> None:
    try:
        import matplotlib  # noqa: F401
        import scipy  # noqa: F401
        import sklearn  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"sweeps need libraries that are not installed ({error}): pip install 'speceyes[evals]'"
        ) from error
