"""Lines of tab-separated tables."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence


def table_line(cells: Sequence[str | int]) -> bytes:
    """One row; cells are quoted as in CSV where they must be."""
    out = io.StringIO()
    csv.writer(out, delimiter="\t", lineterminator="\n").writerow(cells)
    return out.getvalue().encode()
