"""What the dialects share whose models zoom: one zoom tool, in the family's own words for a box and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from speceyes.agents.dialects.base import Prompts
from speceyes.agents.dialects.tagged import Tagged
from speceyes.errors import ConfigError
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import PixelLimits
from speceyes.tools.addressing import INDEX_FIELD, UNITS, function_schema, whole_number
from speceyes.tools.base import Tool, ToolContext, ToolResult
from speceyes.tools.zoom import ZoomTool


class Zooming(Tagged):
    """A dialect with a zoom tool.

    Attributes:
        indexed: The fields that the model is told to send, where it names pictures by their index, counted from 0 over
            all that it has seen. None: boxes are of the first image, as for DeepEyes.

    Args:
        limits: Sizes of picture that the model takes. This and all others: None is what the family has.
        coordinates: What the numbers of a box mean.
        prompts: The words said to the model.
        toolbox: The tools, in place of the family's zoom tool.
        zoom_context: Margin around each box, as a share of its side, for that zoom tool.
        aliases: Further field names to accept in a call's arguments, and what they stand for.
        extra: Further fields of each request. None: for a dialect whose tools are in the request, `tool_choice: none`,
            with which a server's chat template renders the tools, and the model's text comes back as it is.
        zoom_notes: Let that tool tell the model where a picture is not just what its box named.
        max_turns: Turns in which the model may call tools.
        max_tokens_per_turn: Generated tokens of one turn.

    Raises:
        ConfigError: The toolbox or the aliases do not fit together.
    """

    indexed: ClassVar[tuple[str, ...] | None] = None

    def __init__(
        self,
        *,
        limits: PixelLimits | None = None,
        coordinates: Coordinates | None = None,
        prompts: Prompts | None = None,
        toolbox: Sequence[Tool] | None = None,
        zoom_context: float = 0.0,
        aliases: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        zoom_notes: bool = True,
        max_turns: int | None = None,
        max_tokens_per_turn: int | None = None,
    ) -> None:
        self.coordinates = coordinates or self.coordinates
        super().__init__(
            [self.zoom(zoom_context, notes=zoom_notes)] if toolbox is None else toolbox,
            limits=limits,
            prompts=prompts,
            aliases=aliases,
            extra=extra,
            max_turns=max_turns,
            max_tokens_per_turn=max_tokens_per_turn,
        )

    def zoom(self, context: float, *, notes: bool) -> Tool:
        """The family's zoom tool."""
        zoom = ZoomTool(coordinates=self.coordinates, context=context, notes=notes)
        if self.indexed is None:
            return zoom
        properties = {
            "bbox_2d": box_field(f"the part to look at: left, top, right, bottom, {UNITS[self.coordinates]}"),
            "label": {"type": "string", "description": "what is there"},
            INDEX_FIELD: {
                "type": "integer",
                "description": "which picture, counted from 0 over all that you have seen",
            },
        }
        words = "Look at a part of a picture up close."
        return PictureZoom(zoom, function_schema(zoom.name, words, properties, *self.indexed), INDEX_FIELD)

    def zoom_arguments(self, box: Sequence[float], picture: int = 0) -> dict[str, Any]:
        """The arguments that ask for a box of a picture that the model has seen; pictures count from 0."""
        named = {} if self.indexed is None and not picture else {INDEX_FIELD: picture}
        return {"bbox_2d": list(box), "label": "the sign", **named}


class PictureZoom:
    """A zoom tool whose calls name the picture in a field of the family's own.

    Args:
        zoom: The tool that does the work; it reads `INDEX_FIELD`.
        schema: The tool as the model is told of it. Its name is the tool's name.
        field: The field that names the picture.

    Raises:
        ConfigError: The schema does not have the field.
    """

    def __init__(self, zoom: ZoomTool, schema: Mapping[str, Any], field: str) -> None:
        if field not in schema["function"]["parameters"]["properties"]:
            raise ConfigError(f"The zoom tool's schema has no field {field}.")
        self._zoom, self._schema, self._field = zoom, schema, field

    @property
    def name(self) -> str:
        return str(self._schema["function"]["name"])

    @property
    def schema(self) -> Mapping[str, Any]:
        return self._schema

    def index(self, named: object, context: ToolContext) -> int | None:
        """Which of `context.views` a call means by this; None for what names no picture.

        `named` is None where the call names none.
        """
        return 0 if named is None and len(context.views) == 1 else whole_number(named)

    def known(self, context: ToolContext) -> str:
        """What there is to name, as a sentence goes on that begins with "there"."""
        last = len(context.views) - 1
        return f"are pictures 0 to {last}" if last else "is only picture 0"

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Cut the part that `bbox_2d` names out of the picture that the field names."""
        named = arguments.get(self._field)
        index = self.index(named, context)
        if context.views and (index is None or not 0 <= index < len(context.views)):
            said = f"{self._field} is missing" if named is None else f"{self._field} {str(named)[:40]} names no picture"
            return ToolResult(error=f"{said}: there {self.known(context)}.")
        return await self._zoom.run({**self.mapped(arguments), INDEX_FIELD: index or 0}, context)

    def mapped(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments as the zoom tool takes them."""
        return arguments


def box_field(description: str) -> dict[str, Any]:
    """The schema of a box's four numbers."""
    return {"type": "array", "items": {"type": "number"}, "description": description}
