"""Pictures and contexts that the tests of several tools share."""

from __future__ import annotations

import numpy as np
from PIL import Image

from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.resize import PixelLimits, render
from speceyes.imaging.view import View
from speceyes.tools import ToolContext, ToolResult

RED = (255, 0, 0)
LIMITS = PixelLimits(32, 4 * 32**2, 1_000_000)


def painted(size: tuple[int, int], *boxes: tuple[int, int, int, int]) -> DecodedImage:
    """A white image with red boxes."""
    image = Image.new("RGB", size, "white")
    for box in boxes:
        image.paste(RED, box)
    return DecodedImage.of_pixels(image)


def context(*images: DecodedImage, limits: PixelLimits = LIMITS) -> ToolContext:
    """What a tool sees at the begin of a run."""
    views = [render(image, None, limits, image_index=index) for index, image in enumerate(images)]
    return ToolContext(images, views, limits)


def red_share(view: View) -> float:
    difference = np.abs(np.asarray(view.pixels, dtype=int) - np.array(RED)).max(axis=2)
    return float((difference < 60).mean())


def shown(result: ToolResult) -> View:
    """The one picture of a result."""
    assert result.error is None, result.error
    (view,) = result.views
    return view
