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
    left, top = (min(max(0, centre - side // 2), LOOK - side) for centre in centres)
    return [left, top, left + side, top + side]
