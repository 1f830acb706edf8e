"""The awkward inputs of `test_cases` that are about pictures.

Case                                         Here                    Elsewhere
-------------------------------------------  ----------------------  --------------------------------------------
 1 a box of the resized picture              yes                     imaging/test_painted_target
 7 coordinate systems                        -                       imaging/test_parse_box, test_coordinates
 8 crops thinner than a patch                yes                     tools/test_zoom, imaging/test_geometry
11 reversed, empty, out-of-frame boxes       yes                     imaging/test_parse_box, tools/test_zoom
16 image URLs to inner addresses             through a request       imaging/test_fetch_attacks, _addresses
18 the camera's orientation tag              yes                     imaging/test_orientation
22 very large pictures                       yes                     imaging/test_resize
30 pictures mixed up                         200 at a time           test_managed (small)
33 large bodies                              logs                    access/test_bodies, test_memory, test_app
36 image URLs that are slow or wrong         through a request       imaging/test_fetch
37 truncated and damaged files               through a request       imaging/test_damaged_images
40 decompression bombs                       20 at a time            imaging/test_image_bombs
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import random
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gateway_server import (
    QUESTION,
    SURE,
    agent_says,
    events,
    image_part,
    picture,
    running,
    sent_images,
    text_part,
    user,
)
from PIL import Image, ImageDraw

from speceyes.engines.scripted import Outcome, Reply, token_reply

sys.path.insert(0, str(Path(__file__).parents[1] / "imaging"))

from hostile_host import always, hosting, response

BOX = tuple[float, float, float, float]
TURNED = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""What makes of an upright picture the one that a camera stores under the tag."""


def zooms_to(share: BOX) -> Any:
    """An agent that asks for this part of the picture that it was sent, in pixels of that picture, and answers."""

    def script(request: dict[str, Any], turn: int) -> Outcome:
        if any(message["role"] == "assistant" for message in request["messages"]):
            return Reply("<answer>8</answer>")
        width, height = opened(first_url(request)).size
        box = [share[0] * width, share[1] * height, share[2] * width, share[3] * height]
        call = {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [round(edge) for edge in box], "label": "x"}}
        return Reply(f"<tool_call>{json.dumps(call)}</tool_call>")

    return script


def first_url(request: dict[str, Any]) -> str:
    parts = [part for m in request["messages"] if isinstance(m["content"], list) for part in m["content"]]
    url: str = next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")
    return url


def opened(found: str | bytes) -> Image.Image:
    data = base64.b64decode(found.partition(",")[2]) if isinstance(found, str) else found
    return Image.open(io.BytesIO(data)).convert("RGB")


def share_of_red(shown: Image.Image, area: BOX = (0, 0, 1, 1)) -> float:
    width, height = shown.size
    part = shown.crop(
        (round(area[0] * width), round(area[1] * height), round(area[2] * width), round(area[3] * height))
    )
    red, green, blue = np.moveaxis(np.asarray(part), 2, 0)
    return float(np.mean((red > 180) & (green < 90) & (blue < 90)))


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


# Where a box is cut


async def test_case_1_a_box_in_pixels_of_what_the_agent_saw_is_cut_out_of_the_original() -> None:
    """The case's own numbers: 4000 x 4000, a red square at 3000 to 3200, sent at about 2000 x 2000."""
    image = Image.new("RGB", (4000, 4000), "white")
    image.paste((255, 0, 0), (3000, 3000, 3200, 3200))
    settings = {"agent.max_pixels": 2000 * 2000}
    async with running(agent=zooms_to((0.75, 0.75, 0.8, 0.8)), settings=settings) as served:
        reply = await served.ask(model="speceyes/agent", messages=[user(image_part(encoded(image)), text_part("?"))])
        told = reply.json()["speceyes"]["images"][0]
        shown, crop = map(opened, sent_images(served.agent, 1))
        assert (told["size"], tuple(told["agent"])) == ([4000, 4000], shown.size)
        assert shown.width <= 2000
        assert share_of_red(crop) > 0.95


