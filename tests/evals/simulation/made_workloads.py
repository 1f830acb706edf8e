"""Workloads made from numbers, for the tests of the simulator."""

from __future__ import annotations

import numpy as np

from speceyes.evals.simulation import QueryTimes, Workload


def query(
    screen: float = 2.0, draft: float = 3.0, agent: float = 10.0, *, let: bool, passed: bool, **more: float
) -> QueryTimes:
    """One query; the agent's run is 1 s shorter after screening."""
    return QueryTimes(screen, draft, agent, agent - 1.0, let, passed, **more)  # type: ignore[arg-type]


FOUR = Workload(tuple(query(let=let, passed=passed) for let in (True, False) for passed in (True, False)))
"""One query for each pair of answers of phases I and III."""


def agents_only(seconds: object) -> Workload:
    """Queries of which only the agent's run takes time."""
    return Workload(tuple(QueryTimes(0.0, 0.0, float(s), float(s), False, False) for s in np.atleast_1d(seconds)))


def lifelike(count: int = 200, *, seed: int = 0, tools: float = 0.4) -> Workload:
    """Queries of which a share needs tools: those run longer and are rarely let through."""
    rng = np.random.default_rng(seed)
    queries = []
    for _ in range(count):
        tool = bool(rng.random() < tools)
        agent = (0.3 if tool else 0.15) * rng.lognormal(0.0, 0.3)
        queries.append(
            QueryTimes(
                screen=0.03 * rng.lognormal(0.0, 0.2),
                draft=0.04 * rng.lognormal(0.0, 0.2),
                agent=agent,
                agent_after_screen=0.95 * agent,
                let_through=bool(rng.random() < (0.1 if tool else 0.9)),
                passed=bool(rng.random() < (0.3 if tool else 0.9)),
                look=0.005,
                turns=3 if tool else 2,
            )
        )
    return Workload(tuple(queries))
