"""The rotate tool: an image, or a part of it, turned by any angle, cut from the original pixels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from speceyes.errors import BoxError, ImageError
from speceyes.imaging.geometry import Box, Coordinates, crop_region, parse_box
from speceyes.imaging.turning import clockwise, turn_box, unturn_box
from speceyes.imaging.view import View
from speceyes.tools.addressing import (
    BOX_FIELD,
    INDEX_FIELD,
    Address,
    BoxTool,
    Frame,
    box_schema,
    function_schema,
    index_schema,
)
from speceyes.tools.base import ToolContext, ToolResult

ANGLE_FIELD = "angle"


class RotateTool(BoxTool):
    """Shows a picture turned, for text that stands on its side or signs that hang askew.

    A later box on the turned picture is a box of the image turned alike, so zooming into it loses nothing. Turning a
    turned picture adds the angles. Other angles than quarter turns leave grey corners.

    Args:
        name: The name that the model calls it by.
        coordinates: What the four numbers of `bbox_2d` mean. None: whatever the agent's dialect speaks.
        address: Which view is meant when the call names none.
        indexed: Offer `img_idx` to the model in the schema. A call that sends it is understood either way.
    """

    def __init__(
        self,
        name: str = "image_rotate_tool",
        coordinates: Coordinates | None = None,
        *,
        address: Address = Address.FIRST,
        indexed: bool = False,
    ) -> None:
        super().__init__(coordinates, address)
        self.name = name
        self.indexed = indexed

    @property
    def schema(self) -> Mapping[str, Any]:
        properties: dict[str, Any] = {
            ANGLE_FIELD: {"type": "number", "description": "degrees clockwise; negative turns the other way"},
            BOX_FIELD: box_schema(self.coordinates),
        }
        properties[BOX_FIELD]["description"] += "; leave it out to turn the whole picture"
        if self.indexed:
            properties[INDEX_FIELD] = index_schema()
        return function_schema(self.name, "Turn the image, or a part of it.", properties, ANGLE_FIELD)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Turn by `angle` degrees clockwise: the part that `bbox_2d` names, or all that the picture shows."""
        try:
            frame = self.frame(arguments, context)
            angle = read_angle(arguments.get(ANGLE_FIELD))
            box = arguments.get(BOX_FIELD)
            part = frame.window if box is None else frame.read(parse_box(box), self.coordinates)
            if box is not None:
                part = crop_region(part, frame.size, min_side=context.limits.factor)
            shown = await _turned(frame, part, angle, context)
        except (BoxError, ImageError) as error:
            return ToolResult(error=str(error))
        return ToolResult(f"Turned by {angle:g} degrees clockwise.", (shown,))


async def _turned(frame: Frame, part: Box, angle: float, context: ToolContext) -> View:
    size = frame.image.size
    whole = part == Box(0.0, 0.0, *frame.size)
    upright = Box(0.0, 0.0, *size) if whole else unturn_box(part, size, frame.angle)
    total = clockwise(frame.angle + angle)
    window = turn_box(upright, size, total)
    return await frame.at(total).show(window, context.limits)


def read_angle(value: object) -> float:
    """Degrees as a model wrote them: a number, or one as text.

    Raises:
        BoxError: It is none. The message is fit for the model to read.
    """
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(str(value).strip().removesuffix("°"))
        except (ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise BoxError(f"{ANGLE_FIELD} must be a number of degrees, such as 90, not {str(value)[:40]!r}.")
    return number
