"""How the nano models name places, and the boxes that the agent asks to see up close.

A place is a column and a row from 0 to 9: one digit each, and a straight line from where a sign is to what is said of
it. (Halves of the first look's 6 x 6 cells were not learned: left, right, left, right along the picture is no line.)
The boxes follow from what the agent has just said; exact ones are a hard lesson for a model of this size, and a crop
that holds the whole sign, large enough to read, is all that its next turn needs.
"""

from __future__ import annotations

from speceyes.evals.datasets.scenes import SIDE, Sign

LOOK = 192
"""Width and height of every picture that a nano model sees."""
PLACES = 10
"""Columns and rows of places."""
SMALL_BOX, LARGE_BOX = 32, 96
"""Sides of the boxes in pixels of the first look: a place, and what a sign of that size reaches beyond it."""


def place(sign: Sign) -> tuple[int, int]:
    """Column and row of the sign's centre."""
    return int(sign.x * PLACES / SIDE), int(sign.y * PLACES / SIDE)


def look_box(sign: Sign) -> list[int]:
    """The box around the sign's place that the agent asks for, in pixels of the first look."""
    side = SMALL_BOX if sign.small else LARGE_BOX
    centres = [round((at + 0.5) * LOOK / PLACES) for at in place(sign)]
    return _box(centres, side, LOOK)


def round_box(sign: Sign, frame: int, margin: float = 0.0) -> list[int]:
    """Nearly the same part in a frame that is about 1,000 wide, in numbers that follow digit by digit from the place.

    Places are taken to be 100 wide, so that of each number only the first digit depends on the place. That is at most
    a quarter of a place beside the exact box, and as wide.

    Args:
        sign: What is to be seen.
        frame: Width and height of the frame.
        margin: Added on each side, as a share of the box's side.
    """
    side = round((SMALL_BOX if sign.small else LARGE_BOX) * (1 + 2 * margin) * frame / LOOK)
    return _box([100 * at + 50 for at in place(sign)], side, frame)


def _box(centres: list[int], side: int, frame: int) -> list[int]:
    left, top = (min(max(0, centre - side // 2), frame - side) for centre in centres)
    return [left, top, left + side, top + side]
