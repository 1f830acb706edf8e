"""Which plan the next query gets: always the same one, or the one that pays by what the last ones have cost."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from speceyes.scheduling.estimates import Outcome, Traffic
from speceyes.scheduling.plan import SAME_DECISIONS, Chances, Cost, Plan, Times, expected_cost

TRIED = 8.0
"""Queries of a kind that are speculated on before speculation can be turned off for it: one refusal proves nothing."""


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
            load: From 0, the agent's servers have nothing else to do, to 1, every place is taken.
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

    It goes on asking: one query in `probe_every` gets another plan, each in its turn. So speculation can be turned on
    again, and what the agent takes for queries that a draft answers is seen at all. All plans accept the same drafts.

    Args:
        plans: What to choose from.
        probe_every: See above. The first query of that many is never a probe.
        gain: Share by which a plan must be cheaper than the agent alone to be turned on. It stays on until it is
            dearer, so that two plans that cost the same do not take turns.

    Raises:
        ValueError: A plan that would change which drafts are accepted.
    """

    def __init__(self, plans: tuple[Plan, ...] = SAME_DECISIONS, *, probe_every: int = 25, gain: float = 0.02) -> None:
        if strange := [plan for plan in plans if plan not in SAME_DECISIONS]:
            raise ValueError(f"{', '.join(strange)}: it would change which drafts are accepted")
        if probe_every < 2:
            raise ValueError("probe_every must be at least 2")
        self.traffic = Traffic()
        self._plans, self._probe_every, self._gain = plans, probe_every, gain
        self._seen: dict[Hashable, int] = {}
        self._off: set[Hashable] = set()

    def choose(self, kind: Hashable, load: float) -> Choice:
        """See the class."""
        turn = self._seen[kind] = self._seen.get(kind, 0) + 1
        known = self.traffic.of(kind)
        if known is None:
            probe = turn % self._probe_every == 0
            return Choice(Plan.OFF if probe else Plan.PAPER, "what the agent takes is not known yet")
        costs, best = self._compared(*known, load)
        alone, price = costs[Plan.OFF].price(load), costs[best].price(load)
        off = price > alone * (1.0 - self._gain if kind in self._off else 1.0)
        off &= self.traffic.judged(kind) >= TRIED
        (self._off.add if off else self._off.discard)(kind)
        chosen = Plan.OFF if off else best
        said = f"{best} {price:.3f} s, agent alone {alone:.3f} s"
        if turn % self._probe_every:
            return Choice(chosen, said, costs)
        others = [plan for plan in costs if plan is not chosen]
        return Choice(others[turn // self._probe_every % len(others)], f"to see what it costs now ({said})", costs)

    def learn(self, kind: Hashable, seen: Outcome) -> None:
        """Take in what came of a query."""
        self.traffic.add(kind, seen)

    def report(self, load: float = 0.0) -> dict[str, object]:
        """For each kind of query: what is known of it, what each plan would cost, and what is chosen."""
        rows: list[dict[str, object]] = []
        for kind in self.traffic.kinds:
            known = self.traffic.of(kind)
            if known is None:
                continue
            times, chances = known
            costs, best = self._compared(times, chances, load)
            chosen = Plan.OFF if kind in self._off else best
            rows.append(
                {
                    "kind": str(kind),
                    "queries": self._seen.get(kind, 0),
                    "plan": chosen.value,
                    "seconds": {name: round(getattr(times, name), 4) for name in times.__dataclass_fields__},
                    "chances": {name: round(getattr(chances, name), 4) for name in chances.__dataclass_fields__},
                    "costs": {
                        plan.value: {"wait": round(c.wait, 4), "work": round(c.work, 4)} for plan, c in costs.items()
                    },
                }
            )
        return {"plan": "auto", "load": round(load, 3), "kinds": rows}

    def _compared(self, times: Times, chances: Chances, load: float) -> tuple[dict[Plan, Cost], Plan]:
        """What each plan is expected to cost, and the cheapest that speculates."""
        costs = {plan: expected_cost(plan, times, chances) for plan in (*self._plans, Plan.OFF)}
        return costs, min(self._plans, key=lambda plan: costs[plan].price(load))


def planner_of(name: str) -> Planner:
    """A planner by the name of its plan, or "auto".

    Raises:
        ValueError: There is no such plan.
    """
    return Auto() if name == "auto" else Fixed(Plan(name))
