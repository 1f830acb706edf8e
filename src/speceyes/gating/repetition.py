"""Does a text end in a loop? A model caught in one is often very sure of every token."""

from __future__ import annotations

MAX_PERIOD = 256
"""Longest repeated part that is looked for, in characters."""
MIN_REPEATS = 4
MIN_SPAN = 32
"""Least length of the repetition, in characters: `1000000` and `no, no, no` are answers."""


def is_repetitive(text: str) -> bool:
    """Whether the text ends in one part that is said over and over.

    The part has up to 256 characters and is said at least four times, over at least 32 characters. Behind
    these it may be cut off anywhere; white space at the end is left aside. The cost does not grow with the
    text.
    """
    tail = text[-MAX_PERIOD * MIN_REPEATS - MIN_SPAN :].rstrip()
    for period in range(1, MAX_PERIOD + 1):
        # One less: the space that parts the repeats may be missing after the last.
        span = max(MIN_REPEATS * period - 1, MIN_SPAN)
        if span > len(tail):
            return False
        # The last `span` characters repeat with this period where they equal themselves shifted by it.
        if tail[-span:-period] == tail[-span + period :]:
            return True
    return False
