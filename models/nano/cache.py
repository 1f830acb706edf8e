"""Render the training scenes once into a memory-mapped file.

Per scene three views of LOOK x LOOK pixels are kept: the first look at the whole scene, and one crop around each of
two signs, as the zoom tool returns it for the box that the agent asks for. Seeds are kept apart by split.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from grid import LOOK, PLACES, look_box
from PIL import Image
from rich.progress import track

from speceyes.engines.nano import NANO_ZOOM_CONTEXT
from speceyes.evals.datasets.scenes import SIDE, Scene, Sign, draw_scene, make_scene

VIEWS = 3

SEEDS = {"train": 1_000_000, "validation": 2_000_000, "calibration": 3_000_000, "test": 4_000_000}
"""The first scene seed of each split. A split holds at most a million scenes, so the splits cannot meet."""

Window = tuple[float, float, float, float]
CHUNK = 250


@dataclass(frozen=True)
class Scenes:
    """The rendered scenes of one split.

    Attributes:
        scenes: N scenes.
        views: uint8, (N, VIEWS, LOOK, LOOK, 3); view 0 is the first look.
        windows: (left, top, right, bottom) of each view in scene pixels, float32, (N, VIEWS, 4).
        targets: Index of the sign that each crop is about, int, (N, VIEWS - 1).
    """

    scenes: list[Scene]
    views: np.ndarray
    windows: np.ndarray
    targets: np.ndarray

    def __len__(self) -> int:
        return len(self.scenes)

    def near(self, i: int) -> dict[str, int]:
        """Which view of scene i shows the sign of a colour up close."""
        return {self.scenes[i].signs[k].color: v + 1 for v, k in enumerate(self.targets[i])}


def framed(sign: Sign, shift: tuple[float, float] = (0.0, 0.0)) -> Window:
    """What the zoom tool shows for the agent's box around a sign: the tool adds its margin (`NANO_ZOOM_CONTEXT`)."""
    scale = SIDE / LOOK
    left, top, right, _ = (v * scale for v in look_box(sign))
    side = (right - left) * (1 + 2 * NANO_ZOOM_CONTEXT)
    corner = (v + s + (right - left - side) / 2 for v, s in zip((left, top), shift, strict=True))
    left, top = (min(max(float(round(v)), 0.0), SIDE - side) for v in corner)
    return left, top, left + side, top + side


def crop_window(rng: random.Random, sign: Sign) -> Window:
    """As `framed`, but in each direction one place in seven is taken for its neighbour.

    The agent's own will be so at times: here the sign also stands at the crop's edge, and is learned to be read there.
    """
    step = SIDE / PLACES
    return framed(sign, (_slip(rng, step), _slip(rng, step)))


def _slip(rng: random.Random, step: float) -> float:
    return rng.choice((-step, step)) * (rng.random() < 1 / 7)


def render(split: str, count: int, folder: Path, workers: int = 2) -> Scenes:
    """Render `count` scenes of a split into `folder`, or map them if they are already there."""
    folder.mkdir(parents=True, exist_ok=True)
    done, pixels = folder / f"{split}-{count}.json", folder / f"{split}-{count}.npy"
    shape = (count, VIEWS, LOOK, LOOK, 3)
    if not done.exists():
        views = np.lib.format.open_memmap(pixels, mode="w+", dtype=np.uint8, shape=shape)
        windows, targets = [], []
        starts = [(SEEDS[split] + i, min(CHUNK, count - i)) for i in range(0, count, CHUNK)]
        with multiprocessing.Pool(workers) as pool:
            chunks: Iterator[tuple[np.ndarray, list[list[Window]], list[list[int]]]] = pool.imap(_chunk, starts)
            for i, (block, w, t) in enumerate(track(chunks, f"render {split}", total=len(starts))):
                views[i * CHUNK : i * CHUNK + len(block)] = block
                windows += w
                targets += t
        views.flush()
        done.write_text(json.dumps({"windows": windows, "targets": targets}))
    meta = json.loads(done.read_text())
    return Scenes(
        [make_scene(SEEDS[split] + i) for i in range(count)],
        np.load(pixels, mmap_mode="r"),
        np.asarray(meta["windows"], np.float32),
        np.asarray(meta["targets"]),
    )


def _chunk(job: tuple[int, int]) -> tuple[np.ndarray, list[list[Window]], list[list[int]]]:
    start, count = job
    block = np.empty((count, VIEWS, LOOK, LOOK, 3), np.uint8)
    windows, targets = [], []
    for i in range(count):
        rng = random.Random(f"crops-{start + i}")
        scene = make_scene(start + i)
        picture = draw_scene(scene)
        chosen = rng.sample(range(len(scene.signs)), 2)
        boxes: list[Window] = [(0.0, 0.0, float(SIDE), float(SIDE))]
        boxes += [crop_window(rng, scene.signs[k]) for k in chosen]
        for v, box in enumerate(boxes):
            block[i, v] = np.asarray(picture.resize((LOOK, LOOK), Image.Resampling.BICUBIC, box=box))
        windows.append(boxes)
        targets.append(chosen)
    return block, windows, targets


def dense_labels(scene: Scene, window: np.ndarray, cells: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Which sign is under each cell of a view, and where.

    Returns:
        sign: index of the sign under each cell, -1 for background, int, (cells * cells,).
        place: the sign's centre x, y and the logarithm of its radius, in units of cells, float32, (cells * cells, 3).
    """
    left, top, right, _ = window
    scale = cells / (right - left)
    centre = np.arange(cells) + 0.5
    sign_of = np.full((cells, cells), -1)
    place = np.zeros((cells, cells, 3), np.float32)
    order = sorted(range(len(scene.signs)), key=lambda i: -scene.signs[i].radius)
    for i in order:  # small signs last: where two share a cell, the cell speaks of the smaller one
        sign = scene.signs[i]
        x, y, r = (sign.x - left) * scale, (sign.y - top) * scale, sign.radius * scale
        reach = max(0.5, 0.4 + 0.6 * r)
        dx, dy = np.abs(centre[None, :] - x), np.abs(centre[:, None] - y)
        under = (dx <= reach) & (dy <= reach)
        sign_of[under] = i
        place[under] = (x, y, math.log(r))
    return sign_of.ravel(), place.reshape(-1, 3)
