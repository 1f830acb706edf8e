"""How many replicas: what is found keeps the limits, and fewer would not."""

from __future__ import annotations

import dataclasses
import json

import pytest
from made_workloads import FOUR, lifelike

from speceyes.errors import ConfigError
from speceyes.evals.simulation import (
    BatchingCurve,
    Closed,
    Limits,
    Open,
    QueryTimes,
    Scenario,
    Search,
    Servers,
    System,
    Workload,
    demand,
    forecast,
    simulate,
)
from speceyes.evals.simulation.capacity import run
from speceyes.evals.simulation.demand import least_demand
from speceyes.evals.simulation.report import forecast_json, notes
from speceyes.scheduling import Plan

CPU = Servers(1, BatchingCurve.cpu())


def at(rate: float, system: System = System.PAPER, servers: Servers = CPU, **more: int) -> Scenario:
    return Scenario(system, servers, servers, Open(rate), 2000, **more)


def test_without_a_target_work_alone_says_how_many() -> None:
    workload = lifelike()
    found = Search(workload, at(40.0), Limits(0.7)).result()
    asked = demand(Plan.PAPER, workload)
    for servers, work in ((found.scenario.draft, asked.draft.mean()), (found.scenario.agent, asked.agent.mean())):
        assert 40.0 * work / servers.replicas <= 0.7
        assert 40.0 * work / max(1, servers.replicas - 1) > 0.7 or servers.replicas == 1
    assert found.feasible
    assert found.simulated.agent_utilisation <= 0.73


def test_a_target_is_kept_and_far_fewer_would_not_keep_it() -> None:
    workload, rate, target = lifelike(), 40.0, 0.45
    loose, tight = (Search(workload, at(rate), Limits(0.8, p95)).result() for p95 in (None, target))
    assert loose.simulated.quantile(0.95) > target
    assert tight.simulated.quantile(0.95) <= target
    assert tight.scenario.agent.replicas > loose.scenario.agent.replicas
    fewer = dataclasses.replace(tight.scenario.agent, replicas=int(0.85 * tight.scenario.agent.replicas))
    again = simulate(workload, dataclasses.replace(tight.scenario, agent=fewer))
    assert again.quantile(0.95) > target


def test_a_target_under_what_idle_servers_take_is_out_of_reach() -> None:
    found = Search(lifelike(), at(10.0), Limits(0.8, 0.1)).result()
    assert not found.feasible
    assert "idle servers already take" in found.why


def test_numbers_that_are_fixed_stay() -> None:
    servers = Servers(3, BatchingCurve.cpu())
    found = Search(lifelike(), at(40.0, servers=servers), Limits(0.8), fixed_draft=True).result()
    assert found.scenario.draft.replicas == 3
    assert found.scenario.agent.replicas > 3
    short = Search(lifelike(), at(40.0, servers=CPU), Limits(0.8), fixed_agent=True, fixed_draft=True).result()
    assert not short.feasible
    assert short.scenario.agent.replicas == 1


def test_the_published_schedule_needs_a_server_for_each_loop() -> None:
    """Batching gains its loops nothing, so it needs about as many replicas as the work alone has seconds."""
    workload, servers = lifelike(), Servers(1, BatchingCurve.gpu(40))
    published, paper = (
        Search(workload, at(40.0, system, servers), Limits(0.8)).result() for system in (System.PUBLISHED, System.PAPER)
    )
    assert paper.scenario.agent.replicas == 1
    assert published.feasible
    assert published.scenario.agent.replicas >= 5


def test_a_closed_loop_needs_no_number_of_servers() -> None:
    with pytest.raises(ConfigError, match="closed loop"):
        Search(FOUR, Scenario(System.PAPER, CPU, CPU, Closed(4)), Limits())


def test_a_forecast_holds_every_system_against_the_agent_alone() -> None:
    made = forecast(lifelike(), Scenario(System.PAPER, CPU, CPU, Closed(8), 1500), [System.PAPER, System.PUBLISHED])
    agent, paper, published = made.rows
    assert [row.system for row in made.rows] == [System.AGENT, System.PAPER, System.PUBLISHED]
    assert agent.speedup == 1.0
    assert agent.replicas == (0, 1)
    assert paper.speedup == pytest.approx(paper.found.simulated.throughput / agent.found.simulated.throughput)
    assert published.speedup is not None
    assert paper.speedup is not None
    assert made.law_honest is not None
    assert paper.speedup > published.speedup
    assert made.share_of_law(paper) == pytest.approx(paper.speedup / made.law_honest)


def test_who_cannot_keep_up_has_no_speedup() -> None:
    made = forecast(lifelike(), at(5.3), [System.DRAFT_FIRST])
    agent, ours = made.rows
    assert agent.found.simulated.overloaded
    assert not ours.found.simulated.overloaded
    assert ours.speedup is None


def test_the_json_is_strict_and_says_what_was_done() -> None:
    workload = dataclasses.replace(lifelike(30), left_out=7, concurrency=4)
    made = forecast(workload, at(2.0), [System.PAPER, System.AUTO], limits=Limits(0.6), fixed_agent=False)
    found = json.loads(json.dumps(forecast_json(made), allow_nan=False))
    assert list(found["systems"]) == ["agent", "paper", "auto"]
    paper = found["systems"]["paper"]
    assert paper["utilisation"]["agent"] == pytest.approx(paper["utilisation_by_work"]["agent"], rel=0.15)
    assert found["systems"]["auto"]["utilisation_by_work"] is None
    assert paper["throughput"] == pytest.approx(2.0, rel=0.1)
    assert found["limits"] == {"utilisation": 0.6, "p95_s": None}
    said = " ".join(notes(made))
    for words in ("7 of 37 records lack a phase", "Few records (30)", "4 queries at a time"):
        assert words in said


def test_auto_is_not_called_overloaded_where_it_leaves_speculation_off() -> None:
    """Every draft is refused: the paper's order needs more than these servers have, the agent alone does not."""
    refused = Workload((QueryTimes(0.3, 0.1, 1.0, 1.0, True, False),) * 20)
    one = Servers(1, BatchingCurve.cpu())
    found = run(refused, Scenario(System.AUTO, one, one, Open(0.85), queries=4000))
    assert not found.simulated.overloaded
    assert run(refused, Scenario(System.PAPER, one, one, Open(0.85), queries=4000)).simulated.overloaded
    alone, auto = least_demand(System.AGENT, refused), least_demand(System.AUTO, refused)
    assert auto.agent.sum() == alone.agent.sum()
