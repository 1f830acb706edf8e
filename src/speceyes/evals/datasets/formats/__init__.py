"""Writers of made scenes in the public benchmarks' file formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from speceyes.errors import InputError
from speceyes.evals.datasets.formats.folder import MANIFEST, Advance, NewFolder, new_folder
from speceyes.evals.datasets.formats.hrbench import write_hrbench
from speceyes.evals.datasets.formats.pope import write_pope
from speceyes.evals.datasets.formats.vstar import write_vstar
from speceyes.evals.datasets.seeds import scene_seeds

__all__ = ["MANIFEST", "Format", "write_benchmark"]


class Format(StrEnum):
    """A benchmark whose files we write."""

    VSTAR = "vstar"
    HRBENCH = "hrbench"
    POPE = "pope"


_WRITERS: dict[Format, Callable[[NewFolder, int, Iterator[int], Advance], list[int]]] = {
    Format.VSTAR: write_vstar,
    Format.HRBENCH: write_hrbench,
    Format.POPE: write_pope,
}


def write_benchmark(
    target: Path,
    kind: Format,
    *,
    count: int,
    seed: int,
    force: bool = False,
    advance: Advance = lambda: None,
) -> None:
    """Write scenes as a benchmark's files, and `manifest.json` with hashes and scene seeds beside them.

    The same arguments give the same files, byte for byte, with the same version of Pillow.

    Args:
        target: The folder.
        kind: The benchmark.
        count: Scenes. `vstar` asks one question about each, `hrbench` one in four rows, `pope` two in each split.
        seed: No two seeds share a scene, and none shares one with the nano models' training.
        force: Write into a folder that is not empty, in the place of an earlier set.
        advance: Is called after each scene.

    Raises:
        InputError: The count is below 1; or as `scene_seeds` and `make_sample`.
        DatasetError: The folder is not empty, or cannot be written.
    """
    if count < 1:
        raise InputError(f"The count is {count}; it must be 1 or more.")
    seeds = scene_seeds(seed)
    if count > len(seeds):
        raise InputError(f"A seed has {len(seeds):,} scenes, not {count:,}. Ask for fewer, or use several seeds.")
    with new_folder(target, force=force) as folder:
        used = _WRITERS[kind](folder, count, iter(seeds), advance)
        folder.write_manifest({"format": kind.value, "count": count, "seed": seed, "scene_seeds": used})
