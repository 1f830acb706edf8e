"""How the chance to lose falls with the score: a guess from few records, to know where to test. It proves nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

_STEPS = 20
_LARGEST = 3.0
"""A Newton step is cut to this, so that none runs away."""


def loss_curve(scores: FloatArray, losses: BoolArray) -> FloatArray:
    """Each query's chance to lose, by logistic regression on its score. Shapes (C,), C at least 1.

        chance = 1 / (1 + exp(-(a + b z)))        z: the score less its mean, over its spread

    The two numbers are those of greatest likelihood, with half a loss and half a win added in all and a penalty of
    b^2 / 2, so that they are finite where nothing or everything is lost, or where one score parts the two. Found by
    Newton's method (McCullagh and Nelder, "Generalized Linear Models", 1989): two unknowns need no library.
    """
    n = len(scores)
    spread = float(scores.std())
    z = (scores - scores.mean()) / (spread if spread > 0.0 else 1.0)
    targets = (losses + 0.5 / n) / (1.0 + 1.0 / n)
    inputs = np.stack([np.ones(n), z], axis=1)
    penalty = np.array([0.0, 1.0])
    found = np.array([np.log(targets.mean() / (1.0 - targets.mean())), 0.0])
    for _ in range(_STEPS):
        chance = 1.0 / (1.0 + np.exp(-(inputs @ found)))
        slope = inputs.T @ (targets - chance) - penalty * found
        curvature = (inputs * (chance * (1.0 - chance))[:, None]).T @ inputs + np.diag(penalty)
        step = np.clip(np.linalg.solve(curvature, slope), -_LARGEST, _LARGEST)
        found = found + step
        if np.abs(step).max() < 1e-6:
            break
    curve: FloatArray = 1.0 / (1.0 + np.exp(-(inputs @ found)))
    return curve
