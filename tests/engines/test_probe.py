"""The probe as a whole, and its checks of what the agent's loop relies on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from capable_server import (
    ALL_WELL,
    IMAGE_TOKENS,
    TOOL_TOKENS,
    Answer,
    Capable,
    Request,
    entry,
    outcomes,
    probed,
    prompt_tokens,
    usage,
)

from speceyes.engines import probe_control
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import EmbeddedServer
from speceyes.engines.findings import Feature
from speceyes.engines.probe import probe
from speceyes.engines.probe_asker import Asker
from speceyes.engines.scripted import Cut, Hang, Payloads, Reply, ScriptedServer, Status


async def test_server_that_can_do_everything() -> None:
    result = await probed(Capable())
    assert outcomes(result) == ALL_WELL
    assert result.usable_k == 64
    assert result.warnings(64) == []
    assert result[Feature.IMAGES].number == IMAGE_TOKENS
    plain = json.loads(json.dumps(result.as_json(), allow_nan=False))
    assert plain["findings"]["images"] == {
        "outcome": "yes",
        "detail": "the picture takes 100 tokens",
        "number": 100,
    }
    assert list(plain["findings"]) == [feature.value for feature in Feature]


async def test_larger_k_than_was_tried_asks_for_another_probe() -> None:
    (warning,) = (await probed(Capable())).warnings(100)
    assert warning == "Only 64 log-probs a token were tried, and the gate needs 100: probe again with 100."


# Stop strings, tools, cancel


async def test_stop_strings_ignored() -> None:
    class Deaf(Capable):
        def stopped(self, text: str, stop: str, request: Request) -> str:
            return text

    result = await probed(Deaf())
    assert outcomes(result) == ALL_WELL | {Feature.STOP: "no", Feature.STOP_INCLUDED: "unknown"}
    assert "Stop strings do not work" in result.warnings(64)[0]


@pytest.mark.parametrize(("included", "outcome"), [(True, "yes"), (False, "no")])
async def test_stop_string_always_in_the_text_or_never(included: bool, outcome: str) -> None:
    class Fixed(Capable):
        def stopped(self, text: str, stop: str, request: Request) -> str:
            return text.partition(stop)[0] + (stop if included else "")

    result = await probed(Fixed())
    assert outcomes(result) == ALL_WELL | {Feature.STOP_INCLUDED: outcome}
    assert result[Feature.STOP].detail.endswith(f"{'with' if included else 'before'} the stop string")
    assert result.warnings(64) == []


async def test_model_of_few_words_is_made_to_go_on() -> None:
    class Terse(Capable):
        def __call__(self, request: Request, turn: int) -> Answer:
            if not request.get("ignore_eos"):
                return Reply(
                    "B", tokens=[entry("B", request)], usage=usage(prompt_tokens(request), self.cached(request))
                )
            return super().__call__(request, turn)

    assert outcomes(await probed(Terse())) == ALL_WELL


async def test_tools_that_the_model_is_not_told_of() -> None:
    class Hiding(Capable):
        def prompt(self, request: Request) -> int:
            hidden = len(request.get("tools", [])) if request.get("tool_choice") == "none" else 0
            return prompt_tokens(request) - TOOL_TOKENS * hidden

    result = await probed(Hiding())
    assert outcomes(result) == ALL_WELL | {Feature.TOOLS_RENDERED: "no"}
    assert "--exclude-tools-when-tool-choice-none" in result.warnings(64)[0]


@pytest.mark.parametrize(
    "page",
    [
        lambda count: ("/metrics", f'# HELP x\nvllm:num_requests_running{{model="x"}} {count}.0\n'),
        lambda count: ("/metrics", f"llamacpp:requests_processing {count}\nllamacpp:requests_deferred 0\n"),
        lambda count: ("/slots", json.dumps([{"is_processing": n < count} for n in range(4)])),
    ],
)
@pytest.mark.parametrize("forgetful", [False, True])
async def test_cancel(page: Callable[[int], tuple[str, str]], forgetful: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger knows who is being served; one server goes on counting after its client has left."""
    monkeypatch.setattr(probe_control, "_FREED_S", 0.3 if forgetful else 5.0)
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        return Hang(Reply("one two"), 1) if request["max_tokens"] >= 100 else capable(request, turn)

    async with (
        ScriptedServer(script) as server,
        ChatClient(server.url, "scripted") as client,
    ):

        async def shown(asker: Asker, path: str) -> str | None:
            long = [r for r in server.completions if r.json["max_tokens"] >= 100]
            where, text = page(sum(forgetful or not r.done for r in long))
            return text if path == where else None

        monkeypatch.setattr(Asker, "page", shown)
        result = await probe(client)

    assert outcomes(result) == ALL_WELL | {Feature.CANCEL: "no" if forgetful else "yes"}
    assert [r.closed_by_client for r in server.completions].count(True) == 1
    assert len(result.warnings(64)) == forgetful


