"""What models are shown, rendered and encoded off the event loop: images whole, and parts of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box
from speceyes.imaging.resize import PixelLimits, view_size
from speceyes.imaging.turned_views import render_turned
from speceyes.imaging.view import View

JPEG_ABOVE = 1_000_000
"""Looks of more pixels than this are sent as JPEG: encoding them as PNG takes most of a second each. Of a picture that
came as JPEG, looks of more than a tenth as many."""


async def look(images: Sequence[DecodedImage], limits: PixelLimits, *, like: Sequence[View] = ()) -> tuple[View, ...]:
    """The images as a model with these limits sees them.

    Args:
        images: The images, in order.
        limits: Sizes of picture that the model takes.
        like: Looks at the same images made for another model; they serve again where their sizes fit.

    Raises:
        ImageError: An image has a shape that the model cannot take.
    """
    wanted = [view_size(*image.size, limits) for image in images]
    if like and [view.size for view in like] == wanted:
        return tuple(like)

    return tuple(await asyncio.gather(*(look_closer(image, None, limits, i) for i, image in enumerate(images))))


async def look_closer(
    image: DecodedImage, region: Box | None, limits: PixelLimits, image_index: int, *, angle: float = 0.0
) -> View:
    """A part of an image, or with None all of it, as a model with these limits sees it.

    With an angle (degrees clockwise) the image is turned first, and the part is one of the turned image.

    Raises:
        BoxError: The part of a turned image shows nothing of it.
        ImageError: The part has a shape that the model cannot take.
    """

    def make() -> View:
        view = render_turned(image, region, angle, limits, image_index=image_index, jpeg_above=JPEG_ABOVE)
        hash(view.data_url)  # encode here, in the thread, not later on the event loop; a string keeps its hash
        return view

    return await asyncio.to_thread(make)
