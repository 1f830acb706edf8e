"""The queue in closed form: how many calls are on one server that shares itself among them.

Calls that come at random (a Poisson process) to a server with state-dependent processor sharing find b calls there with
a probability in proportion to the product of work / rate(i), i from 1 to b, where `work` is the seconds of lone work
that come in a second. That holds for any distribution of the calls' own lengths (Cohen, 1979; Kelly, 1979): M/M/1-PS,
M/G/infinity and, where rate(i) = min(i, c), M/M/c are cases of it. With fewer slots than calls those beyond wait their
turn, and then it is exact for exponential lengths only.

It is what the simulator is checked against, and what tells how much of a fleet must be simulated.
"""

from __future__ import annotations

import math

from speceyes.evals.simulation.batching import BatchingCurve


def mean_calls(curve: BatchingCurve, work: float) -> float:
    """Mean number of calls on one server, waiting ones included; infinity where it cannot keep up.

    Args:
        curve: The server's.
        work: Seconds of lone work that come in a second.
    """
    most = curve.rate(curve.slots)
    if work >= most:
        return math.inf
    # In logarithms, for a product of hundreds of factors leaves the range of a float.
    weight, weights = 0.0, [0.0]
    for calls in range(1, curve.slots + 1):
        weight += math.log(work / curve.rate(calls)) if work > 0 else -math.inf
        weights.append(weight)
    top = max(weights)
    shares = [math.exp(value - top) for value in weights]
    ratio = work / most
    tail = shares[-1] * ratio / (1.0 - ratio)  # more calls than slots: geometric
    more = curve.slots * tail + shares[-1] * ratio / (1.0 - ratio) ** 2
    return (sum(calls * share for calls, share in enumerate(shares)) + more) / (sum(shares) + tail)
