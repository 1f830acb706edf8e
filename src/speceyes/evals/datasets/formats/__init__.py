"""Writers of made scenes in the public benchmarks' file formats."""

from __future__ import annotations

from pathlib import Path

from speceyes.errors import InputError
from speceyes.evals.datasets.formats.folder import MANIFEST, Advance, new_folder
from speceyes.evals.datasets.formats.hrbench import write_hrbench, write_hrbench_parquet
from speceyes.evals.datasets.formats.making import Making, Writer
from speceyes.evals.datasets.formats.mcq import write_mcq
from speceyes.evals.datasets.formats.names import Format
from speceyes.evals.datasets.formats.pope import write_pope, write_pope_parquet
from speceyes.evals.datasets.formats.vstar import write_vstar, write_vstar_list, write_vstar_parquet
from speceyes.evals.datasets.scenes import SIDE
from speceyes.evals.datasets.seeds import scene_seeds

__all__ = ["LEAST_SIDE", "MANIFEST", "Format", "write_benchmark"]

LEAST_SIDE = 32
"""Pixels. A smaller picture shows nothing at all."""

_WRITERS: dict[Format, Writer] = {
    Format.VSTAR: write_vstar,
    Format.VSTAR_JSONL: write_vstar_list,
    Format.VSTAR_PARQUET: write_vstar_parquet,
    Format.HRBENCH: write_hrbench,
    Format.HRBENCH_PARQUET: write_hrbench_parquet,
    Format.POPE: write_pope,
    Format.POPE_PARQUET: write_pope_parquet,
    Format.MCQ: write_mcq,
}


def write_benchmark(
    target: Path,
    kind: Format,
    *,
    count: int,
    seed: int,
    side: int = SIDE,
    force: bool = False,
    advance: Advance = lambda: None,
) -> None:
    """Write scenes as a benchmark's files, and `manifest.json` with hashes and scene seeds beside them.

    The same arguments give the same files, byte for byte, with the same versions of Pillow and pyarrow.

    Args:
        target: The folder.
        kind: The file form.
        count: Scenes. `vstar` asks one question about each, `hrbench` one in four rows, `pope` two in each split,
            `mcq` two.
        seed: No two seeds share a scene, and none shares one with the nano models' training.
        side: Width and height of the pictures in pixels. In smaller ones small signs cannot be read by anybody.
        force: Write into a folder that is not empty, in the place of an earlier set.
        advance: Is called after each scene.

    Raises:
        InputError: The count is below 1, or the side not between 32 and 1024; or as `scene_seeds` and `make_sample`.
        DatasetError: The folder is not empty, or cannot be written.
        ConfigError: pyarrow is needed and not installed.
    """
    if count < 1:
        raise InputError(f"The count is {count}; it must be 1 or more.")
    if not LEAST_SIDE <= side <= SIDE:
        raise InputError(f"The side is {side} pixels; it must be between {LEAST_SIDE} and {SIDE}.")
    seeds = scene_seeds(seed)
    if count > len(seeds):
        raise InputError(f"A seed has {len(seeds):,} scenes, not {count:,}. Ask for fewer, or use several seeds.")
    with new_folder(target, force=force) as folder:
        used = _WRITERS[kind](Making(folder, count, iter(seeds), side, advance))
        about = {"format": kind.value, "count": count, "seed": seed}
        folder.write_manifest({**about, **({"side": side} if side != SIDE else {}), "scene_seeds": used})
