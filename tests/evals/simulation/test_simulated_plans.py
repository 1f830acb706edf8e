"""Plans in simulated time: a lone query costs what `scheduling.plan` says, and the published schedule has barriers."""

from __future__ import annotations

import numpy as np
import pytest
from made_workloads import FOUR, lifelike, query

from speceyes.evals.simulation import (
    BatchingCurve,
    Closed,
    Demand,
    QueryTimes,
    Scenario,
    Servers,
    Simulated,
    System,
    Workload,
    demand,
    law_honest,
    least_seconds,
    simulate,
)
from speceyes.evals.simulation.demand import least_demand
from speceyes.scheduling import Plan
from speceyes.scheduling.plan import expected_cost

ROOMY = Servers(1, BatchingCurve.cpu(64))
"""Calls do not notice one another."""
ONE_PLAN = [system for system in System if system.plan is not None]


def whole_run(
    system: System, workload: Workload, clients: int = 1, servers: Servers = ROOMY, **more: object
) -> Simulated:
    """Every query once, in order."""
    scenario = Scenario(
        system, servers, servers, Closed(clients), len(workload.queries), steady=False, in_order=True, **more
    )  # type: ignore[arg-type]
    return simulate(workload, scenario)


@pytest.mark.parametrize("system", ONE_PLAN)
def test_on_idle_servers_each_query_takes_the_sum_of_its_phases(system: System) -> None:
    for workload in (FOUR, lifelike(60)):
        assert system.plan is not None
        found, asked = whole_run(system, workload), demand(system.plan, workload)
        assert found.latencies == pytest.approx(asked.wait)
        count = len(workload.queries)
        assert found.draft_work * count == pytest.approx(asked.draft.sum())
        assert found.agent_work * count == pytest.approx(asked.agent.sum())


@pytest.mark.parametrize("system", ONE_PLAN)
def test_on_idle_servers_plans_cost_what_the_planner_expects(system: System) -> None:
    assert system.plan is not None
    found, expected = whole_run(system, FOUR), expected_cost(system.plan, FOUR.times, FOUR.chances)
    assert found.mean == pytest.approx(expected.wait)
    assert found.draft_work + found.agent_work == pytest.approx(expected.work)


@pytest.mark.parametrize(
    ("system", "latencies"),
    [
        (System.AGENT, [10, 10, 10, 10]),
        (System.PAPER, [5, 14, 11, 11]),
        (System.DRAFT_FIRST, [5, 13, 14, 13]),
        (System.PARALLEL, [3, 12, 11, 11]),
        (System.HEDGED, [3, 10, 10, 10]),
        (System.NO_SCREEN, [3, 13, 3, 13]),
    ],
)
def test_latencies_by_hand(system: System, latencies: list[float]) -> None:
    """s = 2, d = 3, a = 10, and 9 after screening; both agree, only I, only the gate, neither."""
    assert whole_run(system, FOUR).latencies == pytest.approx(latencies)


LOOKING = Workload(
    tuple(
        query(let=let, passed=passed, closer=4.0, passed_closer=won)
        for let, passed in ((True, True), (True, False), (False, True), (False, False))
        for won in (True, False)
    )
)
"""As `FOUR`, each once with a closer look that the gate passes, and once with one that it does not."""


@pytest.mark.parametrize(
    ("system", "latencies"),
    [
        (System.AGENT, [10] * 8),
        (System.PAPER, [5, 5, 9, 18, 9, 18, 9, 18]),
        (System.DRAFT_FIRST, [5, 5, 7, 17, 9, 18, 7, 17]),
        (System.PARALLEL, [3, 3, 7, 16, 7, 16, 7, 16]),
        (System.HEDGED, [3, 3, 7, 10, 7, 10, 7, 10]),
        (System.NO_SCREEN, [3, 3, 7, 17, 3, 3, 7, 17]),
        (System.PUBLISHED, [5, 5, 14, 14, 11, 11, 11, 11]),
    ],
)
def test_latencies_with_closer_looks_by_hand(system: System, latencies: list[float]) -> None:
    """What is refused takes 4 more at the draft's server, and of the draft's 3 what it has not had, which read the
    picture; and the agent only where that was not enough."""
    found = whole_run(system, LOOKING)
    assert found.latencies == pytest.approx(latencies)
    assert found.draft_work + found.agent_work == pytest.approx(_worked(least_demand(system, LOOKING)))


