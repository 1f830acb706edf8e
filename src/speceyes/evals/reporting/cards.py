"""The cases as HTML: the picture with the crops drawn on it, the question, what each system said, and the turns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from speceyes.evals.datasets.questions import LETTERS
from speceyes.evals.gallery import REASONS
from speceyes.evals.reporting.cases import Case
from speceyes.evals.reporting.images import Album, Shown
from speceyes.evals.reporting.names import AGENT, SPECEYES, style_of, system_words
from speceyes.evals.reporting.text import html_text, shortened
from speceyes.evals.reporting.words import seconds
from speceyes.evals.runs import Result, Sample, TurnLine
from speceyes.evals.runs.format import CropLine
from speceyes.types import Reason

ANSWER, THUMBS = 160, 8
"""Characters of an answer in the table, and crops of a turn that are shown."""

OWN_GATES: Mapping[tuple[str, Reason], str] = {
    ("random", Reason.ACCEPTED): "The lot fell on the draft",
    ("random", Reason.BELOW_THRESHOLD): "The lot fell on the agent",
    ("oracle", Reason.ACCEPTED): "The draft is known to be right",
    ("oracle", Reason.BELOW_THRESHOLD): "The draft is known not to be right",
    ("no-screen", Reason.ACCEPTED): "The draft is sure enough",
    ("no-gate", Reason.ACCEPTED): "No tool needed, and nobody asked how sure",
    ("specreason", Reason.ACCEPTED): "The answer is a step of the draft's",
    ("specreason", Reason.BELOW_THRESHOLD): "The answer is a step of the agent's",
}
"""Reasons of systems whose gate is another than SpecEyes', in the place of its words."""


def card(case: Case, place: str, category: int, album: Album) -> str:
    """One case.

    Args:
        case: The question.
        place: Where it comes from, for people.
        category: Number of its category in its run, for the filter.
        album: The page's pictures.
    """
    tags = " ".join(f"{system}:{kind}" for system, kind in case.tags)
    shown = album.of(case)
    rows = "".join(_row(result, case.sample) for result in case.results.values())
    runs = "".join(_run(result, shown) for result in case.results.values() if result.turns)
    data = f'data-set="{case.run}" data-category="{case.run}/{category}" data-tags="{html_text(tags)}"'
    return (
        f'<article class="case" {data}>'
        f'{_figure(case, shown)}<div class="said"><p class="soft">{html_text(place)}</p>'
        f"<h3>{html_text(shortened(asked(case.sample)))}</h3>{_options(case.sample)}"
        '<table class="answers"><thead><tr><th scope="col">system</th><th scope="col">answer</th>'
        '<th scope="col"></th><th scope="col">way</th><th scope="col">time</th></tr></thead>'
        f"<tbody>{rows}</tbody></table>{runs}</div></article>"
    )


def asked(sample: Sample) -> str:
    """The question without the options below it."""
    lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, sample.options, strict=False)]
    tail = "\n".join(["", *lines])
    return sample.question.removesuffix(tail) if lines else sample.question


# The picture


def _figure(case: Case, shown: Shown | None) -> str:
    if shown is None:
        return '<figure class="picture none"><div>no picture in this page</div></figure>'
    looked = _looked(case)
    crops = [] if looked is None or not shown.exact else _crops(case.results[looked].turns)
    whose = "" if looked is None or not crops else f"Boxes: what {system_words(looked)} looked at more closely."
    return (
        f'<figure class="picture"><svg viewBox="0 0 {shown.size[0]} {shown.size[1]}" role="img" '
        f'aria-label="{html_text("The picture of: " + shortened(asked(case.sample), 80))}"><use href="#{shown.name}"/>'
        f"{''.join(_box(number, crop, shown) for number, crop in enumerate(crops, 1))}</svg>"
        + (f"<figcaption>{html_text(whose)}</figcaption>" if whose else "")
        + "</figure>"
    )


def _looked(case: Case) -> str | None:
    """Whose crops are drawn: those of SpecEyes where its agent ran, else the agent's, else another system's."""
    order = [SPECEYES, AGENT, *case.results]
    return next((name for name in order if name in case.results and _crops(case.results[name].turns)), None)


def _crops(turns: Sequence[TurnLine]) -> list[CropLine]:
    return [crop for turn in turns for crop in turn.crops if crop.image == 0]


def _box(number: int, crop: CropLine, shown: Shown) -> str:
    left, top, right, bottom = crop.box
    size = 0.034 * max(shown.size)
    plate = 1.3 * size
    x, y = left, (top if top < 1.1 * plate else top - plate)
    return (
        f'<g class="crop"><title>{html_text(crop.label or f"crop {number}")}</title>'
        f'<rect class="halo" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"/>'
        f'<rect class="edge" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" height="{bottom - top:.1f}"/>'
        f'<rect class="plate" x="{x:.1f}" y="{y:.1f}" width="{plate:.1f}" height="{plate:.1f}"/>'
        f'<text x="{x + plate / 2:.1f}" y="{y + size:.1f}" font-size="{size:.1f}" text-anchor="middle">{number}'
        "</text></g>"
    )


# The question


