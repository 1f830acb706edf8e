"""One run of a system on simulated servers: from a workload, servers and arrivals to throughput, latency, utilisation.

Nothing here knows wall time or chance but by its seed: the same scenario gives the same figures.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from simpy import Environment, Event, Store

from speceyes.evals.simulation.arrivals import Closed
from speceyes.evals.simulation.demand import System
from speceyes.evals.simulation.scenario import Scenario
from speceyes.evals.simulation.schedules import Fleet, Visit, Waiting, published_batch
from speceyes.evals.simulation.servers import Replica
from speceyes.evals.simulation.workload import QueryTimes, Workload
from speceyes.gating.separability import FloatArray
from speceyes.scheduling import Planner, planner_of

WARM_UP = 0.2
"""Share of the queries that only fill the servers."""
BEHIND, FULL = 0.03, 0.9
"""An open loop counts as overloaded where more than the first share of the queries that came is left unanswered, and
either a pool is used to more than the second or latencies rise all the time."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """What came of it. Seconds are simulated ones.

    Attributes:
        latencies: Of the queries that count, from arrival to answer. Shape (M,).
        by_draft: Share of them that the draft answered.
        throughput: Answers a second.
        draft_utilisation: Work that the draft's servers did, as a share of the most that they can do.
        agent_utilisation: The same for the agent's.
        draft_work: Seconds of work a query for the draft's servers.
        agent_work: The same for the agent's.
        inside: Mean number of queries that were on their way.
        seconds: How long was looked.
        overloaded: In an open loop: whether queries came faster than they were answered, so that latency only says how
            long was simulated.
    """

    latencies: FloatArray
    by_draft: float
    throughput: float
    draft_utilisation: float
    agent_utilisation: float
    draft_work: float
    agent_work: float
    inside: float
    seconds: float
    overloaded: bool

    @property
    def mean(self) -> float:
        """Mean latency."""
        return float(self.latencies.mean())

    def quantile(self, share: float) -> float:
        """The latency that such a share of the queries keeps under."""
        return float(np.quantile(self.latencies, share))


def simulate(workload: Workload, scenario: Scenario) -> Simulated:
    """Run a scenario with queries that take what those of the workload take."""
    return _Run(workload, scenario).result()


@dataclass(slots=True)
class _Tally:
    """Running totals at one moment."""

    at: float = 0.0
    draft: float = 0.0
    agent: float = 0.0
    inside: float = 0.0
    answered: int = 0


@dataclass(slots=True)
class _Run:
    workload: Workload
    scenario: Scenario
    env: Environment = field(default_factory=Environment)
    begun: list[float] = field(default_factory=list)
    ended: dict[int, float] = field(default_factory=dict)
    drafted: dict[int, bool] = field(default_factory=dict)
    first: _Tally = field(default_factory=_Tally)
    last: _Tally = field(default_factory=_Tally)
    fleet: Fleet = field(init=False)
    planner: Planner = field(init=False)
    queue: Store = field(init=False)
    over: Event = field(init=False)
    area: float = 0.0
    changed: float = 0.0

    def result(self) -> Simulated:
        chosen, rng = self.scenario, np.random.default_rng(self.scenario.seed)
        self.fleet = Fleet(self.env, chosen.draft, chosen.agent)
        self.over = self.env.event()
        if chosen.system is System.PUBLISHED:
            self.queue = Store(self.env)
            for replica in self.fleet.agent.replicas:
                self.env.process(self._batches(replica))
        else:
            plan = chosen.system.plan
            self.planner = planner_of("auto" if plan is None else plan.value, self.fleet.clocks)
        draw = self.workload.in_order if chosen.in_order else lambda count: self.workload.drawn(count, rng)
        queries = iter(draw(chosen.queries))
        if isinstance(chosen.arrivals, Closed):
            for _ in range(min(chosen.arrivals.clients, chosen.queries)):
                self.env.process(self._client(queries))
        else:
            self.env.process(self._arriving(queries, chosen.arrivals.gaps(chosen.queries, rng).tolist()))
        self.env.run(until=self.over)
        return self._figures()

    def _client(self, queries: Iterator[QueryTimes]) -> Generator[Event, Any, None]:
        for times in queries:
            yield from self._ask(times)

    def _arriving(self, queries: Iterator[QueryTimes], gaps: list[float]) -> Generator[Event, Any, None]:
        for times, gap in zip(queries, gaps, strict=True):
            yield self.env.timeout(gap)
            self.env.process(self._ask(times))

    def _ask(self, times: QueryTimes) -> Generator[Event, Any, None]:
        number, count = len(self.begun), self.scenario.queries
        if self.scenario.steady and number == int(WARM_UP * count):
            self.first = self._tally()
        self._moved(1)
        self.begun.append(self.env.now)
        if self.scenario.steady and number == count - 1:
            self.last = self._tally()
        if self.scenario.system is System.PUBLISHED:
            waiting = Waiting(self.env, times)
            self.queue.put(waiting)
            by_draft = yield waiting.answered
        else:
            load = min(1.0, (self.fleet.loops + 1) / self.scenario.places)
            visit = Visit(self.fleet, times, self.planner.choose(times.kind, load).plan)
            by_draft = yield from visit.run()
            self.planner.learn(times.kind, visit.outcome())
        self._moved(-1)
        self.ended[number], self.drafted[number] = self.env.now, bool(by_draft)
        if len(self.ended) == count:
            if not self.scenario.steady:
                self.last = self._tally()
            self.over.succeed()

    def _batches(self, replica: Replica) -> Generator[Event, Any, None]:
        """The published schedule on one replica of the agent: whoever waits when a batch begins is in it."""
        while True:
            block = [(yield self.queue.get())]
            yield self.env.timeout(0)  # those who come at this very moment are there in time
            while self.queue.items and len(block) < self.scenario.batch_size:
                block.append((yield self.queue.get()))
            yield from published_batch(self.fleet, replica, block)

    def _moved(self, change: int) -> None:
        self.area += self.fleet.inside * (self.env.now - self.changed)
        self.changed = self.env.now
        self.fleet.inside += change

    def _tally(self) -> _Tally:
        self._moved(0)
        return _Tally(self.env.now, self.fleet.draft.work, self.fleet.agent.work, self.area, len(self.ended))

    def _figures(self) -> Simulated:
        chosen, first, last = self.scenario, self.first, self.last
        counted = range(int(WARM_UP * chosen.queries) if chosen.steady else 0, chosen.queries)
        span, answered = last.at - first.at, last.answered - first.answered
        draft, agent = last.draft - first.draft, last.agent - first.agent

        def share(part: float, whole: float) -> float:
            return part / whole if whole > 0 else 0.0

        latencies = np.array([self.ended[i] - self.begun[i] for i in counted])
        draft_share, agent_share = (
            share(work, span * pool.capacity) for work, pool in ((draft, chosen.draft), (agent, chosen.agent))
        )
        behind = 1.0 - share(answered, len(counted) - 1)
        open_loop = chosen.steady and not isinstance(chosen.arrivals, Closed)
        return Simulated(
            latencies=latencies,
            by_draft=float(np.mean([self.drafted[i] for i in counted])),
            throughput=share(answered, span),
            draft_utilisation=draft_share,
            agent_utilisation=agent_share,
            draft_work=share(draft, answered),
            agent_work=share(agent, answered),
            inside=share(last.inside - first.inside, span),
            seconds=span,
            overloaded=open_loop and behind > BEHIND and (max(draft_share, agent_share) > FULL or _rising(latencies)),
        )


def _rising(latencies: FloatArray) -> bool:
    """Whether those that came late waited longer than those before, as in a queue that nobody can catch up with."""
    third = max(1, len(latencies) // 3)
    return float(latencies[-third:].mean()) > 1.5 * float(latencies[:third].mean())
