"""What pictures cost on their way to the models, as ratios to plain code that keeps nothing.

    python -m benchmarks.image_path [--repeats 7] [--json FILE]

Three files of pictures with a natural spectrum and lettering: 12 megapixels as JPEG (quality 90), 12 as PNG, one as
PNG. Of each, step by step:

- *intake*: the bytes are checked, hashed and, as far as the check needs it, unpacked.
- *draft*: the look of a draft that takes pictures of a megapixel, encoded for the wire.
- *agent*: the look of an agent that takes four megapixels.
- *crop*: a part of 400 x 300 pixels up close; *again*: another one.

The plain code unpacks the file for each step, resizes (or crops and resizes) with the same filter to the same size,
writes PNG as Pillow does by default, and base64. It checks nothing. In each repeat ours and the plain code take turns,
and the figures are the ratios of their processor times, which other work on the machine moves less than wall times:

- *input of the draft*: plain draft over our intake and draft.
- *a query*: all of the plain code's steps over all of ours.

Reading a JPEG's data is most of unpacking it, at any size, and it cannot be left out. So the ratio for the draft's
input has a ceiling, the plain code's time over that of one such reading, which is measured too.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.machine import line, machine
from benchmarks.speed import spread
from PIL import Image, ImageDraw, ImageFont
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from speceyes.imaging import Box, PixelLimits, View, decode
from speceyes.imaging.jpeg_glance import glance
from speceyes.imaging.looks import look, look_closer

DRAFT = PixelLimits(32, 64 * 32**2, 1024 * 32**2)
AGENT = PixelLimits(32, 64 * 32**2, 4096 * 32**2)
CASES = {"12-MP JPEG": (4000, "JPEG"), "12-MP PNG": (4000, "PNG"), "1-MP PNG": (1152, "PNG")}
STEPS = ("intake", "draft", "agent", "crop", "again")
_SHARED = 1000
"""A step that is so many times as fast has found its work done."""
_FALL = 1.1
"""Amplitudes of natural pictures fall about as 1 / frequency."""


def picture(width: int, seed: int = 0) -> Image.Image:
    """A picture with a natural spectrum, and lettering of all sizes on it."""
    rng = np.random.default_rng(seed)
    height = width * 3 // 4
    frequency = np.hypot(np.fft.rfftfreq(width)[None], np.fft.fftfreq(height)[:, None])
    amplitude = np.maximum(frequency, 1 / width) ** -_FALL

    def layer() -> Any:
        layer = np.fft.irfft2(amplitude * np.exp(2j * np.pi * rng.random(amplitude.shape)), (height, width))
        return (layer - layer.mean()) / layer.std()

    light = layer()
    channels = [np.clip(128 + 45 * light + 15 * layer(), 0, 255) for _ in range(3)]
    image = Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    for _ in range(60):
        place = (int(rng.integers(0, width * 9 // 10)), int(rng.integers(0, height * 9 // 10)))
        font = ImageFont.load_default(int(rng.integers(12, width // 20)))
        draw.text(place, "Stop 42 Ka", fill=tuple(map(int, rng.integers(0, 256, 3))), font=font)
    return image


def file_of(image: Image.Image, form: str) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    image.save(out, form, **({"quality": 90} if form == "JPEG" else {}))
    return out.getvalue()


def plain(data: bytes, size: tuple[int, int], box: Box | None = None) -> str:
    """One view by code that keeps nothing and checks nothing."""
    image = Image.open(io.BytesIO(data)).convert("RGB")
    if box is not None:
        image = image.crop(tuple(map(int, box.as_tuple())))  # type: ignore[arg-type]
    out = io.BytesIO()
    image.resize(size, Image.Resampling.BICUBIC).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def crops(width: int) -> dict[str, Box]:
    """Two parts of the picture, by their step."""
    left, top = width * 0.4, width * 0.3
    return {"crop": Box(left, top, left + 400, top + 300), "again": Box(left - 150, top, left + 250, top + 300)}


async def timed(work: Awaitable[Any]) -> tuple[Any, float]:
    began = time.process_time()
    return await work, time.process_time() - began


async def once(data: bytes, width: int) -> tuple[dict[str, float], dict[str, float]]:
    """Processor seconds of each step, ours and the plain code's, whose intake is nothing."""
    ours: dict[str, float] = {}
    image, ours["intake"] = await timed(asyncio.to_thread(decode, data))
    views: dict[str, View] = {}
    for name, limits in (("draft", DRAFT), ("agent", AGENT)):
        like = tuple(views.values())[:1]
        (views[name],), ours[name] = await timed(look([image], limits, like=like))
    parts = crops(width)
    for name, box in parts.items():
        views[name], ours[name] = await timed(look_closer(image, box, DRAFT, 0))
    theirs = {"intake": 0.0}
    for name, view in views.items():
        _, theirs[name] = await timed(asyncio.to_thread(plain, data, view.size, parts.get(name)))
    return ours, theirs


