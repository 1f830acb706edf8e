"""Pictures that compare the gates: risk over coverage, ROC, and the choice of K."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from speceyes.evals.statistics.bootstrap import resamples
from speceyes.evals.sweeps.charts.scores import NO_SCORES
from speceyes.evals.sweeps.charts.style import GREY, INK, LINES, Chart, axes, in_percent, legend, nothing
from speceyes.evals.sweeps.grid import LEARNED
from speceyes.evals.sweeps.measures import risk_at
from speceyes.evals.sweeps.ranking import RightAndWrong
from speceyes.evals.sweeps.sweep import Sweep
from speceyes.evals.sweeps.wording import wording
from speceyes.gating import SCORES
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray

COVERAGES = np.linspace(0.04, 1.0, 97)


def risk_coverage(swept: Sweep) -> Chart:
    """Share of wrong drafts among the surest, over how many are taken, with bands."""
    word = wording(swept.outcomes.against)
    title = f"Risk over coverage: {word.wrong} drafts among the surest"
    figure, ax = axes(
        "coverage: share of scored drafts that is accepted (%)", f"{word.wrong} among the accepted (%)", title
    )
    chosen = leading_gates(swept, most=3)
    if not chosen:
        nothing(ax, NO_SCORES)
    else:
        for index, (color, style, _) in zip(chosen, LINES, strict=False):
            line, low, high = risk_band(swept, index)
            ax.plot(COVERAGES, line, color=color, linestyle=style, linewidth=1.8, label=swept.gates[index].setting.name)
            ax.fill_between(COVERAGES, low, high, color=color, alpha=0.12, linewidth=0)
        scored = swept.gates[chosen[0]].ranking.order
        right = float(swept.outcomes.draft_right[scored].mean())
        best = np.clip(1.0 - right / COVERAGES, 0.0, None)
        ax.plot(COVERAGES, best, color=INK, linewidth=1, linestyle=(0, (1, 1.5)), label="best possible ranking")
        ax.axhline(1.0 - right, color=GREY, linewidth=1, label="a score that knows nothing")
        ax.set_xlim(0, 1)
        ax.set_ylim(bottom=0)
        in_percent(ax, "xy")
        legend(ax, "below", ncols=3)
    confidence = f"{100 * swept.options.confidence:g} %"
    text = (
        f"Take the surest drafts first: how many of those taken are {word.wrong}? Lower is better, and AURC is the "
        f"mean height of a line. Bands: {confidence} by resampling queries."
    )
    return Chart("risk-coverage", title, text, figure)


def roc(swept: Sweep) -> Chart:
    """ROC curves of all gates at the main K."""
    word = wording(swept.outcomes.against)
    title = f"ROC of all gates at K = {swept.k}"
    figure, ax = axes(
        f"{word.wrong} drafts accepted (% of all {word.wrong})",
        f"{word.right} drafts accepted (% of all {word.right})",
        title,
    )
    right = swept.outcomes.draft_right
    gates = [i for i in swept.at_main_k() if not np.isnan(swept.separations[i].auroc.value)]
    if not gates:
        nothing(
            ax, NO_SCORES if not any(g.ranking.order.size for g in swept.gates) else "All drafts are alike: no ROC."
        )
    named = best_of_each_score(swept, gates)
    for number, index in enumerate(i for i in gates if i not in named):
        label = "other aggregates" if number == 0 else None
        _roc_line(ax, swept, index, right, color="#c9c7c0", linewidth=0.9, zorder=1.5, label=label)
    for index, (color, style, _) in zip(named, LINES, strict=False):
        label = f"{swept.separations[index].auroc.value:.3f}  {swept.gates[index].setting.name}"
        _roc_line(ax, swept, index, right, color=color, linestyle=style, linewidth=1.8, label=label)
    if gates:
        ax.plot([0, 1], [0, 1], color=GREY, linewidth=1, linestyle=(0, (1, 1.5)), label="0.500  a coin")
        ax.set_aspect("equal")
        ax.set_xlim(-0.01, 1.01)
        ax.set_ylim(-0.01, 1.01)
        in_percent(ax, "xy")
        legend(ax, "right", title="AUROC (best aggregate of the score)", title_fontsize=8.5, alignment="left")
    text = (
        f"For every threshold: how many of the {word.right} drafts it accepts, and how many of the {word.wrong} ones. "
        "The nearer to the top left corner, the better. AUROC is the area under a line; grey are the other aggregates."
    )
    return Chart("roc", title, text, figure)


def k_ablation(swept: Sweep) -> Chart:
    """AUROC over K, for each score with its default aggregate and for the learned gate."""
    title = "How many log-probs a token does a gate need?"
    figure, ax = axes("K: log-probs of each token that the score reads (log scale)", "AUROC", title)
    drawn = 0
    for position, (score, (color, style, marker)) in enumerate(zip([*SCORES, LEARNED], LINES, strict=True)):
        aggregate = SCORES[score].aggregates[0] if score in SCORES else ""
        found = [
            (gate.setting.k, part.auroc)
            for gate, part in zip(swept.gates, swept.separations, strict=True)
            if (gate.setting.score, gate.setting.aggregate) == (score, aggregate) and not np.isnan(part.auroc.value)
        ]
        if not found:
            continue
        drawn += 1
        found.sort(key=lambda part: part[0])
        ks, middle = np.array([k for k, _ in found], float), np.array([e.value for _, e in found])
        spread = np.array([[e.value - e.low, e.high - e.value] for _, e in found]).T
        # Moved apart a little, or the bars would hide one another.
        place = ks * 1.02 ** (position - 3)
        ax.errorbar(
            place, middle, np.nan_to_num(spread).clip(0), color=color, linestyle=style, marker=marker, markersize=4.5,
            linewidth=1.4, elinewidth=0.8, capsize=2, label=f"{score}, {aggregate}" if aggregate else score,
        )  # fmt: skip
    if not drawn:
        nothing(ax, "No gate has an AUROC.")
    else:
        ax.set_xscale("log")
        ax.xaxis.set_minor_locator(NullLocator())
        ticks = [swept.ks[i] for i in np.unique(np.linspace(0, len(swept.ks) - 1, min(len(swept.ks), 8)).astype(int))]
        ax.set_xticks(ticks, [str(k) for k in ticks])
        legend(ax, "right")
    text = (
        "The same drafts, scored with fewer or more of each token's log-probs. A threshold holds for one K only; where "
        "a line is flat, a server that sends few log-probs is as good as one that sends many. Bars are intervals."
    )
    return Chart("k-ablation", title, text, figure)


def leading_gates(swept: Sweep, most: int) -> list[int]:
    """The default gate, the best other one of the kit, and the learned one, where they have scores."""
    order = [i for i in swept.at_main_k() if swept.gates[i].ranking.order.size]
    learned = [i for i in order if swept.gates[i].setting.score == LEARNED]
    kit = [i for i in order if i not in learned]
    first = [swept.reference] if swept.reference in kit else kit[:1]
    return [*first, *[i for i in kit if i not in first][:1], *learned][:most]


def best_of_each_score(swept: Sweep, gates: list[int]) -> list[int]:
    """The default gate, and for each other score its gate with the best AUROC."""
    best = {swept.gates[i].setting.score: i for i in gates if i == swept.reference}
    for index in gates:
        best.setdefault(swept.gates[index].setting.score, index)
    return [best[name] for name in (*SCORES, LEARNED) if name in best]


def risk_band(swept: Sweep, index: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Risk at `COVERAGES` with its percentile band; the band is the line itself where there are no resamples."""
    ranking, right, options = swept.gates[index].ranking, swept.outcomes.draft_right, swept.options
    line = risk_at(RightAndWrong.of(ranking, right), COVERAGES)[0]
    drawn = [
        risk_at(RightAndWrong.of(ranking, right, weights), COVERAGES)
        for weights in resamples(swept.groups, min(options.replicates, 400), options.seed)
    ]
    if not drawn:
        return line, line, line
    tail = 50.0 * (1.0 - options.confidence)
    low, high = np.nanpercentile(np.concatenate(drawn), [tail, 100.0 - tail], axis=0)
    return line, low, high


def _roc_line(ax: Axes, swept: Sweep, index: int, right: BoolArray, **style: Any) -> None:
    counts = RightAndWrong.of(swept.gates[index].ranking, right)
    ax.plot(counts.wrong[0] / counts.wrong[0, -1], counts.right[0] / counts.right[0, -1], **style)
