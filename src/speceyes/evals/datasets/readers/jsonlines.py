"""JSON lines: one object a line, empty lines passed over."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.collecting import Collector, Fault


def read_lines(path: Path, texts: Sequence[str], collector: Collector) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file and line, object) of each line.

    Args:
        path: The file.
        texts: Fields that must be there and be texts.
        collector: Is told of lines that are no such object.

    Raises:
        DatasetError: The file cannot be read, or a line is damaged, unless faults are kept.
    """
    collector.note_file(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                collector.fault(Fault(where, f"it is not JSON ({error})", "Write one object a line."))
                continue
            if not isinstance(row, dict):
                collector.fault(Fault(where, "it is no object", f"It needs the texts {', '.join(texts)}."))
            elif wrong := [name for name in texts if not isinstance(row.get(name), str)]:
                collector.fault(Fault(where, f"it needs a text as {', '.join(wrong)}", "Mend the line."))
            else:
                yield where, row


def first_line(path: Path) -> dict[str, Any] | None:
    """The object on the first line; None where there is none. For telling file forms apart."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            row = json.loads(next((line for line in file if line.strip()), ""))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) else None
