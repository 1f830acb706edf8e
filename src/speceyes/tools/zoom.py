"""The zoom tool: a closer look at a part of an image, cut from the original pixels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speceyes.errors import BoxError, ImageError
from speceyes.imaging.geometry import Box, Coordinates, crop_region, parse_box
from speceyes.tools.addressing import (
    BOX_FIELD,
    INDEX_FIELD,
    UNITS,
    Address,
    Frame,
    addressed,
    box_schema,
    function_schema,
    index_schema,
)
from speceyes.tools.base import ToolContext, ToolResult

__all__ = ["INDEX_FIELD", "UNITS", "Address", "ZoomTool", "zoom_schema"]


class ZoomTool:
    """Shows a part of an image up close.

    The box is read in `coordinates` relative to one view, mapped to the original image, widened, and cut from
    the original pixels, so a zoom into a zoom loses nothing. A box on a turned view is cut from the image turned alike.

    Args:
        name: The name that the model calls it by.
        coordinates: What the four numbers of `bbox_2d` mean.
        min_side: Least width and height of the part shown, in original pixels. None: the model's patch
            factor.
        context: Margin around the box on each side, as a share of the box's side. 1.0 adds one box width on
            the left and one on the right.
        address: Which view the box refers to when the call names none.
        indexed: Offer `img_idx` to the model in the schema. A call that sends it is understood either way.
        notes: Say in words where the part shown is not just what the box named. Off for models that have
            never seen such words.
    """

    def __init__(
        self,
        name: str = "image_zoom_in_tool",
        coordinates: Coordinates = Coordinates.RESIZED,
        min_side: int | None = None,
        context: float = 0.0,
        *,
        address: Address = Address.FIRST,
        indexed: bool = False,
        notes: bool = True,
    ) -> None:
        self._name = name
        self.coordinates = coordinates
        self.min_side = min_side
        self.context = context
        self.address = address
        self.notes = notes
        self._schema = zoom_schema(name, coordinates, indexed=indexed)

    @property
    def name(self) -> str:
        return self._name

    @property
    def schema(self) -> Mapping[str, Any]:
        return self._schema

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Cut the part that `bbox_2d` names. `text` is empty unless the part shown differs from the box."""
        try:
            frame = Frame.of(addressed(arguments, context.views, self.address), context.images)
            if BOX_FIELD not in arguments:
                raise BoxError(f"{self._name} needs bbox_2d: [x1, y1, x2, y2] {UNITS[self.coordinates]}.")
            window, note = self._window(parse_box(arguments[BOX_FIELD]), frame, context)
            shown = await frame.show(window, context.limits)
        except (BoxError, ImageError) as error:
            return ToolResult(error=str(error))
        return ToolResult(note, (shown,))

    def _window(self, box: Box, frame: Frame, context: ToolContext) -> tuple[Box, str]:
        """The part of the frame to show, and a note for the model where it is not what the box said."""
        asked = frame.read(box, self.coordinates)
        if asked.area <= 0:
            # Said here, in the model's own numbers: further down only original pixels are known.
            raise BoxError(self._no_area(box, frame))
        least = self.min_side if self.min_side is not None else context.limits.factor
        window = crop_region(asked, frame.size, min_side=least, context=self.context)
        notes = []
        if self._was_cut(box, asked, frame):
            notes.append("The box reached past the edge of the picture and was cut there.")
        spread = 1 + 2 * self.context
        if window.width > asked.width * spread + 1 or window.height > asked.height * spread + 1:
            notes.append("The box was too thin to show alone, so a little more around it is shown.")
        return window, " ".join(notes) if self.notes else ""

    def _no_area(self, box: Box, frame: Frame) -> str:
        whole = frame.write(frame.window, self.coordinates)
        edges = ", ".join(f"{edge:g}" for edge in box.as_tuple())
        return (
            f"The box [{edges}] has no area in the picture. "
            f"Give x1 < x2, within {whole.left:g} to {whole.right:g}, "
            f"and y1 < y2, within {whole.top:g} to {whole.bottom:g}."
        )

    def _was_cut(self, box: Box, asked: Box, frame: Frame) -> bool:
        """Whether mapping moved an edge inwards by more than one pixel of the view."""
        whole, kept = frame.write(frame.window, self.coordinates), frame.write(asked, self.coordinates)
        across, down = whole.width / frame.view.size[0], whole.height / frame.view.size[1]
        return (
            max(kept.left - box.left, box.right - kept.right) > across
            or max(kept.top - box.top, box.bottom - kept.bottom) > down
        )


def zoom_schema(name: str, coordinates: Coordinates, *, indexed: bool = False) -> dict[str, Any]:
    """The tool's function schema. The order of the keys is part of what a model was trained on: keep it."""
    properties: dict[str, Any] = {
        BOX_FIELD: box_schema(coordinates),
        "label": {"type": "string", "description": "what is there"},
    }
    if indexed:
        properties[INDEX_FIELD] = index_schema()
    return function_schema(name, "Show a part of the image up close.", properties, BOX_FIELD)
