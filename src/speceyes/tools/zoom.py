"""The zoom tool: a closer look at a part of an image, cut from the original pixels."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from speceyes.errors import BoxError, ImageError
from speceyes.imaging.geometry import Box, Coordinates, crop_region, from_original, parse_box, to_original
from speceyes.imaging.looks import look_closer
from speceyes.imaging.view import View
from speceyes.tools.base import ToolContext, ToolResult

UNITS: Mapping[Coordinates, str] = {
    Coordinates.RESIZED: "in pixels",
    Coordinates.ORIGINAL: "in pixels of the original image",
    Coordinates.UNIT: "from 0 to 1",
    Coordinates.PER_MILLE: "from 0 to 1000",
}
"""How the schema tells the model what its four numbers mean."""

INDEX_FIELD = "img_idx"
"""The argument by which a call names the view that its box refers to. Views count from 0."""


class Address(StrEnum):
    """Which view a box refers to when the call does not say."""

    FIRST = "first"
    """The whole first image, as DeepEyes was trained."""
    LATEST = "latest"
    """The picture that the model saw last."""


class ZoomTool:
    """Shows a part of an image up close.

    The box is read in `coordinates` relative to one view, mapped to the original image, widened, and cut from
    the original pixels, so a zoom into a zoom loses nothing.

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
            view = self._addressed(arguments, context.views)
            if "bbox_2d" not in arguments:
                raise BoxError(f"{self._name} needs bbox_2d: [x1, y1, x2, y2] {UNITS[self.coordinates]}.")
            region, note = self._region(parse_box(arguments["bbox_2d"]), view, context)
            image = context.images[view.image_index]
            shown = await look_closer(image, region, context.limits, view.image_index)
        except (BoxError, ImageError) as error:
            return ToolResult(error=str(error))
        return ToolResult(note, (shown,))

    def _addressed(self, arguments: Mapping[str, Any], views: list[View]) -> View:
        if not views:
            raise BoxError("There is no picture to show a part of. Answer from the text.")
        named = arguments.get(INDEX_FIELD)
        if named is None:
            return views[0] if self.address is Address.FIRST else views[-1]
        index = _whole_number(named)
        if index is None or not 0 <= index < len(views):
            known = "only picture 0" if len(views) == 1 else f"pictures 0 to {len(views) - 1}"
            raise BoxError(f"{INDEX_FIELD} {str(named)[:40]} names no picture: there is {known}.")
        return views[index]

    def _region(self, box: Box, view: View, context: ToolContext) -> tuple[Box, str]:
        """The part of the original to show, and a note for the model where it is not what the box said."""
        size = context.images[view.image_index].size
        asked = to_original(box, self.coordinates, region=view.region, view_size=view.size, image_size=size)
        if asked.area <= 0:
            # Said here, in the model's own numbers: further down only original pixels are known.
            raise BoxError(self._no_area(box, view, size))
        least = self.min_side if self.min_side is not None else context.limits.factor
        region = crop_region(asked, size, min_side=least, context=self.context)
        notes = []
        if self._was_cut(box, asked, view, size):
            notes.append("The box reached past the edge of the picture and was cut there.")
        spread = 1 + 2 * self.context
        if region.width > asked.width * spread + 1 or region.height > asked.height * spread + 1:
            notes.append("The box was too thin to show alone, so a little more around it is shown.")
        return region, " ".join(notes) if self.notes else ""

    def _no_area(self, box: Box, view: View, size: tuple[int, int]) -> str:
        frame = from_original(view.region, self.coordinates, region=view.region, view_size=view.size, image_size=size)
        edges = ", ".join(f"{edge:g}" for edge in box.as_tuple())
        return (
            f"The box [{edges}] has no area in the picture. "
            f"Give x1 < x2, within {frame.left:g} to {frame.right:g}, "
            f"and y1 < y2, within {frame.top:g} to {frame.bottom:g}."
        )

    def _was_cut(self, box: Box, asked: Box, view: View, size: tuple[int, int]) -> bool:
        """Whether mapping moved an edge by more than one pixel of the view."""

        def back(original: Box) -> Box:
            return from_original(original, self.coordinates, region=view.region, view_size=view.size, image_size=size)

        frame, kept = back(view.region), back(asked)
        across, down = frame.width / view.size[0], frame.height / view.size[1]
        return (
            max(abs(kept.left - box.left), abs(kept.right - box.right)) > across
            or max(abs(kept.top - box.top), abs(kept.bottom - box.bottom)) > down
        )


def zoom_schema(name: str, coordinates: Coordinates, *, indexed: bool = False) -> dict[str, Any]:
    """The tool's function schema. The order of the keys is part of what a model was trained on: keep it."""
    properties: dict[str, Any] = {
        "bbox_2d": {
            "type": "array",
            "items": {"type": "number"},
            "description": f"x1, y1, x2, y2 {UNITS[coordinates]}",
        },
        "label": {"type": "string", "description": "what is there"},
    }
    if indexed:
        properties[INDEX_FIELD] = {
            "type": "integer",
            "description": "which picture the box is in, counted from 0",
        }
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": "Show a part of the image up close.",
            "parameters": {"type": "object", "properties": properties, "required": ["bbox_2d"]},
        },
    }


def _whole_number(value: object) -> int | None:
    """An index that a model wrote as 1, 1.0 or "1"; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number.is_integer() else None
    except (ValueError, OverflowError):
        return None
