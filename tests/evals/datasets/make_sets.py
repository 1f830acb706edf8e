"""Makes the small sets that are kept beside this file: `python tests/evals/datasets/make_sets.py`.

They are kept so that a reader is held to files that no writer of today has written. Making them anew changes their
digests, in `test_small_sets.py`.
"""

from __future__ import annotations

from pathlib import Path

from speceyes.evals.datasets.formats import Format, write_benchmark

SETS = Path(__file__).parent / "sets"
SEED, SIDE = 11, 48


def scenes(kind: Format) -> int:
    """How many scenes a set has: few, and of those that hold a picture many times just one."""
    return 1 if kind.kind in ("hrbench", "pope") else 2


if __name__ == "__main__":
    for form in Format:
        write_benchmark(SETS / form, form, count=scenes(form), seed=SEED, side=SIDE, force=True)
