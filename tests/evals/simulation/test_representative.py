"""A part of a fleet stands for the whole, and internet scale takes seconds."""

from __future__ import annotations

import dataclasses

import pytest
from made_workloads import lifelike

from speceyes.evals.simulation import (
    BatchingCurve,
    Closed,
    Limits,
    Open,
    Scenario,
    Search,
    Servers,
    System,
    demand,
    representative,
    simulate,
)
from speceyes.evals.simulation.representative import inside
from speceyes.scheduling import Plan

WORKLOAD = lifelike()


@pytest.mark.parametrize(
    ("curve", "rate"), [(BatchingCurve.cpu(), 3.6), (BatchingCurve.gpu(6), 18.0)], ids=["cpu", "gpu"]
)
def test_a_part_waits_about_as_long_as_the_whole_and_not_less(curve: BatchingCurve, rate: float) -> None:
    """Sixteen replicas beside four, with as many queries a second for each."""

    def fleet(agents: int) -> Scenario:
        drafts = Servers(agents // 4, curve)
        return Scenario(System.PAPER, drafts, Servers(agents, curve), Open(rate * agents), 6000, seed=2)

    part, whole = simulate(WORKLOAD, fleet(4)), simulate(WORKLOAD, fleet(16))
    assert part.agent_utilisation == pytest.approx(whole.agent_utilisation, rel=0.04)
    assert 0.97 * whole.mean < part.mean < 1.35 * whole.mean
    assert part.quantile(0.95) < 1.35 * whole.quantile(0.95)


def test_loads_are_scaled_alike() -> None:
    curve = BatchingCurve.gpu()
    scenario = Scenario(System.PAPER, Servers(300, curve), Servers(5000, curve), Open(100_000.0))
    part, share = representative(WORKLOAD, scenario)
    assert part.agent.replicas < 600
    assert share == part.agent.replicas / 5000
    assert part.arrivals == Open(100_000.0 * share)
    assert part.draft.replicas / 300 == pytest.approx(share, rel=0.05)
    assert part.queries >= 10 * inside(WORKLOAD, part)


def test_small_fleets_are_simulated_whole() -> None:
    scenario = Scenario(System.PAPER, Servers(1, BatchingCurve.cpu()), Servers(2, BatchingCurve.cpu()), Open(5.0))
    assert representative(WORKLOAD, scenario) == (scenario, 1.0)


def test_clients_and_batches_are_scaled_too() -> None:
    curve = BatchingCurve.gpu()
    scenario = Scenario(System.PUBLISHED, Servers(400, curve), Servers(1600, curve), Closed(16_000))
    part, share = representative(WORKLOAD, scenario)
    assert share < 0.1
    assert part.arrivals == Closed(round(16_000 * share))
    assert part.batch_size == scenario.batch_size == 10


def test_ten_thousand_queries_a_second_agree_with_the_arithmetic() -> None:
    """Thousands of replicas: the simulated part has the utilisation that the work has, and lets out what comes in."""
    cpu = Servers(1, BatchingCurve.cpu())
    found = Search(WORKLOAD, Scenario(System.PAPER, cpu, cpu, Open(10_000.0), 3000), Limits(0.7)).result()
    agents, asked = found.scenario.agent.replicas, demand(Plan.PAPER, WORKLOAD)
    assert agents > 1500
    assert found.feasible
    assert found.share < 0.5
    assert found.simulated.agent_utilisation == pytest.approx(10_000 * asked.agent.mean() / agents, rel=0.04)
    assert found.simulated.throughput / found.share == pytest.approx(10_000, rel=0.05)
    assert len(found.simulated.latencies) < 20_000


def test_servers_that_cannot_keep_up_are_simulated_too() -> None:
    curve = BatchingCurve.gpu()
    scenario = Scenario(System.PAPER, Servers(10, curve), Servers(50, curve), Open(20_000.0), 2000)
    part, share = representative(WORKLOAD, scenario)
    assert part.queries == 2000
    assert share < 1.0
    found = simulate(WORKLOAD, dataclasses.replace(part, queries=6000))
    assert found.agent_utilisation > 0.9
    assert found.overloaded


def test_a_pool_that_cannot_be_divided_is_simulated_whole() -> None:
    """One draft server before 40 agents: any smaller part would have another load on one of them."""
    curve = BatchingCurve.cpu()
    scenario = Scenario(System.PAPER, Servers(1, curve), Servers(40, curve), Open(9.0), 2000)
    assert representative(WORKLOAD, scenario)[1] == 1.0