def _worked(asked: Demand) -> float:
    return float((asked.draft + asked.agent).mean())


def test_closer_looks_spare_the_agent_and_the_laws_know_it() -> None:
    alone, paper = whole_run(System.AGENT, LOOKING), whole_run(System.PAPER, LOOKING)
    assert law_honest(LOOKING) == pytest.approx(alone.seconds / paper.seconds)
    assert LOOKING.left_over == 3 / 8 == 1.0 - paper.by_draft
    assert LOOKING.at_a_glance.left_over == 3 / 4


def test_auto_knows_what_closer_looks_spare() -> None:
    """Nothing is accepted at a glance and everything after a look: speculation still pays."""
    won = Workload((query(0.02, 0.04, 1.0, let=False, passed=False, closer=0.1, passed_closer=True),) * 50)
    servers = Servers(1, BatchingCurve.cpu())
    alone, auto = (
        simulate(won, Scenario(system, servers, servers, Closed(8), 2000, loops=8)).throughput
        for system in (System.AGENT, System.AUTO)
    )
    assert auto > 3.0 * alone


def test_a_hedged_agent_that_is_done_first_has_answered() -> None:
    quick = Workload((query(agent=2.5, let=True, passed=True),))
    found = whole_run(System.HEDGED, quick)
    assert (found.mean, found.by_draft) == (2.5, 0.0)
    assert found.agent_work == pytest.approx(2.0 + 2.5)
    assert found.draft_work == pytest.approx(2.5)


def test_a_hedge_pays_for_the_agent_that_it_cancels() -> None:
    found = whole_run(System.HEDGED, Workload((query(let=True, passed=True),)))
    assert (found.mean, found.by_draft) == (3.0, 1.0)
    assert found.agent_work == pytest.approx(2.0 + 3.0)


def test_a_hedge_and_its_screening_share_their_server() -> None:
    """On one processor: I and IV at half speed until I is done at 4; the draft at 3; then the answer is there."""
    found = whole_run(System.HEDGED, Workload((query(let=True, passed=True),)), servers=Servers(1, BatchingCurve.cpu()))
    assert found.mean == pytest.approx(4.0)
    assert found.agent_work == pytest.approx(4.0)


def test_turns_of_a_run_change_nothing_where_there_is_room_for_all() -> None:
    long = Workload(tuple(query(let=False, passed=False, turns=turns) for turns in (1, 4)))
    assert whole_run(System.AGENT, long).latencies == pytest.approx([10.0, 10.0])


def test_turns_take_turns_where_there_is_one_slot() -> None:
    """Two runs of two turns of 5 s: the second's first turn comes between the first's two."""
    two = Workload((query(let=False, passed=False, turns=2),) * 2)
    found = whole_run(System.AGENT, two, clients=2, servers=Servers(1, BatchingCurve.alone()))
    assert sorted(found.latencies) == pytest.approx([15.0, 20.0])


def test_the_published_schedule_by_hand() -> None:
    """Four queries in a batch: I until 2, II until 5, then the loops of the three refused, 9 s each, one by one."""
    found = whole_run(System.PUBLISHED, FOUR, clients=4)
    assert found.latencies == pytest.approx([5, 14, 23, 32])
    assert found.by_draft == 0.25
    assert found.draft_work * 4 == pytest.approx(2 * 3.0)


def test_a_published_batch_ends_before_the_next_begins() -> None:
    found = whole_run(System.PUBLISHED, Workload(FOUR.queries * 2), clients=4)
    assert found.seconds == pytest.approx(2 * 32.0)
    # Whoever was answered early has asked again, and waits for the others.
    assert found.latencies[4:] == pytest.approx([27 + 5, 18 + 14, 9 + 23, 32])
    smaller = whole_run(System.PUBLISHED, FOUR, clients=4, batch=2)
    assert smaller.latencies == pytest.approx([5, 14, 14 + 2 + 9, 14 + 2 + 9 + 9])