def reading(data: bytes) -> float:
    """Processor seconds of reading a JPEG's data once, with hardly anything made of it."""
    image = Image.open(io.BytesIO(data))
    began = time.process_time()
    image.draft("L", (1, 1))
    image.load()
    return time.process_time() - began


async def measure(width: int, form: str, repeats: int, done: Callable[[], None]) -> dict[str, Any]:
    """One file: ratios of each repeat, as median, least and greatest."""
    data = await asyncio.to_thread(lambda: file_of(picture(width), form))
    await once(data, width)
    found, ceilings = [], []
    for _ in range(repeats):
        found.append(await once(data, width))
        if form == "JPEG":
            ceilings.append(found[-1][1]["draft"] / reading(data))
        done()

    def ratio(*steps: str) -> dict[str, float]:
        return spread([sum(b[s] for s in steps) / sum(a[s] for s in steps) for a, b in found])

    first = await asyncio.to_thread(glance, data) if form == "JPEG" else None
    return {
        "bytes": len(data),
        "read_at": None if first is None else f"1/{first.factor}",
        "draft_input": ratio("intake", "draft"),
        "agent": ratio("agent"),
        "crop": ratio("crop"),
        "again": ratio("again"),
        "query": ratio(*STEPS),
        "ceiling": spread(ceilings) if ceilings else None,
        "share_of_ours": {s: statistics.median(a[s] / sum(a.values()) for a, _ in found) for s in STEPS},
        "seconds": {"ours": [a for a, _ in found], "plain": [b for _, b in found]},
    }


async def run(repeats: int, bars: Progress) -> dict[str, Any]:
    """All files."""
    task = bars.add_task("pictures", total=repeats * len(CASES))
    before = machine()
    cases = {
        name: await measure(width, form, repeats, lambda: bars.advance(task)) for name, (width, form) in CASES.items()
    }
    return {"machine": before, "repeats": repeats, "cases": cases}


def report(record: dict[str, Any]) -> Table:
    """One line for each file: how many times the plain code's speed."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("file", "draft's input", "its ceiling", "agent", "crop", "again", "query"):
        table.add_column(column)
    for name, case in record["cases"].items():
        cells = (case[key] for key in ("draft_input", "ceiling", "agent", "crop", "again", "query"))
        table.add_row(name, *map(_cell, cells))
    return table


def _cell(found: dict[str, float] | None) -> str:
    if found is None:
        return ""
    if found["median"] >= _SHARED:
        return "shared"
    return f"{found['median']:.1f} ({found['min']:.1f}-{found['max']:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", metavar="FILE", help="also write the figures here; - for standard output")
    chosen = parser.parse_args()
    with Progress(console=Console(stderr=True)) as bars:
        record = asyncio.run(run(chosen.repeats, bars))
    text = json.dumps(record, indent=2, allow_nan=False)
    if chosen.json == "-":
        print(text)
        return
    console = Console(highlight=False)
    console.print(report(record))
    said = f"median, least and greatest of {record['repeats']}; shared: no work was left"
    console.print(f"times the plain code's speed: {said}")
    console.print(line(record["machine"]))
    if chosen.json:
        Path(chosen.json).parent.mkdir(parents=True, exist_ok=True)
        Path(chosen.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
