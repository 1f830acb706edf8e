"""The head of a GGUF file, whole, cut and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speceyes.engines.gguf import read_header
from speceyes.errors import ConfigError


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def text_value(key: str, value: str) -> bytes:
    return string(key) + struct.pack("<I", 8) + string(value)


def number_value(key: str, value: int) -> bytes:
    return string(key) + struct.pack("<II", 4, value)


def tensor(name: str, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape) + struct.pack("<IQ", kind, offset)


def gguf(values: list[bytes], tensors: list[bytes], data: int) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values)) + b"".join(values + tensors)
    return head + bytes(-len(head) % 32) + bytes(data)


WORDS = string("words") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("bc")
SIZES = string("sizes") + struct.pack("<IIQ3f", 9, 6, 3, 1.0, 2.0, 3.0)
VALUES = [
    text_value("general.architecture", "tiny"),
    WORDS,
    SIZES,
    number_value("tiny.context_length", 512),
]
TENSORS = [tensor("a", (8, 4), 0, 0), tensor("b", (16,), 1, 128)]
WHOLE = gguf(VALUES, TENSORS, 160)


def test_head_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.write_bytes(WHOLE)

    header = read_header(file)

    assert header.architecture == "tiny"
    assert header.model_number("context_length") == 512
    assert header.model_number("block_count") is None
    assert header.metadata["words"] == 2
    assert header.metadata["sizes"] == 3
    # 128 bytes of 8 x 4 in F32, then 32 bytes of 16 in F16.
    assert header.least_size == len(WHOLE)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(length=st.integers(0, len(WHOLE) - 1))
def test_cut_anywhere_is_refused_by_name(tmp_path: Path, length: int) -> None:
    file = tmp_path / "cut.gguf"
    file.write_bytes(WHOLE[:length])
    with pytest.raises(ConfigError, match=r"cut\.gguf"):
        read_header(file)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    place=st.integers(4, len(WHOLE) - 161),
    noise=st.binary(min_size=1, max_size=24),
)
def test_damage_raises_nothing_but_config_error(tmp_path: Path, place: int, noise: bytes) -> None:
    damaged = bytearray(WHOLE)
    damaged[place : place + len(noise)] = noise
    file = tmp_path / "damaged.gguf"
    file.write_bytes(damaged)
    try:
        least_size = read_header(file).least_size
    except ConfigError as error:
        said, least_size = str(error), 0
    else:  # the noise hit something that may have any value
        said = "damaged.gguf"
    assert "damaged.gguf" in said
    assert least_size <= len(damaged)


def test_what_is_no_model_file(tmp_path: Path) -> None:
    other = tmp_path / "model.safetensors"
    other.write_bytes(b"\x08\x00\x00\x00{}")
    with pytest.raises(ConfigError, match="is not a GGUF file: convert"):
        read_header(other)

    pointer = tmp_path / "pointer.gguf"
    pointer.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
    with pytest.raises(ConfigError, match="git lfs pull"):
        read_header(pointer)

    with pytest.raises(ConfigError, match="No such file"):
        read_header(tmp_path / "missing.gguf")
    with pytest.raises(ConfigError, match="directory"):
        read_header(tmp_path)
