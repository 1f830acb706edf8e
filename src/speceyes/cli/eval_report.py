"""What `speceyes eval` says at its end: a table of the systems, what the gate is worth, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speceyes.cli.fitting import FittingTable, figures
from speceyes.cli.output import visible


def report(summary: Mapping[str, Any], folder: Path) -> RenderableType:
    """The run's figures for the terminal."""
    parts: list[RenderableType] = [_systems(summary)]
    parts += [Text(line) for line in (_law(summary), _depth(summary), _random(summary)) if line]
    if summary["load"]:
        parts += [Text(), _load(summary)]
    if summary["batch"]:
        parts += [Text(), _batch(summary)]
    parts += [Text(f"note: {visible(note)}", "yellow") for note in summary["notes"]]
    parts += [Text(), Text(f"Next: speceyes report {visible(str(folder))} -o report.html", "dim")]
    return Group(*parts)


def _systems(summary: Mapping[str, Any]) -> RenderableType:
    facts = summary["dataset"]
    title = f"{facts['asked']} questions of {visible(facts['name'])}, rule {summary['rule']}"
    against = {pair["second"]: pair["difference"] for pair in summary["pairs"] if pair["first"] == "agent"}
    rows = {}
    for name, found in summary["systems"].items():
        right, times = found["accuracy"], found["speedup"]
        rows[name] = {
            "right": _percent(right["value"]),
            "95 %": "?" if right["low"] is None else f"{100 * right['low']:.0f} to {100 * right['high']:.0f}",
            "unread": str(found["unparsed"]),
            "failed": str(found["errors"]),
            "by draft": _percent(found["acceptance"]),
            "s/query": _number(found["seconds"]["mean"], 3),
            "times the agent": _interval(times) if name != "agent" else "1",
            "points against it": _points(against[name]) if name in against else "",
        }
    return FittingTable(title, "system", rows, ("unread", "by draft", "failed", "95 %", "points against it", "s/query"))


def _law(summary: Mapping[str, Any]) -> str | None:
    law = summary["law"]
    if law is None:
        return None
    ideal = "without bound" if law["ideal"] is None else f"{law['ideal']:.2f}"
    return (
        f"speceyes: beta {law['beta']:.2f}, alpha {law['alpha']:.2f}; by the ideal law {ideal} times the agent's "
        f"speed, by the honest one {_number(law['honest'], 2)}, measured {_number(law['measured']['value'], 2)}"
    )


def _depth(summary: Mapping[str, Any]) -> str | None:
    fit = summary["depth"]
    if fit is None or fit["per_call"]["value"] is None:
        return None
    return (
        f"agent: {fit['base']['value']:.3f} s, and {_interval(fit['per_call'], 3)} s more for each tool call "
        f"({fit['n']} runs)"
    )


def _random(summary: Mapping[str, Any]) -> str | None:
    drawn = summary["random"]
    if drawn is None:
        return None
    return (
        f"random: draws {drawn['accepted']} of the {drawn['let_through']} drafts that screening lets through, as many "
        f"as the gate accepts; realised {_percent(drawn['realised_share'])} of all, speceyes "
        f"{_percent(drawn['speceyes_share'])}"
    )


def _load(summary: Mapping[str, Any]) -> Table:
    table = figures(
        "times the agent, by questions at a time", "system", *(str(c["concurrency"]) for c in summary["load"])
    )
    for name in summary["systems"]:
        table.add_row(name, *(_interval(level["systems"][name]["speedup"]) for level in summary["load"]))
    return table


def _batch(summary: Mapping[str, Any]) -> Table:
    sizes = summary["batch"]
    table = figures("screening and drafting alone", "at a time", *(str(size["in_flight"]) for size in sizes))
    table.add_row("s/query", *(_number(size["seconds_a_query"]["value"], 3) for size in sizes))
    return table


def _interval(found: Mapping[str, Any], digits: int = 2) -> str:
    if found["value"] is None:
        return "?"
    value = f"{found['value']:.{digits}f}"
    return value if found["low"] is None else f"{value} [{found['low']:.{digits}f}, {found['high']:.{digits}f}]"


def _points(found: Mapping[str, Any]) -> str:
    """A difference of accuracies in points, with its interval."""
    value, low, high = (None if found[end] is None else 100 * found[end] for end in ("value", "low", "high"))
    if value is None:
        return "?"
    return f"{value:+.1f}" if low is None or high is None else f"{value:+.1f} [{low:+.1f}, {high:+.1f}]"


def _percent(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f} %"


def _number(value: float | None, digits: int) -> str:
    return "?" if value is None else f"{value:.{digits}f}"
