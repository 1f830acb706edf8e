"""What a model saw: a part of an original image at the exact size that was sent."""

from __future__ import annotations

import base64
import hashlib
import io
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from PIL import Image

from speceyes.imaging.geometry import Box
from speceyes.imaging.turning import Turned

if TYPE_CHECKING:
    from speceyes.imaging.decode import DecodedImage

PNG = "image/png"
JPEG = "image/jpeg"
JPEG_QUALITY, JPEG_AGAIN_QUALITY = 92, 95
"""Of views that are sent as JPEG, and of those of a picture that came as one: twice the loss, but small."""


@dataclass(frozen=True)
class View:
    """A picture as a model saw it. The whole image is the view whose region is the full frame.

    Attributes:
        image_index: Which of the query's images it shows, from 0.
        region: The part that it shows, in pixels of the original image.
        size: (width, height) in pixels of the picture that the model saw.
        encoded: The bytes that are sent.
        mime: Their type, for example `image/png`.
        turned: How it lies, where it shows the image turned. `region` then holds all that it shows.
        made: Where a tool made the picture (a chart, a mask): that picture, at full size. It is what `region` is a
            part of, and no image of the query.
    """

    image_index: int
    region: Box
    size: tuple[int, int]
    encoded: bytes = field(repr=False)
    mime: str = PNG
    turned: Turned | None = None
    made: DecodedImage | None = field(default=None, repr=False, compare=False)

    @cached_property
    def pixels(self) -> Image.Image:
        """The picture that was sent, unpacked, RGB. Treat it as read-only: threads share it."""
        return Image.open(io.BytesIO(self.encoded)).convert("RGB")

    @cached_property
    def png(self) -> bytes:
        """The picture as a PNG, whatever form was sent."""
        return self.encoded if self.mime == PNG else encode(self.pixels, PNG)

    @cached_property
    def data_url(self) -> str:
        """The bytes that are sent, as a `data:` URL for the chat API."""
        return f"data:{self.mime};base64,{base64.b64encode(self.encoded).decode('ascii')}"

    @cached_property
    def sha256(self) -> str:
        """Hex digest of the bytes that are sent: a name for logs and records."""
        return hashlib.sha256(self.encoded).hexdigest()


def encode(pixels: Image.Image, mime: str, quality: int = JPEG_QUALITY) -> bytes:
    """An RGB picture as PNG (level 1: fast) or JPEG (full colour resolution keeps text sharp)."""
    out = io.BytesIO()
    if mime == PNG:
        pixels.save(out, "PNG", compress_level=1)
    elif mime == JPEG:
        pixels.save(out, "JPEG", quality=quality, subsampling=0)
    else:
        raise ValueError(f"views are sent as {PNG} or {JPEG}, not as {mime!r}")
    return out.getvalue()