@pytest.mark.parametrize("system", list(System))
def test_decisions_do_not_depend_on_the_load(system: System) -> None:
    workload = lifelike(300)
    found = whole_run(system, workload, clients=8, servers=Servers(1, BatchingCurve.gpu(4)))
    accepted = workload.chances.accepted
    if system in (System.PAPER, System.PUBLISHED, System.DRAFT_FIRST, System.PARALLEL):
        assert found.by_draft == pytest.approx(accepted)
    elif system is System.AGENT:
        assert found.by_draft == 0.0
    elif system is System.NO_SCREEN:
        assert found.by_draft == pytest.approx(workload.chances.passed)
    else:  # hedged runs may be done first, and auto leaves speculation off where it does not pay
        assert 0.0 < found.by_draft <= accepted + 1e-9


def test_auto_is_no_slower_than_the_agent_where_every_query_needs_it() -> None:
    rng = np.random.default_rng(0)
    runs = [float(seconds) for seconds in rng.lognormal(-1.2, 0.3, 300)]
    tools = Workload(tuple(QueryTimes(0.03, 0.04, run, run, False, False, turns=3) for run in runs))
    servers = Servers(1, BatchingCurve.cpu())
    alone, auto, paper = (
        simulate(tools, Scenario(system, servers, servers, Closed(8), 3000, loops=8)).throughput
        for system in (System.AGENT, System.AUTO, System.PAPER)
    )
    assert auto > 0.98 * alone
    assert paper < 0.95 * alone


def test_auto_speculates_where_it_pays() -> None:
    servers = Servers(1, BatchingCurve.cpu())
    alone, auto = (
        simulate(lifelike(tools=0.0), Scenario(system, servers, servers, Closed(8), 3000, loops=8)).throughput
        for system in (System.AGENT, System.AUTO)
    )
    assert auto > 1.5 * alone


def test_the_honest_law_is_the_ratio_of_what_idle_servers_take() -> None:
    workload = lifelike()
    alone, paper = whole_run(System.AGENT, workload), whole_run(System.PAPER, workload)
    assert law_honest(workload) == pytest.approx(alone.seconds / paper.seconds)


IN_A_ROW = [System.AGENT, System.PAPER, System.DRAFT_FIRST, System.NO_SCREEN, System.PUBLISHED]
"""Their work does not depend on when they learn of a refusal."""


@pytest.mark.parametrize("system", IN_A_ROW)
@pytest.mark.parametrize("curve", [BatchingCurve.cpu(), BatchingCurve.gpu(8)], ids=["cpu", "gpu"])
@pytest.mark.parametrize("clients", [1, 3, 40])
def test_no_schedule_is_faster_than_a_work_conserving_one_could_be(
    system: System, curve: BatchingCurve, clients: int
) -> None:
    workload, servers = lifelike(120), Servers(1, curve)
    found = whole_run(system, workload, clients, servers)
    assert found.seconds >= least_seconds(least_demand(system, workload), servers, servers, clients=clients) - 1e-9


def test_a_busy_processor_reaches_the_bound() -> None:
    workload, servers = lifelike(400), Servers(1, BatchingCurve.cpu())
    least = least_seconds(demand(Plan.PAPER, workload), servers, servers, clients=8)
    assert whole_run(System.PAPER, workload, 8, servers).seconds == pytest.approx(least, rel=0.03)
    assert whole_run(System.PUBLISHED, workload, 8, servers).seconds > 1.05 * least


def test_the_bound_by_hand() -> None:
    asked = demand(Plan.PAPER, FOUR)  # waits 5, 14, 11, 11; draft 6 in all, agent 2 * 4 + 9 * 3 = 35
    wide = Servers(1, BatchingCurve.cpu(64))
    assert least_seconds(asked, wide, wide) == 14.0
    assert least_seconds(asked, wide, wide, clients=2) == 41.0 / 2
    assert least_seconds(asked, wide, Servers(1, BatchingCurve.cpu())) == 35.0
    assert least_seconds(asked, wide, Servers(2, BatchingCurve.cpu()), together=2.0) == 41.0 / 2
