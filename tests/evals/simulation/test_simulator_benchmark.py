"""The benchmark of the simulator: its arithmetic, its ratios on servers that batch, and the program once."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_workloads import lifelike

from speceyes.evals.simulation import BatchingCurve, Closed, Open, Servers, read_batching

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks import simulator

ROOT = Path(__file__).parents[3]
SERVERS = {name: Servers(1, BatchingCurve.cpu()) for name in ("draft", "agent")}


def test_slowdowns_come_from_rates_and_never_fall() -> None:
    # Twice the rate with two at a time: no slower. A rate that rises beyond what there are places is noise.
    assert simulator._points({1: 4.0, 2: 8.0, 6: 12.0, 10: 30.0}) == [(1, 1.0), (2, 1.0), (6, 2.0), (10, 2.0)]


def test_a_rate_is_that_of_full_places() -> None:
    """Twelve calls of 30 ms, four at a time: 4 / 30 ms, whatever the last ones take to end."""

    async def one(query: Any) -> None:
        await asyncio.sleep(0.03)

    found = asyncio.run(simulator._rate(one, list(range(12)), 4))  # type: ignore[arg-type]
    assert 0.5 * 4 / 0.03 < found < 1.3 * 4 / 0.03


def test_a_prediction_is_of_the_whole_run_and_the_same_questions() -> None:
    workload = lifelike(50)
    found = simulator.predicted("agent", workload, SERVERS, Closed(1), 0)
    alone = sum(query.look + query.agent for query in workload.queries)
    assert found.throughput == pytest.approx(50 / alone)
    assert len(found.latencies) == 50
    assert simulator.predicted("paper", workload, SERVERS, Open(2.0), 0).throughput < 3.0


def test_the_share_of_the_bound_is_one_where_the_bound_is_reached() -> None:
    workload = lifelike(50)
    paper = simulator.predicted("paper", workload, SERVERS, Closed(1), 0)
    found = simulator._share_of_bound(workload, SERVERS, {1: {"paper": {"throughput": [paper.throughput]}}})
    assert found == {"1": pytest.approx(1.0)}


def test_on_servers_that_batch_plans_leave_the_published_schedule_behind() -> None:
    rows = simulator.on_gpus(lifelike(), 600)
    assert [row["clients"] for row in rows] == list(simulator.GPU_CLIENTS)
    for row in rows:
        assert row["ratios"][row["best"]] == max(row["ratios"].values()) > 2.0
    assert rows[-1]["ratios"]["paper"] > rows[0]["ratios"]["paper"]


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
def test_the_program(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    command = [
        sys.executable,
        "-m",
        "benchmarks.simulator",
        "--quick",
        "--count",
        "4",
        "--json",
        str(tmp_path / "x.json"),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "x.json").read_text())
    seen = {(row["system"], row["load"].partition(",")[0], row["figure"]) for row in record["rows"]}
    assert {(name, f"{n} at a time", "queries/s") for name in ("agent", "paper", "published") for n in (1, 8)} <= seen
    assert {("agent", "random", "mean s"), ("paper", "random", "mean s")} <= seen
    for row in record["rows"]:
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"]["median"] - 1)
    assert record["within_goal"] == sum(abs(row["error"]) <= 0.15 for row in record["rows"])
    assert f"{record['within_goal']} of {len(record['rows'])} within 15%" in done.stdout
    (tmp_path / "curves.json").write_text(json.dumps(record["batching"]))
    draft, agent = read_batching(str(tmp_path / "curves.json"))
    assert draft.slowdown(6) >= 1.0
    assert agent.slowdown(6) >= 1.0
