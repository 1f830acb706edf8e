"""The simulator against queues whose answers are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_workloads import agents_only, lifelike

from speceyes.evals.simulation import (
    BatchingCurve,
    Closed,
    Open,
    Scenario,
    Servers,
    Simulated,
    System,
    Workload,
    mean_calls,
    simulate,
)

EXPONENTIAL = agents_only(np.random.default_rng(0).exponential(1.0, 5000))
CONSTANT = agents_only(1.0)
NO_DRAFT = Servers(1, BatchingCurve.cpu())


def agent_alone(workload: Workload, curve: BatchingCurve, rate: float, *, queries: int = 20_000) -> Simulated:
    arrivals = Open(rate / workload.times.agent)
    return simulate(workload, Scenario(System.AGENT, NO_DRAFT, Servers(1, curve), arrivals, queries, seed=3))


@pytest.mark.parametrize("workload", [EXPONENTIAL, CONSTANT], ids=["exponential", "constant"])
def test_processor_sharing_waits_as_known(workload: Workload) -> None:
    """M/G/1-PS: mean time is work / (1 - load), whatever the lengths are like."""
    found = agent_alone(workload, BatchingCurve("cpu", ((1, 1.0),), 1000), 0.6)
    assert found.mean == pytest.approx(workload.times.agent / 0.4, rel=0.06)
    assert found.agent_utilisation == pytest.approx(0.6, rel=0.04)


def test_one_at_a_time_waits_as_known() -> None:
    """M/D/1: mean wait is load / (2 (1 - load)) of the service time."""
    assert agent_alone(CONSTANT, BatchingCurve.alone(), 0.6).mean == pytest.approx(1 + 0.6 / 0.8, rel=0.06)


def test_a_flat_curve_with_few_slots_is_erlangs_queue() -> None:
    """M/M/c, here with c = 4 and 70 % load."""
    found = agent_alone(EXPONENTIAL, BatchingCurve("four", ((1, 1.0), (4, 1.0)), 4), 2.8)
    assert found.inside == pytest.approx(erlang(4, 2.8), rel=0.07)


def test_a_batching_server_holds_as_many_calls_as_known() -> None:
    """State-dependent processor sharing; with slowdown 1 + (b - 1) / knee there are knee load / (knee - load) calls."""
    curve = BatchingCurve.gpu(20)
    assert mean_calls(curve, 12.0) == pytest.approx(20 * 12 / (20 - 12), rel=1e-6)
    assert agent_alone(EXPONENTIAL, curve, 12.0).inside == pytest.approx(30.0, rel=0.07)
    assert agent_alone(CONSTANT, curve, 12.0).inside == pytest.approx(30.0, rel=0.07)


@given(st.integers(1, 8), st.floats(0.05, 0.95))
def test_the_closed_form_is_erlangs_where_the_curve_is_flat(servers: int, load: float) -> None:
    points = ((1, 1.0),) if servers == 1 else ((1, 1.0), (servers, 1.0))
    curve = BatchingCurve("flat", points, servers)
    assert mean_calls(curve, servers * load) == pytest.approx(erlang(servers, servers * load), rel=1e-9)


def test_the_closed_form_at_its_ends() -> None:
    assert mean_calls(BatchingCurve.cpu(), 0.0) == 0.0
    assert mean_calls(BatchingCurve.cpu(), 1.0) == math.inf
    assert mean_calls(BatchingCurve.gpu(500), 100.0) == pytest.approx(500 * 100 / 400, rel=1e-6)


def erlang(servers: int, work: float) -> float:
    """Mean number of calls in M/M/c (Erlang C)."""
    load = work / servers
    full = work**servers / math.factorial(servers) / (1 - load)
    waits = full / (sum(work**k / math.factorial(k) for k in range(servers)) + full)
    return waits * load / (1 - load) + work


@pytest.mark.parametrize("system", list(System))
@pytest.mark.parametrize("arrivals", [Closed(8), Open(3.0)], ids=["closed", "open"])
def test_littles_law_is_exact_over_a_whole_run(system: System, arrivals: Closed | Open) -> None:
    """Queries under way, over time, are the seconds that all of them took together."""
    servers = Servers(1, BatchingCurve.gpu(6))
    found = simulate(lifelike(), Scenario(system, servers, servers, arrivals, 300, steady=False))
    assert found.inside == pytest.approx(found.throughput * found.mean)
    assert len(found.latencies) == 300


def test_in_a_closed_loop_all_clients_are_inside() -> None:
    servers = Servers(2, BatchingCurve.cpu())
    found = simulate(lifelike(), Scenario(System.PAPER, servers, servers, Closed(6), 4000))
    assert found.inside == pytest.approx(6.0)
    assert found.throughput * found.mean == pytest.approx(6.0, rel=0.02)
    assert not found.overloaded


def test_an_open_loop_lets_out_what_comes_in_and_says_so_where_it_cannot() -> None:
    servers = Servers(1, BatchingCurve.cpu())
    below = simulate(lifelike(), Scenario(System.AGENT, servers, servers, Open(3.0), 4000))
    assert below.throughput == pytest.approx(3.0, rel=0.05)
    assert not below.overloaded
    beyond = simulate(lifelike(), Scenario(System.AGENT, servers, servers, Open(8.0), 4000))
    assert beyond.overloaded
    assert beyond.agent_utilisation == pytest.approx(1.0)
    assert beyond.throughput < 1.0 / lifelike().times.agent


def test_bursts_wait_longer_and_a_clock_less() -> None:
    alone, means = BatchingCurve.alone(), []
    for burstiness in (0.0, 1.0, 4.0):
        arrivals = Open(0.6, burstiness)
        means.append(simulate(CONSTANT, Scenario(System.AGENT, NO_DRAFT, Servers(1, alone), arrivals, 6000)).mean)
    assert means[0] == pytest.approx(1.0)  # nobody ever meets anybody
    assert means[0] < means[1] < means[2]


def test_gaps_have_the_rate_and_the_burstiness() -> None:
    gaps = Open(5.0, 2.5).gaps(200_000, np.random.default_rng(1))
    assert gaps.mean() == pytest.approx(0.2, rel=0.02)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(2.5, rel=0.05)


@pytest.mark.parametrize("system", list(System))
def test_a_seed_gives_the_same_run_again_and_another_one_another(system: System) -> None:
    servers = Servers(2, BatchingCurve.gpu(6))

    def run(seed: int) -> list[float]:
        found: list[float] = simulate(
            lifelike(), Scenario(system, servers, servers, Open(9.0), 200, seed=seed)
        ).latencies.tolist()
        return found

    assert run(1) == run(1)
    assert run(1) != run(2)