async def test_case_22_a_crop_of_a_very_large_picture_has_the_originals_detail() -> None:
    """7680 x 4320 with lines of three pixels in a corner: gone in what the agent sees first, there in the crop."""
    image = Image.new("RGB", (7680, 4320), "white")
    for top in range(3900, 4300, 6):
        image.paste((0, 0, 0), (7000, top, 7600, top + 3))
    settings = {"agent.max_pixels": 1_000_000, "draft.max_pixels": 400_000}
    part = (7000 / 7680, 3900 / 4320, 7600 / 7680, 4300 / 4320)
    async with running(agent=zooms_to(part), settings=settings) as served:
        data = encoded(image, compress_level=1)
        reply = await served.ask(model="speceyes/agent", messages=[user(image_part(data), text_part("?"))])
        (told,) = reply.json()["speceyes"]["images"]
        assert (told["size"], told["agent"], told["draft"]) == ([7680, 4320], [1316, 728], None)
        assert (told["agent_tokens"], told["draft_tokens"]) == (47 * 26, None)
        shown, crop = map(opened, sent_images(served.agent, 1))
        seen = shown.crop(tuple(round(edge * side) for edge, side in zip(part, shown.size * 2, strict=True)))  # type: ignore[arg-type]
        assert _contrast(seen) < 60
        assert _contrast(crop) > 180
        drafted = await served.ask(model="speceyes/draft", messages=[user(image_part(data), text_part("?"))])
        (sizes,) = drafted.json()["speceyes"]["images"]
        assert sizes["draft"][0] * sizes["draft"][1] <= 400_000
        assert opened(sent_images(served.draft)[0]).size == tuple(sizes["draft"])


