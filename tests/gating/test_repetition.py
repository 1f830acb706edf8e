"""Loops are found; answers that repeat a little are left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.gating import is_repetitive
from speceyes.gating.repetition import MAX_PERIOD, MIN_REPEATS, MIN_SPAN


@pytest.mark.parametrize(
    "text",
    [
        "no " * 11,
        "The sign is red. " * 4,
        "The sign is red. The sign is red. The sign is red. The sign is red. The si",
        "Let me look. " + "I see a car, I see a dog; " * 6 + "   \n",
        "!" * 40,
        "车" * 40,
        ("x" * 200 + "y" * 50) * 4,
    ],
)
def test_loops(text):
    assert is_repetitive(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " " * 100,
        "B",
        "no, no, no",
        "1000000",
        "0.3333333333333333",
        "The sign is red. The sign is red. The sign is red.",
        "The red car is left of the blue car, and the blue car is left of the red van.",
        "no " * 11 + "but the second sign from the left is clearly green",
    ],
)
def test_answers(text):
    assert not is_repetitive(text)


@given(st.text(max_size=50), st.text(alphabet="abcdef ", min_size=1, max_size=60))
def test_anything_said_forty_times_is_a_loop(start, part):
    if part.strip():
        assert is_repetitive(start + part * 40)


class Watched(str):
    """A text that knows how much of it was looked at."""

    looked_at = 0

    def __getitem__(self, part):
        piece = super().__getitem__(part)
        self.looked_at += len(piece)
        return piece


def test_only_the_end_of_a_long_text_is_looked_at():
    text = Watched("ab" * 5_000_000 + "".join(chr(0x4E00 + i) for i in range(2000)))
    assert not is_repetitive(text)
    assert 0 < text.looked_at <= MAX_PERIOD * MIN_REPEATS + MIN_SPAN
