"""Latency against load: it rises, a system's line ends where it cannot keep up, and the picture is one."""

from __future__ import annotations

import dataclasses

from made_workloads import lifelike

from speceyes.evals.simulation import BatchingCurve, Closed, Open, Scenario, Servers, System, demand
from speceyes.evals.simulation import load_curves as module
from speceyes.evals.simulation.load_curves import load_chart, load_curves
from speceyes.scheduling import Plan

SERVERS = Servers(2, BatchingCurve.cpu())
SCENARIO = Scenario(System.AGENT, SERVERS, SERVERS, Open(1.0))


def test_lines_rise_and_end() -> None:
    workload, told = lifelike(), []
    curves = load_curves(workload, SCENARIO, [System.AGENT, System.PAPER], told=told.append)
    agent, paper = curves
    most = 2 / float(demand(Plan.OFF, workload).agent.mean())
    assert max(agent.rates) < most
    assert max(paper.rates) > 1.2 * max(agent.rates)
    for curve in curves:
        assert curve.means[-1] > 1.5 * curve.means[0]
        assert all(mean < tail for mean, tail in zip(curve.means, curve.p95, strict=True))
    assert told.count(System.PAPER) == module.POINTS


def test_the_picture_names_systems_and_servers() -> None:
    scenario = dataclasses.replace(SCENARIO, arrivals=Closed(4))
    curves = load_curves(lifelike(), scenario, [System.AGENT, System.PAPER])
    chart = load_chart(curves, scenario)
    labels = [text.get_text() for text in chart.figure.axes[0].get_legend().get_texts()]
    assert labels[:2] == ["the agent alone", "paper"]
    assert "2 draft and 2 agent replicas" in chart.title
    assert chart.png.startswith(b"\x89PNG")
