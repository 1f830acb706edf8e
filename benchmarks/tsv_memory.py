"""How much memory a large HR-Bench table takes: it is opened, and pictures are read from it at random.

    python benchmarks/tsv_memory.py [--gigabytes 5] [--pictures 50] [--folder DIR] [--json FILE]

The real tables have 1.9 and 4.6 GB: 800 rows, each with a picture of several megabytes in base64. This one is made of a
few noise pictures over and over, in a temporary folder that is removed afterwards; the disk must have room for it. The
table is read by a process of its own, whose peak is measured, since writing it is not what is asked about.

Peak: resident memory as the kernel counts it, with the interpreter and all imports in it. Every picture is unpacked to
pixels, which is the largest part: 8K pixels in RGB are 100 MB.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import machine
from speceyes.evals.datasets.formats.rows import table_line
from speceyes.evals.datasets.readers import open_dataset

COLUMNS = ("index", "question", "answer", "category", "A", "B", "C", "D", "cycle_category", "image")
SIDES = (7680, 4320)
TURNS = 4
LIMIT_MB = 500
SPARE = 1.1


def write_table(path: Path, size: int, pictures: int = 4) -> int:
    """Write a table of at least `size` bytes. Returns its rows."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(pictures):
        # Smooth noise: its JPEG has about the size of a photograph's, 4 to 5 MB.
        small = Image.fromarray(rng.integers(0, 256, (SIDES[1] // 16, SIDES[0] // 16, 3), dtype=np.uint8))
        file = io.BytesIO()
        small.resize(SIDES, Image.Resampling.BILINEAR).save(file, "JPEG", quality=75)
        drawn.append(base64.b64encode(file.getvalue()))
    options = ["red", "green", "blue", "white"]
    rows = 0
    with path.open("wb") as file:
        file.write(table_line(COLUMNS))
        while file.tell() < size:
            question, turn = divmod(rows, TURNS)
            turned = options[turn:] + options[:turn]
            category = "single" if question % 2 else "cross"
            text = f"What colour is sign number {question}?"
            cells = (rows, text, "ABCD"[turned.index("red")], category, *turned, f"cycle_{turn}")
            file.write(table_line(cells)[:-1] + b"\t" + drawn[question % pictures] + b"\n")
            rows += 1
    return rows


def read_table(path: Path, pictures: int) -> dict[str, Any]:
    """Open it and unpack pictures at random. The figures are those of this process."""
    before = machine.peak_mb()
    begun = time.perf_counter()
    dataset = open_dataset(str(path))
    opened = time.perf_counter() - begun
    peak_open = machine.peak_mb()
    chosen = random.Random(0).sample(range(len(dataset.items)), min(pictures, len(dataset.items)))
    begun = time.perf_counter()
    pixels = 0
    for place in chosen:
        width, height = dataset.items[place].image().pixels.size
        pixels += width * height
    return {
        "rows": len(dataset.items),
        "groups": len({item.group for item in dataset.items}),
        "pictures_read": len(chosen),
        "megapixels_read": round(pixels / 1e6, 1),
        "seconds_to_open": round(opened, 2),
        "seconds_a_picture": round((time.perf_counter() - begun) / len(chosen), 3),
        "peak_mb_before": before,
        "peak_mb_opened": peak_open,
        "peak_mb": machine.peak_mb(),
        "digest": dataset.digest,
    }


def main() -> None:
    """Make a table, read it in a process of its own, remove it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=5.0, help="size of the table (default: 5)")
    parser.add_argument("--pictures", type=int, default=50, help="pictures to read (default: 50)")
    parser.add_argument("--folder", type=Path, help="where to put the table for the while")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures here")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read_table(given.read, given.pictures)))
        return
    size = int(given.gigabytes * 1e9)
    place = given.folder or Path(tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    if free < size * SPARE:
        parser.error(f"{place} has {free / 1e9:.1f} GB free, and the table needs {size * SPARE / 1e9:.1f} GB")
    # A table of gigabytes is not left behind by whoever ends this early.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    about = machine.machine()
    print(machine.line(about))
    with tempfile.TemporaryDirectory(dir=place) as folder:
        table = Path(folder) / "hr_bench_8k.tsv"
        begun = time.perf_counter()
        write_table(table, size)
        print(f"table of {table.stat().st_size / 1e9:.2f} GB written in {time.perf_counter() - begun:.0f} s")
        command = [sys.executable, __file__, "--read", str(table), "--pictures", str(given.pictures)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        figures = {"bytes": table.stat().st_size, **json.loads(done.stdout)}
    print(f"opened in {figures['seconds_to_open']} s: {figures['rows']} rows, {figures['groups']} questions")
    print(f"{figures['pictures_read']} pictures of 33 MP, {figures['seconds_a_picture']} s each")
    print(f"peak memory {figures['peak_mb']} MB (wanted: under {LIMIT_MB}); {figures['peak_mb_before']} before opening")
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        record = {"machine": about, "limit_mb": LIMIT_MB, "within": figures["peak_mb"] < LIMIT_MB, **figures}
        given.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
