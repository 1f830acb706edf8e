"""Views of turned images, cut from the original pixels like any other view."""

from __future__ import annotations

from dataclasses import replace

from PIL import Image

from speceyes.errors import ImageError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box
from speceyes.imaging.resize import PixelLimits, encoded_view, render, resized, view_size
from speceyes.imaging.turning import Turned, clockwise, cos_sin, turned_size, unturn_box, unturn_point
from speceyes.imaging.view import View

EMPTY = (128, 128, 128)
"""What the corners of the frame show that the turned image leaves empty."""

_QUARTER_TURNS = {
    90.0: Image.Transpose.ROTATE_270,  # Pillow counts the other way round
    180.0: Image.Transpose.ROTATE_180,
    270.0: Image.Transpose.ROTATE_90,
}


def render_turned(
    image: DecodedImage,
    window: Box | None,
    angle: float,
    limits: PixelLimits,
    *,
    image_index: int = 0,
    jpeg_above: int | None = None,
) -> View:
    """As `resize.render`, of the image turned by `angle` degrees clockwise.

    Args:
        image: The original.
        window: The part to show, in pixels of the turned image's frame. None: all of it.
        angle: Any finite number of degrees.
        limits: Those of the model that will see it.
        image_index: The image's place in its query.
        jpeg_above: As in `render`.

    Returns:
        A view whose `turned` says how it lies, and whose `region` is the smallest box of the original that holds what
        it shows.

    Raises:
        BoxError: The window shows nothing of the image.
        ImageError: The window lies outside the frame, or is more than 200 times as long as wide.
    """
    angle = clockwise(angle)
    if angle == 0.0:
        return render(image, window, limits, image_index=image_index, jpeg_above=jpeg_above)
    frame = turned_size(image.size, angle)
    whole = Box(0.0, 0.0, *frame)
    shown = whole if window is None else whole.intersect(window)
    if shown is None:
        raise ImageError(f"The window {window} holds no part of the frame, which is {frame[0]:g} x {frame[1]:g}.")
    size = view_size(shown.width, shown.height, limits)
    pixels = turned_pixels(image, shown, angle, size)
    encoded, mime = encoded_view(pixels, image, jpeg_above)
    view = View(image_index, unturn_box(shown, image.size, angle), size, encoded, mime)
    return replace(view, turned=Turned(angle, shown, frame))


def turned_pixels(image: DecodedImage, window: Box, angle: float, size: tuple[int, int]) -> Image.Image:
    """A window of the turned image as an RGB picture of (width, height) pixels.

    Raises:
        BoxError: The window shows nothing of the image.
    """
    needed = unturn_box(window, image.size, angle)
    if turn := _QUARTER_TURNS.get(clockwise(angle)):
        lying = size if turn is Image.Transpose.ROTATE_180 else (size[1], size[0])
        return resized(image, needed, lying).transpose(turn)
    # Pillow's turning does not smooth what it makes smaller, so that is done before, with a margin for the filter.
    across, down = window.width / size[0], window.height / size[1]
    scale = min(1.0, 1 / min(across, down))
    needed = needed.grow(4 / scale).clamp(*image.size)
    part = resized(image, needed, (max(1, round(needed.width * scale)), max(1, round(needed.height * scale))))
    x_scale, y_scale = part.width / needed.width, part.height / needed.height
    cos, sin = cos_sin(angle)
    left, top = unturn_point(window.left, window.top, image.size, angle)
    back = (
        cos * across * x_scale,
        sin * down * x_scale,
        (left - needed.left) * x_scale,
        -sin * across * y_scale,
        cos * down * y_scale,
        (top - needed.top) * y_scale,
    )
    return part.transform(size, Image.Transform.AFFINE, back, Image.Resampling.BICUBIC, fillcolor=EMPTY)
