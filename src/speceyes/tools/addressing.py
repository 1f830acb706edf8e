"""Which picture a call is about, and what the boxes on it are boxes of. All tools that take a box share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, Self, runtime_checkable

from PIL import Image

from speceyes.errors import BoxError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box, Coordinates, from_original, to_original
from speceyes.imaging.looks import look_closer
from speceyes.imaging.resize import PixelLimits
from speceyes.imaging.turned_views import turned_pixels
from speceyes.imaging.turning import turn_box, turned_size, unturn_box
from speceyes.imaging.view import View
from speceyes.tools.base import Tool, ToolContext

UNITS: Mapping[Coordinates, str] = {
    Coordinates.RESIZED: "in pixels",
    Coordinates.ORIGINAL: "in pixels of the original image",
    Coordinates.UNIT: "from 0 to 1",
    Coordinates.PER_MILLE: "from 0 to 1000",
}
"""How a schema tells the model what the four numbers of a box mean."""

INDEX_FIELD = "img_idx"
"""The argument by which a call names the view that its box refers to. Views count from 0."""

BOX_FIELD = "bbox_2d"


class Address(StrEnum):
    """Which view a box refers to when the call does not say."""

    FIRST = "first"
    """The whole first image, as DeepEyes was trained."""
    LATEST = "latest"
    """The picture that the model saw last."""


@dataclass(frozen=True, slots=True)
class Frame:
    """What the boxes on a view are boxes of: an image, a picture that a tool made, or either of them turned.

    Attributes:
        view: The view.
        image: Its image, at full size.
        size: (width, height) of the image, or of the frame that holds it turned.
        window: The part that the view shows, in pixels of that.
        angle: Degrees clockwise by which the image is turned.
    """

    view: View
    image: DecodedImage
    size: tuple[float, float]
    window: Box
    angle: float = 0.0

    @classmethod
    def of(cls, view: View, images: Sequence[DecodedImage]) -> Frame:
        """The frame of a view."""
        image = view.made or images[view.image_index]
        if view.turned is None:
            return cls(view, image, image.size, view.region)
        return cls(view, image, view.turned.frame, view.turned.window, view.turned.angle)

    def read(self, box: Box, coordinates: Coordinates) -> Box:
        """A model's box on the view, in pixels of the frame. Raises `BoxError` as `to_original` does.

        A box in pixels of the original is one of the image as it came, however the view is turned.
        """
        read = to_original(box, coordinates, region=self.window, view_size=self.view.size, image_size=self.image.size)
        return turn_box(read, self.image.size, self.angle) if coordinates is Coordinates.ORIGINAL else read

    def write(self, box: Box, coordinates: Coordinates) -> Box:
        """The inverse of `read`, or where the view is turned, what holds it. Raises `BoxError` as `unturn_box` does."""
        if coordinates is Coordinates.ORIGINAL and self.angle:
            return unturn_box(box, self.image.size, self.angle)
        return from_original(box, coordinates, region=self.window, view_size=self.view.size, image_size=self.size)

    def at(self, angle: float) -> Frame:
        """The frame of the same image at another angle; its window is all of it."""
        size = turned_size(self.image.size, angle)
        return replace(self, size=size, window=Box(0.0, 0.0, *size), angle=angle)

    async def show(self, window: Box, limits: PixelLimits) -> View:
        """A part of the frame, as a model with these limits sees it. Raises `BoxError` and `ImageError`."""
        shown = await look_closer(self.image, window, limits, self.view.image_index, angle=self.angle)
        return shown if self.view.made is None else replace(shown, made=self.view.made)

    def pixels(self, window: Box, most: int | None = None) -> Image.Image:
        """A part of the frame at full size, or of at most so many pixels, as a picture of the caller's own."""
        scale = 1.0 if most is None else min(1.0, (most / max(1.0, window.area)) ** 0.5)
        size = max(1, round(window.width * scale)), max(1, round(window.height * scale))
        return turned_pixels(self.image, window, self.angle, size)


def addressed(arguments: Mapping[str, Any], views: Sequence[View], address: Address) -> View:
    """The view that a call names by its index, or else the one that is meant.

    Raises:
        BoxError: There is no picture, or none of that index.
    """
    if not views:
        raise BoxError("There is no picture to show a part of. Answer from the text.")
    named = arguments.get(INDEX_FIELD)
    if named is None:
        return views[0] if address is Address.FIRST else views[-1]
    index = whole_number(named)
    if index is None or not 0 <= index < len(views):
        known = "only picture 0" if len(views) == 1 else f"pictures 0 to {len(views) - 1}"
        raise BoxError(f"{INDEX_FIELD} {str(named)[:40]} names no picture: there is {known}.")
    return views[index]


def whole_number(value: object) -> int | None:
    """A number that a model wrote as 1, 1.0 or "1"; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
        return int(number) if number.is_integer() else None
    except (ValueError, OverflowError):
        return None


def box_schema(coordinates: Coordinates) -> dict[str, Any]:
    """The schema of a box. The order of the keys is part of what models were trained on: keep it."""
    return {
        "type": "array",
        "items": {"type": "number"},
        "description": f"x1, y1, x2, y2 {UNITS[coordinates]}",
    }


def index_schema() -> dict[str, Any]:
    """The schema of `INDEX_FIELD`."""
    return {"type": "integer", "description": "which picture the box is in, counted from 0"}


def function_schema(name: str, description: str, properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """A tool in the form of OpenAI's function schemas."""
    parameters: dict[str, Any] = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


@runtime_checkable
class Speaks(Protocol):
    """A tool whose boxes can be in any coordinate system."""

    def speaking(self, coordinates: Coordinates) -> Tool:
        """The tool for a model that speaks these; the tool itself where its maker has chosen already."""
        ...


class BoxTool:
    """What the tools with boxes have in common. `coordinates` None: pixels of the view, until `speaking` says more."""

    def __init__(self, coordinates: Coordinates | None, address: Address) -> None:
        self.chosen = coordinates
        self.address = address

    @property
    def coordinates(self) -> Coordinates:
        """What the four numbers of a box mean."""
        return self.chosen or Coordinates.RESIZED

    def speaking(self, coordinates: Coordinates) -> Self:
        """The tool for a model that speaks these; the tool itself where its maker has chosen already."""
        if self.chosen is not None:
            return self
        other = copy(self)
        other.chosen = coordinates
        return other

    def frame(self, arguments: Mapping[str, Any], context: ToolContext) -> Frame:
        """What a call is about. Raises `BoxError`."""
        return Frame.of(addressed(arguments, context.views, self.address), context.images)


def speaking(tools: Sequence[Tool], coordinates: Coordinates) -> list[Tool]:
    """The tools for a model that speaks these coordinates."""
    return [tool.speaking(coordinates) if isinstance(tool, Speaks) else tool for tool in tools]
