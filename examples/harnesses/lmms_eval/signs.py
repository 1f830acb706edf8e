"""Pictures of a local Parquet file for lmms-eval, which decodes them itself only where the file comes from the hub."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image


def pictures(row: dict[str, Any]) -> list[Image.Image]:
    """The one picture of a row."""
    found = row["image"]
    picture = Image.open(io.BytesIO(found["bytes"])) if isinstance(found, dict) else found
    return [picture.convert("RGB")]
