"""Running an evaluation: every question has a row for every system, whatever fails and whenever it is interrupted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from scripted_pair import CALIBRATION, Knowing, scripted_pair

from speceyes.engines.scripted import Outcome, Reply, Status, token_reply
from speceyes.errors import ConfigError, EngineError, ImageError
from speceyes.evals.baselines import Models, system_names
from speceyes.evals.datasets.readers import Dataset, Item, open_dataset
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.runs import EvalRun, open_run, summarise
from speceyes.evals.runs.headers import EvalOptions
from speceyes.evals.runs.loading import RESULTS
from speceyes.evals.runs.running import PATIENCE, Open, Progress, evaluate_with, front_race, main_races
from speceyes.evals.systems import SystemName
from speceyes.imaging.decode import DecodedImage

SAMPLES = make_samples(10, 0)
SET = open_dataset("nano:10:0")
THREE = (SystemName.AGENT, SystemName.DRAFT, SystemName.SPECEYES)


class Watched(Knowing):
    """Notes which sample it is asked about, by role, and fails where it is told to."""

    def __init__(self, samples: list[Sample] = SAMPLES) -> None:
        super().__init__(samples)
        self.asked: Counter[tuple[str, str]] = Counter()
        self.agent_fails: set[str] = set()

    def draft(self, request: dict[str, Any], turn: int) -> Outcome:
        self.asked["draft", self.sample(request).id] += 1
        return super().draft(request, turn)

    def agent(self, request: dict[str, Any], turn: int) -> Outcome:
        sample = self.sample(request)
        self.asked["agent", sample.id] += 1
        return Status(500) if sample.id in self.agent_fails else super().agent(request, turn)


async def evaluate(
    folder: Path,
    knowing: Knowing,
    systems: tuple[SystemName, ...] = THREE,
    dataset: Dataset = SET,
    progress: Progress | None = None,
    **options: Any,
) -> EvalRun:
    async with scripted_pair(knowing) as (draft, agent):
        opened = served(Models(draft, agent, CALIBRATION))
        return await evaluate_with(opened, dataset, folder, EvalOptions(systems, **options), progress)


def served(models: Models) -> Open:
    """The same pair, however often it is opened."""

    @asynccontextmanager
    async def opened(places: int) -> AsyncIterator[Models]:
        yield models

    return opened


def check_whole(run: EvalRun) -> None:
    """Rows in are rows out: each once, in the files too, with a lap for each block."""
    assert run.complete
    assert run.header.ended is not None
    order = [sample.id for sample in run.samples]
    for rows in run.results.values():
        assert [row.id for row in rows] == order
    lines = [json.loads(line) for line in (run.folder / RESULTS).read_text().splitlines()]
    assert [(line["system"], line["id"]) for line in lines] == [(s, i) for s in run.header.systems for i in order]
    asked = Counter(
        {(lap.system, lap.concurrency): 0 for lap in run.laps if lap.system != "stateless"},
    )
    for lap in run.laps:
        if lap.system != "stateless":
            asked[lap.system, lap.concurrency] += lap.queries
    assert set(asked.values()) == {len(order)}
    assert json.loads((run.folder / "summary.json").read_text()) == json.loads(json.dumps(summarise(run)))


async def test_every_system_answers_everything(tmp_path: Path) -> None:
    told: Counter[str] = Counter()
    begun: dict[str, tuple[int, int]] = {}
    progress = Progress(begun.update, lambda stage: told.update([stage]))
    run = await evaluate(tmp_path / "run", Watched(), tuple(SystemName), concurrency=(2, 3), progress=progress)
    check_whole(run)
    assert {stage: total for stage, (_, total) in begun.items()} == told
    assert set(told.values()) == {10}
    assert len(told) == 1 + 2 * len(SystemName)
    hard = {sample.id for sample in SAMPLES if sample.tool_helps}
    for row in run.results["speceyes"]:
        assert row.right
        assert (row.route, row.reason) == (("agent", "tool_would_help") if row.id in hard else ("draft", "accepted"))
        assert (row.depth or 0) > 0 if row.id in hard else row.depth == 0
        assert set(row.phase_seconds) == ({"screen", "fall_back"} if row.id in hard else {"screen", "speculate"})
    crops = [crop for row in run.results["agent"] for turn in row.turns for crop in turn.crops]
    assert crops
    assert all(0 <= crop.box[0] < crop.box[2] <= 1024 for crop in crops)
    turn = run.results["agent"][0].turns[0]
    assert turn.tool == "image_zoom_in_tool"
    assert turn.arguments is not None
    assert len(turn.arguments["bbox_2d"]) == 4  # type: ignore[arg-type]
    accepted = sum(line.accepted for line in run.judged.values())
    assert sum(row.accepted for row in run.results["random"]) == accepted == 10 - len(hard)


async def test_pictures_are_kept_small_and_once(tmp_path: Path) -> None:
    run = await evaluate(tmp_path / "run", Watched(), (SystemName.DRAFT,))
    for sample in run.samples:
        assert sample.size == (1024, 1024)
        path = run.picture(sample)
        assert path is not None
        with Image.open(path) as picture:
            assert (picture.format, picture.size) == ("JPEG", (768, 768))
    bare = await evaluate(tmp_path / "bare", Watched(), (SystemName.DRAFT,), images=False)
    assert not (tmp_path / "bare" / "images").exists()
    assert [sample.size for sample in bare.samples] == [(1024, 1024)] * 10
    assert all(bare.picture(sample) is None for sample in bare.samples)


async def test_questions_about_one_picture_share_its_thumbnail(tmp_path: Path) -> None:
    items = [replace(SET.items[0], id=f"turn {turn}", group="one") for turn in range(8)]
    run = await evaluate(tmp_path / "run", Watched(), (SystemName.DRAFT,), Dataset("set", "nano", items), block=8)
    assert len({sample.image for sample in run.samples}) == 1
    assert len(list((tmp_path / "run" / "images").iterdir())) == 1
    assert {sample.size for sample in run.samples} == {(1024, 1024)}


async def test_two_failures_of_ten_are_two_rows_of_ten_and_are_tried_again(tmp_path: Path) -> None:
    knowing = Watched()
    knowing.agent_fails = {SAMPLES[3].id, SAMPLES[7].id}
    run = await evaluate(tmp_path / "run", knowing, block=2)
    check_whole(run)
    failed = [row for row in run.results["agent"] if row.error is not None]
    assert [row.id for row in failed] == [SAMPLES[3].id, SAMPLES[7].id]
    for row in failed:
        assert (row.right, row.seconds, row.parsed, row.text, row.route) == (False, None, None, "", None)
        assert "EngineProtocolError" in (row.error or "")
    figures = summarise(run)["systems"]["agent"]
    assert (figures["n"], figures["errors"], figures["answered"], figures["unparsed"]) == (10, 2, 8, 0)
    assert figures["accuracy"]["value"] == 0.8
    assert figures["accuracy_answered"]["value"] == 1.0
    assert figures["speedup"]["blocks"] == len([lap for lap in run.laps if lap.system == "agent" and not lap.errors])

    healed = Watched()
    again = await evaluate(tmp_path / "run", healed, block=2)
    check_whole(again)
    assert not any(row.error for rows in again.results.values() for row in rows)
    assert len(again.header.sessions) == 2
    blocks = {row.block for row in failed}
    touched = {row.id for row in again.results["agent"] if row.block in blocks} | {SAMPLES[-1].id}  # it warms up
    assert {name for role, name in healed.asked if role == "agent"} <= touched

    third = Watched()
    check_whole(await evaluate(tmp_path / "run", third, block=2))
    assert not third.asked, "a finished run asks nobody anything"


async def test_a_picture_that_cannot_be_read_is_a_row_and_is_not_tried_for_ever(tmp_path: Path) -> None:
    def torn() -> DecodedImage:
        raise ImageError("scene.png is torn")

    items = [*SET.items[:5], Item("torn", "What is it?", torn, gold="red")]
    dataset = Dataset("set", "nano", items)
    run = await evaluate(tmp_path / "run", Watched(), dataset=dataset)
    check_rows = [rows[-1] for rows in run.results.values()]
    assert all(row.error == "ImageError: scene.png is torn" and row.right is False for row in check_rows)
    assert run.samples[-1].size is None
    again = Watched()
    await evaluate(tmp_path / "run", again, dataset=dataset)
    assert not again.asked


async def test_interrupted_in_a_block_the_block_is_run_again_whole(tmp_path: Path) -> None:
    """Cancelled at each of several points, as Ctrl-C does it, and gone on with: nothing is lost, nothing doubled."""
    folder = tmp_path / "run"
    for stop_after in (2, 4, 5, 7, 6):
        count = 0
        task: asyncio.Task[EvalRun]

        def done(stage: str) -> None:
            nonlocal count
            count += 1
            if count == stop_after:  # noqa: B023 - called before the loop goes on
                task.cancel()  # noqa: B023

        task = asyncio.ensure_future(evaluate(folder, Watched(), block=4, progress=Progress(done=done)))
        with pytest.raises(asyncio.CancelledError):
            await task
        partial = open_run(folder)
        assert partial.header.ended is None
        assert summarise(partial)["complete"] is False
    before = open_run(folder)
    laps = {(lap.system, lap.block): lap for lap in before.laps}
    last = Watched()
    run = await evaluate(folder, last, block=4)
    check_whole(run)
    kept = {(lap.system, lap.block): lap for lap in run.laps}
    assert all(kept[key] == lap for key, lap in laps.items()), "a lap that was run whole stays"
    assert len(run.header.sessions) == 6
    assert len(laps) > 2


async def test_another_setting_or_set_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await evaluate(folder, Watched(), (SystemName.DRAFT,), limit=3)
    for systems, more, said in [
        ((SystemName.DRAFT,), {}, "dataset.asked: the run has 3, wanted is 10"),
        ((SystemName.DRAFT,), {"limit": 3, "seed": 1}, "seed: the run has 0, wanted is 1"),
        ((SystemName.DRAFT,), {"limit": 3, "rule": "lmms"}, "rule: the run has 'strict', wanted is 'lmms'"),
        ((SystemName.AGENT,), {"limit": 3}, "systems: the run has"),
        ((SystemName.DRAFT,), {"limit": 3, "dataset": open_dataset("nano:10:1")}, "dataset.digest: the run has"),
        ((SystemName.DRAFT,), {"limit": 3, "concurrency": (2,)}, "concurrency: the run has"),
    ]:
        with pytest.raises(ConfigError, match="made otherwise") as refused:
            await evaluate(folder, Watched(), systems, **more)  # type: ignore[arg-type]
        assert said in str(refused.value)
    async with scripted_pair(Watched()) as (draft, agent):
        other = Models(draft, agent, CALIBRATION.model_copy(update={"threshold": 7.0}))
        with pytest.raises(ConfigError, match=r"gate\.threshold"):
            await evaluate_with(served(other), SET, folder, EvalOptions((SystemName.DRAFT,), limit=3))


async def test_servers_that_are_gone_end_the_run_and_a_wrong_key_at_once(tmp_path: Path) -> None:
    class Gone(Watched):
        status = 500

        def draft(self, request: dict[str, Any], turn: int) -> Outcome:
            return Status(self.status)

    many = open_dataset(f"nano:{PATIENCE + 10}:0")
    samples = make_samples(PATIENCE + 10, 0)
    with pytest.raises(EngineError, match="Nothing that was answered is lost"):
        await evaluate(tmp_path / "run", Gone(samples), (SystemName.DRAFT,), many, block=40)
    assert len(open_run(tmp_path / "run").results["draft"]) == PATIENCE
    refused = Gone(samples)
    refused.status = 401
    with pytest.raises(EngineError):
        await evaluate(tmp_path / "other", refused, (SystemName.DRAFT,), many)
    run = await evaluate(tmp_path / "run", Watched(samples), (SystemName.DRAFT,), many, block=40)
    check_whole(run)


async def test_the_lot_is_as_large_as_the_gates_acceptance(tmp_path: Path) -> None:
    """Screening stops nothing here, so the gate alone decides; the lot falls on other drafts than the gate's."""

    class NoHelp(Watched):
        def agent(self, request: dict[str, Any], turn: int) -> Outcome:
            if request["max_tokens"] == 1:
                return Reply(tokens=[token_reply("no", [("no", -0.02), ("yes", -4.0)])])
            return super().agent(request, turn)

    run = await evaluate(tmp_path / "run", NoHelp(), system_names("speceyes,random"), batch=(1, 2))
    drawn = summarise(run)["random"]
    easy = sum(not sample.tool_helps for sample in SAMPLES)
    assert (drawn["let_through"], drawn["accepted"]) == (10, easy)
    assert drawn["share"] == drawn["speceyes_share"] == drawn["realised_share"] == easy / 10
    chosen = {name: {row.id for row in rows if row.accepted} for name, rows in run.results.items()}
    assert chosen["random"] != chosen["speceyes"]
    assert [size["in_flight"] for size in summarise(run)["batch"]] == [1, 2]
    assert [size["queries"] for size in summarise(run)["batch"]] == [10, 10]


