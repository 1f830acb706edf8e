"""The head of a GGUF file: what a model is, and whether the file is whole.

llama.cpp says little when it cannot load a file, and takes what it is given when a projector belongs to
another model or makes tokens of another size. So we look first. Format: the GGUF specification, version 2 and
3, of the ggml project.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speceyes.errors import ConfigError

MAGIC = b"GGUF"
PROJECTOR = "clip"
"""The architecture that image projectors (mmproj files) give."""

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}
_STRING, _ARRAY = 8, 9
_ELEMENT_BYTES = {0: 4, 1: 2, 30: 2}
"""Bytes of one element in the tensor types F32, F16 and BF16; the others are packed in blocks."""
_LONGEST = 1 << 32
"""No string and no array is longer in a file that is not damaged."""

Scalar = int | float | bool | str


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What the head of a GGUF file says.

    Attributes:
        path: The file.
        metadata: Keys and values. Of lists only the length is kept, as a number under the list's key.
        least_size: Bytes that the file must have for its tensors to be inside it.
    """

    path: Path
    metadata: Mapping[str, Scalar]
    least_size: int

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def number(self, key: str) -> int | None:
        """A whole number, or None where the file does not give one."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def model_number(self, key: str) -> int | None:
        """A whole number under the architecture's own name, such as `context_length`."""
        return self.number(f"{self.architecture}.{key}")


def read_header(path: Path) -> GgufHeader:
    """Read the head of a GGUF file, and check that the file is not cut off.

    Raises:
        ConfigError: There is no such file, it is no GGUF file, or it is damaged.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise ConfigError(
                    f"{path} is not a GGUF file{_pointer(path, size)}: convert the model for llama.cpp first"
                )
            header = _read(path, file)
    except OSError as error:
        raise ConfigError(f"cannot read the model file {path}: {error.strerror or error}") from error
    except (struct.error, ArithmeticError, LookupError, ValueError, MemoryError, RecursionError) as error:
        raise ConfigError(f"{path} is damaged: its head cannot be read; fetch it again") from error
    if size < header.least_size:
        raise ConfigError(f"{path} is cut off: {size:,} bytes of {header.least_size:,} or more; fetch it again")
    return header


def _pointer(path: Path, size: int) -> str:
    """Cloned without Git LFS, a file is a few lines of text in its place."""
    if size < 1024 and path.read_bytes().startswith(b"version https://git-lfs"):
        return " but a Git LFS pointer (run `git lfs pull`)"
    return ""


def _read(path: Path, file: BinaryIO) -> GgufHeader:
    _version, tensors, keys = struct.unpack("<IQQ", file.read(20))
    metadata: dict[str, Scalar] = {}
    for _ in range(keys):
        name = _string(file)
        metadata[name] = _value(file, _number(file, "<I"))
    end_of_data = 0
    for _ in range(tensors):
        end_of_data = max(end_of_data, _tensor_end(file))
    alignment = int(metadata.get("general.alignment", 32))
    begin = -(-file.tell() // alignment) * alignment
    return GgufHeader(path, metadata, begin + end_of_data)


def _tensor_end(file: BinaryIO) -> int:
    """Where a tensor ends in the data, at least: of packed types only where they begin is known here."""
    _string(file)
    elements = 1
    for _ in range(_number(file, "<I")):
        elements *= _number(file, "<Q")
    kind, offset = _number(file, "<I"), _number(file, "<Q")
    return offset + elements * _ELEMENT_BYTES.get(kind, 0)


def _value(file: BinaryIO, kind: int) -> Scalar:
    if kind == _STRING:
        return _string(file)
    if kind != _ARRAY:
        layout = _SCALARS[kind]
        value: Scalar = struct.unpack(layout, file.read(struct.calcsize(layout)))[0]
        return value
    element, length = _number(file, "<I"), _bounded(_number(file, "<Q"))
    if element in _SCALARS:
        file.seek(length * struct.calcsize(_SCALARS[element]), 1)
    else:
        for _ in range(length):
            _value(file, element)
    return length


def _string(file: BinaryIO) -> str:
    length = _bounded(_number(file, "<Q"))
    text = file.read(length)
    if len(text) < length:
        raise struct.error("the file ends inside a string")
    return text.decode()


def _number(file: BinaryIO, layout: str) -> int:
    value: int = struct.unpack(layout, file.read(struct.calcsize(layout)))[0]
    return value


def _bounded(length: int) -> int:
    if length > _LONGEST:
        raise struct.error("a length that cannot be true")
    return length
