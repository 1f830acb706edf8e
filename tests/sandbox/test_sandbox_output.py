"""What comes out of a sandbox as text."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ConfigError
from speceyes.sandbox import Limits
from speceyes.sandbox.conformance.samples import png_bomb
from speceyes.sandbox.output import outcome, readable


@given(st.binary())
def test_any_bytes_become_text_that_prints_and_encodes(data: bytes) -> None:
    text = readable(data)
    text.encode("utf-8")
    assert not [char for char in text if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_printable_text_is_left_alone(text: str) -> None:
    assert readable(text.encode()) == text


def end(**more: Any) -> dict[str, Any]:
    said = {"stdout": 0, "stderr": 0}
    return {
        "ended": "done",
        "status": None,
        "error": None,
        "notes": [],
        "files": [],
        "said": said,
        "seconds": 1.25,
        **more,
    }


@pytest.mark.parametrize(
    ("ended", "status", "said"),
    [
        ("timeout", None, "stopped after 1.2 s: it took too long"),
        ("died", -9, "killed by signal 9 (SIGKILL)"),
        ("died", -11, "killed by signal 11 (SIGSEGV, as after recursion without an end)"),
        ("died", -31, "killed by signal 31 (SIGSYS, for a refused system call)"),
        ("died", -24, "more than 120 s of processor time"),
        ("died", -99, "killed by signal 99 (unknown)"),
        ("died", 3, "with exit code 3"),
        ("files", None, "more than 5,000 files"),
        ("damaged", None, "the interpreter's own channel"),
    ],
)
async def test_each_way_to_end_has_its_words(ended: str, status: int | None, said: str) -> None:
    found = await outcome(end(ended=ended, status=status), {"stdout": b"", "stderr": b""}, [], Limits())
    assert said in (found.error or "")
    assert found.state_lost
    assert found.timed_out == (ended == "timeout")
    assert any("gone" in note for note in found.notes)


async def test_a_cut_stream_says_so() -> None:
    limits = Limits(output_chars=5)
    told = end(said={"stdout": 1000, "stderr": 5})
    found = await outcome(told, {"stdout": b"abcdefgh", "stderr": b"abcde"}, [], limits)
    assert (found.stdout, found.stderr) == ("abcde", "abcde")
    assert found.notes == ("The output was cut after 5 characters, of 1,000 bytes.",)


async def test_pictures_are_decoded_within_limits_and_only_of_three_formats() -> None:
    streams = {"stdout": b"", "stderr": b""}
    pictures = [
        ("a.png", png_bomb(64)),
        ("bomb.png", png_bomb(9000)),
        ("x.gif", b"GIF89a"),
        ("y.png", b"\x89PNG\r\n\x1a\n"),
    ]
    found = await outcome(end(), streams, pictures, Limits(picture_pixels=10_000))
    assert [(one.name, one.image.size) for one in found.pictures] == [("a.png", (64, 64))]
    assert len(found.notes) == 3
    assert all("left out" in note for note in found.notes)


@pytest.mark.parametrize("field", ["wall_s", "processes", "output_chars"])
def test_limits_are_positive(field: str) -> None:
    with pytest.raises(ConfigError, match=f"{field} is 0"):
        Limits(**{field: 0})
