"""Small benchmark files for tests, written by hand."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from speceyes.evals.datasets.formats.rows import table_line


def png(color: str = "teal", size: tuple[int, int] = (40, 30)) -> bytes:
    """A picture of one colour."""
    out = io.BytesIO()
    Image.new("RGB", size, color).save(out, "PNG")
    return out.getvalue()


def coded(color: str = "teal") -> str:
    """The same in base64."""
    return base64.b64encode(png(color)).decode()


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A tab-separated table with the columns of the first row."""
    columns = list(rows[0])
    lines = [table_line(columns), *(table_line([str(row[name]) for name in columns]) for row in rows)]
    path.write_bytes(b"".join(lines))
    return path


def write_vstar_question(folder: Path, name: str, options: Sequence[str], question: str = "What?") -> None:
    """A question of a V* folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".png").write_bytes(png())
    path.with_suffix(".json").write_text(json.dumps({"question": question, "options": list(options)}))


def turns(question: str, options: Sequence[str], gold: str, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    """A question of HR-Bench in its four rows."""
    rows = []
    for turn in range(4):
        turned = [*options[turn:], *options[:turn]]
        answer = "ABCD"[turned.index(gold)]
        row = {"index": first + turn, "question": question, "answer": answer, "category": "single"}
        rows.append({**row, **dict(zip("ABCD", turned, strict=True)), "cycle_category": turn, "image": coded(), **more})
    return rows
