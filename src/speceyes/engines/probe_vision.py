"""Checks of a probe: what the agent shows."""

from __future__ import annotations

import base64
import io
import json
import secrets
from functools import cache
from typing import Any

from PIL import Image, ImageDraw

from speceyes.engines.findings import Feature, Finding, no, unknown, yes
from speceyes.engines.probe_asker import Asker

_SIDE = 448
"""A multiple of 28 and of 32, so that no family resizes it, and large enough to outweigh a question."""

TOOL = {
    "type": "function",
    "function": {
        "name": "look_closer",
        "description": "Show a part of the picture.",
        "parameters": {
            "type": "object",
            "properties": {"box": {"type": "array", "items": {"type": "number"}, "description": "corners"}},
            "required": ["box"],
        },
    },
}


async def images(asker: Asker) -> Finding:
    """Does a picture reach the prompt?"""
    plain = await asker.ask("What is this?")
    shown = await asker.ask([_picture("red"), _text("What is this?")])
    return _grown(Feature.IMAGES, shown.usage.prompt_tokens, plain.usage.prompt_tokens)


async def two_images(asker: Asker) -> Finding:
    """Do two?"""
    one = await asker.ask([_picture("red"), _text("What is this?")])
    two = await asker.ask([_picture("red"), _picture("blue"), _text("What is this?")])
    return _grown(Feature.TWO_IMAGES, two.usage.prompt_tokens, one.usage.prompt_tokens)


async def tool_images(asker: Asker) -> Finding:
    """Does one in a tool's message?"""
    plain = await asker.send(_tool_run([_text("Here it is.")]), [TOOL])
    shown = await asker.send(_tool_run([_text("Here it is."), _picture("red")]), [TOOL])
    return _grown(Feature.TOOL_IMAGES, shown.usage.prompt_tokens, plain.usage.prompt_tokens)


async def prefix_cache(asker: Asker) -> Finding:
    """Is the second question about a picture cheaper than the first?

    What the server calls cached must be more than the whole prompt without the picture; then the picture is
    part of it.
    """
    feature = Feature.PREFIX_CACHE
    colour = f"#{secrets.token_hex(3)}"  # a picture that the server has not seen before
    system, first, second = "You look at pictures closely.", "What colour is it?", "Is there text?"
    without = await asker.ask(second, system=system)
    cold = await asker.ask([_picture(colour), _text(first)], system=system)
    warm = await asker.ask([_picture(colour), _text(second)], system=system)
    cached, text_only = warm.usage.cached_tokens, without.usage.prompt_tokens
    if cached is None:
        times = (cold.first_token_s or cold.seconds, warm.first_token_s or warm.seconds)
        return unknown(
            feature,
            "the server does not say how much it had cached; the first token took "
            f"{times[0] * 1000:.0f} ms, and {times[1] * 1000:.0f} ms for another question on the same image",
        )
    share = f"{cached} of {warm.usage.prompt_tokens} tokens were cached"
    if text_only is None:
        return unknown(feature, share, cached)
    if cached > text_only:
        return yes(feature, share, cached)
    return no(feature, share + (", the picture not among them" if cached else ""), cached)


async def slots(asker: Asker) -> Finding:
    """How many slots has a llama.cpp?"""
    page = await asker.page("/props")
    try:
        count = json.loads(page or "")["total_slots"]
    except (ValueError, TypeError, KeyError):
        count = None
    if not isinstance(count, int) or count < 1:
        return unknown(Feature.SLOTS, "the server tells of none")
    return yes(Feature.SLOTS, f"{count}; where nobody else asks the server, set `slots` to it", count)


def _grown(feature: Feature, shown: int | None, plain: int | None) -> Finding:
    if shown is None or plain is None:
        return unknown(feature, "accepted; the server does not count tokens, so the model may not see it")
    if shown > plain:
        return yes(feature, f"the picture takes {shown - plain} tokens", shown - plain)
    return no(feature, "accepted, but dropped: the prompt does not grow by it")


def _tool_run(result: list[dict[str, Any]]) -> list[dict[str, Any]]:
    function = {"name": "look_closer", "arguments": '{"box": [0, 0, 224, 224]}'}
    call = {"id": "call_0", "type": "function", "function": function}
    return [
        {"role": "user", "content": "Look closer."},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": result},
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@cache
def _picture(colour: str) -> dict[str, Any]:
    picture = Image.new("RGB", (_SIDE, _SIDE), "white")
    ImageDraw.Draw(picture).ellipse((64, 64, 320, 320), fill=colour)
    png = io.BytesIO()
    picture.save(png, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}
