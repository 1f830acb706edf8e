"""How request records look: a table of many, a sheet of one, and the JSON of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speceyes.cli.output import visible
from speceyes.export import plain_number, token_json

if TYPE_CHECKING:
    from speceyes.store import RequestRecord

SHOWN = 12
"""Characters of an id; `speceyes requests show` takes them."""
_COLOURS = {"draft": "green", "agent": "cyan"}
_HIDDEN = ("draft_tokens", "setup")


def as_json(record: RequestRecord, *, tokens: bool = False) -> dict[str, Any]:
    """A record as plain JSON; with the draft's tokens only if asked for, since they are long."""
    fields = {name: value for name, value in asdict(record).items() if name not in _HIDDEN}
    fields |= {name: plain_number(value) for name, value in fields.items() if isinstance(value, float)}
    fields["time"] = record.time.isoformat(timespec="milliseconds")
    fields["help_probability"] = record.help_probability
    fields["images"] = [asdict(image) for image in record.images]
    if tokens:
        fields["draft_tokens"] = [token_json(token) for token in record.draft_tokens]
        fields["setup"] = dict(record.setup)
    return fields


def table(records: Sequence[RequestRecord], count: int) -> RenderableType:
    """Many records, a line each."""
    rows = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for title in ("time (UTC)", "id", "key", "status", "reason"):
        rows.add_column(title, no_wrap=True, min_width=14 if title == "time (UTC)" else None)
    for title in ("score", "seconds", "tokens"):
        rows.add_column(title, justify="right", no_wrap=True, min_width=7)
    for record in records:
        rows.add_row(
            f"{record.time:%m-%d %H:%M:%S}",
            visible(record.id[:SHOWN]),
            visible(record.key or "-"),
            Text(str(record.status), "red" if record.status >= 400 else ""),
            Text(visible(record.reason or record.error or "-"), _COLOURS.get(record.route or "", "")),
            _number(record.score),
            f"{record.seconds:.2f}",
            _tokens(record),
        )
    shown = "No request matches." if not records else f"{len(records)} of {count} requests."
    return Group(rows, Text(shown, "dim")) if records else Text(shown)


def sheet(record: RequestRecord) -> RenderableType:
    """One record, a line for each thing that is known."""
    lines = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    lines.add_column(style="dim")
    lines.add_column(overflow="fold")
    for title, value in _lines(record):
        lines.add_row(title, visible(value))
    return lines


def _lines(record: RequestRecord) -> list[tuple[str, str]]:
    phases = ", ".join(f"{name} {seconds:.3f} s" for name, seconds in record.phase_seconds.items())
    images = ", ".join(f"{one.format} {one.width}x{one.height} {one.sha256[:12]}" for one in record.images)
    agrees = {None: "", True: "agree", False: "disagree"}[record.agrees]
    audit = f"{record.audit_seconds:.2f} s" if record.audited and record.audit_seconds is not None else ""
    found = [
        ("id", record.id),
        ("time", record.time.isoformat(timespec="milliseconds")),
        ("key", record.key or ""),
        ("model", record.model + (" (streamed)" if record.streamed else "")),
        ("status", f"{record.status} {record.error or ''}".strip()),
        ("route", f"{record.route}: {record.reason}" if record.route else record.reason or ""),
        ("verdict", record.verdict or ""),
        ("score", _number(record.score)),
        ("threshold", _number(record.threshold)),
        ("tool helps", _number(record.help_probability)),
        ("question", record.question or ""),
        ("draft", record.draft_text or ""),
        ("draft tokens", str(len(record.draft_tokens) or "")),
        ("agent", record.agent_text or ""),
        ("agent depth", "" if record.agent_depth is None else f"{record.agent_depth} tool calls"),
        ("answers", agrees),
        ("audit", audit),
        ("seconds", f"{record.seconds:.3f}"),
        ("phases", phases),
        ("images", images),
        ("user", record.user or ""),
    ]
    found += [(f"metadata {name}", value) for name, value in record.metadata.items()]
    for model, used in record.usage.items():
        counts = f"{used.prompt_tokens} read, {used.completion_tokens} written, {used.calls} calls"
        found.append((f"tokens {model}", counts.replace("None", "?")))
    return [(title, value) for title, value in found if value not in ("", "-")]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _tokens(record: RequestRecord) -> str:
    spent = [(used.prompt_tokens or 0) + (used.completion_tokens or 0) for used in record.usage.values()]
    return str(sum(spent)) if spent else "-"
