"""Every dialect can be chosen by its name in the settings, and works over HTTP; its words are in what is calibrated."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from speceyes.agents import DIALECTS, make_dialect
from speceyes.agents.dialects.conformance import dialect_to_check
from speceyes.agents.dialects.conformance.stage import Stage
from speceyes.config import AgentSettings, SandboxSettings, Settings, load_settings
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS
from speceyes.engines.scripted import Reply, ScriptedServer, token_reply
from speceyes.errors import ConfigError, SandboxUnavailable
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.looks import look
from speceyes.imaging.resize import PixelLimits
from speceyes.phases import AgentModel, DraftModel, fall_back
from speceyes.phases.gate import in_use
from speceyes.sandbox import Provider, choose_provider
from speceyes.tools.python import PythonTool
from speceyes.types import AgentRun, Finish, Query, Route
from speceyes.wiring import open_agent, open_funnel
from speceyes.wiring.code import code_tools
from speceyes.wiring.engines import pixel_limits

QUERY = Query("What digit is on the red sign?", (DecodedImage.of_pixels(Image.new("RGB", (840, 560), "white")),))
ZOOMING = [name for name in DIALECTS if not getattr(DIALECTS[name], "needs_sandbox", False)]


def settings(**fields: Any) -> Settings:
    return load_settings(Path("/dev/null"), {}, {name.replace("__", "."): value for name, value in fields.items()})


@pytest.fixture
async def provider() -> Provider:
    try:
        found = await choose_provider(SandboxSettings(provider="auto"))
    except SandboxUnavailable as why:
        pytest.skip(str(why))
    assert found is not None
    return found


def stage_of(name: str) -> Stage:
    dialect = dialect_to_check(name)
    return Stage(dialect, dialect)  # type: ignore[arg-type]


def script(stage: Stage) -> list[Reply]:
    """A call, and then an answer."""
    turns = (stage.call(), stage.answer)
    return [Reply(turn.text, tool_calls=turn.tool_calls, finish_reason=turn.finish_reason) for turn in turns]


async def answered(chosen: Settings) -> AgentRun:
    async with open_agent(chosen) as agent:
        return await fall_back(QUERY, await look(QUERY.images, agent.dialect.limits), agent)


@pytest.mark.parametrize("name", ZOOMING)
async def test_a_dialect_from_the_settings_runs_over_http(name: str) -> None:
    async with ScriptedServer(script(stage_of(name)), models=["large"]) as server:
        run = await answered(settings(agent__url=server.url, agent__dialect=name))
    assert (run.text, run.finish, run.depth) == ("7", Finish.ANSWERED, 1)
    first, second = (request.json for request in server.completions)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert first.get("stop", []) == list(make_dialect(name).stop)
    assert first.get("tools", []) == list(make_dialect(name).tools)
    assert len(run.turns[0].crops) == 1


@pytest.mark.parametrize("name", ["thyme", "deepeyesv2"])
async def test_code_from_the_settings_runs_in_the_sandbox(name: str, provider: Provider) -> None:
    async with ScriptedServer(script(stage_of(name)), models=["large"]) as server:
        run = await answered(settings(agent__url=server.url, agent__dialect=name, sandbox__provider=provider.name))
    assert (run.text, run.finish, run.depth) == ("7", Finish.ANSWERED, 1)
    assert "a part" in run.turns[0].observation
    pictures = [part for part in server.completions[1].json["messages"][-1]["content"] if part["type"] == "image_url"]
    assert len(pictures) == 1
    assert bool(run.notes) == (name == "thyme")


async def test_the_trace_of_a_query_notes_what_was_not_the_trained_form(provider: Provider) -> None:
    turns = iter(script(stage_of("thyme")))

    def agent(request: dict[str, Any], turn: int) -> Reply:
        return (
            Reply(tokens=[token_reply("yes", [("yes", -0.1), ("no", -3.0)])])
            if request["max_tokens"] == 1
            else next(turns)
        )

    async with ScriptedServer(agent, models=["large"]) as large, ScriptedServer(Reply("7"), models=["small"]) as small:
        chosen = settings(
            draft__url=small.url,
            agent__url=large.url,
            agent__dialect="thyme",
            sandbox__provider=provider.name,
            gate__threshold=1.0,
            gate__k=8,
        )
        async with open_funnel(chosen) as funnel:
            answer = await funnel.answer(QUERY)
    assert (answer.text, answer.route) == ("7", Route.AGENT)
    assert answer.trace.notes == (make_dialect("thyme").note,)


@pytest.mark.parametrize("name", ["thyme", "deepeyesv2"])
async def test_without_a_sandbox_nothing_is_started(name: str) -> None:
    async with ScriptedServer([], models=["large"]) as server:
        with pytest.raises(ConfigError, match=rf"dialect {name} writes Python code.*sandbox\.provider"):
            await answered(settings(agent__url=server.url, agent__dialect=name))
    assert server.requests == []


async def test_only_those_that_write_code_get_something_that_runs_it(provider: Provider) -> None:
    chosen = SandboxSettings(provider="auto", timeout_s=3)
    assert await code_tools(make_dialect("qwen3vl"), chosen) == []
    (tool,) = await code_tools(make_dialect("thyme"), chosen)
    assert isinstance(tool, PythonTool)
    assert (tool.name, tool.limits.wall_s) == ("python", 3)
    assert await code_tools(make_dialect("thyme", toolbox=[tool]), chosen) == []


async def test_where_results_go_is_a_setting() -> None:
    turns = script(stage_of("native"))
    async with ScriptedServer(turns, models=["large"]) as server:
        await answered(settings(agent__url=server.url, agent__dialect="native", agent__result_form="tool"))
    last = server.completions[1].json["messages"][-1]
    assert (last["role"], [part["type"] for part in last["content"]]) == ("tool", ["text", "image_url", "text"])
    with pytest.raises(ConfigError, match=r"Dialect 'deepeyes'.*result_form"):
        await answered(settings(agent__url="http://127.0.0.1:1", agent__result_form="tool"))


@pytest.mark.parametrize(
    ("fields", "limits"),
    [
        ({}, (28, 4 * 28**2, 16384 * 28**2)),
        ({"dialect": "qwen3vl"}, (32, 4 * 32**2, 16384 * 32**2)),
        ({"dialect": "minio3"}, (28, 40_000, 2_000_000)),
        ({"dialect": "minio3", "factor": 28, "max_pixels": 500_000}, (28, 40_000, 500_000)),
        ({"dialect": "minio3", "factor": 32}, (32, 4 * 32**2, 16384 * 32**2)),
        ({"factor": 32, "min_pixels": 1024}, (32, 1024, 16384 * 32**2)),
    ],
)
def test_sizes_of_pictures_are_the_familys_unless_the_settings_say_more(
    fields: dict[str, Any], limits: tuple[int, int, int]
) -> None:
    chosen = AgentSettings(url="http://127.0.0.1:1", **fields)
    assert pixel_limits("agent", chosen) == PixelLimits(*limits)


def test_a_context_bounds_the_pictures_of_every_family() -> None:
    chosen = AgentSettings(url="http://127.0.0.1:1", dialect="minio3")
    assert pixel_limits("agent", chosen, tokens=1024).max_pixels == 1024 * 28**2


def test_a_calibration_is_bound_to_the_dialects_words() -> None:
    """What was calibrated with one dialect is refused with any other, although the models are the same."""
    engine = ChatClient("http://127.0.0.1:1", "m")
    draft = DraftModel(engine, NANO_LIMITS)
    used = {name: in_use(draft, AgentModel(engine, dialect_to_check(name))) for name in DIALECTS}
    assert len({fields["agent_prompt"] for fields in used.values()}) == len(DIALECTS)
    mine = dataclasses.replace(make_dialect("minio3").prompts, result="Look:")
    other = in_use(draft, AgentModel(engine, make_dialect("minio3", prompts=mine)))
    assert other["agent_prompt"] != used["minio3"]["agent_prompt"]


@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in DIALECTS), ("native", {"result_form": "tool"})])
async def test_a_real_server_takes_every_history(
    nano_agent_server: EmbeddedServer, name: str, options: dict[str, Any]
) -> None:
    """llama.cpp with its chat template: calls, results, refusals and the closing request of each dialect.

    The nano model speaks another dialect, so what it answers does not matter; a server that refuses a history does.
    """
    dialect = dialect_to_check(name, limits=NANO_LIMITS, **options)
    stage = Stage(dialect, dialect)  # type: ignore[arg-type]
    played = await stage.play(stage.call(), stage.call(), stage.writer.write_call(""), max_turns=3)
    assert len(played.requests) == 4
    async with ChatClient(nano_agent_server.url, nano_agent_server.model) as client:
        prompts = []
        for request in played.requests:
            completion = await client.complete(dataclasses.replace(request, max_tokens=8))
            prompts.append(completion.usage.prompt_tokens or 0)
    assert prompts == sorted(prompts)
    assert prompts[1] > prompts[0] + 32  # the picture is among them
