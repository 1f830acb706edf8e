"""Any picture that Pillow can decode, as 8-bit RGB."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

_WITH_ALPHA = {"RGBA", "LA", "PA", "RGBa", "La"}


def to_rgb(image: Image.Image) -> Image.Image:
    """The picture in RGB; `image` itself where it is that already.

    Transparency shows white. 16-bit grey is scaled by its full range (PNG), or by the smallest of 8, 12 and
    16 bits that holds its brightest pixel (elsewhere: cameras store 12 bits in 16). 32-bit and floating-point
    grey is read as 0-1, 0-255 or 0-65535, the first that holds all values, or else stretched from its darkest
    to its brightest; NaN is black.

    Raises:
        ValueError: There is no conversion from the picture's mode.
    """
    if image.mode.startswith("I;16"):
        return _sixteen_bit(image).convert("RGB")
    if image.mode in ("I", "F"):
        return _wide_range(image).convert("RGB")
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        return _on_white(image.convert("RGBA"))
    return image if image.mode == "RGB" else image.convert("RGB")


def _on_white(image: Image.Image) -> Image.Image:
    page = Image.new("RGB", image.size, "white")
    page.paste(image, mask=image.getchannel("A"))
    return page


def _sixteen_bit(image: Image.Image) -> Image.Image:
    values = np.asarray(image)
    bits = 16 if image.format == "PNG" else max(8, 4 * -(-int(values.max()).bit_length() // 4))
    return Image.fromarray((values >> (bits - 8)).astype(np.uint8))


def _wide_range(image: Image.Image) -> Image.Image:
    values: npt.NDArray[np.float32] = np.asarray(image, dtype=np.float32)
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if image.mode == "I" and image.format == "PNG":
        low, high = 0.0, 65535.0  # older Pillow versions open 16-bit PNG in this mode
    elif low >= 0 and high <= 65535:
        low, high = 0.0, next(top for top in (1.0, 255.0, 65535.0) if high <= top)
    if low == high:
        return Image.new("L", image.size)
    # Halved, so that even the widest float32 range does not overflow.
    share = (values / 2 - low / 2) / (high / 2 - low / 2)
    grey = np.nan_to_num(np.clip(share, 0.0, 1.0) * 255.0, nan=0.0)
    return Image.fromarray(np.rint(grey).astype(np.uint8))
