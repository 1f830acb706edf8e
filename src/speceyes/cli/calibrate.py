"""`speceyes calibrate RUN`: a threshold that provably keeps a limit, or the news that the records prove none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import output
from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from speceyes.evals.calibrating import Calibrated

INFEASIBLE = 3
"""The exit code where the records prove no threshold."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("calibrate")(calibrate)


def calibrate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `speceyes record` filled.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The calibration, for --calibration.")],
    risk: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RISK[:ALPHA]",
            help="excess (draft wrong, agent right; the default), disagreement (needs no labels) or error (draft "
            "wrong), each as a share of the accepted. Repeatable; then all must keep their limits.",
        ),
    ] = None,
    alpha: Annotated[float, typer.Option(help="The most of the risk that is allowed.")] = 0.02,
    delta: Annotated[float, typer.Option(help="The greatest chance that the promise is wrong.")] = 0.05,
    method: Annotated[
        str, typer.Option(help="split: some of the records choose the thresholds. fixed-sequence: one grid for all.")
    ] = "split",
    split: Annotated[float, typer.Option(metavar="SHARE", help="Part of the records that chooses.")] = 0.2,
    earlier: Annotated[
        Path | None,
        typer.Option("--sequence", metavar="FILE", help="fixed-sequence: thresholds of an earlier calibration."),
    ] = None,
    score: Annotated[str, typer.Option(help="separability, margin, entropy, ...")] = "separability",
    k: Annotated[int | None, typer.Option("--k", help="Log-probs of a token; by default 64, or all recorded.")] = None,
    aggregate: Annotated[str, typer.Option(help="min, mean, bottom or log.")] = "min",
    screen_threshold: Annotated[float, typer.Option(help="Greatest chance that a tool helps.")] = 0.5,
    max_depth: Annotated[
        int | None,
        typer.Option(
            "--max-depth",
            min=0,
            help="Closer looks of the draft model before the agent is asked; by default all recorded.",
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.html", help="What is promised and what is not, as a page.")
    ] = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Find the loosest threshold that provably keeps a limit on what speculation costs.

    Exits with 3 where the records prove none. The file is written all the same: with it the gate accepts nothing.
    """
    _check_file("-o", out)
    _check_file("--report", page)
    output.check_target(json_target)
    _need_scipy()

    from speceyes.evals.calibrating import GateSetting, Method, calibrate, write_page
    from speceyes.evals.records import load_run
    from speceyes.gating import Calibration
    from speceyes.gating.certify import Limit

    if method not in tuple(Method):
        raise ConfigError(f"--method {method}: choose one of {', '.join(Method)}")
    limits = [Limit.parse(text, alpha) for text in risk or ["excess"]]
    with output.working("Reading the records"):
        before = None if earlier is None else Calibration.load(earlier)
        table = load_run(run)
        gate = GateSetting(
            score, min(64, table.answers.logprobs.shape[1]) if k is None else k, aggregate, screen_threshold
        )
        result = calibrate(
            table, gate, limits, delta, method=Method(method), share=split, earlier=before, max_depth=max_depth
        )
    result.calibration.save(out)
    if page is not None:
        page.write_text(write_page(result), encoding="utf-8")
    if json_target != output.STDOUT:
        output.console().print(_report(result, [path for path in (out, page) if path is not None]))
    output.write_json(json_target, as_record(result))
    if not result.calibration.feasible:
        raise typer.Exit(INFEASIBLE)


def as_record(result: Calibrated) -> dict[str, Any]:
    """The command's JSON.

    Returns:
        `feasible`; `calibration`, the file's content, and its `digest`; `steps`, every threshold of the sequence with
        what was found at it; `coverage`, what became of the recorded queries; `depths`, what is accepted at the
        threshold after so many closer looks; `groups` by kind of question; and `need`, None where there is a threshold,
        else what it would have taken.
    """
    need, coverage = result.need, result.coverage
    return {
        "feasible": result.calibration.feasible,
        "calibration": result.calibration.model_dump(mode="json"),
        "digest": result.calibration.digest,
        "steps": [
            {
                "threshold": step.threshold,
                "accepted": step.accepted,
                "losses": list(step.losses),
                "bounds": list(step.bounds),
                "intervals": [list(interval) for interval in step.intervals],
                "p_value": step.p_value,
                "level": step.level,
                "certified": step.passed,
            }
            for step in result.certificate.steps
        ],
        "coverage": {
            "recorded": coverage.recorded,
            "incomplete": coverage.incomplete,
            "unlabelled": coverage.unlabelled,
            "used": coverage.used,
            "kept_back": coverage.kept_back,
            "unscored": dict(coverage.unscored),
            "unscored_closer": [dict(counts) for counts in coverage.unscored_closer],
        },
        "depths": [
            {"depth": depth, "accepted": accepted, "lost": lost} for depth, (accepted, lost) in enumerate(result.depths)
        ],
        "groups": {
            name: {"n": n, "accepted": accepted, "lost": lost} for name, (n, accepted, lost) in result.groups.items()
        },
        "need": need
        and {
            "threshold": need.threshold,
            "accepted": need.accepted,
            "more_records": result.more_records,
            "carried": {
                limit.risk.value: alpha for limit, alpha in zip(result.certificate.limits, need.carried, strict=False)
            },
        },
    }


def _report(result: Calibrated, files: list[Path]) -> Any:
    from rich.console import Group
    from rich.text import Text

    from speceyes.evals.calibrating import summary_lines

    first, *others = summary_lines(result)
    style = "bold green" if result.calibration.feasible else "bold red"
    written = Text("\n".join(f"wrote {path}" for path in files), "dim")
    return Group(Text(first, style), *(Text(line) for line in others), written)


def _check_file(flag: str, path: Path | None) -> None:
    """Find out before the work whether its result can be written."""
    if path is not None and path.is_dir():
        raise ConfigError(f"{flag} {path}: that is a folder; name a file")
    if path is not None and not path.parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no folder {path.parent}")


def _need_scipy() -> None:
    try:
        import scipy.special  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"calibrations need SciPy ({error}): pip install 'speceyes[evals]'") from error
