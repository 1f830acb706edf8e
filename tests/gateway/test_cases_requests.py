"""The awkward inputs of `test_cases` that are about requests and errors: their shapes, fields, keys and classes.

Case                                         Here                    Elsewhere
-------------------------------------------  ----------------------  --------------------------------------------
24 fields lost, renamed or refused           yes                     test_managed, test_wire_fields, test_app
26 message shapes                            yes                     test_wire_content
35 errors, 429 hints, unknown model          official classes        test_app, test_managed, test_faults
39 keys and cross-origin requests            key in the query        access/test_auth, test_cors, test_faults
"""

from __future__ import annotations

from typing import Any

import openai
import pytest
from gateway_server import (
    UNSURE,
    agent_says,
    asked,
    data_url,
    draft_says,
    image_part,
    picture,
    running,
    sent_images,
    sent_text,
    text_part,
    user,
)

from speceyes.engines.scripted import Outcome, Payloads, Reply, Status

KEY = "sk-a-key-that-is-long-enough"
RED, BLUE = picture("red", (112, 112)), picture("blue", (112, 224))
URL = {"type": "image_url", "image_url": {"url": data_url(RED)}}
ZOOM_TOOL = {"type": "function", "function": {"name": "image_zoom_in_tool", "parameters": {"type": "object"}}}
OWN_TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


async def test_case_24_what_of_one_request_reaches_which_model() -> None:
    """The case's own request, but for what is refused by name below."""
    async with running(draft_says(top=UNSURE)) as served:
        reply = await served.ask(stop=["\n"], seed=7, max_completion_tokens=16, temperature=0.3)
        assert reply.status_code == 200
        (draft,) = served.draft.completions
        screen, *turns = served.agent.completions
        assert [call.json.get("seed") for call in (draft, screen, *turns)] == [7] * 4
        assert [call.json.get("temperature") for call in (draft, screen, *turns)] == [0, 0, 0.3, 0.3]
        assert [call.json.get("max_tokens") == 16 for call in (draft, screen, *turns)] == [True, False, False, False]
        assert not any("\n" in (call.json.get("stop") or ()) for call in (draft, screen, *turns))


@pytest.mark.parametrize(
    ("field", "value"), [("n", 2), ("response_format", {"type": "json_object"}), ("foo", 1), ("logprobs", True)]
)
@pytest.mark.parametrize("model", ["speceyes", "speceyes/agent"])
async def test_case_24_what_cannot_be_done_is_a_400_that_names_the_field(field: str, value: Any, model: str) -> None:
    async with running() as served:
        error = (await served.ask(model=model, **{field: value})).json()["error"]
        assert (error["param"], field in error["message"]) == (field, True)
        assert served.draft.completions == served.agent.completions == []


@pytest.mark.parametrize("tools", [[OWN_TOOL], [OWN_TOOL, ZOOM_TOOL]])
async def test_case_24_a_clients_tools_never_mix_with_ours(tools: list[Any]) -> None:
    managed = {"speceyes": {"mode": "managed"}}
    async with running(draft_says(top=UNSURE), agent_says(Reply("8"), needs_tool=True)) as served:
        reply = await served.ask(tools=tools)
        assert reply.status_code == 200
        for call in served.agent.completions:
            assert call.json["tools"] == tools, "the client's, whole, and none beside them"
        before = len(served.agent.completions)
        refused = await served.ask(tools=tools, **managed)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tools")
        assert len(served.agent.completions) == before


