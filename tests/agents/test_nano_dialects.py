"""The nano agent in each of its dialects, through llama.cpp: zooms read in its text, native calls, and code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from speceyes.agents.dialects import Dialect
from speceyes.agents.loop import Generate, agent_loop
from speceyes.config import AgentSettings
from speceyes.config.sandbox import SandboxSettings
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS, nano_agent
from speceyes.evals.datasets.samples import Sample, make_samples
from speceyes.evals.datasets.seeds import VALIDATION
from speceyes.evals.matching import is_right
from speceyes.imaging.looks import look
from speceyes.phases.fall_back import AgentModel, fall_back
from speceyes.types import AgentRun
from speceyes.wiring.code import code_tools
from speceyes.wiring.funnel import make_agent_dialect

COUNT = 10


@pytest.fixture(scope="module")
def parsing_server() -> Iterator[EmbeddedServer]:
    """The nano agent on a server that parses its calls."""
    with nano_agent(parse_calls=True) as server:
        yield server


async def dialect_of(name: str) -> Dialect:
    chosen = AgentSettings(dialect=name)
    code = await code_tools(make_agent_dialect(chosen), SandboxSettings(provider="auto"))
    return make_agent_dialect(chosen, NANO_LIMITS, code)


async def runs(server: EmbeddedServer, dialect: Dialect) -> list[tuple[Sample, AgentRun]]:
    found = []
    async with ChatClient(server.url, server.model) as client:
        agent = AgentModel(client, dialect)
        for sample in make_samples(COUNT, 3, VALIDATION):
            query = sample.query()
            found.append((sample, await fall_back(query, await look(query.images, dialect.limits), agent)))
    return found


def right(found: Sequence[tuple[Sample, AgentRun]]) -> int:
    return sum(is_right(run.text, sample.gold, sample.options) for sample, run in found)


async def test_it_zooms_in_its_text(nano_agent_server: EmbeddedServer) -> None:
    found = await runs(nano_agent_server, await dialect_of("deepeyes"))
    assert right(found) >= COUNT - 2
    assert sum(bool(turn.crops) for _, run in found for turn in run.turns) >= COUNT - 1
    assert all(run.whole for _, run in found)


async def test_it_zooms_by_native_calls(parsing_server: EmbeddedServer) -> None:
    found = await runs(parsing_server, await dialect_of("deepeyes-native"))
    assert right(found) >= COUNT - 2
    assert sum(bool(turn.crops) for _, run in found for turn in run.turns) >= COUNT - 1


async def test_it_crops_by_code_of_its_own_in_a_sandbox(nano_agent_server: EmbeddedServer) -> None:
    found = await runs(nano_agent_server, await dialect_of("thyme"))
    assert right(found) >= COUNT - 3, "in code it is weaker about relative positions"
    looked = [run for _, run in found if any("image.crop(" in turn.text for turn in run.turns)]
    assert len(looked) >= COUNT - 1
    assert all(run.whole for _, run in found)
    for run in looked:
        assert (run.turns[0].error, "part.png" in run.turns[0].observation) == (None, True)


async def test_the_server_parses_its_native_calls(parsing_server: EmbeddedServer) -> None:
    dialect = await dialect_of("deepeyes-native")
    query = make_samples(1, 3, VALIDATION)[0].query()
    step = next(agent_loop(query, dialect, views=await look(query.images, dialect.limits)))
    assert isinstance(step, Generate)
    async with ChatClient(parsing_server.url, parsing_server.model) as client:
        said = await client.complete(step.request)
    assert [call.name for call in said.tool_calls] == ["image_zoom_in_tool"]
    assert "<tool_call>" not in said.text
