"""Images: from a user's bytes to what a model sees, and from a model's boxes back to the original pixels.

    bytes --decode--> DecodedImage --render--> View --(a model names a box)--> to_original --> crop_region
                                     ^                                                          |
                                     +------------------- render that region -------------------+

Orientation is applied once, at `decode`. Pixels are resized once, in `render`, always from the original. A
`View` records the region and the exact size, so a box in any coordinate system has exactly one way back.

Everything here is bound by the processor and keeps no state between calls: run it in a thread (`await
asyncio.to_thread(decode, data)`) and as often at once as you like. Pillow releases the interpreter lock while
it decodes, resizes and compresses.
"""

from speceyes.imaging.decode import DEFAULT_LIMITS, DecodedImage, DecodeLimits, decode, load
from speceyes.imaging.geometry import Box, Coordinates, crop_region, from_original, parse_box, to_original
from speceyes.imaging.resize import QWEN2_5_VL, QWEN3_VL, PixelLimits, render, smart_size, view_size
from speceyes.imaging.turned_views import render_turned
from speceyes.imaging.turning import Turned, turn_box, turned_size, unturn_box
from speceyes.imaging.view import View

__all__ = [
    "DEFAULT_LIMITS",
    "QWEN2_5_VL",
    "QWEN3_VL",
    "Box",
    "Coordinates",
    "DecodeLimits",
    "DecodedImage",
    "PixelLimits",
    "Turned",
    "View",
    "crop_region",
    "decode",
    "from_original",
    "load",
    "parse_box",
    "render",
    "render_turned",
    "smart_size",
    "to_original",
    "turn_box",
    "turned_size",
    "unturn_box",
    "view_size",
]
