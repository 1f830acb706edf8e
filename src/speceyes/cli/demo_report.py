"""A finished demo as a report for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speceyes.cli.fitting import FittingTable
from speceyes.cli.output import visible
from speceyes.evals.demo import Demo
from speceyes.evals.gallery import REASONS, SYSTEMS, Tile
from speceyes.evals.pictures import ORDER
from speceyes.types import Route, Usage

if TYPE_CHECKING:
    from speceyes.evals.summary import Summary


def report(demo: Demo, files: Sequence[Path]) -> RenderableType:
    """Some questions, the systems' figures, the speedup beside its laws, and where to find the rest."""
    return Group(
        _questions(demo.tiles),
        _systems(demo.summary),
        _speedup(demo.summary),
        Text(),
        _reasons(demo.summary),
        Text(),
        Text("\n".join(f"wrote {path}" for path in files), "dim"),
    )


def _table(*columns: str, title: str, right: Sequence[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left")
    return table


def _questions(tiles: Sequence[Tile]) -> Table:
    columns = ("question", "gold", "draft", "route", "why", "answer", "", "s")
    table = _table(*columns, title=f"{len(tiles)} of the questions", right=("s",))
    for tile in tiles:
        by_draft = tile.route is Route.DRAFT
        table.add_row(
            Text(visible(_on_two_lines(tile.sample.question))),
            Text(tile.sample.gold),
            Text(visible(tile.draft_said)),
            Text(tile.route.value, "green" if by_draft else "blue"),
            Text(tile.why, "dim"),
            Text(visible(tile.answer.text)),
            Text("right", "green") if tile.right else Text("wrong", "red"),
            Text("" if tile.seconds is None else f"{tile.seconds:.2f}"),
        )
    return table


def _on_two_lines(question: str) -> str:
    text, *options = question.splitlines()
    return f"{text}\n{'  '.join(options)}" if options else text


def _systems(summary: Summary) -> FittingTable:
    rows = {}
    for name in ORDER:
        figures = summary.systems[name]
        low, high = figures.interval
        rows[SYSTEMS[name]] = {
            "right": f"{figures.accuracy:.1%}",
            "95 % interval": f"{low:.1%} - {high:.1%}",
            "seconds": f"{figures.seconds:.1f}",
            "queries/s": f"{figures.queries_per_s:.2f}",
            **_tokens(figures.usage),
            "failed": str(figures.errors),
        }
    spared = ("cached", "out", "tokens in", "queries/s", "failed")
    return FittingTable("The three systems", "system", rows, spared, where="summary.json has them")


def _tokens(usage: Usage) -> dict[str, str]:
    counts = {"tokens in": usage.prompt_tokens, "out": usage.completion_tokens, "cached": usage.cached_tokens}
    return {heading: "unknown" if count is None else f"{count:,}" for heading, count in counts.items()}


def _speedup(summary: Summary) -> Text:
    costs = summary.costs
    measured = "-" if summary.speedup is None else f"{summary.speedup:.2f}x"
    ideal = "no bound" if summary.law_ideal is None else f"{summary.law_ideal:.2f}x"
    text = Text("Speedup over the agent alone: ")
    text.append(measured, "bold green")
    text.append(f" measured; {summary.law_honest:.2f}x by the honest law, {ideal} by the ideal one.\n")
    looks = f"look {costs.look:.3f} s, " if summary.looked else ""
    looked = (
        f"Of all, the draft looked closer at {summary.looked:.2f}, and {summary.closer:.2f} were accepted then. "
        if summary.looked
        else ""
    )
    text.append(
        f"beta = {summary.beta:.2f} passed screening, alpha = {summary.alpha:.2f} of those were accepted. {looked}"
        f"Unloaded costs, means of {costs.queries} queries one after another: screening {costs.screen:.3f} s, draft "
        f"{costs.draft:.3f} s, {looks}agent {costs.agent:.3f} s.",
        "dim",
    )
    return text


def _reasons(summary: Summary) -> Text:
    width = max((len(str(count)) for count in summary.reasons.values()), default=1)
    lines = [f"{count:>{width}}  {REASONS[reason]} ({reason})" for reason, count in summary.reasons.items()]
    return Text("\n".join(lines))
