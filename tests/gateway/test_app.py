"""The app's other routes, the door before all of them, and errors in OpenAI's form, over real sockets."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest
from gateway_server import QUESTION, agent_says, asked, data_url, image_part, picture, running, text_part, user

from speceyes.engines.scripted import Hang, Reply, Status
from speceyes.errors import ConfigError
from speceyes.gateway.names import Names

KEY = "a-key-that-is-long-enough"


async def test_the_list_of_models_has_the_gateways_names() -> None:
    async with running(settings={"serve.aliases": {"gpt-4o": "speceyes", "raw": "speceyes/agent"}}) as served:
        found = [model.id async for model in await served.openai.models.list()]
        assert found[:3] == ["speceyes", "speceyes/agent", "speceyes/draft"]
        assert found[-2:] == ["gpt-4o", "raw"]
        assert (await served.openai.models.retrieve("speceyes/draft")).owned_by == "speceyes"
        with pytest.raises(openai.NotFoundError):
            await served.openai.models.retrieve("nope")
        told = (await served.ask(model="raw")).json()
        assert (told["model"], told["speceyes"]["reason"]) == ("raw", "forced_agent")


@pytest.mark.parametrize("name", ["nope", "", "small", "speceyes/", "SPECEYES"])
async def test_an_unknown_model_is_404_and_reaches_nobody(name: str) -> None:
    async with running() as served:
        reply = await served.ask(model=name)
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")
        assert served.draft.completions == served.agent.completions == []


@pytest.mark.parametrize("aliases", [{"x": "y"}, {"speceyes": "speceyes/agent"}, {"": "speceyes"}])
def test_an_alias_must_stand_for_something(aliases: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"serve\.aliases"):
        Names(aliases)


async def test_alive_and_ready() -> None:
    async with running() as served:
        base = served.url.removesuffix("/v1")
        assert (await served.http.get(f"{base}/health")).json() == {"status": "ok"}
        reply = await served.http.get(f"{base}/ready")
        assert reply.status_code == 200
        body = reply.json()
        assert body["status"] == "ready"
        assert body["draft"] == {"model": "small", "answers": True, "circuit": "closed", "error": None}
        await asyncio.gather(*(served.http.get(f"{base}/ready") for _ in range(20)))
        asked_for_models = [one for one in served.agent.requests if one.path == "/v1/models"]
        assert len(asked_for_models) <= 2, "many who ask at once ask the server once"


async def test_not_ready_without_the_agent_and_degraded_without_the_draft() -> None:
    for gone, status, word in (("agent", 503, "not ready"), ("draft", 200, "degraded")):
        async with running(settings={f"{gone}.url": "http://127.0.0.1:9", f"{gone}.model": "m"}) as served:
            reply = await served.http.get(served.url.replace("/v1", "/ready"))
            assert (reply.status_code, reply.json()["status"]) == (status, word)
            assert "cannot connect" in reply.json()[gone]["error"]


async def test_metrics_count_requests() -> None:
    async with running() as served:
        await served.ask()
        text = (await served.http.get(served.url.replace("/v1", "/metrics"))).text
        assert 'reason="accepted"' in text
        assert 'speceyes_slots{pool="admission",state="capacity"} 64.0' in text


async def test_the_interface_describes_itself() -> None:
    async with running() as served:
        base = served.url.removesuffix("/v1")
        description = (await served.http.get(f"{base}/openapi.json")).json()
        body = description["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]
        schema = description["components"]["schemas"][body["schema"]["$ref"].rpartition("/")[2]]
        assert schema["required"] == ["model", "messages"]
        assert "speceyes" in schema["properties"]
        assert (await served.http.get(f"{base}/docs")).status_code == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nope", 404), ("GET", "/v1/chat/completions", 405)])
async def test_a_path_that_is_not_there_is_an_error_of_the_same_form(method: str, path: str, status: int) -> None:
    async with running() as served:
        reply = await served.http.request(method, served.url.removesuffix("/v1") + path)
        assert reply.status_code == status
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


BAD: list[tuple[Any, str | None]] = [
    (b"{", None),
    (b"", None),
    ({"model": "speceyes"}, None),
    (asked(foo=1), "foo"),
    (asked(n=2), "n"),
    (asked(response_format={"type": "json_object"}), "response_format"),
    (asked(max_tokens=3, max_completion_tokens=4), "max_completion_tokens"),
    (asked(messages=[user(image_part(b"hello"), text_part("?"))]), "messages[0].content[0].image_url.url"),
    (
        asked(messages=[user({"type": "image_url", "image_url": "https://example.com/a.png"}, text_part("?"))]),
        "messages[0].content[0].image_url",
    ),
    (asked(messages=[user({"type": "file"}, image_part())]), "messages[0].content[0].type"),
]


@pytest.mark.parametrize(("body", "param"), BAD)
async def test_a_bad_request_names_its_fault_and_costs_nothing(body: Any, param: str | None) -> None:
    async with running() as served:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        for stream in (b"", b'"stream": true, '):
            sent = content.replace(b"{", b"{" + stream, 1) if len(content) > 1 else content
            reply = await served.http.post(f"{served.url}/chat/completions", content=sent)
            error = reply.json()["error"]
            assert (reply.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
        assert served.draft.completions == served.agent.completions == []


async def test_a_body_above_the_limit_is_refused_with_the_number() -> None:
    """CASES: ordinary photos pass; the limit is checked on the announced length and on what really comes."""
    settings = {"serve.max_body_bytes": 200_000}
    async with running(settings=settings) as served:
        large = json.dumps(asked(messages=[user(image_part(b"x" * 200_000), text_part("?"))])).encode()

        async def unannounced() -> Any:
            for start in range(0, len(large), 10_000):
                yield large[start : start + 10_000]

        for content in (large, unannounced()):
            reply = await served.http.post(f"{served.url}/chat/completions", content=content)
            assert reply.status_code == 413
            assert "200,000" in reply.json()["error"]["message"]
        with pytest.raises(openai.APIStatusError, match="200,000"):
            await served.openai.chat.completions.create(
                model="speceyes", messages=[user(image_part(b"x" * 200_000), text_part("?"))]
            )
        assert (await served.ask()).status_code == 200


async def test_the_number_of_images_is_limited() -> None:
    async with running(settings={"serve.max_images": 2}) as served:
        reply = await served.ask(messages=[user(*[image_part()] * 3, text_part("?"))])
        assert (reply.status_code, reply.json()["error"]["param"]) == (413, "messages")


async def test_where_keys_are_needed_nobody_comes_in_without_one() -> None:
    async with running(settings={"access.api_key": KEY}) as served:
        base = served.url.removesuffix("/v1")
        for header in ({}, {"authorization": "Bearer wrong"}, {"authorization": KEY}):
            for reply in (
                await served.http.post(f"{served.url}/chat/completions", json=asked(), headers=header),
                await served.http.get(f"{served.url}/models", headers=header),
                await served.http.get(f"{base}/metrics", headers=header),
            ):
                assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
                assert reply.headers["x-speceyes-request-id"]
        good = {"authorization": f"bearer {KEY}"}
        assert (await served.http.post(f"{served.url}/chat/completions", json=asked(), headers=good)).status_code == 200
        assert (await served.http.get(f"{base}/health")).status_code == 200
        for server in (served.draft, served.agent):
            assert not any(KEY in value for call in server.requests for value in call.headers.values())


async def test_the_plan_can_be_asked_for() -> None:
    async with running(settings={"funnel.plan": "auto"}) as served:
        told = (await served.ask()).json()["speceyes"]
        assert told["plan"] == "paper"
        found = (await served.http.get(f"{served.url}/plan")).json()
        assert found["plan"] == "auto"
        assert found["loops"] == {"limit": "fixed", "capacity": 8, "most": 8, "held": 0, "waiting": 0}
        metrics = (await served.http.get(f"{served.url.removesuffix('/v1')}/metrics")).text
        assert 'speceyes_plans_total{plan="paper"} 1.0' in metrics


async def test_who_is_turned_away_is_counted() -> None:
    async with running(settings={"access.api_key": KEY, "access.metrics_scope": "none"}) as served:
        for _ in range(3):
            await served.http.get(f"{served.url}/models")
        metrics = (await served.http.get(f"{served.url.removesuffix('/v1')}/metrics")).text
        assert 'speceyes_turned_away_total{status="401"} 3.0' in metrics


async def test_too_much_at_once_is_429_with_a_hint_when_to_come_back() -> None:
    settings = {"access.in_flight": 1, "access.queue": 0}
    async with running(agent=agent_says(Hang()), settings=settings) as served:
        first = asyncio.create_task(served.ask(model="speceyes/agent"))
        await served.agent.wait_for(1)
        reply = await served.ask()
        assert (reply.status_code, reply.json()["error"]["code"]) == (429, "too_many_requests")
        assert int(reply.headers["retry-after"]) >= 1
        with pytest.raises(openai.RateLimitError):
            await served.openai.chat.completions.create(**asked())
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_a_fault_of_ours_shows_no_details(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as served:

        async def broken(*_: Any, **__: Any) -> None:
            raise ZeroDivisionError("a secret")

        monkeypatch.setattr(served.gateway.funnel, "answer", broken)
        for stream in (False, True):
            reply = await served.ask(stream=stream)
            assert reply.status_code == 500
            assert "secret" not in reply.text
            assert reply.headers["x-speceyes-request-id"] in reply.text


async def test_a_draft_without_log_probs_is_never_accepted() -> None:
    """CASES: a 200 with null, missing or empty log-probs goes to the agent, under a reason of its own."""
    from speceyes.engines.scripted import Logprobs

    for form in (Logprobs.NULL, Logprobs.MISSING, Logprobs.EMPTY, Logprobs.NULL_CONTENT, Logprobs.NO_TOP):
        async with running(Reply("7", logprobs=form)) as served:
            told = (await served.ask()).json()["speceyes"]
            assert (told["route"], told["reason"], told["score"]) == ("agent", "logprobs_missing", None)


async def test_curl_works(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps(asked()))
    async with running() as served:
        curl = ["curl", "-sS", "-i", f"{served.url}/chat/completions", "-H", "content-type: application/json"]
        run = await asyncio.to_thread(
            subprocess.run, [*curl, "--data-binary", f"@{body}"], capture_output=True, text=True, timeout=60
        )
        assert run.returncode == 0, run.stderr
        assert "HTTP/1.1 200 OK" in run.stdout
        assert '"content":"7"' in run.stdout


async def test_large_photos_pass() -> None:
    """CASES: megabytes of base64 are ordinary."""
    import os

    noise = picture(size=(1200, 900), form="PNG") + os.urandom(8_000_000)  # behind the picture's end, as cameras do
    async with running() as served:
        url = data_url(noise)
        reply = await served.ask(messages=[user({"type": "image_url", "image_url": {"url": url}}, text_part(QUESTION))])
        assert reply.status_code == 200, reply.text


async def test_an_agent_that_is_down_is_503_and_a_draft_that_is_down_is_not() -> None:
    async with running(Status(500, "no"), settings={"breaker.failures": 1}) as served:
        for _ in range(3):
            assert (await served.ask()).json()["speceyes"]["reason"] == "draft_failed"
        assert len(served.draft.completions) == 1
    async with running(agent=Status(500, "no"), settings={"breaker.failures": 1}) as served:
        assert (await served.ask()).status_code == 503
        reply = await served.ask()
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "upstream_unreachable")
