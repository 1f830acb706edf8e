"""From settings to a running funnel: what is opened, how it is asked, and that all of it is closed again."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from speceyes.agents import Prompts, make_dialect
from speceyes.config import Settings, load_settings
from speceyes.engines.breaker import CircuitBreaker
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT, nano_files
from speceyes.engines.scripted import Outcome, Reply, ScriptedServer, Status, token_reply
from speceyes.errors import CalibrationMismatch, ConfigError, EngineOverloaded, EngineRefused, EngineUnreachable
from speceyes.events import CircuitChanged, Event
from speceyes.gating import Calibration
from speceyes.imaging import decode
from speceyes.phases import AgentModel, DraftModel
from speceyes.tools import ZoomTool
from speceyes.types import Query, Reason
from speceyes.wiring import (
    connect,
    find_calibration,
    make_funnel,
    nano_fingerprint,
    open_agent,
    open_draft,
    open_funnel,
    read_prompts,
)

SURE = [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]
CLOSED = "http://127.0.0.1:9"


def settings(**overrides: Any) -> Settings:
    return load_settings(Path("/dev/null"), {}, {name.replace("__", "."): value for name, value in overrides.items()})


def draft_script(request: dict[str, Any], turn: int) -> Outcome:
    return Reply(tokens=[token_reply("7", SURE)])


def agent_script(request: dict[str, Any], turn: int) -> Outcome:
    if request["max_tokens"] == 1:
        return Reply(tokens=[token_reply("no", [("no", -0.02), ("yes", -4.0)])])
    return Reply("<answer>8</answer>")


@pytest.fixture
async def draft() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(draft_script, models=["small"]) as server:
        yield server


@pytest.fixture
async def agent() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer(agent_script, models=["large"]) as server:
        yield server


@pytest.fixture
def query(tmp_path: Path) -> Query:
    path = tmp_path / "grey.png"
    Image.new("RGB", (300, 200), "grey").save(path)
    return Query("What digit is it?", (decode(path.read_bytes()),))


# Servers elsewhere


async def test_a_funnel_over_two_servers_answers(draft: ScriptedServer, agent: ScriptedServer, query: Query) -> None:
    chosen = settings(draft__url=draft.url, agent__url=agent.url, gate__threshold=6.0, gate__k=8, funnel__loops=3)
    async with open_funnel(chosen) as funnel:
        answer = await funnel.answer(query)
        assert (answer.text, answer.reason) == ("7", Reason.ACCEPTED)
        assert (funnel.draft.identity, funnel.agent.identity) == ("small", "large")
        assert (funnel.stateless.capacity, funnel.loops.capacity) == (chosen.funnel.stateless, 3)
    assert draft.completions[0].json["model"] == "small"
    assert agent.completions[0].json["model"] == "large"
    assert draft.completions[0].json["top_logprobs"] == 8 + 1


async def test_a_service_gets_breakers_a_deadline_and_a_budget_of_retries(draft: ScriptedServer, query: Query) -> None:
    async with ScriptedServer(Status(503, "down"), models=["large"]) as down:
        chosen = settings(
            draft__url=draft.url,
            agent__url=down.url,
            agent__retries=2,
            gate__threshold=2.0,
            gate__k=8,
            funnel__retries=1,
            funnel__deadline_s=50.0,
            breaker__failures=2,
            breaker__pause_s=300.0,
            breaker__max_pause_s=300.0,
            funnel__draft_when_agent_down_threshold=2.5,
        )
        events: list[Event] = []
        async with open_funnel(chosen, listen=events.append, in_service=True) as funnel:
            assert funnel.deadline_s == 50
            with pytest.raises(EngineOverloaded):
                await funnel.answer(query)
            assert len(down.completions) == 2 + 1  # screening with the only retry, and the first turn
            answer = await funnel.answer(query)
            assert isinstance(funnel.agent.engine, CircuitBreaker)
            assert 290 < funnel.agent.engine.retry_after_s <= 300
    assert (answer.text, answer.reason) == ("7", Reason.AGENT_DOWN)
    assert [event.state for event in events if isinstance(event, CircuitChanged)] == ["open"]
    laxer = settings(gate__threshold=3.0, gate__k=8, funnel__draft_when_agent_down_threshold=2.5)
    with pytest.raises(ConfigError, match="draft_when_agent_down_threshold"):
        make_funnel(laxer, funnel.draft, funnel.agent)


async def test_settings_reach_the_requests(draft: ScriptedServer, agent: ScriptedServer, query: Query) -> None:
    chosen = settings(
        draft__url=draft.url,
        draft__model="mine",
        draft__api_key="sk-draft",
        draft__prompt="Be short.",
        draft__max_tokens=5,
        draft__logprobs=30,
        draft__factor=28,
        agent__url=agent.url,
        agent__max_tokens_per_turn=99,
        gate__threshold=1000.0,
        gate__k=8,
    )
    async with open_funnel(chosen) as funnel:
        answer = await funnel.answer(query)
        assert funnel.draft.limits.factor == 28
    assert (answer.text, answer.reason) == ("8", Reason.BELOW_THRESHOLD)
    asked = draft.completions[0]
    assert asked.headers["authorization"] == "Bearer sk-draft"
    assert all("authorization" not in request.headers for request in agent.requests)
    assert [asked.json[name] for name in ("model", "max_tokens", "top_logprobs")] == ["mine", 5, 31]
    assert asked.json["messages"][-1]["content"][-1]["text"].endswith("Be short.")
    assert agent.completions[-1].json["max_tokens"] == 99


async def test_on_a_server_with_slots_each_query_keeps_one(
    draft: ScriptedServer, agent: ScriptedServer, query: Query
) -> None:
    chosen = settings(draft__url=draft.url, agent__url=agent.url, agent__slots=3, gate__threshold=99.0)
    async with open_funnel(chosen) as funnel:
        for _ in range(2):
            await funnel.answer(query)
    screened, turn, *later = [request.json["id_slot"] for request in agent.completions]
    assert screened == turn
    assert {screened, *later} <= {0, 1, 2}
    assert not [request for request in draft.completions if "id_slot" in request.json]


async def test_each_model_opens_alone_and_without_a_calibration(draft: ScriptedServer, agent: ScriptedServer) -> None:
    chosen = settings(draft__url=draft.url, agent__url=agent.url)
    async with open_draft(chosen) as small, open_agent(chosen) as large:
        assert (small.identity, small.logprobs, large.identity) == ("small", chosen.gate.k, "large")
        assert large.dialect.limits.factor == 28
        with pytest.raises(ConfigError, match="no threshold is known for these models"):
            make_funnel(chosen, small, large)


@pytest.mark.parametrize(
    ("models", "said"),
    [(["a", "b"], r"127\.0\.0\.1:\d+ has 2 models: a, b\. Name one \(draft\.model\)"), ([], "lists no")],
)
async def test_a_server_without_one_model_wants_a_name(models: list[str], said: str) -> None:
    async with ScriptedServer(draft_script, models=models) as server:
        with pytest.raises(ConfigError, match=said):
            async with open_draft(settings(draft__url=server.url)):
                pass
        async with open_draft(settings(draft__url=server.url, draft__model="b")) as model:
            assert model.engine.model == "b"


async def test_a_server_without_a_list_wants_a_name(draft: ScriptedServer) -> None:
    with pytest.raises(ConfigError, match=r"HTTP 404.*name one \(--model\)"):
        await connect(f"{draft.url}/v2")


async def test_a_wrong_key_is_no_missing_name() -> None:
    async with ScriptedServer(draft_script, api_key="sk-right") as server:
        with pytest.raises(EngineRefused) as caught:
            await connect(server.url, api_key="sk-wrong")
    assert caught.value.status == 401
    assert "sk-wrong" not in str(caught.value)


async def test_a_server_that_is_not_there_is_an_engine_error() -> None:
    with pytest.raises(EngineUnreachable, match=r"cannot connect"):
        async with open_draft(settings(draft__url=CLOSED, draft__retries=0)):
            pass


async def test_all_connections_are_closed_when_the_block_is_left(draft: ScriptedServer, agent: ScriptedServer) -> None:
    chosen = settings(draft__url=draft.url, agent__url=agent.url, gate__threshold=1.0)
    clients: list[Any] = []

    async def break_off() -> None:
        async with open_funnel(chosen) as funnel:
            clients.extend([funnel.draft.engine, funnel.agent.engine])
            assert await clients[0].models() == ["small"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await break_off()
    assert [client._http for client in clients] == [None, None]


# What the gate is given


async def test_other_models_than_the_nano_pair_need_a_calibration(draft: ScriptedServer, agent: ScriptedServer) -> None:
    with pytest.raises(ConfigError, match=r"--calibration, gate\.calibration.*--threshold"):
        async with open_funnel(settings(draft__url=draft.url, agent__url=agent.url)):
            pass
    assert not draft.requests, "this can be seen before any server is asked"


async def test_a_calibration_for_other_models_is_refused(
    draft: ScriptedServer, agent: ScriptedServer, tmp_path: Path
) -> None:
    path = tmp_path / "c.json"
    Calibration.manual(1.0, draft_model="another").save(path)
    chosen = settings(draft__url=draft.url, agent__url=agent.url, gate__calibration=path)
    with pytest.raises(CalibrationMismatch, match="draft_model: calibrated for 'another', in use is 'small'"):
        async with open_funnel(chosen):
            pass


async def test_as_many_logprobs_are_asked_for_as_the_calibration_scores(draft: ScriptedServer, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    Calibration.manual(1.0, k=17).save(path)
    async with open_draft(settings(draft__url=draft.url, gate__calibration=path)) as model:
        assert model.logprobs == 17


def test_a_threshold_by_hand_promises_nothing() -> None:
    chosen = settings(draft__url=CLOSED, gate__threshold=-1.5, gate__score="logprob", gate__aggregate="mean", gate__k=5)
    found = find_calibration(chosen)
    assert (found.threshold, found.score, found.aggregate, found.k) == (-1.5, "logprob", "mean", 5)
    assert (found.method, found.bound) == ("manual", None)


@pytest.mark.parametrize(("score", "aggregate"), [("certainty", "min"), ("margin", "median")])
def test_a_score_that_does_not_exist_is_refused(score: str, aggregate: str) -> None:
    chosen = settings(gate__threshold=1.0, gate__score=score, gate__aggregate=aggregate)
    with pytest.raises(ConfigError, match="Choose one of"):
        find_calibration(chosen)


# How the agent speaks


async def test_the_agent_is_as_the_settings_have_it(agent: ScriptedServer, tmp_path: Path) -> None:
    words = tmp_path / "prompts.toml"
    words.write_text('closing = "Now."\n')
    chosen = settings(
        agent__url=agent.url,
        agent__factor=32,
        agent__min_pixels=32 * 32,
        agent__max_pixels=64 * 64,
        agent__coordinates="per_mille",
        agent__zoom_context=0.5,
        agent__prompts=words,
        agent__max_turns=2,
        agent__max_tokens_per_turn=64,
        agent__max_seconds=9.0,
    )
    async with open_agent(chosen) as model:
        dialect, budget = model.dialect, model.budget
        assert (dialect.limits.factor, dialect.limits.min_pixels, dialect.limits.max_pixels) == (32, 1024, 4096)
        assert dialect.coordinates == "per_mille"
        assert dialect.prompts.closing == "Now."
        assert dialect.prompts.system == make_dialect("deepeyes").prompts.system
        (tool,) = dialect.toolbox.values()
        assert isinstance(tool, ZoomTool)
        assert (tool.context, tool.notes) == (0.5, True)
        assert budget is not None
        assert (budget.max_turns, budget.max_tokens_per_turn, budget.max_seconds) == (2, 64, 9.0)
        assert budget.max_tokens == 2 * 64 + 64


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"agent__dialect": "nope"}, r"There is no dialect 'nope'\. Known: deepeyes"),
        ({"agent__max_tokens": 5}, r"agent: Budget\.max_tokens \(5\) must be above closing_tokens"),
        ({"agent__min_pixels": 100_000, "agent__max_pixels": 1000}, "agent: .*raise max_pixels"),
        ({"agent__prompts": "nope.toml"}, "cannot read the prompts nope.toml"),
    ],
)
async def test_what_cannot_be_is_refused(agent: ScriptedServer, overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with open_agent(settings(agent__url=agent.url, **overrides)):
            pass


def test_prompts_are_read_from_toml_and_json(tmp_path: Path) -> None:
    base = make_dialect("deepeyes").prompts
    (tmp_path / "p.toml").write_text('screen = "Closer?"\n')
    (tmp_path / "p.json").write_text(json.dumps({"screen": "Closer?"}))
    for name in ("p.toml", "p.json"):
        prompts = read_prompts(tmp_path / name, base)
        assert prompts == Prompts(**{**_fields(base), "screen": "Closer?"})
        assert prompts.fingerprint != base.fingerprint


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("p.toml", "scren = 'x'", "there is no prompt 'scren'; did you mean screen"),
        ("p.toml", "zzz = 'x'", "the prompts are system, act, screen"),
        ("p.toml", "screen = 3", "the prompt screen is 3; it should be a text"),
        ("p.toml", "screen", "is not TOML"),
        ("p.json", "{", "is not JSON"),
        ("p.json", "[]", "holds no object"),
    ],
)
def test_wrong_prompts_are_refused(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=said):
        read_prompts(tmp_path / name, make_dialect("deepeyes").prompts)


def _fields(prompts: Prompts) -> dict[str, str]:
    return {name: getattr(prompts, name) for name in Prompts.__slots__}


# Models in this process


async def test_the_nano_pair_opens_and_closes() -> None:
    chosen = settings(gate__threshold=1.0, funnel__stateless=2, funnel__loops=1, agent__copies=1)
    async with open_funnel(chosen) as funnel:
        draft, agent = funnel.draft, funnel.agent
        assert (draft.engine.model, agent.engine.model) == ("nano-draft", "nano-agent")
        assert draft.limits == agent.dialect.limits == NANO_LIMITS
        (tool,) = agent.dialect.toolbox.values()
        assert isinstance(tool, ZoomTool)
        assert (tool.context, tool.notes) == (NANO_ZOOM_CONTEXT, False)
        assert await _slots(draft) == 2, "one for each query in phase II"
        assert await _slots(agent) == 2 + 1, "one for each screening and one for each loop"
    for model in (draft, agent):
        with pytest.raises(httpx.ConnectError):
            await _slots(model)


async def test_nano_models_are_known_by_their_weights() -> None:
    manifest = json.loads((nano_files().draft.parent / "manifest.json").read_text())["files"]
    async with open_draft(settings(funnel__stateless=1)) as draft:
        assert draft.identity == f"nano-draft@sha256:{manifest[nano_files().draft.name]['sha256'][:12]}"
    assert nano_fingerprint("agent") == f"nano-agent@sha256:{manifest[nano_files().agent.name]['sha256'][:12]}"


async def test_cancelling_stops_the_servers() -> None:
    opened: asyncio.Future[AgentModel] = asyncio.get_running_loop().create_future()

    async def hold() -> None:
        async with open_agent(settings(funnel__stateless=1, funnel__loops=1)) as agent:
            opened.set_result(agent)
            await asyncio.Event().wait()

    task = asyncio.create_task(hold())
    agent = await opened
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(httpx.ConnectError):
        await _slots(agent)


async def test_an_agent_that_does_not_start_takes_the_draft_down_with_it() -> None:
    chosen = settings(gate__threshold=1.0, agent__gguf="nope.gguf", agent__mmproj="nope.gguf", funnel__stateless=1)
    before = _running()
    with pytest.raises(ConfigError, match=r"nope\.gguf"):
        async with open_funnel(chosen):
            pass
    assert _running() == before


@pytest.mark.parametrize(
    "overrides", [{"factor": 28}, {"max_pixels": 1}, {"coordinates": "unit"}, {"dialect": "another"}]
)
async def test_the_nano_agent_is_what_it_is(overrides: dict[str, Any]) -> None:
    chosen = settings(**{f"agent__{name}": value for name, value in overrides.items()})
    with pytest.raises(ConfigError, match=r"no dialect|for the nano agent it is"):
        async with open_agent(chosen):
            pass


async def test_a_model_file_is_served_with_its_own_limits() -> None:
    files = nano_files()
    chosen = settings(draft__gguf=files.draft, draft__mmproj=files.draft_mmproj, draft__context=2048)
    async with open_draft(chosen) as draft:
        assert draft.engine.model == files.draft.stem
        assert draft.identity.startswith(f"{files.draft.stem}@ends-sha256:")
        assert (draft.limits.factor, draft.limits.max_pixels) == (32, 2048 // 4 * 32 * 32)
        assert await _slots(draft) == 2


async def test_a_model_file_for_other_pictures_is_refused() -> None:
    files = nano_files()
    chosen = settings(agent__gguf=files.agent, agent__mmproj=files.agent_mmproj)  # factor 28, the agent's default
    with pytest.raises(ConfigError, match="cells of 32 pixels"):
        async with open_agent(chosen):
            pass


def _running() -> set[str]:
    """Addresses of the servers that run in this process."""
    return {found.url for found in gc.get_objects() if isinstance(found, EmbeddedServer) and not found.closed}


async def _slots(model: DraftModel | AgentModel) -> int:
    """How many slots the model's server has; fails where the server is gone."""
    url: str = model.engine.url.removesuffix("/v1")  # type: ignore[attr-defined]
    async with httpx.AsyncClient(trust_env=False) as client:
        return len((await client.get(f"{url}/slots")).json())
