"""The demo: figures that are counted, pictures that show what happened, on the fake and on the nano pair."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scripted_pair import CALIBRATION, K, Knowing, scripted_pair

from speceyes.config import FunnelSettings, Settings
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import ConfigError, InputError
from speceyes.evals import demo as demos
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.demo import Demo, answer_rows, make_folder, run_demo, save_demo, stages
from speceyes.evals.gallery import REASONS, choose_tiles, share_of_scene
from speceyes.evals.pages import write_page
from speceyes.evals.pictures import BLUE, CARD_WIDTH, MARGIN, PANEL_HEIGHT, draw_demo
from speceyes.evals.systems import SystemName
from speceyes.types import Reason, Route
from speceyes.wiring import open_funnel

COUNT, SEED = 20, 3


def all_samples(count: int, seed: int) -> list[Sample]:
    """What a demo asks, costs included."""
    return [*make_samples(count, seed), *(s for side in demos._samples_for_costs(seed) for s in side)]


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def finished(told: list[str]) -> Demo:
    async def run() -> Demo:
        async with scripted_pair(Knowing(all_samples(COUNT, SEED))) as (draft, agent):
            return await run_demo(
                draft, agent, CALIBRATION, count=COUNT, seed=SEED, concurrency=3, progress=told.append
            )

    return asyncio.run(run())


@pytest.fixture(scope="module")
def saved(finished: Demo, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out") / "demo"
    assert all(path.is_file() for path in save_demo(finished, folder))
    return folder


def test_progress_is_told_of_every_step(finished: Demo, told: list[str]) -> None:
    assert Counter(told) == stages(COUNT)


def test_costs_are_measured_on_scenes_that_the_race_does_not_show() -> None:
    race = {sample.scene.seed for sample in make_samples(1000, SEED)}
    phases, agent = ({sample.scene.seed for sample in side} for side in demos._samples_for_costs(SEED))
    assert not race & phases
    assert not race & agent
    assert not phases & agent
    assert not phases & {sample.scene.seed for sample in make_samples(1000, SEED + 1)}
    kinds = [[sample.kind for sample in side] for side in demos._samples_for_costs(SEED)]
    assert kinds[0] == kinds[1]


def test_the_summary_file_has_the_handles_that_others_use(saved: Path) -> None:
    content = json.loads((saved / "summary.json").read_text())
    for name in ("agent", "draft", "speceyes"):
        assert content["systems"][name]["n"] == COUNT
        assert content["systems"][name]["seconds"] > 0
    assert content["systems"]["agent"]["accuracy"] == content["systems"]["speceyes"]["accuracy"] == 1.0
    assert content["systems"]["draft"]["accuracy"] == 0.6
    assert (content["beta"], content["alpha"]) == (0.6, 1.0)
    assert content["law_ideal"] == pytest.approx(2.5)
    assert content["speedup"] > 0
    assert content["law_honest"] > 0
    assert content["run"]["concurrency"] == 3


def test_every_answer_has_a_row(finished: Demo, saved: Path) -> None:
    rows = [json.loads(line) for line in (saved / "answers.jsonl").read_text().splitlines()]
    assert rows == json.loads(json.dumps(answer_rows(finished.courses)))
    assert Counter(row["system"] for row in rows) == {name.value: COUNT for name in demos.SYSTEMS}
    for row in rows:
        if row["system"] == "speceyes":
            assert (row["route"] == "agent") == row["tool_helps"] == (row["help_probability"] > 0.5)
            assert (row["depth"] > 0) == row["tool_helps"]


def test_tiles_show_both_routes_alike(finished: Demo) -> None:
    routes = Counter(tile.route for tile in finished.tiles)
    assert routes == {Route.DRAFT: 6, Route.AGENT: 6}
    order = [sample.id for sample in make_samples(COUNT, SEED)]
    ids = [tile.sample.id for tile in finished.tiles]
    assert ids == sorted(ids, key=order.index)
    assert len({tile.sample.kind for tile in finished.tiles}) == 4


def test_tiles_are_chosen_without_regard_to_right_and_wrong(finished: Demo) -> None:
    turned = {
        name: dataclasses.replace(
            course, results=[dataclasses.replace(result, right=not result.right) for result in course.results]
        )
        for name, course in finished.courses.items()
    }
    chosen = [tile.sample.id for tile in choose_tiles(turned, CALIBRATION)]
    assert chosen == [tile.sample.id for tile in finished.tiles]


def test_crops_on_tiles_hold_the_sign_that_was_asked_about(finished: Demo) -> None:
    for tile in finished.tiles:
        assert len(tile.crops) == (len(tile.sample.boxes) if tile.route is Route.AGENT else 0)
        for crop, (left, top, right, bottom) in zip(tile.crops, tile.sample.boxes, strict=False):
            assert crop.box[0] <= left + 6
            assert crop.box[1] <= top + 6
            assert crop.box[2] >= right - 6
            assert crop.box[3] >= bottom - 6
            assert max(tile.crop(crop, 58).size) == 58


def test_every_reason_has_plain_words() -> None:
    assert set(REASONS) == set(Reason)
    assert len(set(REASONS.values())) == len(Reason)


def test_the_picture_shows_the_crops_where_they_are(finished: Demo, saved: Path) -> None:
    picture = np.asarray(Image.open(saved / "demo.png").convert("RGB")).astype(int)
    assert picture.shape[1] == 2480
    assert picture.shape == np.asarray(draw_demo(finished.summary, finished.tiles, finished.subtitle)).shape
    blue = np.abs(picture - [int(BLUE[i : i + 2], 16) for i in (1, 3, 5)]).sum(axis=-1) == 0
    index, tile = next((i, tile) for i, tile in enumerate(finished.tiles[:4]) if tile.crops)
    left, top, _, _ = share_of_scene(tile.crops[0])
    x = MARGIN + index * (CARD_WIDTH + 20) + 1 + left * (CARD_WIDTH - 2)
    y = MARGIN + 96 + PANEL_HEIGHT + 30 + 104 + 40 + 1 + top * (CARD_WIDTH - 2)
    around = blue[round(2 * y) - 3 : round(2 * y) + 30, round(2 * x) - 4 : round(2 * x) + 6]
    assert around.sum() > 40


def test_the_page_needs_nothing_from_outside_and_is_well_formed(saved: Path) -> None:
    page = (saved / "demo.html").read_text(encoding="utf-8")
    seen = Tags()
    seen.feed(page)
    seen.close()
    assert seen.open == []
    assert seen.count["article"] == 12
    assert all(source.startswith("data:image/jpeg;base64,") for source in seen.sources)
    assert len(seen.sources) >= 12
    assert "http" not in page.split("<body>")[0]
    assert "url(" not in page
    assert "<script" not in page
    assert "prefers-color-scheme: dark" in page


def test_what_a_model_writes_cannot_become_markup(finished: Demo) -> None:
    tile = next(tile for tile in finished.tiles if not tile.sample.options)
    evil = dataclasses.replace(
        tile,
        answer=dataclasses.replace(tile.answer, text="<script>alert(1)</script>"),
        draft_said="<img src=http://x>",
        right=False,
    )
    page = write_page(finished.summary, [evil], "<b>seed</b>")
    assert "<script" not in page
    assert "<img src=http" not in page
    assert "&lt;b&gt;seed&lt;/b&gt;" in page


def test_a_demo_without_any_answer_can_be_drawn(finished: Demo) -> None:
    nothing = dataclasses.replace(finished.summary, reasons={}, alpha=0.0, beta=0.0)
    assert draw_demo(nothing, [], "nothing", scale=1.0).width == 1240
    assert "0 of the questions" in write_page(nothing, [], "nothing")


@pytest.mark.parametrize(("count", "seed"), [(0, 0), (5, -1)])
async def test_numbers_out_of_range_are_refused(count: int, seed: int) -> None:
    async with scripted_pair(Knowing([])) as (draft, agent):
        with pytest.raises(InputError):
            await run_demo(draft, agent, CALIBRATION, count=count, seed=seed)


def test_a_folder_that_cannot_be_made_is_told_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--out"):
        make_folder(tmp_path / "file" / "demo")


async def test_the_command_on_two_servers(tmp_path: Path) -> None:
    knowing = Knowing(all_samples(6, 1))
    async with ScriptedServer(knowing.draft) as draft, ScriptedServer(knowing.agent) as agent:
        flags = ["--draft-url", draft.url, "--agent-url", agent.url, "--threshold", "6"]
        for setting in (f"gate.k={K}", "agent.factor=32", "agent.zoom_context=1"):
            flags += ["--set", setting]
        for role in ("draft", "agent"):
            flags += ["--set", f"{role}.min_pixels=36864", "--set", f"{role}.max_pixels=36864"]
        code = "from speceyes.cli.main import main; main()"
        run = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", code, "demo", "--count", "6", "--seed", "1", "--out", str(tmp_path / "out"), "--json", "-", *flags),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
        )
        out, err = await run.communicate()
    assert run.returncode == 0, err.decode()
    assert json.loads(out) == json.loads((tmp_path / "out" / "summary.json").read_text())
    assert json.loads(out)["systems"]["speceyes"]["accuracy"] == 1.0
    said = err.decode()
    assert "done: speceyes" in said
    assert "law" in said
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "summary.json",
        "answers.jsonl",
        "demo.png",
        "demo.html",
    }


async def test_the_nano_pair(tmp_path: Path) -> None:
    async with open_funnel(Settings(funnel=FunnelSettings(stateless=2, loops=2))) as funnel:
        finished = await run_demo(funnel.draft, funnel.agent, funnel.calibration, count=20, seed=2, concurrency=2)
    summary = finished.summary
    systems = summary.systems
    assert all(figures.errors == 0 and figures.n == 20 for figures in systems.values())
    assert systems[SystemName.AGENT].right >= 14
    assert systems[SystemName.SPECEYES].right >= systems[SystemName.AGENT].right - 3
    assert systems[SystemName.DRAFT].right < systems[SystemName.AGENT].right
    assert summary.reasons[Reason.ACCEPTED] >= 4
    assert summary.reasons[Reason.TOOL_WOULD_HELP] >= 4
    assert summary.costs.agent > summary.costs.screen
    assert summary.costs.agent > summary.costs.draft
    assert all(path.stat().st_size > 1000 for path in save_demo(finished, tmp_path))


class Tags(HTMLParser):
    """Checks that tags close in order, and collects what the page refers to."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: Counter[str] = Counter()
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] += 1
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
