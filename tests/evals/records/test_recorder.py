"""Recording: every phase of every question, whatever the screen says; what fails is a row, a dead server an end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from made_rows import MANIFEST
from scripted_pair import K, Knowing, scripted_pair

from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.nano import NANO_LIMITS
from speceyes.engines.scripted import Outcome, ScriptedServer, Status
from speceyes.errors import EngineError, EngineRefused, ImageError
from speceyes.evals.datasets.readers import Item, open_dataset
from speceyes.evals.datasets.samples import make_samples
from speceyes.evals.records import Row, RunWriter, load_run, read_rows
from speceyes.evals.records.recorder import PATIENCE, record
from speceyes.evals.records.session import make_manifest
from speceyes.imaging.decode import DecodedImage
from speceyes.phases import AgentModel, DraftModel

NAME, COUNT = "nano:8:3", 8
SAMPLES = make_samples(COUNT, 3)
ITEMS = open_dataset(NAME).items


async def record_all(folder: Path, draft: DraftModel, agent: AgentModel, items: Sequence[Item], **how: Any) -> None:
    with RunWriter(folder, make_manifest(open_dataset(NAME), draft, agent)) as writer:
        await record(items, draft, agent, writer, **how)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_all_phases_of_all_questions_are_recorded(tmp_path: Path, concurrency: int) -> None:
    seen: list[Row] = []
    async with scripted_pair(Knowing(SAMPLES)) as (draft, agent):
        await record_all(tmp_path, draft, agent, ITEMS, concurrency=concurrency, done=seen.append)
    rows = list(read_rows(tmp_path))
    assert [row["id"] for row in rows] == [sample.id for sample in SAMPLES]
    assert sorted(row["id"] for row in seen) == sorted(sample.id for sample in SAMPLES)
    for row, sample in zip(rows, SAMPLES, strict=True):
        assert row["question"] == sample.question
        assert (row["gold"], tuple(row["options"]), row["category"]) == (sample.gold, sample.options, sample.kind.value)
        assert row["image_sha256"] == [sample.image.sha256]
        assert (row["p_yes"] > row["p_no"]) is sample.tool_helps
        assert row["draft_right"] is not sample.tool_helps
        assert row["agent_right"] is True
        assert row["agrees"] is row["draft_right"]
        assert row["agent_depth"] == len(sample.boxes)
        assert [len(top) for top in row["top_logprobs"]] == [K]
        assert all(row[f"{phase}_seconds"] > 0 for phase in ("look", "screen", "draft", "agent"))
        assert row["agent_calls"] == row["agent_turns"] == len(sample.boxes) + 1
        assert row["agent_prompt_tokens"] > 0
    table = load_run(tmp_path)
    assert table.bound_to["draft_model"] == "scripted-draft"
    assert table.bound_to.keys() == {"draft_model", "agent_model", "draft_prompt", "screen_prompt", "agent_prompt"}


async def test_what_is_there_is_not_asked_again(tmp_path: Path) -> None:
    async with scripted_pair(Knowing(SAMPLES)) as (draft, agent):
        await record_all(tmp_path, draft, agent, ITEMS[:5])
        seen: list[Row] = []
        await record_all(tmp_path, draft, agent, ITEMS, done=seen.append)
        assert [row["index"] for row in seen] == [5, 6, 7]
        await record_all(tmp_path, draft, agent, ITEMS, done=seen.append)
    assert len(seen) == 3


async def test_a_phase_that_fails_leaves_its_error_and_the_next_one_runs(tmp_path: Path) -> None:
    async with failing_draft(Status(500, "out of memory")) as (draft, agent):
        await record_all(tmp_path, draft, agent, ITEMS)
    rows = list(read_rows(tmp_path))
    assert len(rows) == COUNT
    assert all("EngineProtocolError: " in row["draft_error"] for row in rows)
    assert all(row["draft_text"] is None and row["agent_right"] is True for row in rows)
    assert not load_run(tmp_path).complete.any()


class failing_draft:  # noqa: N801 - used as `scripted_pair` is
    """A draft's server that always fails in one way, and an agent that knows the scenes."""

    def __init__(self, outcome: Outcome) -> None:
        self.draft = ScriptedServer(outcome)
        self.pair = scripted_pair(Knowing(SAMPLES))

    async def __aenter__(self) -> tuple[DraftModel, AgentModel]:
        _, agent = await self.pair.__aenter__()
        await self.draft.__aenter__()
        self.client = ChatClient(self.draft.url, "scripted-draft", retries=0)
        return DraftModel(self.client, NANO_LIMITS, logprobs=K), agent

    async def __aexit__(self, *about: Any) -> None:
        await self.client.aclose()
        await self.draft.__aexit__(None, None, None)
        await self.pair.__aexit__(None, None, None)


async def test_a_wrong_set_up_ends_it_at_once(tmp_path: Path) -> None:
    async with failing_draft(Status(401, "who are you?")) as (draft, agent):
        with pytest.raises(EngineRefused):
            await record_all(tmp_path, draft, agent, ITEMS)
    assert list(read_rows(tmp_path)) == []


async def test_a_dead_server_ends_it_after_a_while(tmp_path: Path) -> None:
    dead = ScriptedServer(Status(500))
    async with dead, ChatClient(dead.url, "dead", retries=0) as client:
        draft = DraftModel(client, NANO_LIMITS, logprobs=K)
        agent = AgentModel(client, DeepEyes(limits=NANO_LIMITS))
        items = open_dataset(f"nano:{PATIENCE + 5}:0").items
        with RunWriter(tmp_path, MANIFEST) as writer:
            with pytest.raises(EngineError, match=f"{PATIENCE} questions in a row failed"):
                await record(items, draft, agent, writer)
            assert len(writer.failed) == PATIENCE


async def test_an_image_that_cannot_be_read_is_a_row_with_an_error(tmp_path: Path) -> None:
    def broken() -> DecodedImage:
        raise ImageError("scene.png: the image is damaged")

    items = [Item("broken", "What is this?", broken), *ITEMS[:2]]
    async with scripted_pair(Knowing(SAMPLES)) as (draft, agent):
        await record_all(tmp_path, draft, agent, items)
    rows = list(read_rows(tmp_path))
    assert rows[0]["image_error"] == "ImageError: scene.png: the image is damaged"
    assert rows[0]["image_sha256"] == []
    assert [row["image_error"] for row in rows[1:]] == [None, None]
