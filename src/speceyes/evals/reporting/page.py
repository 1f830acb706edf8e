"""The report as one HTML page that needs nothing else: no network, pictures inside, light and dark, screen and print.

A content policy in its head forbids every request and every script but the page's own, whatever a model wrote.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from typing import Final

from speceyes.evals.reporting.answers import average_tables, errors_table, time_table
from speceyes.evals.reporting.cards import card
from speceyes.evals.reporting.cases import Case, choose, counted, find_cases
from speceyes.evals.reporting.comparisons import paired_table
from speceyes.evals.reporting.figures import figure, legend, plots
from speceyes.evals.reporting.html_table import html_table
from speceyes.evals.reporting.images import BUDGET, Album, collect
from speceyes.evals.reporting.manifest import manifest_tables, ran
from speceyes.evals.reporting.names import ABOUT, KINDS, system_words
from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.tables import law_table, main_table, not_comparable, published_table
from speceyes.evals.reporting.text import html_text
from speceyes.evals.reporting.verdict import judge
from speceyes.evals.runs.loading import RESULTS

MOST_CASES: Final = 60
"""Cases of a page, unless another number is asked for."""
SIDE_BY_SIDE: Final = 3
"""Up to so many columns, accuracy and speedup stand beside each other."""


@dataclass(frozen=True, slots=True)
class Gallery:
    """The cases of a page.

    Attributes:
        found: All questions on which anything failed or differed.
        shown: Those that the page has room for.
        album: Their pictures.
    """

    found: Sequence[Case]
    shown: Sequence[Case]
    album: Album

    def as_json(self) -> dict[str, int]:
        return {
            "found": len(self.found),
            "shown": len(self.shown),
            "pictures": len(self.album.data),
            "picture_bytes": self.album.used,
            "picture_budget": self.album.budget,
        }


def gallery(study: Study, most: int = MOST_CASES, budget: int = BUDGET) -> Gallery:
    """Choose the cases and pack their pictures.

    Args:
        study: The runs.
        most: Cases at most.
        budget: Bytes of picture data at most.
    """
    found = [case for number, run in enumerate(study.runs) for case in find_cases(number, run)]
    shown = choose(found, most)
    return Gallery(found, shown, collect(shown, study.runs, budget))


def write_page(study: Study, cases: Gallery) -> str:
    """The page's HTML."""
    script = _file("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    body = "\n".join([_head(study), _plots(study), _details(study), _cases(study, cases), _manifest(study)])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html_text(title(study))}</title>
<style>
{_file("report.css")}</style>
</head>
<body>
<main>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def title(study: Study) -> str:
    """The report's heading."""
    return f"SpecEyes evaluation: {', '.join(study.labels)}"


def _file(name: str) -> str:
    return files("speceyes.evals.reporting").joinpath(name).read_text(encoding="utf-8")


def _head(study: Study) -> str:
    verdict = judge(study.compared)
    ran_what = " · ".join(ran(run, label) for run, label in zip(study.runs, study.labels, strict=True))
    warning = f'<p class="warning" role="note">{html_text(said)}</p>' if (said := not_comparable(study)) else ""
    reading = f"<p>{html_text(verdict.reading)}</p>" if verdict.reading else ""
    narrow = len(study.columns) > SIDE_BY_SIDE
    stacked, systems = (' class="stacked"', _systems(study)) if narrow else ("", "")
    return f"""<h1>{html_text(title(study))}</h1>
<p class="what">{html_text(ran_what)}</p>
<section class="verdict {verdict.tone}" aria-label="Verdict"><p>{html_text(verdict.sentence)}</p>{reading}</section>
{warning}{_provisos(study)}<section{stacked}>{html_table(main_table(study))}</section>
{html_table(law_table(study))}{systems}
{_contents()}"""


def _contents() -> str:
    parts = (
        ("pictures", "Pictures"),
        ("statistics", "Statistics"),
        ("cases-head", "Failures"),
        ("published", "Published figures"),
        ("manifest", "What was run"),
    )
    links = "".join(f'<a href="#{name}">{words}</a>' for name, words in parts)
    return f'<nav aria-label="Parts of this page">{links}</nav>'


def _provisos(study: Study) -> str:
    """What the summaries say that a reader must know, but for the errors of single systems: they have a table."""
    several = len(study.runs) > 1
    notes = [
        f"{label}: {note}" if several else note
        for summary, label in zip(study.summaries, study.labels, strict=True)
        for note in summary["notes"]
        if note.partition(":")[0] not in study.systems
    ]
    return f'<ul class="notes before">{"".join(f"<li>{html_text(note)}</li>" for note in notes)}</ul>' if notes else ""


def _systems(study: Study) -> str:
    """Who the systems are, where the table has no room to say so."""
    named = "".join(
        f"<dt>{html_text(system_words(name))}</dt><dd>{html_text(ABOUT[name])}</dd>"
        for name in study.systems
        if name in ABOUT
    )
    return f"<dl>{named}</dl>"


def _plots(study: Study) -> str:
    drawn = "\n".join(map(figure, plots(study)))
    return f'<h2 id="pictures">Pictures</h2>{legend(study.systems)}<section class="charts">{drawn}</section>'


def _details(study: Study) -> str:
    tables = [paired_table(study), errors_table(study), *average_tables(study), time_table(study)]
    return f'<h2 id="statistics">Statistics</h2>{"".join(map(html_table, tables))}'


def _manifest(study: Study) -> str:
    published = f'<h2 id="published">Published figures</h2>{html_table(published_table())}'
    warned = f"<p>{html_text(said)}</p>" if (said := not_comparable(study)) else ""
    tables = "".join(map(html_table, manifest_tables(study)))
    return (
        f'{published}{warned}<h2 id="manifest">What was run</h2>{tables}'
        f"<footer>Made by speceyes {html_text(_version())}. The page is one file and fetches nothing.</footer>"
    )


@cache
def _version() -> str:
    return version("speceyes")


# Cases


def _cases(study: Study, cases: Gallery) -> str:
    head = '<h2 id="cases-head">Failures and disagreements</h2>'
    if not cases.found:
        return f"{head}<p>Every system answered every question right.</p>"
    places = [_categories(study, number) for number in range(len(study.runs))]
    cards = "".join(
        card(
            case,
            " · ".join(part for part in (study.labels[case.run], case.sample.category, case.sample.id) if part),
            places[case.run].index(case.sample.category),
            cases.album,
        )
        for case in cases.shown
    )
    return (
        f"{head}<p>{html_text(_limits(cases))}</p>{_filters(study, cases, places)}{_store(cases.album)}"
        f'<div class="cases">{cards}</div>'
    )


def _limits(cases: Gallery) -> str:
    shown, found, album = len(cases.shown), len(cases.found), cases.album
    said = f"Questions on which a system failed, or was right where the agent was wrong: {found:,}."
    if shown < found:
        said += (
            f" This page shows {shown:,} of them, every kind in turn and those of SpecEyes and the agent first; all "
            f"are in {RESULTS}."
        )
    said += f" Pictures are thumbnails, {album.used / 1e6:.1f} MB of at most {album.budget / 1e6:.0f} MB."
    if album.left_out:
        said += f" {album.left_out:,} pictures had no room."
    if album.missing:
        said += f" {album.missing:,} questions have no picture in the run's folder."
    return said


def _store(album: Album) -> str:
    """Every picture once; cards refer to it."""
    images = "".join(
        f'<image id="{shown.name}" width="{shown.size[0]}" height="{shown.size[1]}" preserveAspectRatio="none" '
        f'href="{album.data[shown.name]}"/>'
        for shown in album.places.values()
    )
    return f'<svg class="store" aria-hidden="true"><defs>{images}</defs></svg>'


def _categories(study: Study, number: int) -> list[str]:
    return list(dict.fromkeys(sample.category for sample in study.runs[number].samples))


def _filters(study: Study, cases: Gallery, places: Sequence[Sequence[str]]) -> str:
    sets: list[tuple[str, str]] = []
    for number, label in enumerate(study.labels):
        sets.append((str(number), label))
        if len(places[number]) > 1:
            sets += [(f"{number}/{place}", f"{label}: {name or '(none)'}") for place, name in enumerate(places[number])]
    numbers = counted(cases.shown)
    systems = [(name, system_words(name)) for name in study.systems if any(tag[0] == name for tag in numbers)]
    kinds = [(kind.name, kind.words) for kind in KINDS if any(what == kind.name for _, what in numbers)]
    return (
        '<form id="filters" hidden>'
        f"{_select('set', 'benchmark and category', sets)}{_select('system', 'system', systems)}"
        f'{_select("kind", "kind", kinds)}<button type="reset">show all</button>'
        '<span class="soft" id="shown" role="status"></span></form>'
    )


def _select(name: str, label: str, options: Sequence[tuple[str, str]]) -> str:
    items = "".join(f'<option value="{html_text(value)}">{html_text(words)}</option>' for value, words in options)
    return f'<label>{label}<select name="{name}"><option value="">all</option>{items}</select></label>'
