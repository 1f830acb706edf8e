"""The report's pictures, with their words: what is drawn from which results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from speceyes.evals.reporting.names import AGENT, DRAFT, PHASES, SPECEYES, shape_of, style_of, system_words
from speceyes.evals.reporting.plots.axes import mark
from speceyes.evals.reporting.plots.categories import MOST as MOST_CATEGORIES
from speceyes.evals.reporting.plots.categories import categories_plot
from speceyes.evals.reporting.plots.curves import BATCH, CONCURRENCY, curve_plot
from speceyes.evals.reporting.plots.depth import depth_plot
from speceyes.evals.reporting.plots.phases import Spent, phase_names, phases_plot
from speceyes.evals.reporting.plots.scores import scores_plot
from speceyes.evals.reporting.plots.speed import Place, speed_accuracy
from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.text import html_text
from speceyes.evals.reporting.words import Ranged
from speceyes.evals.runs import EvalRun
from speceyes.evals.runs.judging import STATELESS


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture with its words.

    Attributes:
        title: What it shows.
        picture: SVG.
        text: How to read it.
        legend: (style, words) of colours that only this picture has.
    """

    title: str
    picture: str
    text: str
    legend: tuple[tuple[str, str], ...] = ()


def plots(study: Study) -> list[Plot]:
    """All pictures that the runs have something for, run by run."""
    found = []
    for number, (run, label) in enumerate(zip(study.runs, study.labels, strict=True)):
        before = f"{label}: " if len(study.runs) > 1 else ""
        drawn = [plot for plot in _of_run(study, number, run) if plot.picture]
        found += [replace(plot, title=f"{before}{plot.title}") for plot in drawn]
    return found


def legend(systems: Sequence[str]) -> str:
    """Shapes and colours of the systems, once for all pictures."""
    items = "".join(
        f'<li class="{style_of(name)}"><svg viewBox="0 0 14 14" aria-hidden="true">'
        f"{mark(shape_of(name), 7, 7, 4.6)}</svg>{html_text(system_words(name))}</li>"
        for name in systems
    )
    return f'<ul class="legend">{items}</ul>'


def figure(plot: Plot) -> str:
    """A picture as HTML, with its caption."""
    items = "".join(f'<li><i class="{style}"></i>{html_text(words)}</li>' for style, words in plot.legend)
    return (
        f'<figure class="plot"><h3>{html_text(plot.title)}</h3>{plot.picture}'
        + (f'<ul class="legend">{items}</ul>' if items else "")
        + f"<figcaption>{html_text(plot.text)}</figcaption></figure>"
    )


def _of_run(study: Study, number: int, run: EvalRun) -> Iterator[Plot]:
    yield _speed(study, number)
    yield _depth(run, study.summaries[number])
    yield _phases(run)
    yield _scores(run)
    yield _load(run)
    yield _batch(study.summaries[number])
    yield _categories(run)


def _speed(study: Study, number: int) -> Plot:
    whole = study.whole(number)
    places = [
        Place(name, study.accuracy(whole, name), study.speedup(whole, name))
        for name in study.systems
        if name in study.runs[number].header.systems
    ]
    title = "Accuracy against speedup"
    return Plot(
        title,
        speed_accuracy(places, title),
        "Up is more accurate, right is faster; the two lines are the agent alone. Whiskers: 95 % intervals.",
    )


def _depth(run: EvalRun, summary: Mapping[str, Any]) -> Plot:
    title = "How long the agent takes, by depth"
    found = [
        (row.depth, row.seconds)
        for row in run.results.get(AGENT, ())
        if row.depth is not None and row.seconds is not None
    ]
    line = summary["depth"] or {}
    base, step = Ranged.read(line.get("base")), Ranged.read(line.get("per_call"))
    fit, said = None, "All runs have the same depth, so no line can be laid."
    if base.value is not None and step.value is not None:
        fit = (base.value, step.value)
        ranged = f" ({step.low:.3g} to {step.high:.3g})" if step.low is not None and step.high is not None else ""
        explained = f" It explains {line['r_squared']:.0%} of the variance." if line["r_squared"] is not None else ""
        said = f"Dashed: {base.value:.3g} s, and {step.value:.3g} s{ranged} more for each tool call.{explained}"
    return Plot(
        title,
        depth_plot(found, fit, title),
        f"One dot a question that the agent answered alone; bars are means. {said}",
    )


