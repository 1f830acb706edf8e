"""Latency against load: the same systems on the same servers, at one rate after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from speceyes.evals.simulation.arrivals import Closed, Open
from speceyes.evals.simulation.capacity import run
from speceyes.evals.simulation.demand import System, least_demand
from speceyes.evals.simulation.scenario import Scenario
from speceyes.evals.simulation.workload import Workload
from speceyes.evals.sweeps.charts.style import LINES, Chart, axes, legend

POINTS = 10
QUERIES = 2000
"""Of each point."""


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """One system.

    Attributes:
        system: Which.
        rates: Queries a second at which it keeps up, rising.
        means: Mean latency at each, in seconds.
        p95: The latency that 95 % keep under.
    """

    system: System
    rates: tuple[float, ...]
    means: tuple[float, ...]
    p95: tuple[float, ...]


def load_curves(
    workload: Workload,
    scenario: Scenario,
    systems: Sequence[System],
    *,
    told: Callable[[System], None] = lambda system: None,
) -> list[LoadCurve]:
    """Simulate systems at ten rates, up to what the best of them can do by its work.

    Args:
        workload: What queries take.
        scenario: The servers; its arrivals only say how bursty they are.
        systems: Which.
        told: Is called after each simulation.
    """
    burstiness = 1.0 if isinstance(scenario.arrivals, Closed) else scenario.arrivals.burstiness
    most = max(_most(workload, replace(scenario, system=system)) for system in systems)
    curves = []
    for system in systems:
        rates, means, p95 = [], [], []
        for rate in np.linspace(0.0, 0.97 * most, POINTS + 1)[1:]:
            arrivals = Open(float(rate), burstiness)
            found = run(workload, replace(scenario, system=system, arrivals=arrivals, queries=QUERIES)).simulated
            told(system)
            if found.overloaded:
                break
            rates.append(float(rate))
            means.append(found.mean)
            p95.append(found.quantile(0.95))
        curves.append(LoadCurve(system, tuple(rates), tuple(means), tuple(p95)))
    return curves


def _most(workload: Workload, scenario: Scenario) -> float:
    """Queries a second that the servers can do by their work."""
    asked = least_demand(scenario.system, workload)
    pools = ((scenario.draft, float(asked.draft.mean())), (scenario.agent, float(asked.agent.mean())))
    return min(pool.capacity / work for pool, work in pools if work > 0)


def load_chart(curves: Sequence[LoadCurve], scenario: Scenario) -> Chart:
    """Mean latency of each system over the load; a line ends where its system no longer keeps up."""
    draft, agent = scenario.draft.replicas, scenario.agent.replicas
    title = f"Latency against load: {draft} draft and {agent} agent replicas"
    figure, ax = axes("queries a second", "seconds until the answer", title)
    for number, curve in enumerate(curves):
        color, line, marker = LINES[number % len(LINES)]
        label = "the agent alone" if curve.system is System.AGENT else curve.system.value
        ax.plot(curve.rates, curve.means, color=color, linestyle=line, marker=marker, markersize=4, label=label)
        ax.plot(curve.rates, curve.p95, color=color, linewidth=0.7, alpha=0.5)
    ax.plot([], [], color="grey", linewidth=0.7, label="95 % keep under (thin)")
    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlim(left=0)
    legend(ax, "right")
    text = (
        "Simulated from recorded service times. Queries come at random; each line ends where its system no longer "
        "keeps up with them. Thick: the mean; thin: what 95 % of the queries keep under."
    )
    return Chart("latency-against-load", title, text, figure)
