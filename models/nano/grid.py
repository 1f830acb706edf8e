"""The grid in which the nano models name places, and the boxes on it that the agent asks to see up close.

Boxes on the grid follow from what the agent has just said (column, row, quarter of the cell, size); exact ones are a
hard lesson for a model of this size, and a crop that holds the whole sign, large enough to read, is all that its next
turn needs.
"""

from __future__ import annotations

from speceyes.evals.datasets.scenes import SIDE, Sign

LOOK = 192
"""Width and height of every picture that a nano model sees."""
CELLS = 6
"""Columns and rows: one cell for each token of the first look."""
SMALL_BOX, LARGE_BOX = 32, 96
"""Sides of the boxes in pixels of the first look: a quarter of a cell, and what such a sign reaches beyond it."""


def cell(sign: Sign) -> tuple[int, int]:
    """Column and row of the sign's centre."""
    return int(sign.x * CELLS / SIDE), int(sign.y * CELLS / SIDE)


def quarter(sign: Sign) -> tuple[int, int]:
    """The part of its cell that the sign's centre is in: (0 left or 1 right, 0 top or 1 bottom)."""
    return int(sign.x * 2 * CELLS / SIDE) % 2, int(sign.y * 2 * CELLS / SIDE) % 2


def look_box(sign: Sign) -> list[int]:
    """The box around the sign's quarter cell that the agent asks for, in pixels of the first look."""
    side = SMALL_BOX if sign.small else LARGE_BOX
    step = LOOK // (2 * CELLS)
    places = [2 * at + half for at, half in zip(cell(sign), quarter(sign), strict=True)]
    left, top = (min(max(0, at * step + step // 2 - side // 2), LOOK - side) for at in places)
    return [left, top, left + side, top + side]
