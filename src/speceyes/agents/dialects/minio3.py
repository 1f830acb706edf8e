"""Mini-o3: boxes from 0 to 1 in a tag of their own, out of the original image or of any earlier observation.

    <think>...</think>
    <grounding>{"bbox_2d": [x1, y1, x2, y2], "source": "original_image"}</grounding>

`source` is `original_image` or `observation_i`, where observations are the pictures that earlier calls have shown,
counted from 1; a call without it means the original. Of several images of a query, `original_image` is the first one.
The result is a user message that numbers the observation. The model knows no tool schema: the prompts say it all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from speceyes.agents.dialects.base import Prompts
from speceyes.agents.dialects.forms import arguments_of
from speceyes.agents.dialects.tags import TOOL_CALL
from speceyes.agents.dialects.zooming import PictureZoom, Zooming, box_field
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import PixelLimits
from speceyes.tools.addressing import UNITS, function_schema
from speceyes.tools.base import Tool, ToolContext
from speceyes.tools.zoom import ZoomTool

PROMPTS = Prompts(
    system="You answer questions about an image. Think in <think> and </think>. To see a part of it up close, write "
    '<grounding>{"bbox_2d": [x1, y1, x2, y2], "source": "original_image"}</grounding>. The box runs from the top left '
    "corner (x1, y1) to the bottom right one (x2, y2), and the picture is 1.0 wide and 1.0 high. As source name the "
    'picture to look into: "original_image", or "observation_1", "observation_2" and so on for a part that you have '
    "been shown. Write your final answer in <answer> and </answer>.",
    act="Think first. Look closer at what is not clear, as often as you need.",
    screen="Would a closer look at a part of the image help here? Reply yes or no.",
    result="Your action {turn} shows this, observation {observation}:",
    reminder="Go on thinking in <think> and </think>. Look closer at the original image or at any observation with "
    "<grounding> and </grounding>, or give your final answer in <answer> and </answer>.",
    closing="There are no further looks. Give your final answer in <answer> and </answer> now.",
    retry="Think about what went wrong. Correct it, or give your final answer in <answer> and </answer>.",
    repeated="You have been shown that very part already. Give your final answer in <answer> and </answer> now.",
)

_ORIGINAL = "original_image"
_OBSERVATION = re.compile(r"observation_(\d{1,6})")


class MiniO3(Zooming):
    """Mini-o3-7B. Its options are those of `Zooming`."""

    name = "minio3"
    models = "Mini-o3-7B (Qwen2.5-VL)"
    syntax = "JSON in <grounding>"
    limits = PixelLimits(28, 40_000, 2_000_000)
    coordinates = Coordinates.UNIT
    prompts = PROMPTS
    stop = ("</grounding>", "</tool_call>", "</answer>")
    forms = (arguments_of("zoom", "grounding", field="bbox_2d"), TOOL_CALL)
    form = 'Write <grounding>{"bbox_2d": [x1, y1, x2, y2], "source": "original_image"}</grounding>.'
    described = ("zoom",)
    result_tag = None
    max_turns = 12
    max_tokens_per_turn = 2048

    def zoom(self, context: float, *, notes: bool) -> Tool:
        return _Grounding(ZoomTool(coordinates=self.coordinates, context=context, notes=notes))

    def zoom_arguments(self, box: Sequence[float], picture: int = 0) -> dict[str, Any]:
        return {"bbox_2d": list(box), "source": f"observation_{picture}" if picture else _ORIGINAL}


class _Grounding(PictureZoom):
    def __init__(self, zoom: ZoomTool) -> None:
        source = {"type": "string", "description": "original_image, or observation_1, observation_2, ..."}
        properties = {"bbox_2d": box_field(f"x1, y1, x2, y2 {UNITS[zoom.coordinates]}"), "source": source}
        schema = function_schema("zoom", "Show a part of a picture up close.", properties, "bbox_2d")
        super().__init__(zoom, schema, "source")

    def index(self, named: object, context: ToolContext) -> int | None:
        if named is None or named == _ORIGINAL:
            return 0
        found = _OBSERVATION.fullmatch(named.strip()) if isinstance(named, str) else None
        number = int(found.group(1)) if found else 0
        return len(context.images) - 1 + number if number else None

    def known(self, context: ToolContext) -> str:
        last = len(context.views) - len(context.images)
        shown = f", and observation_1 to observation_{last}" if last > 1 else ", and observation_1" if last else ""
        return f"is original_image{shown}"
