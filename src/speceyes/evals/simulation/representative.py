"""Thousands of replicas by a part of them: as many queries a second for each replica, and fewer replicas.

A replica does not know how many others there are; what it sees is its own share of the queries. So a fleet is simulated
by a part of it, with the load scaled down alike. What is lost is pooling: with fewer replicas to choose from, a query
finds a free one less often, so the part waits a little longer than the whole would. The figures of a large fleet are
therefore cautious ones. `tests/evals/simulation/test_representative.py` holds parts and wholes side by side.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from speceyes.evals.simulation.arrivals import Closed
from speceyes.evals.simulation.demand import least_demand
from speceyes.evals.simulation.scenario import Scenario
from speceyes.evals.simulation.sharing import mean_calls
from speceyes.evals.simulation.workload import Workload

LEAST_REPLICAS = 8
"""Of the agent, in a part."""
INSIDE = 400
"""Queries on their way at a time, about, for which a part is large enough."""
TURNOVERS = 12
"""How often the queries on their way are to be replaced during a run, warm-up included."""
_ROUNDING = 0.04
"""Share by which a pool's load in a part may differ from that in the whole."""


def representative(workload: Workload, scenario: Scenario) -> tuple[Scenario, float]:
    """A part of a scenario that stands for the whole, and its share of the servers; 1 where the whole is small enough.

    It has at least as many queries as the scenario, and so many that those on their way are replaced several times.
    """
    number = inside(workload, scenario)
    grows = number == float("inf")  # then ever more queries wait, and no number of them is enough
    each = scenario.agent.curve.slots if grows else number / scenario.agent.replicas
    wanted = max(LEAST_REPLICAS, round(INSIDE / max(each, 1e-9)))
    part, share = scenario, 1.0
    if wanted < scenario.agent.replicas:
        replicas = _replicas(wanted, scenario) if least_demand(scenario.system, workload).draft.any() else wanted
        share = replicas / scenario.agent.replicas
        part = replace(
            scenario,
            agent=replace(scenario.agent, replicas=replicas),
            draft=replace(scenario.draft, replicas=max(1, round(scenario.draft.replicas * share))),
            arrivals=scenario.arrivals.scaled(share),
            batch=scenario.batch_size,
            loops=max(1, round(scenario.places * share)),
        )
    return replace(part, queries=part.queries if grows else max(part.queries, round(TURNOVERS * share * number))), share


def inside(workload: Workload, scenario: Scenario) -> float:
    """About how many queries are on their way at a time, if each replica got its share of them at random.

    Infinity where the servers cannot keep up.
    """
    if isinstance(scenario.arrivals, Closed):
        return float(scenario.arrivals.clients)
    found, rate = least_demand(scenario.system, workload), scenario.arrivals.rate
    look = rate * float(np.mean([query.look for query in workload.queries]))
    pools = ((scenario.draft, float(found.draft.mean())), (scenario.agent, float(found.agent.mean())))
    return look + sum(pool.replicas * mean_calls(pool.curve, rate * work / pool.replicas) for pool, work in pools)


def _replicas(wanted: int, scenario: Scenario) -> int:
    """The fewest replicas of the agent, from so many on, at which the draft's come out about whole too."""
    agent, draft = scenario.agent.replicas, scenario.draft.replicas

    def is_whole(count: int) -> bool:
        exact = draft * count / agent
        return round(exact) >= 1 and abs(round(exact) / exact - 1.0) <= _ROUNDING

    return next(count for count in range(wanted, agent + 1) if is_whole(count))
