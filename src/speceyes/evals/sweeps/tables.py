"""A sweep's tables as text cells: the same for the terminal and for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speceyes.evals.statistics.bootstrap import Estimate
from speceyes.evals.sweeps.depth_points import DepthPoint
from speceyes.evals.sweeps.operating import Point
from speceyes.evals.sweeps.sweep import Sweep
from speceyes.evals.sweeps.wording import wording
from speceyes.scheduling import SPECULATIVE

NONE = "–"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table: its caption, a sentence that explains it, its header, its rows, and which rows are marked."""

    title: str
    text: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    marked: frozenset[int] = frozenset()


def headline(swept: Sweep) -> str:
    """The sweep in one sentence."""
    point, word = swept.best[swept.options.plan], wording(swept.outcomes.against)
    if not point.figures["acceptance"].value > 0:
        return (
            f"No gate is as good as the agent on this record at any threshold that accepts a draft ({word.accuracy})."
        )
    speed = point.figures["speedup"]
    return (
        f"{word.as_good} the best setting on this record answers "
        f"{whole(point.figures['acceptance'].value)} of the queries by the draft"
        + (f" and is {times(speed)} as fast." if math.isfinite(speed.value) else ".")
    )


def gate_table(swept: Sweep) -> Grid:
    """Every gate at the main K."""
    word = wording(swept.outcomes.against)
    order = swept.at_main_k()
    rows = []
    for index in order:
        gate, found = swept.gates[index], swept.separations[index]
        rows.append(
            (
                gate.setting.name,
                decimal(found.auroc),
                decimal(found.auroc_lead, sign=True) if index != swept.reference else "the default",
                decimal(found.aurc),
                decimal(found.excess_aurc),
                f"{gate.ranking.order.size:,}",
            )
        )
    return Grid(
        f"Gates at K = {swept.k}: how well a score tells {word.right} drafts from {word.wrong} ones",
        (
            f"AUROC: chance that of two drafts, one {word.right} and one {word.wrong}, the {word.right} one scores "
            f"higher (0.5 a coin, 1 perfect). AURC: share of {word.wrong} drafts among the surest, averaged over how "
            "many are taken (smaller is better); excess: above the best possible ranking. "
            f"In brackets {100 * swept.options.confidence:g} % intervals."
        ),
        ("gate", "AUROC", "lead over the default", "AURC", "excess AURC", "scored"),
        rows,
        frozenset(n for n, index in enumerate(order) if index == swept.reference),
    )


def front_table(swept: Sweep) -> Grid:
    """Settings that none beats, for the chosen plan."""
    word, plan = wording(swept.outcomes.against), swept.options.plan
    points = list(swept.fronts[plan])
    best = swept.best[plan]
    marked = {n for n, p in enumerate(points) if (p.setting, p.threshold) == (best.setting, best.threshold)}
    if not marked:
        points = sorted([*points, best], key=lambda p: -_or_zero(p.figures["speedup"].value))
        marked = {points.index(best)}
    return Grid(
        f"Speedup over {word.accuracy}: settings that no other beats in both (plan {plan})",
        (
            f"Speedup by the recorded times; change: final {word.accuracy} minus the agent's, in percentage points; "
            f"{word.loss}: share of the accepted where the agent would have been better. Marked: the fastest that is "
            "as good as the agent. Picked from many on the same records, so a little flattering."
        ),
        ("gate", "K", "threshold", "accepted", f"final {word.accuracy}", "change", word.loss, "speedup", "honest law"),
        [_front_row(point) for point in points],
        frozenset(marked),
    )


def plan_table(swept: Sweep) -> Grid:
    """The plans at the default gate's own fastest setting that is as accurate."""
    word = wording(swept.outcomes.against)
    rows = []
    for plan, point in swept.default.items():
        figures = point.figures
        seconds = figures["seconds"].value
        rows.append(
            (
                plan.value,
                NONE if not math.isfinite(point.threshold) else f"{point.threshold:.4g}",
                percent(figures["acceptance"]),
                percent(figures["final_accuracy"]),
                f"{seconds:.3f} s" if math.isfinite(seconds) else NONE,
                times(figures["speedup"]),
                times(figures["work_speedup"]),
            )
        )
    return Grid(
        "Plans, each at the default gate's fastest threshold that is as good as the agent",
        (
            "Latency: mean time that a query waits. Speedup: the agent's latency over it. Speedup of work: the same "
            "with all model calls added up, what a loaded server gains; hedging buys latency with work."
        ),
        ("plan", "threshold", "accepted", f"final {word.accuracy}", "latency", "speedup", "speedup of work"),
        rows,
        frozenset(n for n, plan in enumerate(SPECULATIVE) if plan is swept.options.plan),
    )