def _phases(run: EvalRun) -> Plot:
    title = "Where the time goes"
    bars = []
    for name, rows in run.results.items():
        timed = [row for row in rows if row.seconds is not None]
        if not timed:
            continue
        spent = {phase: sum(row.phase_seconds.get(phase, 0.0) for row in timed) / len(timed) for phase in PHASES}
        bars.append(Spent(name, spent, sum(row.seconds or 0.0 for row in timed) / len(timed)))
    return Plot(
        title,
        phases_plot(bars, title),
        "Mean seconds of a question's own work in each phase, over all questions of a system; a phase that did not run "
        "took none.",
        tuple(phase_names(bars)),
    )


def _scores(run: EvalRun) -> Plot:
    title = "Scores of right and wrong drafts"
    scored = draft_scores(run)
    threshold = run.header.gate.threshold
    return Plot(
        title,
        scores_plot(scored, threshold, title),
        f"{len(scored):,} drafts with a score ({run.header.gate.score}, {run.header.gate.aggregate}, K = "
        f"{run.header.gate.k}); right and wrong by the draft's answer when it was asked alone. Right of the threshold "
        "the gate accepts. The surest hundredth stands in the last bar.",
    )


def draft_scores(run: EvalRun) -> list[tuple[float, bool]]:
    """(score, whether right) of every draft that has both: the score from whoever has one, preferably for all."""
    drafts = run.answers.get(DRAFT, {})
    sources = [run.answers.get(name, {}) for name in (DRAFT, "no-screen", "no-gate", SPECEYES)]
    found = []
    for sample in run.samples:
        draft = drafts.get(sample.id)
        if draft is None or draft.right is None or draft.error is not None:
            continue
        scores = [rows[sample.id].score for rows in sources if sample.id in rows]
        if sample.id in run.judged:
            scores.append(run.judged[sample.id].score)
        known = next((score for score in scores if score is not None), None)
        if known is not None:
            found.append((known, draft.right))
    return found


def _load(run: EvalRun) -> Plot:
    title = "Questions per second by how many run at a time"
    sums: defaultdict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for lap in run.laps:
        if lap.system in run.header.systems and lap.queries and not lap.errors:
            sums[lap.system, lap.concurrency][0] += lap.queries
            sums[lap.system, lap.concurrency][1] += lap.seconds
    curves: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for (name, many), (queries, seconds) in sums.items():
        if seconds > 0:
            curves[name].append((many, queries / seconds))
    return Plot(
        title,
        curve_plot(curves, CONCURRENCY, title),
        "Wall time of blocks of questions, those with errors left out. A line that goes flat has filled the machine.",
    )


def _batch(summary: Mapping[str, Any]) -> Plot:
    title = "Screening and drafting alone, by how many run at a time"
    points = [
        (size["in_flight"], 1.0 / size["seconds_a_query"]["value"])
        for size in summary["batch"]
        if size["seconds_a_query"]["value"]
    ]
    return Plot(
        title,
        curve_plot({STATELESS: points}, BATCH, title),
        "Phases I to III keep no state, so they may run for a crowd at once: what that gains without the agent's loop.",
    )


def _categories(run: EvalRun) -> Plot:
    title = "Accuracy by category"
    groups: dict[str, dict[str, tuple[int, int]]] = {sample.category: {} for sample in run.samples}
    for name, rows in run.results.items():
        for row in rows:
            if row.right is not None:
                group = groups[run.by_id[row.id].category]
                right, n = group.get(name, (0, 0))
                group[name] = right + row.right, n + 1
    left_out = f" The first {MOST_CATEGORIES} of {len(groups)} categories." if len(groups) > MOST_CATEGORIES else ""
    return Plot(
        title, categories_plot(groups, title), f"Whiskers: Wilson's 95 % intervals; errors count as wrong.{left_out}"
    )
