"""The one resize: to a size that the model's own processor leaves alone, so that no server resizes again."""

from __future__ import annotations

import math
from dataclasses import dataclass

from PIL import Image

from speceyes.errors import ConfigError, ImageError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box
from speceyes.imaging.view import JPEG, JPEG_AGAIN_QUALITY, JPEG_QUALITY, PNG, View, encode

MAX_ASPECT = 200
"""The families' processors refuse pictures whose long side is more than this many times the short one."""

_REDUCING_GAP = 3.0
"""Above this many times the filter's needs, Pillow first averages whole blocks of pixels: four times as fast,
and hardly visible."""

_ENOUGH = 1.5
"""Unpacked at so many times the size that is wanted, a JPEG gives the filter all that it can use: the difference is far
below the loss by which it came (45 dB on pictures with a natural spectrum)."""


@dataclass(frozen=True, slots=True)
class PixelLimits:
    """What a model family's image processor accepts.

    Attributes:
        factor: Both sides are multiples of it: the patch size times the merge size. One merged token covers
            factor x factor pixels.
        min_pixels: Least width x height.
        max_pixels: Most width x height.

    Raises:
        ConfigError: No picture can satisfy the three together.
    """

    factor: int
    min_pixels: int
    max_pixels: int

    def __post_init__(self) -> None:
        if self.factor < 1 or self.min_pixels < 1:
            raise ConfigError(f"{self}: factor and min_pixels must be positive")
        # A shape with more rows than columns exists only if its mirror image does.
        rows_to_try = range(math.isqrt(self.max_pixels // self.factor**2), 0, -1)
        if not any(self.columns(rows) for rows in rows_to_try):
            raise ConfigError(
                f"{self}: no two multiples of {self.factor} multiply to that many pixels; raise max_pixels"
            )

    def columns(self, rows: int) -> range:
        """With that many rows of factor pixels, the numbers of columns that the processor leaves alone."""
        cell = self.factor**2
        least, most = -(-self.min_pixels // cell), self.max_pixels // cell
        low = max(-(-least // rows), -(-rows // MAX_ASPECT))
        return range(low, min(most // rows, rows * MAX_ASPECT) + 1)

    def tokens(self, size: tuple[int, int]) -> int:
        """How many image tokens a picture of this (width, height) becomes, without start and end marks."""
        return (size[0] // self.factor) * (size[1] // self.factor)

    def accepts(self, size: tuple[int, int]) -> bool:
        """Whether the processor takes a picture of this (width, height) without resizing or refusing it."""
        width, height = size
        return (
            min(size) > 0
            and width % self.factor == 0
            and height % self.factor == 0
            and self.min_pixels <= width * height <= self.max_pixels
            and max(size) <= MAX_ASPECT * min(size)
        )


QWEN2_5_VL = PixelLimits(28, 4 * 28**2, 16384 * 28**2)
"""Qwen2-VL and Qwen2.5-VL, and models trained from them (DeepEyes, Thyme): patches of 14, merged 2 x 2."""
QWEN3_VL = PixelLimits(32, 4 * 32**2, 16384 * 32**2)
"""Qwen3-VL: patches of 16, merged 2 x 2."""


def smart_size(width: float, height: float, limits: PixelLimits) -> tuple[int, int]:
    """The size that the Qwen-VL processors resize a picture to.

    As `smart_resize` of Hugging Face transformers (models/qwen2_vl, version 4.57, which serves Qwen3-VL too):
    with f the factor, each side is rounded to a multiple of f (ties to even). Where the area is then above
    the maximum, both sides are divided by beta = sqrt(width * height / max_pixels) and rounded down to a
    multiple of f, but not below f; where it is under the minimum, they are multiplied by beta =
    sqrt(min_pixels / (width * height)) and rounded up.

    Returns:
        (width, height) in pixels.

    Raises:
        ImageError: A side is zero, or one is more than 200 times the other.
    """
    _check_aspect(width, height)
    factor = limits.factor
    new_width, new_height = round(width / factor) * factor, round(height / factor) * factor
    if new_width * new_height > limits.max_pixels:
        beta = math.sqrt(width * height / limits.max_pixels)
        new_width = max(factor, math.floor(width / beta / factor) * factor)
        new_height = max(factor, math.floor(height / beta / factor) * factor)
    elif new_width * new_height < limits.min_pixels:
        beta = math.sqrt(limits.min_pixels / (width * height))
        new_width = math.ceil(width * beta / factor) * factor
        new_height = math.ceil(height * beta / factor) * factor
    return new_width, new_height


def view_size(width: float, height: float, limits: PixelLimits) -> tuple[int, int]:
    """The size at which to send a picture: `smart_size`, where the server's processor leaves that alone.

    Rounding can leave the limits (a very thin picture, or limits so close together that rounding down from
    above lands below). The server would then resize a second time and the model would speak of a picture that
    we never saw. In those cases the size is the one nearest in shape that the processor leaves alone.

    Raises:
        ImageError: As `smart_size`.
    """
    size = smart_size(width, height, limits)
    return size if limits.accepts(size) else _nearest_accepted(width / height, size, limits)


def _nearest_accepted(aspect: float, size: tuple[int, int], limits: PixelLimits) -> tuple[int, int]:
    """Of the sizes that the processor leaves alone, the one least changed in shape and area, by ratio."""
    wanted = min(max(size[0] * size[1], limits.min_pixels), limits.max_pixels) / limits.factor**2
    candidates = []
    for rows in range(1, limits.max_pixels // limits.factor**2 + 1):
        if allowed := limits.columns(rows):
            columns = min(max(round(rows * aspect), allowed[0]), allowed[-1])
            change = abs(math.log(columns / rows / aspect)) + abs(math.log(rows * columns / wanted))
            # Rounded, and the wider one first, so that a tie does not hang on the last bit.
            candidates.append((round(change, 9), rows, columns))
    _, rows, columns = min(candidates)
    return columns * limits.factor, rows * limits.factor


def _check_aspect(width: float, height: float) -> None:
    if min(width, height) <= 0:
        raise ImageError(f"A picture of {width:g} x {height:g} pixels has no area.")
    if max(width, height) / min(width, height) > MAX_ASPECT:
        raise ImageError(
            f"A picture of {width:g} x {height:g} pixels is too thin: "
            f"one side may be at most {MAX_ASPECT} times the other."
        )


def render(
    image: DecodedImage,
    region: Box | None,
    limits: PixelLimits,
    *,
    image_index: int = 0,
    jpeg_above: int | None = None,
) -> View:
    """What a model is shown of an image: the region, cut from the original pixels, resized once, encoded once.

    A whole image that has the size already goes as the bytes that came, where these are `plain`.

    Args:
        image: The original.
        region: The part to show in original pixels, or None for all of it. What lies outside the image is cut
            off.
        limits: Those of the model that will see it.
        image_index: The image's place in its query, for the record.
        jpeg_above: Views of more pixels than this are sent as JPEG, smaller ones as PNG; of what came as JPEG, views of
            more than a tenth as many. None: always PNG.

    Raises:
        ImageError: The region lies outside the image, or is more than 200 times as long as wide.
    """
    width, height = image.size
    frame = Box(0.0, 0.0, float(width), float(height))
    shown = frame if region is None else frame.intersect(region)
    if shown is None:
        raise ImageError(f"The region {region} holds no part of the image, which is {width} x {height} pixels.")
    size = view_size(shown.width, shown.height, limits)
    if shown == frame and image.plain and size == image.size:
        return View(image_index, shown, size, image.source, f"image/{image.format.lower()}")
    encoded, mime = encoded_view(resized(image, shown, size), image, jpeg_above)
    return View(image_index, shown, size, encoded, mime)


def resized(image: DecodedImage, region: Box, size: tuple[int, int]) -> Image.Image:
    """A part of an image at this (width, height), from as few pixels as make no difference."""
    across, down = size[0] / region.width, size[1] / region.height
    least = (math.ceil(_ENOUGH * across * image.size[0]), math.ceil(_ENOUGH * down * image.size[1]))
    factor = image.factor(least)
    left, top, right, bottom = (edge / factor for edge in region.as_tuple())
    box = (left, top, right, bottom)
    return image.at(factor).resize(size, Image.Resampling.BICUBIC, box=box, reducing_gap=_REDUCING_GAP)


def encoded_view(pixels: Image.Image, image: DecodedImage, jpeg_above: int | None) -> tuple[bytes, str]:
    """(bytes to send, their type) for a view of an image, as `render` says."""
    area = pixels.width * pixels.height
    if jpeg_above is None or area <= (jpeg_above // 10 if image.format == "JPEG" else jpeg_above):
        return encode(pixels, PNG), PNG
    return encode(pixels, JPEG, JPEG_AGAIN_QUALITY if image.format == "JPEG" else JPEG_QUALITY), JPEG
