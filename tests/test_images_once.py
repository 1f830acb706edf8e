"""Nothing is done twice to a query's picture: unpacked, resized and encoded once for all that the query asks."""

from __future__ import annotations

import base64
import io
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile

from scripted_funnel import ANSWER, TORN, agent_script, funnel_over
from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.script import Reply
from speceyes.imaging import decode
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.resize import PixelLimits
from speceyes.scheduling import Fixed, Plan
from speceyes.types import Query

LOOKS = PixelLimits(28, 3136, 500 * 28**2)
CALLS = tuple(
    Reply(
        "<think>small</think>\n<tool_call>\n"
        f'{{"name": "image_zoom_in_tool", "arguments": {{"bbox_2d": [{left}, 10, {left + 200}, 160]}}}}'
    )
    for left in (10, 100, 200)
)


def jpeg(width: int = 1600, height: int = 1200) -> bytes:
    colours = np.random.default_rng(1).integers(0, 256, (height // 40, width // 40, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(colours).resize((width, height), Image.Resampling.BICUBIC).save(out, "JPEG", quality=95)
    return out.getvalue()


LARGE, SMALL = jpeg(), jpeg(560, 280)


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is done to pictures: `unpacked` by the size that comes out, `encoded` by form, `base64`."""
    counts: Counter[str] = Counter()
    unpack, save, text = ImageFile.ImageFile.load_prepare, Image.Image.save, base64.b64encode

    def unpacked(self: ImageFile.ImageFile) -> None:
        counts[f"unpacked {self.size[0]}"] += 1
        unpack(self)

    def encoded(self: Image.Image, file: Any, form: str, **options: Any) -> None:
        counts[f"encoded {form}"] += 1
        save(self, file, form, **options)

    def as_text(data: bytes) -> bytes:
        counts["base64"] += 1
        return text(data)

    monkeypatch.setattr(ImageFile.ImageFile, "load_prepare", unpacked)
    monkeypatch.setattr(Image.Image, "save", encoded)
    monkeypatch.setattr(base64, "b64encode", as_text)
    return counts


def urls(request: dict[str, Any]) -> list[str]:
    return [
        part["image_url"]["url"]
        for message in request["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]


async def asked(image: DecodedImage, draft_limits: PixelLimits, plan: Plan) -> list[list[str]]:
    """The pictures of all requests to the agent: four turns with three zooms, and where there is one, the screening."""
    script = agent_script(0.1, (*CALLS, Reply(ANSWER)))
    async with funnel_over(Reply(tokens=TORN), script, planner=Fixed(plan)) as (funnel, small, large):
        funnel.draft = replace(funnel.draft, limits=draft_limits)
        funnel.agent = replace(funnel.agent, dialect=DeepEyes(limits=LOOKS))
        answer = await funnel.answer(Query("What is it?", (image,)))
        assert answer.text == "agent says"
        assert answer.trace.run is not None
        assert answer.trace.run.depth == len(CALLS)
        assert [len(urls(request.json)) for request in small.completions] == [1]
        return [urls(request.json) for request in large.completions]


@pytest.mark.parametrize("plan", [Plan.DRAFT_FIRST, Plan.PARALLEL, Plan.HEDGED])
async def test_a_jpeg_is_read_once_at_each_size_and_each_view_is_written_once(plan: Plan, done: Counter[str]) -> None:
    shown = await asked(decode(LARGE), PixelLimits(32, 1024, 80 * 32**2), plan)
    assert {name: count for name, count in done.items() if name.startswith("unpacked")} == {
        "unpacked 800": 1,  # the check at intake, and the draft's look
        "unpacked 1600": 1,  # the agent's look, and all crops
    }
    views = {url for request in shown for url in request}
    assert len(views) == 1 + len(CALLS)
    assert all(request[0] == shown[0][0] for request in shown)
    written = sum(count for name, count in done.items() if name.startswith("encoded"))
    assert written == done["base64"] == len(views) + 1, "and the draft's"


async def test_two_models_of_the_same_sizes_share_one_view(done: Counter[str]) -> None:
    shown = await asked(decode(LARGE), LOOKS, Plan.DRAFT_FIRST)
    assert done["base64"] == len({url for request in shown for url in request})


async def test_what_fits_goes_as_it_came_and_is_unpacked_for_crops_alone(done: Counter[str]) -> None:
    shown = await asked(decode(SMALL), LOOKS, Plan.DRAFT_FIRST)
    assert (done["unpacked 560"], done["encoded JPEG"], done["encoded PNG"]) == (1, 0, len(CALLS))
    assert shown[0] == [f"data:image/jpeg;base64,{base64.b64encode(SMALL).decode()}"]
