"""Pictures inside tables: base64 in a cell, bytes in a column, or the name of a file."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speceyes.imaging.decode import DecodedImage


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that has not been looked at yet.

    Attributes:
        name: `sha256:...` of its file's bytes, the same in whatever form it comes.
        load: Decodes it. Raises ImageError.
    """

    name: str
    load: Callable[[], DecodedImage]


def decoded_base64(cell: bytes) -> bytes:
    """The bytes behind base64, also behind a `data:` URL.

    Raises:
        ValueError: It is not base64.
    """
    if cell[:5] == b"data:":
        cell = cell.partition(b",")[2]
    try:
        return base64.b64decode(cell.strip(), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64 ({error})") from error


def cell_bytes(cell: Any) -> bytes | None:
    """The file in a Parquet cell: bytes, a struct with `bytes` in it, or base64; None where there is none.

    Raises:
        ValueError: A text is not base64.
    """
    if isinstance(cell, dict):
        cell = cell.get("bytes")
    if isinstance(cell, str):
        return decoded_base64(cell.encode("ascii", "replace")) if cell else None
    return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) and len(cell) else None


def hash_of(data: bytes) -> str:
    """`sha256:...` of a file's bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def below(folder: Path, name: str) -> Path | None:
    """The path of a file that a table names; None where it would lie outside the folder."""
    path = folder / name
    inside = not Path(name).is_absolute() and ".." not in Path(name).parts
    return path if inside and name.strip() else None
