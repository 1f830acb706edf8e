"""A demo as one HTML page that needs nothing else: pictures inside, no script, light and dark, and narrow screens."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from PIL import Image

from speceyes.evals.gallery import REASONS, SYSTEMS, Meter, Tile, share_of_scene
from speceyes.evals.pictures import BLUES, GREEN, ORDER
from speceyes.evals.summary import Summary
from speceyes.evals.systems import SystemName
from speceyes.types import Route

SCENE_SIDE, THUMB_SIDE = 560, 160


def write_page(summary: Summary, tiles: Sequence[Tile], subtitle: str) -> str:
    """The page's HTML.

    Args:
        summary: The figures.
        tiles: What the gallery shows.
        subtitle: What was run.
    """
    style = files("speceyes.evals").joinpath("gallery.css").read_text(encoding="utf-8")
    cards = "\n".join(map(_card, tiles))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SpecEyes demo</title>
<style>
{style}</style>
</head>
<body>
<main>
<h1>SpecEyes</h1>
<p class="lead">{escape(subtitle)}</p>
<section class="panels">
{_accuracy(summary)}
{_time(summary)}
{_speedup(summary)}
</section>
<h2>Where SpecEyes sent them</h2>
{_routes(summary)}
<h2>{len(tiles)} of the questions</h2>
<section class="cards">
{cards}
</section>
<footer class="note">{escape(_how_measured(summary))}</footer>
</main>
</body>
</html>
"""


def _accuracy(summary: Summary) -> str:
    rows = []
    for name in ORDER:
        figures = summary.systems[name]
        low, high = figures.interval
        whisker = f'<i class="whisker" style="left:{low:.2%};right:{1 - high:.2%}"></i>'
        note = f"{figures.right}/{figures.n}"
        rows.append(_bar(name, figures.accuracy, f"{figures.accuracy:.0%}", note, whisker))
    return _panel("Accuracy, with its 95 % interval", "".join(rows))


def _time(summary: Summary) -> str:
    slowest = max(figures.seconds for figures in summary.systems.values()) or 1.0
    rows = []
    for name in ORDER:
        figures = summary.systems[name]
        note = f"{figures.queries_per_s:.1f}/s"
        rows.append(_bar(name, figures.seconds / slowest, f"{figures.seconds:.1f} s", note))
    return _panel("Time for all questions", "".join(rows))


def _speedup(summary: Summary) -> str:
    measured = "–" if summary.speedup is None else f"{summary.speedup:.2f}×"
    ideal = "no bound" if summary.law_ideal is None else f"{summary.law_ideal:.2f}×"
    return _panel(
        "Speedup",
        f'<div class="big">{measured}</div><div class="note">measured, over the agent alone</div><dl>'
        f"<dt>{summary.law_honest:.2f}×</dt><dd>law, screening and drafting paid</dd>"
        f"<dt>{ideal}</dt><dd>law, ideal: β {summary.beta:.2f}, α {summary.alpha:.2f}</dd></dl>",
    )


def _panel(heading: str, body: str) -> str:
    return f'<div class="panel"><h3>{heading}</h3>{body}</div>'


def _bar(name: SystemName, share: float, value: str, note: str, over: str = "") -> str:
    return (
        f'<div class="bar"><span>{SYSTEMS[name]}</span><div class="track">'
        f'<i class="fill {name}" style="width:{share:.2%}"></i>{over}</div>'
        f'<span><b>{value}</b> <span class="small">{note}</span></span></div>'
    )


def _routes(summary: Summary) -> str:
    bars, legend, blues = [], [], 0
    for reason, count in summary.reasons.items():
        accepted = reason.route is Route.DRAFT
        color = GREEN if accepted else BLUES[min(blues, len(BLUES) - 1)]
        blues += not accepted
        bars.append(f'<i style="flex:{count};background:{color}"></i>')
        legend.append(f'<li><i style="background:{color}"></i>{count} {escape(REASONS[reason])}</li>')
    return f'<div class="routes">{"".join(bars)}</div><ul class="legend">{"".join(legend)}</ul>'


def _card(tile: Tile) -> str:
    by_draft = tile.route is Route.DRAFT
    seconds = "" if tile.seconds is None else f"{tile.seconds:.2f} s"
    options = " ".join(tile.sample.question.splitlines()[1:])
    thumbs = "".join(_thumb(tile, number) for number in range(min(2, len(tile.crops))))
    meters = "".join(map(_meter, tile.meters))
    return f"""<article class="card">
<div class="scene"><img alt="{escape(_seen(tile))}" src="{_jpeg(tile.scene(SCENE_SIDE))}">{_frames(tile)}</div>
<div class="text">
<div class="head"><span class="badge by-{tile.route}">{tile.route}</span><span class="note">{seconds}</span></div>
<div class="note">{escape(tile.why)}</div>
<div class="question">{escape(tile.sample.asked.text)}</div>
<div class="note">{escape(options)}</div>
{_answer(tile, by_draft)}
<div class="evidence">{thumbs}<div class="meters">{meters}</div></div>
</div>
</article>"""


def _answer(tile: Tile, by_draft: bool) -> str:
    mark, kind = ("✓", "right") if tile.right else ("✗", "wrong")
    beside = "" if tile.right else f"right: {tile.said(tile.sample.gold)}"
    if tile.right and not by_draft:
        beside = f"the draft alone: {tile.said(tile.draft_said)}"
    said = escape(tile.said(tile.answer.text))
    return f'<div class="answer"><b class="{kind}">{mark} {said}</b><span class="small">{escape(beside)}</span></div>'


def _frames(tile: Tile) -> str:
    frames = []
    for number, crop in enumerate(tile.crops, 1):
        left, top, right, bottom = share_of_scene(crop)
        place = f"left:{left:.2%};top:{top:.2%};width:{right - left:.2%};height:{bottom - top:.2%}"
        at_top = " top" if top < 0.07 else ""
        frames.append(f'<div class="crop{at_top}" style="{place}"><div class="number">{number}</div></div>')
    return "".join(frames)


def _thumb(tile: Tile, index: int) -> str:
    picture = _jpeg(tile.crop(tile.crops[index], THUMB_SIDE))
    return f'<div class="thumb"><img alt="crop {index + 1}" src="{picture}"><div class="number">{index + 1}</div></div>'


def _meter(meter: Meter) -> str:
    color = "speceyes" if meter.passed else "agent"
    return (
        f'<div class="meter"><div><span>{meter.label}</span><b>{meter.value:.2f}</b></div><div class="track">'
        f'<i class="fill {color}" style="width:{meter.value_share:.2%}"></i>'
        f'<i class="limit" style="left:{meter.limit_share:.2%}"></i></div></div>'
    )


def _seen(tile: Tile) -> str:
    signs = ", ".join(f"a {sign.color} {sign.shape}" for sign in tile.sample.scene.signs)
    return f"A scene with {signs}"


def _how_measured(summary: Summary) -> str:
    costs = summary.costs
    return (
        "All three systems ran in turns on the same engines. The honest law stands on costs that were measured with "
        f"nothing else running, as means of {costs.queries} queries about further scenes: screening "
        f"{costs.screen:.3f} s, draft {costs.draft:.3f} s, a whole agent run {costs.agent:.3f} s. The marks on the "
        "meters are the limits: a draft is accepted only left of the first and right of the second."
    )


def _jpeg(picture: Image.Image) -> str:
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=86, subsampling=0)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode('ascii')}"
