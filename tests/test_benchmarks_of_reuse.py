"""The benchmarks of what is reused, prompts and pictures: small runs, and the figures that they make of counts."""

from __future__ import annotations

import asyncio
import io
import sys
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress

from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.scripted import Reply, ScriptedServer
from speceyes.errors import ConfigError
from speceyes.types import Usage

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import image_path, prefix


def test_shares_are_of_all_tokens_and_the_least_of_one_prompt() -> None:
    used = [Usage(100, 5, 90), Usage(300, 5, 150), Usage(100, 5, None)]
    assert prefix.share(used) == {"share": 240 / 500, "least": 0.0, "n": 3}
    assert prefix.share(used[:2])["least"] == 0.5
    assert prefix.share([]) == {"share": 0.0, "least": 0.0, "n": 0}


async def test_both_arms_answer_the_same_and_leases_lose_nothing() -> None:
    done = list[int]()
    row = await prefix.level(2, 2, 1, seed=31, done=lambda: done.append(1))
    assert len(done) == 2 * prefix.PARTS
    for arm in prefix.ARMS:
        assert row[arm]["first_turns"]["n"] == row["queries"] == 8
        assert len(row[arm]["seconds"]) == row["time"]["n"] == prefix.PARTS
    assert row["leases"]["first_turns"]["least"] > 0.8, "system prompt, tools, image and question"
    assert row["leases"]["first_turns"]["share"] >= row["server"]["first_turns"]["share"]
    draft = await prefix.draft_level(2, seed=31)
    assert draft["leases"]["n"] == 2 * prefix.ASKED_AGAIN
    assert draft["leases"]["least"] > 0.5
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(prefix.report({"levels": [row], "drafts": [draft]}))
    assert f"{row['leases']['first_turns']['share']:.0%}" in console.export_text()


@pytest.mark.parametrize("drafts", [False, True])
async def test_servers_that_run_already_are_counted_too(
    nano_agent_server: EmbeddedServer,
    nano_draft_server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    drafts: bool,
) -> None:
    monkeypatch.setattr(prefix, "LEVELS", ((2, 2),))
    draft_url = nano_draft_server.url if drafts else None
    record = await prefix.run_on(nano_agent_server.url, draft_url, 1, 41 + drafts, Progress(disable=True))
    (row,) = record["levels"]
    assert list(record["servers"]) == ["agent", "draft"][: 1 + drafts]
    assert row["slots"] is None
    found = row["server"]
    assert found["screenings"]["n"] == found["first_turns"]["n"] == row["queries"] == 8
    assert found["screenings"]["share"] < found["first_turns"]["share"], "only screening has read the picture by then"
    assert len(found["seconds"]) == prefix.PARTS
    assert [draft["server"]["n"] for draft in record["drafts"]] == [2 * prefix.ASKED_AGAIN] * drafts
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(prefix.report(record))
    assert f"{found['first_turns']['share']:.0%}" in console.export_text()


async def test_a_server_that_does_not_tell_what_it_had_cached_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "LEVELS", ((1, 1),))
    async with ScriptedServer(Reply("<answer>7</answer>"), models=["mute"]) as server:
        with pytest.raises(ConfigError, match="--enable-prompt-tokens-details"):
            await prefix.run_on(server.url, None, 1, 31, Progress(disable=True))


@pytest.mark.parametrize("form", ["JPEG", "PNG"])
def test_each_step_of_the_image_path_has_its_ratio(form: str) -> None:
    found = asyncio.run(image_path.measure(1152, form, 2, lambda: None))
    assert set(found["share_of_ours"]) == set(image_path.STEPS)
    assert sum(found["share_of_ours"].values()) == pytest.approx(1.0, abs=0.2)
    ours, plain = found["seconds"]["ours"][0], found["seconds"]["plain"][0]
    first = (plain["intake"] + plain["draft"]) / (ours["intake"] + ours["draft"])
    assert found["draft_input"]["min"] <= first <= found["draft_input"]["max"]
    assert (found["read_at"], found["ceiling"] is None) == (("1/2", False) if form == "JPEG" else (None, True))


def test_a_step_without_work_has_no_figure() -> None:
    assert image_path._cell({"median": 8_400.0, "min": 1.0, "max": 9e9}) == "shared"
    assert image_path._cell({"median": 2.96, "min": 2.8, "max": 3.14}) == "3.0 (2.8-3.1)"
    assert image_path._cell(None) == ""