TEXT = {"type": "text", "text": "What is it?"}
SHAPES: dict[str, tuple[list[Any], list[str], list[bytes]]] = {
    "text in a list": ([user(URL, TEXT)], ["What is it?"], [RED]),
    "text behind an image of its own": (
        [user(URL), {"role": "user", "content": "What is it?"}],
        ["What is it?"],
        [RED],
    ),
    "an image by its URL alone": (
        [user({"type": "image_url", "image_url": data_url(RED)}, TEXT)],
        ["What is it?"],
        [RED],
    ),
    "an empty turn": ([{"role": "user", "content": ""}, user(URL, TEXT)], ["What is it?"], [RED]),
    "null": ([{"role": "assistant", "content": None}, user(URL, TEXT)], ["What is it?"], [RED]),
    "an empty list": ([{"role": "user", "content": []}, user(URL, TEXT)], ["What is it?"], [RED]),
    "two system turns": (
        [*({"role": "system", "content": said} for said in ("Be brief.", [text_part("No jokes.")])), user(URL, TEXT)],
        ["Be brief.", "No jokes.", "What is it?"],
        [RED],
    ),
    "a developer's turn": (
        [{"role": "developer", "content": "Answer in French."}, user(URL, TEXT)],
        ["Answer in French.", "What is it?"],
        [RED],
    ),
    "parts of Responses": (
        [user({"type": "input_image", "image_url": data_url(RED)}, {"type": "input_text", "text": "What is it?"})],
        ["What is it?"],
        [RED],
    ),
    "two images and text between": (
        [user(URL, text_part("against"), image_part(BLUE), TEXT)],
        ["[image 1]", "against", "[image 2]", "What is it?"],
        [RED, BLUE],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_case_26_all_text_and_all_images_reach_both_models(shape: str) -> None:
    messages, texts, images = SHAPES[shape]
    pixels = {"draft.factor": 28}  # 112 x 112 and 112 x 224 go to both as they came
    async with running(draft_says(top=UNSURE), agent_says("<answer>8</answer>"), pixels) as served:
        reply = await served.ask(messages=messages)
        assert reply.status_code == 200, reply.text
        assert len(reply.json()["speceyes"]["images"]) == len(images)
        for server in (served.draft, served.agent):
            for call in range(len(server.completions)):
                assert sent_images(server, call) == images
                said = sent_text(server, call)
                places = [said.find(text) for text in texts]
                assert -1 not in places
                assert places == sorted(places)


UNKNOWN = [
    {"type": "input_audio", "input_audio": {}},
    {"type": "file", "file": {}},
    {"type": "video_url"},
    {"type": ""},
]


@pytest.mark.parametrize("part", UNKNOWN)
@pytest.mark.parametrize("stream", [False, True])
async def test_case_26_a_part_of_an_unknown_type_is_a_400(part: dict[str, Any], stream: bool) -> None:
    async with running() as served:
        reply = await served.ask(messages=[user(URL, part, TEXT)], stream=stream)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "messages[0].content[1].type")
        assert served.draft.completions == served.agent.completions == []


def _page(code: int, body: Any, **headers: str) -> Status:
    return Status(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


_JSON = {"content_type": "application/json"}


@pytest.mark.parametrize(
    ("outcome", "kind", "code"),
    [
        (_page(400, {"error": {"message": "too many"}}), openai.BadRequestError, "upstream_refused"),
        (_page(422, {"detail": [{"msg": "bad"}]}), openai.UnprocessableEntityError, "upstream_refused"),
        (_page(429, "", retry_after="7"), openai.RateLimitError, "upstream_overloaded"),
        (_page(503, "<html><title>x</title></html>"), openai.InternalServerError, "upstream_overloaded"),
        (_page(200, '{"error": {"message": "x"}}', **_JSON), openai.InternalServerError, "upstream_bad_reply"),
        (_page(200, "{", **_JSON), openai.InternalServerError, "upstream_bad_reply"),
        (_page(200, '{"choices": []}', **_JSON), openai.InternalServerError, "upstream_bad_reply"),
        (_page(401, {"error": "bad key"}), openai.InternalServerError, "upstream_misconfigured"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("with_image", [True, False])
async def test_case_35_openais_client_raises_the_right_class(
    outcome: Outcome, kind: type[openai.APIStatusError], code: str, stream: bool, with_image: bool
) -> None:
    agent = agent_says(outcome) if with_image else outcome
    messages = asked()["messages"] if with_image else [{"role": "user", "content": "Hi"}]
    async with running(agent=agent) as served:
        with pytest.raises(kind) as caught:
            await served.openai.chat.completions.create(model="speceyes/agent", messages=messages, stream=stream)
        assert (caught.value.code, caught.value.response.headers.get("retry-after")) == (
            code,
            "7" if kind is openai.RateLimitError else None,
        )
        assert caught.value.type
        assert "<" not in caught.value.message


async def test_case_35_an_empty_answer_cut_at_its_limit_does_not_look_like_success() -> None:
    cut = Reply("<think>still thinking", finish_reason="length")
    async with running(agent=lambda request, turn: cut) as served:
        choice = (await served.ask(model="speceyes/agent")).json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("", "length")


@pytest.mark.parametrize("with_image", [True, False])
async def test_case_35_a_server_that_does_not_stream_is_streamed_all_the_same(with_image: bool) -> None:
    said = Reply("<answer>8</answer>" if with_image else "8", stream=False)
    messages = asked()["messages"] if with_image else [{"role": "user", "content": "Hi"}]
    async with running(agent=lambda request, turn: said) as served:
        options = {"include_usage": True}
        stream = await served.openai.chat.completions.create(
            model="speceyes/agent", messages=messages, stream=True, stream_options=options
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
        assert text == "8"
        assert [chunk.usage is not None for chunk in chunks].count(True) == 1
        assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "stop"


@pytest.mark.parametrize("name", ["nope", ""])
async def test_case_35_an_unknown_model_is_not_found_with_and_without_an_image(name: str) -> None:
    async with running(agent=Payloads([])) as served:
        for messages in (asked()["messages"], [{"role": "user", "content": "Hi"}]):
            with pytest.raises(openai.NotFoundError):
                await served.openai.chat.completions.create(model=name, messages=messages)
        listed = [model.id async for model in await served.openai.models.list()]
        assert listed[:3] == ["speceyes", "speceyes/agent", "speceyes/draft"]


async def test_case_39_a_key_in_the_query_opens_nothing_and_is_not_repeated() -> None:
    async with running(settings={"access.api_key": KEY}) as served:
        reply = await served.http.post(f"{served.url}/chat/completions?api_key={KEY}", json=asked())
        assert reply.status_code == 401
        assert KEY not in reply.text
        found = await served.http.get(f"{served.url}/nope?key={KEY}", headers={"authorization": f"Bearer {KEY}"})
        assert KEY not in found.text
        assert served.draft.requests == served.agent.requests or not served.draft.completions
