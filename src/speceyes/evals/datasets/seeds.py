"""Which scene seeds belong to whom, so that no model is ever tested on a scene that it was trained on.

    1,000,000 ...  training of the nano models          (the nano models' own training code)
    2,000,000 ...  validation while they train          (the same)
    3,000,000 ...  calibration of the gate
    4,000,000 ...  test: the accuracies that are reported
    5,000,000 ...  everything that people make: `speceyes data make`, the demo, benchmarks

The first four hold a million scenes each, ten seeds of 100,000; the last has no end.
"""

from __future__ import annotations

from speceyes.errors import InputError

TRAINING = 1_000_000
VALIDATION = 2_000_000
CALIBRATION = 3_000_000
TEST = 4_000_000
MADE = 5_000_000

SPAN = 100_000
"""Scenes of one seed."""
_BLOCK = 1_000_000


def scene_seeds(seed: int, base: int = MADE) -> range:
    """The scene seeds of a user's seed: `base + seed * 100,000` and the 99,999 that follow.

    Raises:
        InputError: The seed is negative, or would reach into the next split's scenes.
    """
    if seed < 0:
        raise InputError(f"The seed is {seed}; it must be 0 or more.")
    if base < MADE and (seed + 1) * SPAN > _BLOCK - base % _BLOCK:
        raise InputError(f"Seed {seed} from scene {base:,} on reaches into another split. Take a smaller seed.")
    first = base + seed * SPAN
    return range(first, first + SPAN)