def _options(sample: Sample) -> str:
    if not sample.options:
        gold = "not known" if sample.gold is None else sample.gold
        return f'<p class="gold">Right answer: <b>{html_text(gold)}</b></p>'
    items = []
    for letter, option in zip(LETTERS, sample.options, strict=False):
        right = letter == sample.gold
        mark = ' class="right"' if right else ""
        said = ' <b aria-label="the right answer">✓</b>' if right else ""
        items.append(f"<li{mark}><b>{letter}</b> <bdi>{html_text(shortened(option, 300))}</bdi>{said}</li>")
    return f'<ul class="options">{"".join(items)}</ul>'


# What the systems said


def _row(result: Result, sample: Sample) -> str:
    return (
        f'<tr class="{style_of(result.system)}{" ok" if result.right else ""}"><th scope="row"><i></i>'
        f"{html_text(system_words(result.system))}</th>"
        f"<td>{_answer(result, sample)}</td><td>{_mark(result)}</td><td>{_way(result)}</td>"
        f"<td>{html_text(seconds(result.seconds))}</td></tr>"
    )


def _answer(result: Result, sample: Sample) -> str:
    if result.error is not None:
        return f'<span class="wrong">{html_text(shortened(result.error, ANSWER))}</span>'
    text = result.text.strip()
    read = "" if result.parsed in (None, text) else f"<b>{html_text(result.parsed or '')}</b> "
    if not text:
        return f'{read}<span class="soft">(empty)</span>'
    letters = LETTERS[: len(sample.options)]
    if text in letters and len(text) == 1:
        return f"<b>{text}</b> <bdi>{html_text(shortened(sample.options[letters.index(text)], ANSWER))}</bdi>"
    if len(text) <= ANSWER:
        return f"{read}<bdi>{html_text(text)}</bdi>"
    return (
        f"{read}<details><summary><bdi>{html_text(shortened(text, ANSWER))}</bdi></summary>"
        f"<pre><bdi>{html_text(shortened(text))}</bdi></pre></details>"
    )


def _mark(result: Result) -> str:
    if result.error is not None:
        return '<b class="wrong">error</b>'
    if result.unparsed:
        return '<b class="unparsed">unparsed</b>'
    if result.right is None:
        return '<span class="soft">?</span>'
    return '<b class="right">✓ right</b>' if result.right else '<b class="wrong">✗ wrong</b>'


def _way(result: Result) -> str:
    parts = []
    if result.route is not None:
        parts.append(f'<span class="badge by-{html_text(result.route)}">{html_text(result.route)}</span>')
    if result.reason is not None:
        parts.append(f'<span class="why">{html_text(_reason(result.system, result.reason))}</span>')
    figures = []
    if result.help_probability is not None:
        figures.append(f"tool helps {result.help_probability:.2f}")
    if result.score is not None:
        limit = "" if result.threshold is None else f" against {result.threshold:.3g}"
        figures.append(f"score {result.score:.3g}{limit}")
    return " ".join(parts) + (f"<small>{', '.join(figures)}</small>" if figures else "")


def _reason(system: str, name: str) -> str:
    if name not in set(Reason):
        return name
    return OWN_GATES.get((system, Reason(name)), REASONS[Reason(name)])


# Turns


def _run(result: Result, shown: Shown | None) -> str:
    crops = len(_crops(result.turns))
    size = f"{len(result.turns)} turn{'s' * (len(result.turns) != 1)}, {crops} crop{'s' * (crops != 1)}"
    turns, number = [], 0
    for turn in result.turns:
        turns.append(_turn(turn, shown, number))
        number += sum(crop.image == 0 for crop in turn.crops)
    return (
        f'<details class="turns {style_of(result.system)}"><summary><i></i>{html_text(system_words(result.system))}: '
        f"{size}</summary><ol>{''.join(turns)}</ol></details>"
    )


def _turn(turn: TurnLine, shown: Shown | None, before: int) -> str:
    parts = [f"<pre><bdi>{html_text(shortened(turn.text.strip()))}</bdi></pre>"]
    facts = []
    if turn.by != AGENT:
        facts.append(f"written by the {turn.by}")
    if turn.rating is not None:
        facts.append(f"rated {turn.rating}{'' if turn.kept else ', replaced'}")
    elif not turn.kept:
        facts.append("replaced")
    if turn.tool is not None:
        arguments = "" if turn.arguments is None else json.dumps(turn.arguments, ensure_ascii=False)
        facts.append(f"called {turn.tool} {shortened(arguments, 300)}".strip())
    if facts:
        parts.append(f'<p class="soft">{html_text("; ".join(facts))}</p>')
    if turn.error is not None:
        parts.append(f'<p class="wrong">{html_text(shortened(turn.error, 400))}</p>')
    if shown is not None and shown.exact:
        seen = [crop for crop in turn.crops if crop.image == 0][:THUMBS]
        parts.append("".join(_thumb(before + number, crop, shown) for number, crop in enumerate(seen, 1)))
    return f"<li>{''.join(parts)}</li>"


def _thumb(number: int, crop: CropLine, shown: Shown) -> str:
    left, top, right, bottom = crop.box
    width, height = right - left, bottom - top
    if width <= 0 or height <= 0:
        return ""
    label = f"crop {number}{': ' + crop.label if crop.label else ''}"
    return (
        f'<figure class="thumb"><svg viewBox="{left:.1f} {top:.1f} {width:.1f} {height:.1f}" role="img" '
        f'aria-label="{html_text(label)}"><use href="#{shown.name}"/></svg>'
        f"<figcaption>{html_text(label)}</figcaption></figure>"
    )
