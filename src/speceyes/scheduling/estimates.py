"""What queries of each kind have cost lately: means that forget, for plans to be made from."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from speceyes.scheduling.plan import Chances, Times

MEMORY = 100
"""Observations after which an old one weighs about a third (1/e) of a new one."""
BORROWED = 5.0
"""A kind of query that has just turned up is taken to be as all the others are, as if that had been seen so often."""


@dataclass(slots=True)
class Decayed:
    """A mean whose observations fade: each new one takes e^(-1/memory) off the weight of all before it.

    Attributes:
        total: Weighted sum.
        weight: Sum of weights; at most about `memory`.
    """

    memory: float = MEMORY
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> None:
        """Take an observation in."""
        keep = 1.0 - 1.0 / self.memory
        self.total, self.weight = self.total * keep + value, self.weight * keep + 1.0

    def mean(self, like: float | None = None) -> float | None:
        """The mean, drawn towards `like` as long as little has been seen. None where nothing is known at all."""
        if like is None:
            return self.total / self.weight if self.weight else None
        return (self.total + BORROWED * like) / (self.weight + BORROWED)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one query has shown. None: its plan did not ask.

    Attributes:
        screen: Seconds of phase I, waiting for a place left out. So `draft` (II) and `agent` (IV).
        agent_after_screen: Of an agent run whose first prompt screening had left in its server's cache.
        let_through: Whether phase I let it through; None also where only queries with a good draft were screened.
        passed: Whether the gate passed the draft; None also where only queries were drafted that phase I let through.
        accepted: Whether both.
    """

    screen: float | None = None
    draft: float | None = None
    agent: float | None = None
    agent_after_screen: float | None = None
    let_through: bool | None = None
    passed: bool | None = None
    accepted: bool | None = None


@dataclass(slots=True)
class Estimates:
    """Means of one kind of query, or of all."""

    screen: Decayed = field(default_factory=Decayed)
    draft: Decayed = field(default_factory=Decayed)
    agent: Decayed = field(default_factory=Decayed)
    agent_after_screen: Decayed = field(default_factory=Decayed)
    let_through: Decayed = field(default_factory=Decayed)
    passed: Decayed = field(default_factory=Decayed)
    accepted: Decayed = field(default_factory=Decayed)

    def add(self, seen: Outcome) -> None:
        """Take in what one query has shown."""
        for name in Outcome.__dataclass_fields__:
            value = getattr(seen, name)
            if value is not None:
                getattr(self, name).add(float(value))


class Traffic:
    """Estimates by kind of query. A kind that is rare leans on all the others.

    Args:
        most: Kinds that are kept apart; further ones count as one.
    """

    def __init__(self, most: int = 64) -> None:
        self._all = Estimates()
        self._kinds: dict[Hashable, Estimates] = {}
        self._most = most

    @property
    def kinds(self) -> list[Hashable]:
        """Those that have been seen."""
        return list(self._kinds)

    def judged(self, kind: Hashable) -> float:
        """How many queries of a kind have shown whether their draft was accepted, old ones counted less."""
        return self._kinds[kind].accepted.weight if kind in self._kinds else 0.0

    def add(self, kind: Hashable, seen: Outcome) -> None:
        """Take in what a query of a kind has shown."""
        self._all.add(seen)
        if kind not in self._kinds and len(self._kinds) < self._most:
            self._kinds[kind] = Estimates()
        if kind in self._kinds:
            self._kinds[kind].add(seen)

    def of(self, kind: Hashable) -> tuple[Times, Chances] | None:
        """What to expect of a query of this kind. None as long as the agent, or the two small phases, were never seen.

        Where the chance of one phase is not known, it is taken not to depend on the other's.
        """
        own, pool = self._kinds.get(kind, Estimates()), self._all

        def mean(name: str, otherwise: float | None = None) -> float | None:
            pooled = getattr(pool, name).mean()
            found: float | None = getattr(own, name).mean(otherwise if pooled is None else pooled)
            return found

        screen, draft = mean("screen", pool.draft.mean()), mean("draft", pool.screen.mean())
        after = mean("agent_after_screen", pool.agent.mean())
        agent = mean("agent", pool.agent_after_screen.mean())
        if screen is None or draft is None or agent is None or after is None:
            return None
        accepted = mean("accepted", 0.0) or 0.0
        let = mean("let_through", 1.0) or 0.0
        passed = mean("passed", min(1.0, accepted / let) if let else 0.0) or 0.0
        return Times(screen, draft, agent, after), Chances.nearest(let, passed, accepted)
