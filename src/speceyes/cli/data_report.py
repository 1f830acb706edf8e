"""What `speceyes data show` and `data check` say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from speceyes.cli.output import visible

if TYPE_CHECKING:
    from speceyes.evals.datasets.readers import Checked, Dataset


def facts_of(dataset: Dataset) -> dict[str, Any]:
    """A data set in figures, as it goes into JSON."""
    items = dataset.items
    groups = Counter(item.group for item in items if item.group)
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "form": dataset.form or None,
        "items": len(items),
        "pictures": len({item.image_name for item in items}),
        "categories": dict(sorted(Counter(item.category for item in items).items())),
        "options": {str(n): found for n, found in sorted(Counter(len(item.options) for item in items).items())},
        "gold": dict(sorted(Counter(_gold(item.gold) for item in items).items())),
        "groups": {str(n): found for n, found in sorted(Counter(groups.values()).items())},
        "shuffle_seed": dataset.shuffle_seed,
        "digest": dataset.digest,
        "left_out": list(dataset.left_out),
        "files": dict(dataset.files),
    }


def _gold(gold: str | None) -> str:
    return "unknown" if gold is None else gold if len(gold) == 1 or gold in ("yes", "no") else "words"


def table_of(facts: dict[str, Any]) -> Table:
    """The figures for people."""
    seed = facts["shuffle_seed"]
    rows = [
        ("kind", facts["kind"] + (f", as {facts['form']} files" if facts["form"] else "")),
        ("questions", f"{facts['items']} about {facts['pictures']} pictures"),
        ("categories", _counts({name or "(none)": count for name, count in facts["categories"].items()})),
        ("options", _counts({"open" if n == "0" else f"{n} options": c for n, c in facts["options"].items()})),
        ("right answers", _counts(facts["gold"])),
        ("order", "as in the files" if seed is None else f"options shuffled with seed {seed}"),
        ("files", f"{len(facts['files'])} read"),
        ("digest", facts["digest"]),
    ]
    if facts["groups"]:
        turned = ", ".join(f"{count} in {n} turns" for n, count in facts["groups"].items())
        rows.insert(2, ("asked", turned))
    if facts["left_out"]:
        rows.insert(2, ("left out", f"{len(facts['left_out'])}: {', '.join(facts['left_out'][:5])}"))
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(visible(value)))
    return table


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def faults_of(checked: Checked) -> Group:
    """A check's result for people: every fault on a line of its own."""
    lines = [Text(visible(str(fault))) for fault in checked.faults]
    lines += [Text(visible(f"note: {remark}")) for remark in checked.remarks]
    good = len(checked.dataset.items) if checked.dataset else 0
    found = "nothing is wrong" if not checked.faults else f"{len(checked.faults)} faults"
    return Group(*lines, Text(f"{good} questions read, {checked.pictures} pictures looked at: {found}"))


def checked_record(checked: Checked) -> dict[str, Any]:
    """A check's result as JSON."""
    return {
        "items": len(checked.dataset.items) if checked.dataset else 0,
        "pictures": checked.pictures,
        "faults": [{"where": f.where, "what": f.what, "remedy": f.remedy} for f in checked.faults],
        "remarks": list(checked.remarks),
        "set": facts_of(checked.dataset) if checked.dataset else None,
    }
