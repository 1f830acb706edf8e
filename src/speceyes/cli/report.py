"""`speceyes report RUN...`: evaluation runs as one page to read, a table to paste, or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import output
from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from speceyes.evals.reporting import Verdict


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders that `speceyes eval` filled: one benchmark each, one report."),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE.html", help="One page that needs nothing else.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE.md", help="Verdict and tables as Markdown.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option("--latex", metavar="FILE.tex", help="The main table for a paper; needs booktabs.")
    ] = None,
    cases: Annotated[
        int, typer.Option("--cases", min=0, metavar="N", help="Failures and disagreements on the page, at most.")
    ] = 60,
    budget: Annotated[
        float, typer.Option("--pictures-mb", min=0.0, metavar="MB", help="Their pictures on the page, at most.")
    ] = 6.0,
    json_target: output.JsonTarget = None,
) -> None:
    """Make a report of evaluation runs: the table with intervals, pictures, failures to browse, what was run."""
    files = {"--out": out, "--markdown": markdown, "--latex": latex}
    for flag, path in files.items():
        _check_file(flag, path)
    _check_different([path for path in files.values() if path is not None])
    output.check_target(json_target)

    from speceyes.evals.reporting import (
        gallery,
        judge,
        report_json,
        study,
        write_latex,
        write_markdown,
        write_page,
    )

    with output.working("Reading the runs") as told:
        found = study(runs)
        verdict = judge(found.compared)
        told("Writing the report")
        facts: dict[str, Any] | None = None
        if out is not None:
            chosen = gallery(found, cases, round(budget * 1e6))
            _write("--out", out, write_page(found, chosen))
            facts = {**chosen.as_json(), "page_bytes": out.stat().st_size}
        if markdown is not None:
            _write("--markdown", markdown, write_markdown(found))
        if latex is not None:
            _write("--latex", latex, write_latex(found))
    if json_target != output.STDOUT:
        output.console().print(_shown(verdict, [path for path in files.values() if path is not None]))
    if json_target is not None:
        output.write_json(json_target, {**report_json(found), "page": facts})


def _shown(verdict: Verdict, written: list[Path]) -> Any:
    from rich.console import Group
    from rich.text import Text

    style = {"good": "bold green", "bad": "bold red"}.get(verdict.tone, "bold")
    lines = [Text(verdict.sentence, style), *([Text(verdict.reading, "dim")] if verdict.reading else [])]
    return Group(*lines, *(Text(f"wrote {path}", "dim") for path in written))


def _check_file(flag: str, path: Path | None) -> None:
    """Find out before the work whether its result can be written."""
    if path is not None and path.is_dir():
        raise ConfigError(f"{flag} {path}: that is a folder; name a file")
    if path is not None and not path.parent.is_dir():
        raise ConfigError(f"{flag} {path}: there is no folder {path.parent}")


def _check_different(paths: list[Path]) -> None:
    for place in range(len(paths)):
        if paths[place].resolve() in [path.resolve() for path in paths[:place]]:
            raise ConfigError(f"{paths[place]} is named for two outputs; name another file")


def _write(flag: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{flag} {path}: cannot be written ({error.strerror or error})") from error
