"""What is given into a sandbox: the code that keeps it, and pictures as PNG files."""

from __future__ import annotations

from pathlib import Path

from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.view import PNG, encode

INSIDE = Path(__file__).with_name("inside")
"""To be mounted at `/sandbox/inside`."""
START = "import sys; sys.path.insert(0, '/sandbox'); from inside.keeper import main; sys.path.pop(0); main()"
"""The Python that becomes process 1."""


def png_of(image: DecodedImage) -> bytes:
    """All pixels of an image, upright, as a PNG. Bound by the processor: run it in a thread."""
    if image.plain and image.format == "PNG":
        return image.source
    return encode(image.pixels, PNG)
