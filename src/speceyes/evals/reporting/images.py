"""The pictures of the cases: each in the page once, small, and all of them within a budget."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from PIL import Image, UnidentifiedImageError

from speceyes.evals.reporting.cases import Case
from speceyes.evals.runs import EvalRun

SIDE: Final = 560
QUALITY: Final = 76
BUDGET: Final = 6_000_000
"""Bytes of picture data in one page, as they stand in it."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture in the page.

    Attributes:
        name: Its id there.
        size: (width, height) in pixels of the original, which crops are measured in.
        exact: Whether that size is known. If not, it is the thumbnail's, and no crop can be drawn.
    """

    name: str
    size: tuple[int, int]
    exact: bool


@dataclass(slots=True)
class Album:
    """The pictures of a page.

    Attributes:
        places: By run and thumbnail.
        data: The pictures themselves, by id, as data URLs.
        used: Bytes so far.
        left_out: Pictures that the budget had no room for.
        missing: Questions whose run keeps no thumbnail that can be read.
    """

    budget: int = BUDGET
    places: dict[tuple[int, str], Shown] = field(default_factory=dict)
    data: dict[str, str] = field(default_factory=dict)
    used: int = 0
    left_out: int = 0
    missing: int = 0

    def of(self, case: Case) -> Shown | None:
        """The picture of a case, where it is in the page."""
        return self.places.get((case.run, case.sample.image or ""))


def collect(cases: Sequence[Case], runs: Sequence[EvalRun], budget: int = BUDGET) -> Album:
    """The cases' pictures, in their order, as many as the budget has room for."""
    album = Album(budget)
    refused: set[tuple[int, str]] = set()
    for case in cases:
        key = (case.run, case.sample.image or "")
        path = runs[case.run].picture(case.sample)
        if key in album.places or key in refused:
            continue
        packed = None if path is None else packed_picture(path)
        if packed is None:
            album.missing += 1
            refused.add(key)
            continue
        url, size = packed
        if album.used + len(url) > album.budget:
            album.left_out += 1
            refused.add(key)
            continue
        name = f"p{len(album.data)}"
        album.data[name], album.used = url, album.used + len(url)
        album.places[key] = Shown(name, case.sample.size or size, case.sample.size is not None)
    return album


def packed_picture(path: Path) -> tuple[str, tuple[int, int]] | None:
    """A thumbnail as a small JPEG in a data URL, and its own size; None where it cannot be read."""
    try:
        with Image.open(path) as opened:
            picture = opened.convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError):
        return None
    size = picture.size
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode('ascii')}", size