async def test_another_plan_is_the_funnels_own_and_part_of_what_the_run_is(tmp_path: Path) -> None:
    async with scripted_pair(Watched()) as (draft, agent):
        models = Models(draft, agent, CALIBRATION, "no-screen")
        run = await evaluate_with(served(models), SET, tmp_path / "run", EvalOptions(THREE))
        assert all("screen" not in row.phase_seconds for row in run.results["speceyes"])
        assert all(row.help_probability is None for row in run.results["speceyes"])
        assert summarise(run)["law"] is None
        with pytest.raises(ConfigError, match=r"settings\.plan: the run has 'no-screen', wanted is 'paper'"):
            await evaluate_with(served(replace(models, plan="paper")), SET, tmp_path / "run", EvalOptions(THREE))


def test_blocks_of_the_front_are_long_enough_for_its_sizes() -> None:
    items = open_dataset("nano:100:0").items
    race = front_race(items, EvalOptions(THREE, batch=(1, 4, 16), block=5))
    assert min(map(len, race.blocks)) >= 2 * 16
    assert Counter(step.concurrency for step in race.steps) == {1: len(race.blocks)} | dict.fromkeys(
        (4, 16), len(race.blocks)
    )
    assert race.places == 16
    assert not front_race(items, EvalOptions(THREE)).steps
    assert {step.concurrency for step in front_race(items, EvalOptions((SystemName.RANDOM,))).steps} == {1}


def test_levels_come_one_after_another() -> None:
    races = main_races(SET.items, EvalOptions(THREE, concurrency=(4, 1)))
    assert [(race.places, {step.concurrency for step in race.steps}, len(race.steps)) for race in races] == [
        (4, {4}, 9),
        (1, {1}, 9),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"systems": ()},
        {"systems": (SystemName.AGENT, SystemName.AGENT)},
        {"concurrency": ()},
        {"concurrency": (0,)},
        {"batch": (2, 2)},
        {"block": 0},
        {"limit": 0},
        {"seed": -1},
    ],
)
def test_options_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        EvalOptions(**{"systems": THREE, **wrong})
