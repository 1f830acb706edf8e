"""`auto` on simulated servers that each do one call's work at a time: beside every plan that does not change.

Time is virtual and all else drawn from seeds, so these are the same figures on every machine.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from speceyes.evals.simulation import (
    BatchingCurve,
    Closed,
    QueryTimes,
    Scenario,
    Servers,
    Simulated,
    System,
    Workload,
    schedules,
    simulate,
)

PROCESSOR = Servers(1, BatchingCurve.cpu())
AT_A_TIME = 8
SEEDS = range(6)
TOOLS = {"easy": 0.0, "mixed": 0.4, "hard": 0.8}
"""Share of queries that need a tool."""
Shape = tuple[float, float, float]
PAIRS: dict[str, Shape] = {
    "nano": (0.057, 0.031, 0.04),
    "dear draft": (0.03, 0.15, 0.02),
    "dear screen": (0.1, 0.02, 0.0),
}
"""Seconds of screening and of a draft, and what screening saves of an agent's run of 0.22 s."""


def workload(tools: float, shape: Shape, seed: int, count: int = 300) -> Workload:
    """Queries of two kinds; such as need a tool are hardly ever let through, and a third of their drafts pass."""
    rng, (screen, draft, saved) = np.random.default_rng(seed), shape
    queries = []
    for i in range(count):
        tool, agent = bool(rng.random() < tools), 0.22 * float(rng.lognormal(-0.08, 0.4))
        queries.append(
            QueryTimes(
                screen=screen * float(rng.lognormal(0.0, 0.15)),
                draft=draft * float(rng.lognormal(0.0, 0.2)),
                agent=agent,
                agent_after_screen=max(0.02, agent - saved),
                let_through=bool(rng.random() < (0.03 if tool else 0.97)),
                passed=bool(rng.random() < (0.35 if tool else 0.97)),
                look=0.004,
                turns=3 if tool else 2,
                kind=f"kind {i % 2}",
            )
        )
    return Workload(tuple(queries))


def served(system: System, work: Workload, seed: int, queries: int = 500, clients: int = AT_A_TIME) -> Simulated:
    """The whole run, from the first query that a planner ever saw."""
    scenario = Scenario(
        system, PROCESSOR, PROCESSOR, Closed(clients), queries, seed, steady=False, in_order=True, loops=clients
    )
    return simulate(work, scenario)


@cache
def ratios(traffic: str, pair: str, system: System) -> list[float]:
    """How many times as fast `auto` is as another system, by seed."""
    found = []
    for seed in SEEDS:
        work = workload(TOOLS[traffic], PAIRS[pair], seed)
        found.append(served(System.AUTO, work, seed).throughput / served(system, work, seed).throughput)
    return found


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("traffic", TOOLS)
def test_under_load_auto_is_as_fast_as_the_papers_order(traffic: str, pair: str) -> None:
    assert statistics.fmean(ratios(traffic, pair, System.PAPER)) > 0.975
    assert min(ratios(traffic, pair, System.PAPER)) > 0.95


def test_where_another_order_is_better_auto_finds_it() -> None:
    """A screening that saves the agent nothing is better asked of good drafts only."""
    assert statistics.fmean(ratios("hard", "dear screen", System.PAPER)) > 1.1


@pytest.mark.parametrize("traffic", ["easy", "mixed"])
def test_under_load_auto_leaves_hedging_alone(traffic: str) -> None:
    assert statistics.fmean(ratios(traffic, "nano", System.HEDGED)) > 1.2


def test_with_one_query_at_a_time_auto_takes_the_shorter_wait() -> None:
    work = workload(0.0, PAIRS["nano"], 0)
    alone = {system: served(system, work, 0, 400, 1).throughput for system in (System.AUTO, System.PAPER)}
    assert alone[System.AUTO] > 1.2 * alone[System.PAPER]


def test_off_where_every_query_needs_a_tool_and_on_again_when_they_are_easy(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, shape = list[str](), (0.08, 0.04, 0.02)
    born = schedules.Visit.__init__

    def noted(self: schedules.Visit, fleet: schedules.Fleet, times: QueryTimes, plan: System) -> None:
        plans.append(plan.value)
        born(self, fleet, times, plan)  # type: ignore[arg-type]

    tools = [replace(query, let_through=False, kind="") for query in workload(1.0, shape, 1, 900).queries]
    easy = [replace(query, kind="") for query in workload(0.0, shape, 2, 700).queries]
    monkeypatch.setattr(schedules.Visit, "__init__", noted)
    served(System.AUTO, Workload((*tools, *easy)), 0, 1600)
    assert plans[300:900].count("off") > 0.8 * 600
    assert plans[1300:].count("off") < 0.1 * 300, "at one probe in 25 that would be a dozen probes"


def test_where_every_query_needs_a_tool_asking_on_costs_little() -> None:
    found = []
    for seed in SEEDS:
        tools = workload(1.0, PAIRS["nano"], seed)
        work = Workload(tuple(replace(query, let_through=False) for query in tools.queries))
        found.append(served(System.AUTO, work, seed, 900).throughput / served(System.AGENT, work, seed, 900).throughput)
    assert statistics.fmean(found) > 0.975


def test_two_servers_that_are_both_full_share_the_work() -> None:
    """Where the draft's server would be the bottleneck of every order, some queries go straight to the agent."""
    work = workload(0.3, (0.02, 0.3, 0.02), 3)
    best = max(served(s, work, 3, 900).throughput for s in (System.AGENT, System.PAPER, System.DRAFT_FIRST))
    assert served(System.AUTO, work, 3, 900).throughput > 1.05 * best
