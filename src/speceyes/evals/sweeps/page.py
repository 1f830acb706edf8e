"""A sweep as one HTML page that needs nothing else: pictures inside, no script, light and dark, narrow screens."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from speceyes.evals.sweeps.charts import Chart
from speceyes.evals.sweeps.published import PUBLISHED, SOURCE
from speceyes.evals.sweeps.report import notes, settings_tried
from speceyes.evals.sweeps.sweep import Sweep
from speceyes.evals.sweeps.tables import (
    Grid,
    depth_table,
    front_table,
    gate_table,
    headline,
    plan_table,
    screening_line,
)
from speceyes.evals.sweeps.wording import meanings


def write_page(swept: Sweep, charts: Sequence[Chart]) -> str:
    """The page's HTML.

    Args:
        swept: The sweep.
        charts: Its pictures, in order.
    """
    style = files("speceyes.evals.sweeps").joinpath("sweep.css").read_text(encoding="utf-8")
    grids = (front_table(swept), gate_table(swept), plan_table(swept), depth_table(swept))
    tables = "\n".join(_table(grid) for grid in grids if grid is not None)
    terms = "".join(
        f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(text)}</dd>"
        for name, text in meanings(swept.outcomes.against, closer=swept.depth is not None).items()
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SpecEyes sweep</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>What the gate could do</h1>
<p class="lead">{escape(headline(swept))}</p>
<p class="soft">{escape(_what(swept))}</p>
<p class="soft">{escape(screening_line(swept))}</p>
<h2>Before you believe it</h2>
<ul class="notes">{"".join(f"<li>{_code(note)}</li>" for note in notes(swept))}</ul>
<h2>Pictures</h2>
<section class="charts">
{"".join(map(_figure, charts))}
</section>
{tables}
<h2>What the figures mean</h2>
<dl>{terms}</dl>
<h2>Published figures</h2>
<p class="soft">{escape(_published())}</p>
</main>
</body>
</html>
"""


def _code(text: str) -> str:
    """Escaped, with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _what(swept: Sweep) -> str:
    models = [swept.table.bound_to[name] for name in ("draft_model", "agent_model") if name in swept.table.bound_to]
    who = f" Draft: {models[0]}. Agent: {models[1]}." if len(models) == 2 else ""
    return (
        f"{len(swept.outcomes):,} recorded queries, {len(swept.gates)} gates, {settings_tried(swept):,} settings of "
        f"gate, threshold and plan; no model was asked again.{who} Record {swept.table.digest[:19]}."
    )


def _figure(chart: Chart) -> str:
    picture = base64.b64encode(chart.png).decode("ascii")
    return (
        f'<figure><img alt="{escape(chart.title)}" src="data:image/png;base64,{picture}">'
        f"<figcaption>{escape(chart.text)}</figcaption></figure>\n"
    )


def _table(grid: Grid) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in grid.header)
    rows = "".join(
        f"<tr{' class=marked' if number in grid.marked else ''}>{''.join(map(_cell, row))}</tr>"
        for number, row in enumerate(grid.rows)
    )
    return (
        f"<h2>{escape(grid.title)}</h2><p class='soft'>{escape(grid.text)}</p><br>"
        f'<div class="wide"><table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>'
    )


def _cell(text: str) -> str:
    value, bracket, interval = text.partition(" (")
    return f"<td>{escape(value)}{f' <small>({escape(interval)}</small>' if bracket else ''}</td>"


def _published() -> str:
    systems = "; ".join(
        f"{p.name}: {p.accuracy:.2f} % at {p.speedup:.2f}×, its agent alone {p.agent_accuracy:.2f} %" for p in PUBLISHED
    )
    return (
        f"Marked as published in the pictures, from {SOURCE}: {systems}. Means over V*, HR-Bench and POPE, with "
        "thresholds chosen for each benchmark. Other models and other data: what can be compared is the change against "
        "each system's own agent."
    )