def _contrast(image: Image.Image) -> int:
    """Between the lightest and the darkest row around the middle."""
    grey, middle = image.convert("L"), image.width // 2
    rows = [grey.getpixel((middle, y)) for y in range(image.height // 3, 2 * image.height // 3)]
    return max(rows) - min(rows)  # type: ignore[type-var, operator]


async def test_case_22_a_picture_above_the_limit_costs_nothing() -> None:
    async with running(settings={"images.max_pixels": 1_000_000}) as served:
        data = picture(size=(2000, 600))
        reply = await served.ask(messages=[user(image_part(data), text_part("?"))])
        assert reply.status_code == 400
        assert "1,000,000" in reply.json()["error"]["message"]
        assert served.draft.completions == served.agent.completions == []


@pytest.mark.parametrize("tag", TURNED)
async def test_case_18_a_turned_photo_is_upright_for_both_models_and_in_the_crop(tag: int) -> None:
    upright = Image.new("RGB", (480, 640), "white")
    upright.paste((255, 0, 0), (240, 0, 480, 160))
    stored = upright if (turn := TURNED[tag]) is None else upright.transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = tag
    data = encoded(stored, "JPEG", quality=95, exif=exif)
    async with running(agent=zooms_to((0.55, 0.02, 0.95, 0.2))) as served:
        for model in ("speceyes/agent", "speceyes/draft"):
            reply = await served.ask(model=model, messages=[user(image_part(data), text_part("?"))])
            assert reply.json()["speceyes"]["images"][0]["size"] == [480, 640]
        shown, crop = map(opened, sent_images(served.agent, 1))
        drafted = opened(sent_images(served.draft)[0])
        assert share_of_red(crop) > 0.95
        for seen in (shown, drafted):
            assert seen.width < seen.height
            assert share_of_red(seen, (0.55, 0.02, 0.95, 0.2)) > 0.95
            assert share_of_red(seen, (0.0, 0.3, 1.0, 1.0)) == 0


@pytest.mark.parametrize(
    "box",
    [
        *([100, 100, 105, 105], [100, 100, 101, 400], [60, 10, 20, 50], [-20, -20, 30, 30], [90, 90, 9000, 9000]),
        *([10, 10, 10, 50], [9000, 9000, 9900, 9900], [0.2, 0.2, 0.6, 0.6], [10, 10], ["10", "10", "90", "90"], "abc"),
        *([float("nan"), 0, 5, 5], [1e308, 0, 5, 5], None),
    ],
)
async def test_cases_8_and_11_no_box_breaks_a_request_or_shows_black(box: Any) -> None:
    call = json.dumps({"name": "image_zoom_in_tool", "arguments": {"bbox_2d": box, "label": "x"}})
    agent = agent_says(f"<tool_call>{call}</tool_call>", "<answer>8</answer>")
    async with running(agent=agent) as served:
        message = [user(image_part(picture("white", (600, 400))), text_part("?"))]
        body = (await served.ask(model="speceyes/agent", messages=message, speceyes={"trace": True})).json()
        assert body["choices"][0]["message"]["content"] == "8"
        first = body["speceyes"]["trace"]["run"]["turns"][0]
        crops = [opened(data) for data in sent_images(served.agent, 1)[1:]]
        assert bool(crops) != bool(first["error"]), "a crop, or an error that the agent can read"
        for crop in crops:
            assert min(crop.size) >= 28
            assert all(low > 250 for low, _ in crop.getextrema())


# Where pictures come from


async def test_cases_16_and_36_the_picture_is_fetched_once_and_both_models_get_its_bytes() -> None:
    data = picture("red", (112, 112))
    async with hosting(always(response(data, content_type="image/png"))) as host:
        url = f"http://127.0.0.1:{host.port}/once.png"
        allowed = {"fetch.enabled": True, "fetch.allow_networks": ["127.0.0.0/8"], "fetch.ports": [host.port]}
        message = [user({"type": "image_url", "image_url": {"url": url}}, text_part("?"))]
        async with running(settings=allowed | {"draft.factor": 28}) as served:
            assert (await served.ask(messages=message)).status_code == 200
            assert host.paths == ["/once.png"]
            assert sent_images(served.draft) == sent_images(served.agent) == [data]
            assert url not in json.dumps([call.json for call in (*served.draft.completions, *served.agent.completions)])
        for settings in ({}, {"fetch.enabled": True}, {"fetch.enabled": True, "fetch.ports": [host.port]}):
            async with running(settings=settings) as served:
                error = (await served.ask(messages=message)).json()["error"]
                assert (error["code"], error["param"]) == ("invalid_image", "messages[0].content[0].image_url.url")
                assert host.paths == ["/once.png"], "nobody was asked"
                assert served.draft.completions == served.agent.completions == []


@pytest.mark.parametrize(
    "raw",
    [
        response(b"forbidden", "403 Forbidden"),
        response(b"<html>log in</html>", content_type="image/png"),
        response(b"", "302 Found", location="http://169.254.169.254/latest"),
        response(b"", "302 Found", location="file:///etc/hostname"),
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
    ],
    ids=["403", "a web page", "a redirect inwards", "a redirect to a file", "5 GB"],
)
async def test_case_36_what_cannot_be_fetched_is_a_400_that_names_the_image(raw: bytes) -> None:
    async with hosting(always(raw)) as host:
        allowed = {"fetch.enabled": True, "fetch.allow_networks": ["127.0.0.0/8"], "fetch.ports": [host.port, 80]}
        content = [image_part(), {"type": "image_url", "image_url": f"http://127.0.0.1:{host.port}/a"}, text_part("?")]
        async with running(settings=allowed) as served:
            reply = await served.ask(messages=[user(*content)])
            error = reply.json()["error"]
            assert (reply.status_code, error["param"]) == (400, "messages[0].content[1].image_url")
            assert "image 2" in error["message"]
            assert "log in" not in error["message"]
            assert len(host.requests) == 1
            assert served.draft.completions == served.agent.completions == []


def _damaged() -> dict[str, bytes]:
    noise = Image.effect_noise((300, 200), 80).convert("RGB")
    jpeg, png = encoded(noise, "JPEG"), encoded(noise)
    spoilt = bytearray(png)
    spoilt[len(png) // 2] ^= 0xFF
    return {
        "a JPEG cut at 60 %": jpeg[: int(len(jpeg) * 0.6)],
        "a PNG cut at 60 %": png[: int(len(png) * 0.6)],
        "a wrong checksum": bytes(spoilt),
        "no bytes": b"",
        "a text": b"I am a picture, believe me.",
        "a valid head with a random tail": jpeg[:700] + random.Random(5).randbytes(len(jpeg) - 700),
    }


async def test_case_37_a_damaged_file_is_a_400_by_its_name_and_touches_nobody_else() -> None:
    async with running() as served:

        async def damaged(name: str, data: bytes) -> None:
            reply = await served.ask(messages=[user(image_part(), image_part(data), text_part(name))])
            error = reply.json()["error"]
            assert (reply.status_code, error["param"]) == (400, "messages[0].content[1].image_url.url"), (name, error)
            assert "image 2" in error["message"]

        async def sound() -> None:
            assert (await served.ask()).json()["speceyes"]["route"] == "draft"

        await asyncio.gather(*(damaged(*one) for one in _damaged().items()), *(sound() for _ in range(6)))
        assert len(served.draft.completions) == 6
        junk = encoded(Image.new("RGB", (300, 200), "red"), "JPEG") + b"made by a camera" * 50
        assert (await served.ask(messages=[user(image_part(junk), text_part("?"))])).status_code == 200


async def test_case_40_twenty_bombs_at_once_are_twenty_400s_and_no_memory() -> None:
    bomb = encoded(Image.new("1", (30000, 30000)), optimize=False)
    assert len(bomb) < 1_000_000
    async with running() as served:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        messages = [user(image_part(bomb), text_part("?"))]
        replies = await asyncio.gather(*(served.ask(messages=messages) for _ in range(20)))
        assert Counter(reply.status_code for reply in replies) == {400: 20}
        assert (await served.ask()).status_code == 200
        grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown_mb < 300, "one of them would be 2.7 GB"


# Whose picture it is


def _numbered(number: int) -> bytes:
    """A JPEG that both models take as it is, with a number drawn in it."""
    image = Image.new("RGB", (448, 448), "white")
    ImageDraw.Draw(image).text((100, 150), str(number), "black", font_size=120)
    return encoded(image, "JPEG", quality=90)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


async def test_case_30_two_hundred_at_once_some_given_up_and_each_answer_has_its_own_picture() -> None:
    """The servers answer with the hash of the picture that they got. 30 % of the clients leave at a random moment."""

    def seen(request: dict[str, Any]) -> str:
        return _hash(base64.b64decode(first_url(request).partition(",")[2]))

    def draft(request: dict[str, Any], turn: int) -> Outcome:
        return Reply(tokens=[token_reply(seen(request), SURE)])

    def agent(request: dict[str, Any], turn: int) -> Outcome:
        if request.get("max_tokens") == 1:
            return Reply(tokens=[token_reply("no", [("no", -0.02), ("yes", -4.0)])])
        return Reply(f"<think>I see.</think><answer>{seen(request)}</answer>")

    rng = random.Random(30)
    pictures = [_numbered(number) for number in range(200)]
    assert len({_hash(data) for data in pictures}) == 200
    leaves = {number: rng.uniform(0, 4) for number in rng.sample(range(200), 60)}
    settings = {"funnel.stateless": 10, "funnel.loops": 10, "access.in_flight": 40, "access.queue": 256}
    async with running(draft, agent, settings | {"access.queue_timeout_s": 290}) as served:

        async def one(number: int) -> str | None:
            model = ("speceyes", "speceyes/agent", "speceyes/draft")[number % 3]
            messages = [user(image_part(pictures[number]), text_part(f"{QUESTION} {number}"))]
            body = {"model": model, "messages": messages, "stream": number % 2 == 0}
            asking = asyncio.create_task(served.post(body, timeout=300))
            if number in leaves:
                await asyncio.sleep(leaves[number])
                asking.cancel()
            try:
                reply = await asking
            except asyncio.CancelledError:
                return None
            assert reply.status_code == 200, reply.text
            if number % 2:
                return str(reply.json()["choices"][0]["message"]["content"])
            chunks = [event for event in events(reply.text) if isinstance(event, dict)]
            return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])

        answers = await asyncio.gather(*map(one, range(200)))
        for server in (served.draft, served.agent):
            await server.wait_until(lambda server=server: server.active == 0, 60)
        assert (served.gateway.funnel.loops.held, served.gateway.funnel.stateless.held) == (0, 0)

    wrong = [n for n, said in enumerate(answers) if said not in (None, _hash(pictures[n]))]
    assert wrong == []
    assert sum(said is None for said in answers) <= len(leaves)
    assert all(answers[number] is not None for number in range(200) if number not in leaves)
