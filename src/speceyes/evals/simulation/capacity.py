"""How many replicas a load needs: the fewest that keep utilisation, and latency where wanted, under their limits.

Work alone says how many there must be at least: rate * seconds of work a query / (work a replica can do * utilisation
allowed). That is the first guess, and where latency does not matter mostly the answer; from there both pools grow
together until a simulation keeps the limits, and are then trimmed one after the other by bisection.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from speceyes.errors import ConfigError
from speceyes.evals.simulation.arrivals import Closed
from speceyes.evals.simulation.demand import System, least_demand
from speceyes.evals.simulation.representative import inside, representative
from speceyes.evals.simulation.scenario import Scenario
from speceyes.evals.simulation.simulate import Simulated, simulate
from speceyes.evals.simulation.workload import Workload

GROWTH = 1.5
MOST_GROWTH = 60.0
"""Times the first guess after which a limit counts as out of reach."""
CLOSE = 1.03
"""Bisection ends where two numbers of replicas differ by no more than this factor, or by one."""
_NOISE = 0.02
"""Utilisation by which a simulation may miss the limit, which its arrivals keep on the average only."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What must hold.

    Attributes:
        utilisation: Of either pool, at most.
        p95: Seconds that 95 % of the queries keep under. None: any.
    """

    utilisation: float = 0.8
    p95: float | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer.

    Attributes:
        scenario: With the numbers of replicas; where no number would do, with the last that was tried.
        simulated: What it gives.
        share: Share of the servers that was simulated.
        feasible: Whether the limits are kept.
        why: Why not, in words.
    """

    scenario: Scenario
    simulated: Simulated
    share: float
    feasible: bool = True
    why: str = ""


def run(workload: Workload, scenario: Scenario, advance: Callable[[], None] = lambda: None) -> Found:
    """Simulate a scenario as it is, or a part that stands for it."""
    part, share = representative(workload, scenario)
    found = simulate(workload, part)
    advance()
    # Just beyond what the servers can do, a queue grows slowly. What `auto` asks of them is known by running it only.
    if scenario.system is not System.AUTO and inside(workload, scenario) == math.inf:
        found = replace(found, overloaded=True)
    return Found(scenario, found, share)


@dataclass(slots=True)
class Search:
    """The fewest replicas of one system.

    Args:
        workload: What queries take.
        scenario: Who answers, at which rate; its numbers of replicas count only where they are fixed.
        limits: What must hold.
        fixed_draft: The draft's replicas are those of the scenario. So `fixed_agent`.
        fixed_agent: The agent's are.
        advance: Is called after each simulation.

    Attributes:
        rate: Queries a second.

    Raises:
        ConfigError: The arrivals are a closed loop.
    """

    workload: Workload
    scenario: Scenario
    limits: Limits
    fixed_draft: bool = False
    fixed_agent: bool = False
    advance: Callable[[], None] = lambda: None
    rate: float = field(init=False)
    _seen: dict[tuple[int, int], Found] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.scenario.arrivals, Closed):
            raise ConfigError("A closed loop has no rate that servers could be too few for: its clients just wait.")
        self.rate = self.scenario.arrivals.rate

    def result(self) -> Found:
        """Search."""
        needed = least_demand(self.scenario.system, self.workload)
        least_wait = float(np.quantile(needed.wait, 0.95))
        draft, agent = self.first_guess()
        found = self._at(draft, agent)
        if self.limits.p95 is not None and least_wait > self.limits.p95:
            return replace(found, feasible=False, why=f"idle servers already take {least_wait:.3g} s (p95)")
        if self._fits(draft, agent):
            return found
        return self._trimmed(draft, agent)

    def first_guess(self) -> tuple[int, int]:
        """Replicas of draft and agent by their work alone: fewer cannot keep the limit on utilisation."""
        needed, chosen, rate = least_demand(self.scenario.system, self.workload), self.scenario, self.rate

        def of(work: float, capacity: float) -> int:
            return max(1, math.ceil(rate * work / (capacity * self.limits.utilisation) - 1e-9))

        draft = of(float(needed.draft.mean()), chosen.draft.curve.capacity())
        agent = of(float(needed.agent.mean()), chosen.agent.curve.capacity())
        if chosen.system is System.PUBLISHED:  # its loops run one by one, and batching gains them nothing
            screening = statistics.fmean(query.screen for query in self.workload.queries)
            agent = max(agent, of(float(needed.agent.mean()) - screening, 1.0))
        return (
            chosen.draft.replicas if self.fixed_draft else draft,
            chosen.agent.replicas if self.fixed_agent else agent,
        )

    def _trimmed(self, draft: int, agent: int) -> Found:
        def grown(factor: float) -> tuple[int, int]:
            return (
                draft if self.fixed_draft else math.ceil(draft * factor),
                agent if self.fixed_agent else math.ceil(agent * factor),
            )

        low, high = 1.0, GROWTH
        while not self._fits(*grown(high)):
            low, high = high, high * GROWTH
            if high > MOST_GROWTH or (self.fixed_draft and self.fixed_agent):
                return replace(self._at(*grown(low)), feasible=False, why=self._what_breaks(*grown(low)))
        most = grown(high)
        few = draft if self.fixed_draft else self._least(draft, most[0], lambda count: self._fits(count, most[1]))
        less = agent if self.fixed_agent else self._least(agent, most[1], lambda count: self._fits(few, count))
        # Fewer of the one may have made up for too many of the other.
        few = few if self.fixed_draft else self._least(draft, few, lambda count: self._fits(count, less))
        return self._at(few, less)

    def _least(self, low: int, high: int, fits: Callable[[int], bool]) -> int:
        """The least number from `low` to `high` that fits; `high` does."""
        if fits(low):
            return low
        while high - low > 1 and high > low * CLOSE:
            middle = (low + high) // 2
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    def _at(self, draft: int, agent: int) -> Found:
        if (draft, agent) not in self._seen:
            chosen = self.scenario
            drafts, agents = replace(chosen.draft, replicas=draft), replace(chosen.agent, replicas=agent)
            self._seen[draft, agent] = run(self.workload, replace(chosen, draft=drafts, agent=agents), self.advance)
        return self._seen[draft, agent]

    def _fits(self, draft: int, agent: int) -> bool:
        return not self._what_breaks(draft, agent)

    def _what_breaks(self, draft: int, agent: int) -> str:
        found, limit = self._at(draft, agent).simulated, self.limits
        if found.overloaded:
            return "queries come faster than they are answered"
        for name, used in (("draft", found.draft_utilisation), ("agent", found.agent_utilisation)):
            if used > limit.utilisation + _NOISE:
                return f"the {name}'s servers are used to {100 * used:.0f} %"
        if limit.p95 is not None and (p95 := found.quantile(0.95)) > limit.p95:
            return f"95 % of the queries take up to {p95:.3g} s"
        return ""
