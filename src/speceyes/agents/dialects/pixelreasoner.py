"""Pixel-Reasoner: a crop tool with boxes from 0 to 1, pictures counted from 1, answers in a box.

    <tool_call>
    {"name": "crop_image_normalized", "arguments": {"bbox_2d": [x1, y1, x2, y2], "target_image": 1}}
    </tool_call>

`target_image` counts all pictures of the conversation from 1, crops included; a call without it is understood as long
as there is one picture only. The tool that the model was trained with adds a tenth of the picture on each side of the
box, so ours does too. The answer stands in `\\boxed{}`, in plain text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from speceyes.agents.dialects.base import Prompts
from speceyes.agents.dialects.zooming import PictureZoom, Zooming, box_field
from speceyes.errors import BoxError
from speceyes.imaging.geometry import Box, Coordinates, parse_box
from speceyes.imaging.resize import PixelLimits
from speceyes.tools.addressing import UNITS, function_schema, whole_number
from speceyes.tools.base import Tool, ToolContext
from speceyes.tools.zoom import ZoomTool
from speceyes.types import Completion

PROMPTS = Prompts(
    system="You answer questions about images. A tool can cut a part out of any picture and show it larger.",
    act="Think step by step. Call the tool where a part is too small to see. "
    r"Write your final answer in \boxed{}, and nothing else in it.",
    screen="Would a look at a part of the image with the tool help here? Reply yes or no.",
    reminder="This is picture {number}. Think about what it shows. "
    r"Call the tool again, or write your final answer in \boxed{}.",
    closing=r"There are no further looks. Write your final answer in \boxed{} now.",
    retry=r"Correct the call, or write your final answer in \boxed{}.",
    repeated=r"That very part has been shown already. Write your final answer in \boxed{} now.",
)

MARGIN = 0.1
"""What the trained tool adds on each side of a box, as a share of the picture's side."""

_TOLERATED = 0.05
"""A box that reaches farther out of the picture is in no unit from 0 to 1; the zoom tool says so."""


class PixelReasoner(Zooming):
    """Pixel-Reasoner-7B on images; its second tool, for frames of a video, is not here. Options as for `Zooming`."""

    name = "pixelreasoner"
    models = "Pixel-Reasoner-7B (Qwen2.5-VL)"
    limits = PixelLimits(28, 401_408, 4_014_080)
    coordinates = Coordinates.UNIT
    prompts = PROMPTS
    stop = ("</tool_call>",)
    forgiven = ("target_image",)
    max_turns = 2
    max_tokens_per_turn = 2048

    def zoom(self, context: float, *, notes: bool) -> Tool:
        return _Crop(ZoomTool(coordinates=self.coordinates, context=context, notes=notes))

    def zoom_arguments(self, box: Sequence[float], picture: int = 0) -> dict[str, Any]:
        return {"bbox_2d": list(box), "target_image": picture + 1}

    def write_answer(self, text: str) -> Completion:
        return Completion(rf"Now I see it. The answer is \boxed{{{text}}}.", "stop")


class _Crop(PictureZoom):
    def __init__(self, zoom: ZoomTool) -> None:
        properties = {
            "bbox_2d": box_field(f"the part to show: left, top, right, bottom, {UNITS[zoom.coordinates]}"),
            "target_image": {"type": "integer", "description": "which picture, counted from 1; 1 is the original"},
        }
        words = "Cut a part out of a picture and show it larger."
        super().__init__(zoom, function_schema("crop_image_normalized", words, properties, *properties), "target_image")
        self._margin = MARGIN if zoom.coordinates is Coordinates.UNIT else 0.0

    def index(self, named: object, context: ToolContext) -> int | None:
        if named is None:
            return super().index(named, context)
        number = whole_number(named)
        return None if number is None else number - 1

    def known(self, context: ToolContext) -> str:
        last = len(context.views)
        return f"are pictures 1 to {last}" if last > 1 else "is only picture 1"

    def mapped(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """With the margin around the box. A box that is none, or no part of the picture, is left to the tool."""
        try:
            box = parse_box(arguments.get("bbox_2d"))
        except BoxError:
            return arguments
        inside = box.clamp(1, 1)
        if inside.area <= 0 or not Box(0, 0, 1, 1).grow(_TOLERATED).contains(box):
            return arguments
        return {**arguments, "bbox_2d": list(inside.grow(self._margin).clamp(1, 1).as_tuple())}