def depth_table(swept: Sweep) -> Grid | None:
    """What closer looks add, in a row for each number of them; None where none were recorded."""
    if swept.depth is None:
        return None
    word, found = wording(swept.outcomes.against), swept.depth
    own = [(str(point.max_depth), point) for point in found.as_accurate]
    same = [(f"{point.max_depth}, threshold of 0", point) for point in found.same_threshold]
    return Grid(
        "Closer looks of the draft model before the agent is asked (plan paper)",
        (
            "Each number of looks at the default gate's own fastest threshold that is as good as the agent, then at "
            "the threshold of none. Won: share of the queries left over by the first look that closer ones answer; "
            f"then the {word.accuracy} there, the agent's on the same, and how many times as fast as its runs that is."
        ),
        (
            *("looks", "threshold", "accepted", f"final {word.accuracy}", "change", "speedup"),
            *("won", f"{word.accuracy} there", "the agent's there", "faster there"),
        ),
        [_depth_row(name, point) for name, point in (*own, *same)],
        frozenset({len(own) - 1}),
    )


def screening_line(swept: Sweep) -> str:
    """What phase I does, in one or two sentences."""
    found, word = swept.screening, wording(swept.outcomes.against)
    said = f"Screening at {found.threshold:g} lets {whole(found.let_through)} of the queries through."
    if found.right_let_through is not None and found.right_stopped is not None:
        said += (
            f" Drafts {word.are} in {whole(found.right_let_through)} of these and in "
            f"{whole(found.right_stopped)} of those it stops."
        )
    if found.right_drafts_lost is not None and found.wrong_drafts_stopped is not None:
        said += (
            f" It stops {whole(found.wrong_drafts_stopped)} of all {word.wrong} drafts, at the price of "
            f"{whole(found.right_drafts_lost)} of the {word.right} ones."
        )
    return said


def decimal(found: Estimate, *, sign: bool = False) -> str:
    """`0.873 (0.861 to 0.885)`."""
    return _with_interval(found, "{:+.3f}" if sign else "{:.3f}")


def whole(share: float) -> str:
    """`87 %`."""
    return f"{100 * share:.0f} %"


def percent(found: Estimate) -> str:
    """`87.3 %`."""
    return f"{100 * found.value:.1f} %" if math.isfinite(found.value) else NONE


def times(found: Estimate) -> str:
    """`1.53× (1.49 to 1.58)`."""
    return _with_interval(found, "{:.2f}", unit="×")


def _depth_row(name: str, point: DepthPoint) -> tuple[str, ...]:
    figures, won = point.figures, point.won
    change = figures["accuracy_change"]
    looks, agent = won["seconds"].value, won["agent_seconds"].value
    return (
        name,
        f"{point.threshold:.4g}" if math.isfinite(point.threshold) else "accept nothing",
        percent(figures["acceptance"]),
        percent(figures["final_accuracy"]),
        _with_interval(Estimate(100 * change.value, 100 * change.low, 100 * change.high), "{:+.1f}"),
        times(figures["speedup"]),
        percent(won["share"]) if point.max_depth else NONE,
        percent(won["accuracy"]),
        percent(won["agent_accuracy"]),
        f"{agent / looks:.2f}×" if looks > 0 else NONE,
    )


def _front_row(point: Point) -> tuple[str, ...]:
    figures = point.figures
    change = figures["accuracy_change"]
    scaled = Estimate(100 * change.value, 100 * change.low, 100 * change.high)
    return (
        point.setting.name,
        str(point.setting.k),
        f"{point.threshold:.4g}" if math.isfinite(point.threshold) else "accept nothing",
        percent(figures["acceptance"]),
        percent(figures["final_accuracy"]),
        _with_interval(scaled, "{:+.1f}"),
        percent(figures["excess_loss"]),
        times(figures["speedup"]),
        f"{figures['law_honest'].value:.2f}×" if math.isfinite(figures["law_honest"].value) else NONE,
    )


def _with_interval(found: Estimate, form: str, unit: str = "") -> str:
    if not math.isfinite(found.value):
        return NONE
    said = form.format(found.value) + unit
    return said if math.isnan(found.low) else f"{said} ({form.format(found.low)} to {form.format(found.high)})"


def _or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0
