"""The probe's checks of log-probs, against scripted servers that lack one thing each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from capable_server import ALL_WELL, Answer, Capable, Request, entry, outcomes, probed

from speceyes.engines.client import ChatClient
from speceyes.engines.findings import Feature, Outcome
from speceyes.engines.probe import probe
from speceyes.engines.scripted import Logprobs, Reply, ScriptedServer, Status


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Logprobs.NULL, "`logprobs` is null"),
        (Logprobs.MISSING, "`logprobs` is missing"),
        (Logprobs.EMPTY, "`logprobs.content` is empty"),
        (Logprobs.NULL_CONTENT, "`logprobs.content` is null"),
        (Logprobs.NO_TOP, "every `top_logprobs` is empty"),
    ],
)
async def test_logprobs_that_do_not_come(form: Logprobs, said: str) -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        reply = capable(request, turn)
        assert isinstance(reply, Reply)
        return replace(reply, logprobs=form, tokens=None)

    result = await probed(script)

    lost = (Feature.RAW_LOGPROBS, Feature.SAMPLED_FIRST, Feature.SENTINELS, Feature.TOKEN_IDENTITY)
    expected = ALL_WELL | dict.fromkeys(lost, "unknown")
    assert outcomes(result) == expected | {Feature.LOGPROBS: "no", Feature.LOGPROB_COUNT: "no"}
    assert said in result[Feature.LOGPROBS].detail
    assert result.usable_k == 0
    (warning,) = result.warnings(64)
    assert "The server sends no log-probs" in warning
    assert "every query goes to the agent" in warning


async def test_logprobs_lost_in_the_stream_only() -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        reply = capable(request, turn)
        assert isinstance(reply, Reply)
        return replace(reply, logprobs=Logprobs.NULL) if request["stream"] else reply

    result = await probed(script)
    assert result[Feature.LOGPROBS].outcome is Outcome.NO
    assert "a stream has no log-probs, though a whole reply has them" in result[Feature.LOGPROBS].detail


@pytest.mark.parametrize("limit", [5, 20, 33, 64])
async def test_limit_that_the_server_names(limit: int) -> None:
    async with (
        ScriptedServer(Capable(), max_top_logprobs=limit) as server,
        ChatClient(server.url, "scripted") as client,
    ):
        result = await probe(client)
        tried = {r.json["top_logprobs"] for r in server.completions if r.json.get("top_logprobs")}
    # The client asks for one more than K.
    assert result.usable_k == limit - 1
    assert max(tried - {65}) == limit  # one refusal, and no search
    (warning,) = result.warnings(64)
    assert f"refuses `top_logprobs` above {limit}" in warning
    assert "`--max-logprobs 65`" in warning
    assert f"K = {limit - 1}" in warning
    assert result.warnings(limit - 1) == []


@pytest.mark.parametrize("limit", [1, 2, 5, 20, 21, 50, 64])
async def test_limit_that_the_server_keeps_to_itself(limit: int) -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        if (request.get("top_logprobs") or 0) > limit:
            return Status(400, {"error": {"message": "invalid value for top_logprobs"}})
        return capable(request, turn)

    result = await probed(script)
    assert result.usable_k == limit - 1
    assert result[Feature.LOGPROB_COUNT].outcome is Outcome.NO


@pytest.mark.parametrize("limit", [5, 20, 63])
async def test_fewer_than_asked_without_a_word(limit: int) -> None:
    result = await probed(Capable(), max_top_logprobs=limit, above_limit="clip")
    assert result.usable_k == limit
    (warning,) = result.warnings(64)
    assert f"needs 64 log-probs a token and gets {limit}" in warning
    assert "without a word" in warning
    assert "`--max-logprobs 65`" in warning


async def test_processed_logprobs() -> None:
    class Processed(Capable):
        def token(self, word: str, request: Request) -> Request:
            return entry(word, request, processed=True)

    result = await probed(Processed())
    assert outcomes(result) == ALL_WELL | {Feature.RAW_LOGPROBS: "no"}
    (warning,) = result.warnings(64)
    assert "--logprobs-mode raw_logprobs" in warning


@pytest.mark.parametrize(("first", "outcome"), [(True, "yes"), (False, "no")])
async def test_place_of_the_sampled_token(first: bool, outcome: str) -> None:
    class Sampling(Capable):
        def token(self, word: str, request: Request) -> Request:
            usual = entry(word, request)
            if not request.get("temperature"):
                return usual
            best, own, *others = usual["top_logprobs"]
            own = own | {"token": word}
            best = best | {"token": "~"}
            rivals = [own, best, *others] if first else [best, own, *others]
            return usual | {"logprob": own["logprob"], "top_logprobs": rivals}

    assert outcomes(await probed(Sampling()))[Feature.SAMPLED_FIRST] == outcome


@pytest.mark.parametrize("value", [-9999.0, None, float("-inf"), float("nan")])
async def test_values_that_are_no_logprobs(value: float | None) -> None:
    class Strange(Capable):
        def token(self, word: str, request: Request) -> Request:
            usual = entry(word, request)
            *rivals, last = usual["top_logprobs"] or [{}]
            return usual | {"top_logprobs": [*rivals, last | {"logprob": value}]}

    result = await probed(Strange())
    assert outcomes(result) == ALL_WELL | {Feature.SENTINELS: "yes"}
    (warning,) = result.warnings(64)
    assert "are no numbers" in warning


async def test_entries_with_a_text_only() -> None:
    class Bare(Capable):
        def token(self, word: str, request: Request) -> Request:
            usual = entry(word, request)
            rivals = [{"token": r["token"], "logprob": r["logprob"]} for r in usual["top_logprobs"]]
            return usual | {"top_logprobs": rivals}

    assert outcomes(await probed(Bare())) == ALL_WELL | {Feature.TOKEN_IDENTITY: "no"}
