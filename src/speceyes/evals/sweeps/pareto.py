"""Settings that no other setting beats in both speed and accuracy."""

from __future__ import annotations

import numpy as np

from speceyes.gating.separability import FloatArray, IntArray


def pareto_front(speed: FloatArray, accuracy: FloatArray) -> IntArray:
    """Indices of the settings that none beats, fastest first.

    A setting is beaten by one that is at least as fast and at least as accurate, and better in one of the two. Of
    settings that are equal in both, the first counts. NaN in either value is never on the front.

    Args:
        speed: Larger is better. Shape (P,).
        accuracy: Larger is better. Shape (P,).
    """
    known = np.flatnonzero(~(np.isnan(speed) | np.isnan(accuracy)))
    order = known[np.lexsort((-accuracy[known], -speed[known]))]
    best = np.maximum.accumulate(accuracy[order]) if order.size else accuracy[order]
    better = np.ones(order.shape, dtype=np.bool_)
    better[1:] = best[1:] > best[:-1]
    front: IntArray = order[better]
    return front


def thinned(count: int, most: int) -> IntArray:
    """At most `most` of `count` positions, evenly spread, both ends among them."""
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))
