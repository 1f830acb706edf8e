"""Which plan the next query gets: always the same one, or the one that pays by what the last ones have cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from speceyes.engines.server_clock import ServerClocks
from speceyes.scheduling.estimates import Expected, Outcome, Traffic
from speceyes.scheduling.plan import SAME_DECISIONS, Chances, Cost, Loads, Plan, Times, expected_cost

TRIED = 16.0
"""Queries of a kind that are speculated on before speculation can be turned off for it: one refusal proves nothing."""
CLOSE = 0.1
"""A plan that is dearer by this share is probed once in `probe_every` queries; one that is dearer by more while drafts
are accepted, in proportion more seldom; and where speculation is off, one that is dearer by less more often."""
SELDOM = 10.0
"""How many times as seldom at most."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan for one query.

    Attributes:
        plan: Which.
        why: In words, for the trace.
        costs: What each plan was expected to cost; empty where nothing was compared.
    """

    plan: Plan
    why: str = ""
    costs: Mapping[Plan, Cost] = field(default_factory=dict)


class Planner(Protocol):
    """Chooses plans, and hears what came of them."""

    def choose(self, kind: Hashable, load: float) -> Choice:
        """The plan for a query.

        Args:
            kind: What queries it is like.
            load: From 0, the agent's servers have nothing else to do, to 1, every place is taken. What has been seen of
                the servers themselves says more.
        """
        ...

    def learn(self, kind: Hashable, seen: Outcome) -> None:
        """A query of this kind is over."""
        ...

    def report(self, load: float = 0.0) -> dict[str, object]:
        """What is chosen and why, for people and programs."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same plan for every query."""

    plan: Plan = Plan.PAPER

    def choose(self, kind: Hashable, load: float) -> Choice:
        """That plan."""
        return Choice(self.plan)

    def learn(self, kind: Hashable, seen: Outcome) -> None:
        """Nothing is to be learned."""

    def report(self, load: float = 0.0) -> dict[str, object]:
        """The plan."""
        return {"plan": self.plan.value}


