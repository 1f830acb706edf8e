"""The reading tool: text in a picture, line by line, with the box of each. Needs the extra `ocr`.

RapidOCR does the reading: PaddleOCR's models for ONNX Runtime. Its wheel carries them, so nothing is fetched; versions
before 3.10 fetch a font when they first read. It reads one picture at a time, in a thread.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image

from speceyes.errors import BoxError, ConfigError, ImageError
from speceyes.imaging.geometry import Box, Coordinates, crop_region, parse_box
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
from speceyes.tools.budget import ToolBudget

LEAST_SIDE = 48
"""Parts thinner than this many original pixels are widened: the detector finds nothing in slivers."""
MOST_PIXELS = 4_000_000
"""Larger parts are made smaller before they are read; the detector works at 2,000 pixels a side."""
DECIMALS = {Coordinates.UNIT: 4}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text. `box` is in pixels of the picture that was read, `score` from 0 to 1."""

    text: str
    box: Box
    score: float


ReadLines = Callable[[Image.Image], list[Line]]
"""Whatever finds the lines in an RGB picture. It runs in a thread, one call at a time."""


class OcrTool(BoxTool):
    """Reads the text in a picture, or in a part of it, at full size.

    The model gets one JSON object a line: the text, and its box on the picture that the call named, in the model's own
    coordinates, so that it can zoom there next.

    Args:
        name: The name that the model calls it by.
        coordinates: What the four numbers of a box mean. None: whatever the agent's dialect speaks.
        least_score: Lines that the reader is less sure of are left out.
        address: Which view is meant when the call names none.
        indexed: Offer `img_idx` to the model in the schema.
        budget: What a call may take and give back. The first call loads the models, which can take seconds.
        read_lines: Another reader. None: RapidOCR.

    Raises:
        ConfigError: RapidOCR is not installed.
    """

    def __init__(
        self,
        name: str = "read_text",
        coordinates: Coordinates | None = None,
        *,
        least_score: float = 0.5,
        address: Address = Address.FIRST,
        indexed: bool = False,
        budget: ToolBudget | None = None,
        read_lines: ReadLines | None = None,
    ) -> None:
        super().__init__(coordinates, address)
        if read_lines is None and not ocr_is_installed():
            raise ConfigError("the reading tool needs RapidOCR: pip install 'speceyes[ocr]'")
        self.name = name
        self.least_score = least_score
        self.indexed = indexed
        self.budget = budget or ToolBudget(seconds=120)
        self._read_lines = read_lines or rapid_ocr

    @property
    def schema(self) -> Mapping[str, Any]:
        properties: dict[str, Any] = {BOX_FIELD: box_schema(self.coordinates)}
        properties[BOX_FIELD]["description"] += "; leave it out to read the whole picture"
        if self.indexed:
            properties[INDEX_FIELD] = index_schema()
        return function_schema(self.name, "Read the text in the image, or in a part of it.", properties)

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Read the part that `bbox_2d` names, or all that the picture shows."""
        try:
            frame = self.frame(arguments, context)
            box = arguments.get(BOX_FIELD)
            part = frame.window if box is None else frame.read(parse_box(box), self.coordinates)
            part = crop_region(part, frame.size, min_side=LEAST_SIDE)
            lines = await asyncio.to_thread(self._lines, frame, part)
        except (BoxError, ImageError) as error:
            return ToolResult(error=str(error))
        kept = [self._written(line, frame) for line in lines if line.score >= self.least_score]
        return ToolResult("\n".join(kept) or "There is no text that can be read.")

    def _lines(self, frame: Frame, part: Box) -> list[Line]:
        """The lines in a part of the frame, their boxes in pixels of the frame."""
        picture = frame.pixels(part, MOST_PIXELS)
        across, down = part.width / picture.width, part.height / picture.height
        return [Line(line.text, _moved(line.box, part, across, down), line.score) for line in self._read_lines(picture)]

    def _written(self, line: Line, frame: Frame) -> str:
        digits = DECIMALS.get(self.coordinates, 0)
        edges = frame.write(line.box, self.coordinates).as_tuple()
        numbers = [round(edge, digits) if digits else round(edge) for edge in edges]
        return json.dumps({"text": line.text, BOX_FIELD: numbers}, ensure_ascii=False)


def ocr_is_installed() -> bool:
    """Whether the extra `ocr` is there."""
    return all(importlib.util.find_spec(name) is not None for name in ("rapidocr", "onnxruntime"))


def rapid_ocr(picture: Image.Image) -> list[Line]:
    """The lines that RapidOCR finds in an RGB picture, in reading order."""
    with _ONE_AT_A_TIME:
        found = _engine()(np.asarray(picture)[:, :, ::-1])  # it takes blue, green, red
    if found.txts is None or found.boxes is None:
        return []
    rows = zip(found.txts, found.boxes, found.scores, strict=True)
    return [Line(str(text), _around(corners), float(score)) for text, corners, score in rows]


_ONE_AT_A_TIME = threading.Lock()


@cache
def _engine() -> Any:
    rapidocr = importlib.import_module("rapidocr")
    # By default small pictures are blown up first, and the detector then cuts their large words into pieces.
    sizes = {"Det.limit_type": "max", "Det.limit_side_len": 2_000}
    return rapidocr.RapidOCR(params={"Global.log_level": "critical", **sizes})


def _around(corners: Any) -> Box:
    """The upright box around four corners, an array of shape (4, 2)."""
    xs, ys = np.asarray(corners, dtype=float).T
    return Box(float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max()))


def _moved(box: Box, part: Box, across: float, down: float) -> Box:
    """From pixels of the picture that was read to pixels of the frame, inside the part."""
    left, top, right, bottom = box.clamp(part.width / across, part.height / down).as_tuple()
    return Box(
        part.left + left * across,
        part.top + top * down,
        part.left + right * across,
        part.top + bottom * down,
    )
