"""Latency under open-loop load, and long queues: the arithmetic, the asking, and both programs once."""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from speceyes.types import Answer, Query, Reason, Trace
from virtual_time import VirtualLoop, run_virtually

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import arriving, open_loop, queues

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 540


def run(module: str, folder: Path, *options: str) -> tuple[str, dict[str, Any]]:
    """What a benchmark prints, and its JSON."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    command = [sys.executable, "-m", module, *options, "--json", str(folder / "figures" / "new.json")]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout, json.loads((folder / "figures" / "new.json").read_text())


def test_arrivals_are_a_poisson_process() -> None:
    times = arriving.poisson(20_000, 4.0, (1, 2))
    gaps = np.diff([0.0, *times])
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    assert (gaps > 0.25).mean() == pytest.approx(np.exp(-1), abs=0.01)
    assert arriving.poisson(5, 4.0, (1, 2)) == times[:5]
    assert arriving.poisson(5, 4.0, (1, 3)) != times[:5]


class Serving:
    """Answers one query at a time, each in a second of virtual time."""

    def __init__(self) -> None:
        self.place = asyncio.Semaphore(1)
        self.cancelled: list[str] = []

    async def answer(self, query: Query) -> Answer:
        try:
            async with self.place:
                await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            self.cancelled.append(query.id)
            raise
        reason = Reason.ACCEPTED if query.id == "0" else Reason.TOOL_WOULD_HELP
        return Answer("yes", Trace(reason, plan="paper"), query.id)


def asked(count: int) -> list[Query]:
    return [Query("?", (), id=str(i)) for i in range(count)]


def test_a_latency_counts_from_the_time_of_arrival() -> None:
    course = run_virtually(arriving.offered(Serving().answer, asked(4), [0.0, 0.5, 0.9, 9.0], 10))
    assert course.latencies == pytest.approx((1.0, 1.5, 2.1, 1.0))
    assert (course.saturated, course.most, course.drafted, course.plans) == (False, 3, 1, {"paper": 4})


def test_what_holds_up_the_asking_itself_is_in_the_latency() -> None:
    async def blocking(query: Query) -> Answer:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop.jump(2.0)  # as a program does that computes on the event loop
        return Answer("yes", Trace(Reason.ACCEPTED), query.id)

    course = run_virtually(arriving.offered(blocking, asked(2), [0.0, 0.5], 10))
    assert course.latencies == pytest.approx((2.0, 3.5))


def test_a_load_that_cannot_be_borne_is_called_off() -> None:
    serving = Serving()
    course = run_virtually(arriving.offered(serving.answer, asked(50), [0.1 * i for i in range(50)], 6))
    assert (course.saturated, course.most, course.latencies) == (True, 7, ())
    assert sorted(serving.cancelled) == ["0", "1", "2", "3", "4", "5"]  # the seventh had not begun


def test_a_query_that_fails_ends_the_measurement() -> None:
    serving = Serving()

    async def failing(query: Query) -> Answer:
        if query.id == "1":
            raise ValueError("broken")
        return await serving.answer(query)

    with pytest.raises(ValueError, match="broken"):
        run_virtually(arriving.offered(failing, asked(3), [0.0, 0.1, 0.2], 10))
    assert serving.cancelled == ["0"]


def course(*latencies: float, saturated: bool = False) -> arriving.Course:
    return arriving.Course(latencies, saturated, 9, drafted=1, plans={"paper": len(latencies)})


def test_percentiles_are_those_of_loads_that_were_borne() -> None:
    found = arriving.figures([course(*np.arange(101.0)), course(*(2 * np.arange(101.0))), course(7, saturated=True)])
    assert (found["p50"]["median"], found["p50"]["min"], found["p50"]["max"]) == (75.0, 50.0, 100.0)
    assert (found["p95"]["max"], found["p99"]["max"], found["p99"]["n"]) == (190.0, 198.0, 2)
    assert found["drafted"] == pytest.approx(3 / 203)
    assert not arriving.is_saturated(found)
    assert json.loads(json.dumps(found, allow_nan=False)) is not None


def test_an_arm_is_saturated_where_most_of_its_repeats_were_stopped() -> None:
    stopped, whole = course(saturated=True), course(1.0)
    found = arriving.figures([stopped, stopped, stopped])
    assert (found["p95"], found["drafted"], found["saturated"]) == (None, None, 3)
    assert [arriving.is_saturated(arriving.figures([*[stopped] * n, *[whole] * (3 - n)])) for n in range(4)] == [
        False,
        False,
        True,
        True,
    ]


def made_record() -> dict[str, Any]:
    def arms(**latencies: Sequence[float]) -> dict[str, Any]:
        return {name: arriving.figures([course(*v, saturated=not v)]) for name, v in latencies.items()}

    levels = [
        {"load": 0.5, "queries_per_s": 2.0, "arms": arms(agent=(0.5, 0.7), paper=(0.2, 0.3), auto=(0.2, 0.3))},
        {"load": 2.0, "queries_per_s": 8.0, "arms": arms(agent=(), paper=(0.6, 0.9), auto=())},
    ]
    return {"levels": levels}


def test_the_table_and_the_picture_say_who_was_saturated() -> None:
    said = io.StringIO()
    Console(width=120, file=said).print(open_loop.report(made_record()))
    lines = [line.split() for line in said.getvalue().splitlines() if "%" in line]
    assert lines[0] == ["50%", "2.00", "agent", "0.60", "0.69", "0.70", "50%"]
    assert lines[3] == ["200%", "8.00", "agent", "-", "-", "-", "-", "1", "of", "1"]
    chart = open_loop.chart(made_record())
    (axes,) = chart.figure.axes
    assert axes.get_yscale() == "log"
    assert {text.get_text() for text in axes.texts} == {"agent alone saturated", "plan auto saturated"}
    assert len(axes.get_legend().get_texts()) == 6
    assert chart.png.startswith(b"\x89PNG")


def test_each_arm_comes_first_in_its_turn() -> None:
    orders = [open_loop.turned(["agent", "paper", "auto"], n) for n in range(4)]
    assert [order[0] for order in orders] == ["agent", "paper", "auto", "agent"]
    assert all(sorted(order) == ["agent", "auto", "paper"] for order in orders)


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
def test_open_loop(tmp_path: Path) -> None:
    picture = tmp_path / "new" / "load.png"
    small = ("--quick", "--queries", "1", "--warmup", "1", "--loads", "0.5")
    said, record = run("benchmarks.open_loop", tmp_path, *small, "--picture", str(picture))
    (level,) = record["levels"]
    assert level["queries_per_s"] == pytest.approx(0.5 * record["capacity"]["agent"]["median"])
    assert list(level["arms"]) == list(record["capacity"]) == ["agent", "paper", "auto"]
    plans = {name: found["courses"][0]["plans"] for name, found in level["arms"].items()}
    assert (plans["agent"], plans["paper"]) == ({"off": 1}, {"paper": 1})
    assert level["arms"]["agent"]["drafted"] == 0
    assert "capacity in a closed loop of 8" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


# Queues


def row(count: int, cost: float, **other: float) -> dict[str, Any]:
    return {"queries": count, **{name: {"median": other.get(name, cost)} for name in queues.COSTS}}


def test_growth_is_the_longest_queue_over_one_of_a_hundred() -> None:
    rows = [row(10, 50.0), row(100, 4.0), row(1_000, 5.0), row(10_000, 6.0)]
    assert queues.growth(rows) == dict.fromkeys(queues.COSTS, 1.5)
    assert queues.growth(rows[::-1]) == queues.growth(rows)
    assert queues.growth(rows[:1]) == dict.fromkeys(queues.COSTS, 1.0)
    assert queues.growth([row(200, 2.0), row(10_000, 5.0)])["cpu_ms"] == 2.5


def test_what_cannot_be_measured_has_no_growth() -> None:
    found = queues.growth([row(100, 4.0, rss_kb=0.0), row(10_000, 4.0)])
    assert (found["rss_kb"], found["cpu_ms"]) == (None, 1.0)


def test_pictures_wait_as_png_bytes_until_they_are_looked_at() -> None:
    (png,) = queues.pictures(1)
    image = queues.packed(png)
    assert (image.source[:4], image.size, image.unpacked) == (b"\x89PNG", (1024, 1024), ())
    assert image.pixels.size == (1024, 1024)


def test_the_scripted_pair_keeps_no_ledger_and_lets_six_in_ten_through() -> None:
    told: list[int] = []
    fake = queues.Forgetful(queues.agent_says, lambda: told.append(1))
    fake.server.requests.append(SimpleNamespace(done=True))  # type: ignore[arg-type]
    first = [fake._answer({"max_tokens": 1, "seed": i}, i).tokens[0]["token"] for i in range(10)]
    assert first == ["no"] * 6 + ["yes"] * 4
    assert (len(told), fake.server.requests) == (10, [])


def test_queues(tmp_path: Path) -> None:
    said, record = run("benchmarks.queues", tmp_path, "--counts", "12")
    assert list(record["ways"]) == list(queues.WAYS)
    for found in record["ways"].values():
        (only,) = found["rows"]
        assert only["queries"] == 12
        assert only["cpu_ms"]["median"] > 0
        assert only["traced_kb"]["median"] > 0
        assert found["growth"]["cpu_ms"] == 1.0
    assert "growth" in said