# Servers in trouble


async def test_nobody_there() -> None:
    async with ScriptedServer(Reply("x")) as server:
        url = server.url
    async with ChatClient(url, "scripted", retries=0) as client:
        result = await probe(client)
    assert set(outcomes(result).values()) == {"unknown"}
    assert "cannot connect" in result[Feature.CHAT].detail
    assert "not asked" in result[Feature.LOGPROBS].detail
    (warning,) = result.warnings(64)
    assert "The model does not answer" in warning


async def test_model_of_another_name() -> None:
    async with (
        ScriptedServer(Capable(), models=["qwen", "deepeyes"]) as server,
        ChatClient(server.url, "nano") as client,
    ):
        result = await probe(client)
    assert outcomes(result) == ALL_WELL | {Feature.MODELS: "no"}
    (warning,) = result.warnings(64)
    assert "no model named 'nano'" in warning
    assert "'qwen', 'deepeyes'" in warning


@pytest.mark.parametrize(
    "trouble",
    [
        Cut(Reply("x"), 0, reset=True),
        Cut(Reply("one two three"), 1),
        Payloads(["{not json"]),
        Payloads(['{"choices": [{"delta": 3, "logprobs": 7, "finish_reason": "stop"}]}', "[DONE]"]),
        Status(429, "slow down", {"retry-after": "60"}),
        Status(200, '{"choices": [null]}'),
    ],
)
async def test_trouble_aborts_nothing(trouble: Answer) -> None:
    """After the first question each reply is a fault: everything has an outcome, and nothing is a yes."""
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        return capable(request, turn) if turn == 0 else trouble

    result = await probed(script)
    later = list(outcomes(result).items())[2:]
    assert [feature for feature, _ in later] == list(Feature)[2:]
    assert "yes" not in {outcome for _, outcome in later}
    json.dumps(result.as_json(), allow_nan=False)
    result.warnings(64)


async def test_a_server_that_falls_silent() -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        return capable(request, turn) if turn == 0 else Hang()

    async with ScriptedServer(script) as server, ChatClient(server.url, "scripted") as client:
        async with asyncio.timeout(20):
            result = await probe(client, check_timeout_s=0.1)
    assert result[Feature.LOGPROBS].detail == "no result within 0.1 s"
    assert set(list(outcomes(result).values())[2:]) == {"unknown"}


# llama.cpp


@pytest.mark.parametrize("which", ["nano_draft_server", "nano_agent_server"])
async def test_embedded_server(which: str, request: pytest.FixtureRequest) -> None:
    server: EmbeddedServer = request.getfixturevalue(which)
    async with ChatClient(server.url, server.model) as client:
        result = await probe(client)
    found = outcomes(result)
    # Whether a less likely token is ever sampled is up to the weights.
    assert found.pop(Feature.SAMPLED_FIRST) in ("no", "unknown")
    expected = ALL_WELL | {Feature.CANCEL: "yes", Feature.STOP_INCLUDED: "no", Feature.SLOTS: "yes"}
    del expected[Feature.SAMPLED_FIRST]
    if which == "nano_draft_server":  # it says one word, too little to stop in
        for feature in (Feature.STOP, Feature.STOP_INCLUDED):
            assert found.pop(feature) in (expected.pop(feature), "unknown")
    assert found == expected
    assert result[Feature.SLOTS].number == server.parallel
    assert result.usable_k == 64
    assert result.warnings(64) == []
