"""Queries that cost about the same, told apart by what is known before anybody has been asked."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

_OPTION = re.compile(r"^\s*\(?[A-H][.):]", re.MULTILINE)


def kind_of(sizes: Sequence[tuple[int, int]], question: str) -> str:
    """A kind of query, in words: number of images, about how many pixels, and the form of the question.

    Args:
        sizes: (width, height) of each image.
        question: As it was asked.
    """
    megapixels = sum(width * height for width, height in sizes) / 1e6
    power = max(-3, min(8, round(math.log2(megapixels)))) if megapixels else -3
    form = "options" if len(_OPTION.findall(question)) > 1 else "long" if len(question) > 400 else "open"
    return f"{len(sizes)} images, about {2.0**power:g} MP, {form}"
