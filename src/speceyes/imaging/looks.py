"""First looks: each image of a query whole, in the size that a model takes, rendered off the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.resize import PixelLimits, render, view_size
from speceyes.imaging.view import View

JPEG_ABOVE = 1_000_000
"""Looks of more pixels than this are sent as JPEG: encoding them as PNG takes most of a second each."""


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

    def make(index: int) -> View:
        view = render(images[index], None, limits, image_index=index, jpeg_above=JPEG_ABOVE)
        view.data_url  # noqa: B018 - encode here, in the thread, not later on the event loop
        return view

    return tuple(await asyncio.gather(*(asyncio.to_thread(make, i) for i in range(len(images)))))