class Auto:
    """The plan with the least price by decayed estimates; none of them where the agent alone is cheaper.

    A price is what the query is expected to wait, and what its work makes others wait (`plan`), at servers as crowded
    as they have been lately (`crowding`).

    It goes on asking: one query in `probe_every` gets another plan, each in its turn. So speculation can be turned on
    again, and what the agent takes for queries that a draft answers is seen at all. What would cost more is probed more
    seldom. Where a probe's draft is accepted while speculation is off, and would pay if all were, the next query is a
    probe too. All plans accept the same drafts.

    Args:
        plans: What to choose from.
        probe_every: See above. The first query of that many is never a probe.
        gain: Share by which a plan must be cheaper than the agent alone to be turned on, and half of it to stay on: so
            two that cost the same do not take turns, and what does not pay is off.
        clocks: Count the calls at both servers. None: its own.

    Attributes:
        clocks: These. Whoever asks the servers for what is planned here counts its calls on them.
        traffic: What has been seen.

    Raises:
        ValueError: A plan that would change which drafts are accepted.
    """

    def __init__(
        self,
        plans: tuple[Plan, ...] = SAME_DECISIONS,
        *,
        probe_every: int = 25,
        gain: float = 0.05,
        clocks: ServerClocks | None = None,
    ) -> None:
        if strange := [plan for plan in plans if plan not in SAME_DECISIONS]:
            raise ValueError(f"{', '.join(strange)}: it would change which drafts are accepted")
        if probe_every < 2:
            raise ValueError("probe_every must be at least 2")
        self.clocks = clocks or ServerClocks()
        self.traffic = Traffic()
        self._plans, self._probe_every, self._gain = plans, probe_every, gain
        self._seen: dict[Hashable, int] = {}
        self._off: set[Hashable] = set()
        self._surprised: set[Hashable] = set()
        self._probes: dict[Hashable, tuple[int, int]] = {}
        """By kind: how many there were, and queries since the last one."""

    def choose(self, kind: Hashable, load: float) -> Choice:
        """See the class."""
        turn = self._seen[kind] = self._seen.get(kind, 0) + 1
        self.traffic.draft.found(self.clocks.draft.under_way)
        self.traffic.agent.found(self.clocks.agent.under_way)
        known = self.traffic.of(kind)
        if known is None:
            alone_once = turn % self._probe_every == 0
            return Choice(Plan.OFF if alone_once else Plan.PAPER, "what the agent takes is not known yet")
        loads = self.traffic.loads(load)
        costs, best = self._compared(known, loads)
        prices = {plan: cost.price(loads) for plan, cost in costs.items()}
        alone, price = prices[Plan.OFF], prices[best]
        off = price > alone * (1.0 - self._gain * (1.0 if kind in self._off else 0.5))
        off &= self.traffic.judged(kind) >= TRIED
        (self._off.add if off else self._off.discard)(kind)
        chosen = Plan.OFF if off else best
        said = f"{best} {price:.3f} s, agent alone {alone:.3f} s"
        if off and kind in self._surprised and self._could_pay(known, loads):
            self._surprised.discard(kind)
            return Choice(best, f"the last draft was accepted ({said})", costs)
        probe = self._probe(kind, chosen, prices)
        if probe is None:
            return Choice(chosen, said, costs)
        return Choice(probe, f"to see what it costs now ({said})", costs)

    def learn(self, kind: Hashable, seen: Outcome) -> None:
        """Take in what came of a query."""
        self.traffic.add(kind, seen)
        if seen.accepted is not None:
            (self._surprised.add if seen.accepted else self._surprised.discard)(kind)

    def report(self, load: float = 0.0) -> dict[str, object]:
        """For each kind of query: what is known of it, what each plan would cost, and what is chosen."""
        loads = self.traffic.loads(load)
        rows: list[dict[str, object]] = []
        for kind in self.traffic.kinds:
            known = self.traffic.of(kind)
            if known is None:
                continue
            costs, best = self._compared(known, loads)
            chosen = Plan.OFF if kind in self._off else best
            rows.append(
                {
                    "kind": str(kind),
                    "queries": self._seen.get(kind, 0),
                    "plan": chosen.value,
                    "seconds": _rounded(known.times),
                    "seconds_alone": _rounded(known.alone),
                    "chances": _rounded(known.chances),
                    "costs": {plan.value: _cost_row(cost, loads) for plan, cost in costs.items()},
                }
            )
        servers = {
            name: {
                "calls": None if server.calls is None else round(server.calls, 3),
                "elasticity": round(server.elasticity, 3),
                "load": round(getattr(loads, name), 3),
            }
            for name, server in (("draft", self.traffic.draft), ("agent", self.traffic.agent))
        }
        return {"plan": "auto", "load": round(load, 3), "servers": servers, "kinds": rows}

    def _compared(self, known: Expected, loads: Loads) -> tuple[dict[Plan, Cost], Plan]:
        """What each plan is expected to cost, and the cheapest that speculates."""
        moved = (1.0 - known.chances.accepted) * known.closer
        costs = {}
        for plan in self._plans:
            times = self._beside_itself(known.times) if plan is Plan.HEDGED else known.times
            cost = expected_cost(plan, times, known.chances)
            costs[plan] = cost._replace(draft_work=min(cost.work, cost.draft_work + moved))
        costs[Plan.OFF] = Cost(known.off, known.off, 0.0)
        return costs, min(self._plans, key=lambda plan: costs[plan].price(loads))

    def _could_pay(self, known: Expected, loads: Loads) -> bool:
        """Whether speculation would be cheaper than the agent alone if all drafts were accepted."""
        costs, best = self._compared(replace(known, chances=Chances(1.0, 1.0, 1.0)), loads)
        return costs[best].price(loads) < costs[Plan.OFF].price(loads)

    def _beside_itself(self, times: Times) -> Times:
        """Of a query whose screening and agent's run are at their server at once, where each slows the other."""
        slowed = self.traffic.agent.one_more * times.screen
        return replace(times, screen=times.screen + slowed, agent=times.agent + slowed)

    def _probe(self, kind: Hashable, chosen: Plan, prices: Mapping[Plan, float]) -> Plan | None:
        """Another plan for this query. None: it is not its turn."""
        others = [plan for plan in prices if plan is not chosen]
        count, waited = self._probes.get(kind, (0, 0))
        plan = others[(count + 1) % len(others)]
        dearer = prices[plan] / prices[chosen] - 1.0 if prices[chosen] > 0.0 else 0.0
        times = min(1.0, dearer / CLOSE) if chosen is Plan.OFF else max(1.0, min(dearer / CLOSE, SELDOM))
        due = waited + 1 >= self._probe_every * times
        self._probes[kind] = (count + 1, 0) if due else (count, waited + 1)
        return plan if due else None


def _rounded(values: Times | Chances) -> dict[str, float]:
    return {name: round(getattr(values, name), 4) for name in values.__dataclass_fields__}


def _cost_row(cost: Cost, loads: Loads) -> dict[str, float]:
    return {name: round(value, 4) for name, value in (*cost._asdict().items(), ("price", cost.price(loads)))}


def planner_of(name: str, clocks: ServerClocks | None = None) -> Planner:
    """A planner by the name of its plan, or "auto".

    Args:
        name: The name.
        clocks: For `auto`: what counts the calls at both servers. None: its own.

    Raises:
        ValueError: There is no such plan.
    """
    return Auto(clocks=clocks) if name == "auto" else Fixed(Plan(name))


def clocks_of(planner: Planner) -> ServerClocks:
    """What counts the calls for a planner: its own clocks, where it has some."""
    found = getattr(planner, "clocks", None)
    return found if isinstance(found, ServerClocks) else ServerClocks()
