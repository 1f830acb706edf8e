"""What queries of each kind have cost lately: means that forget, for plans to be made from."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from speceyes.scheduling.crowding import Crowding
from speceyes.scheduling.decayed import BORROWED, Decayed
from speceyes.scheduling.plan import Chances, Loads, Times

PHASES = ("screen", "draft", "agent", "agent_after_screen")
"""The fields of an `Outcome`, and of `Times`, that are seconds of a whole phase."""
FEW = 0.05
"""Share of accepted drafts under which the agent's runs of all queries count as those of refused ones."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one query has shown. None: its plan did not ask.

    Attributes:
        screen: Seconds of phase I, waiting for a place left out. So `draft` (II) and `agent` (IV).
        agent_after_screen: Of an agent run whose first prompt screening had left in its server's cache.
        closer: What of the agent's seconds were looks of the draft model's own, at its server.
        let_through: Whether phase I let it through; None also where only queries with a good draft were screened.
        passed: Whether the gate passed the draft; None also where only queries were drafted that phase I let through.
        accepted: Whether both.
        calls: How many calls were at the server during each of the phases above, by its name, the query's own
            included. What is not there is not known.
    """

    screen: float | None = None
    draft: float | None = None
    agent: float | None = None
    agent_after_screen: float | None = None
    let_through: bool | None = None
    passed: bool | None = None
    accepted: bool | None = None
    closer: float | None = None
    calls: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Expected:
    """What to expect of a query.

    Attributes:
        times: Seconds of each phase beside those who are at the servers; the agent's are of queries that are refused.
        alone: The same on servers that have nothing else to do.
        off: Seconds of the agent where nothing else was asked, so of any query, beside those who are there.
        closer: What of the agent's seconds of a refused query is the draft model's.
        chances: Of phases I and III.
    """

    times: Times
    alone: Times
    off: float
    closer: float
    chances: Chances


def _seconds_of(seen: Outcome) -> dict[str, float]:
    """Seconds by what they are of. An agent that was asked at once has all queries to answer, else the refused ones."""
    found = {name: value for name in PHASES if (value := getattr(seen, name)) is not None}
    if seen.accepted is None and "agent" in found:
        found["off"] = found.pop("agent")
    if seen.let_through is None and seen.passed:
        found.pop("agent_after_screen", None)  # of the few whose draft had passed: they are not like all others
    return found


class Estimates:
    """Means of one kind of query, or of all, by name: seconds, the logarithms of calls beside them, and shares."""

    def __init__(self) -> None:
        self._means: dict[str, Decayed] = {}

    def __getitem__(self, name: str) -> Decayed:
        return self._means.setdefault(name, Decayed())

    def add(self, seen: Outcome) -> None:
        """Take in what one query has shown."""
        for name, seconds in _seconds_of(seen).items():
            self[name].add(seconds)
            calls = seen.calls.get("agent" if name == "off" else name)
            if calls is not None:
                self[f"ln calls, {name}"].add(math.log(calls))
        for name in ("let_through", "passed", "accepted", "closer"):
            value = getattr(seen, name)
            if value is not None:
                self[name].add(float(value))


OTHERS = "others"
"""The kind of all queries beyond the kinds that are kept apart."""


class Traffic:
    """Estimates by kind of query, and how crowded the servers are. A kind that is rare leans on all the others.

    Args:
        most: Kinds that are kept apart; further ones count as one, `OTHERS`.

    Attributes:
        draft: The draft's server.
        agent: The agent's.
    """

    def __init__(self, most: int = 64) -> None:
        self.draft, self.agent = Crowding(), Crowding()
        self._all = Estimates()
        self._kinds: dict[Hashable, Estimates] = {}
        self._most = most

    @property
    def kinds(self) -> list[Hashable]:
        """Those that have been seen."""
        return list(self._kinds)

    def judged(self, kind: Hashable) -> float:
        """How many queries of a kind have shown whether their draft was accepted, old ones counted less."""
        own = self._own(kind)
        return own["accepted"].weight if own else 0.0

    def _own(self, kind: Hashable) -> Estimates | None:
        return self._kinds.get(kind) or self._kinds.get(OTHERS)

    def loads(self, otherwise: float) -> Loads:
        """What a second at each server takes from the others there; `otherwise` where nobody has been there."""
        return Loads(self.draft.load(otherwise), self.agent.load(otherwise))

    def add(self, kind: Hashable, seen: Outcome) -> None:
        """Take in what a query of a kind has shown."""
        self._all.add(seen)
        if kind not in self._kinds and len(self._kinds) >= self._most:
            kind = OTHERS
        self._kinds.setdefault(kind, Estimates()).add(seen)
        for name in PHASES:
            seconds, calls = getattr(seen, name), seen.calls.get(name)
            if seconds is not None and calls is not None:
                server = self.draft if name == "draft" else self.agent
                server.add((kind, name, seen.accepted is None), seconds, calls)

    def of(self, kind: Hashable) -> Expected | None:
        """What to expect of a query of this kind. None as long as the agent, or the two small phases, were never seen.

        What is not known of one phase is taken from the nearest that is: a run of the agent for one of another, a small
        phase for the other. Where the chance of one phase is not known, it is taken not to depend on the other's.
        """
        own, pool = self._own(kind) or Estimates(), self._all

        def mean(name: str, otherwise: float | None = None) -> float | None:
            pooled = pool[name].mean()
            return own[name].mean(otherwise if pooled is None else pooled)

        accepted = mean("accepted", 0.0) or 0.0
        let = mean("let_through", 1.0) or 0.0
        passed = mean("passed", min(1.0, accepted / let) if let else 0.0) or 0.0
        found: dict[bool, tuple[Times, float]] = {}
        for alone in (False, True):
            seconds = self._seconds(mean, lambda name: own[name].weight, alone=alone)
            if seconds is None:
                return None
            found[alone] = seconds
        (times, off), (lone, _) = found[False], found[True]
        return Expected(times, lone, off, mean("closer", 0.0) or 0.0, Chances.nearest(let, passed, accepted))

    def _seconds(
        self, mean: Callable[[str], float | None], weight: Callable[[str], float], *, alone: bool
    ) -> tuple[Times, float] | None:
        """Seconds of each phase, and of an agent that is asked at once, at the present crowding or without any."""

        def take(*names: str) -> float | None:
            for name in names:
                seconds = mean(name)
                if seconds is not None:
                    server = self.draft if name == "draft" else self.agent
                    logs = mean(f"ln calls, {name}")
                    return seconds if logs is None else seconds * server.stretch(logs, 1.0 if alone else server.calls)
            return None

        screen, draft = take("screen", "draft"), take("draft", "screen")
        cold, warm = take("agent", "agent_after_screen", "off"), take("agent_after_screen", "agent", "off")
        off, seen = take("off", "agent", "agent_after_screen"), self._all["off"].weight
        if screen is None or draft is None or cold is None or warm is None or off is None:
            return None
        cold, warm = _fitting(cold, warm, weight("agent"), weight("agent_after_screen"), screen)
        # The fewer drafts are accepted, the more the two are the same; and there it matters which is longer. But not
        # where the draft model's own looks spare refused queries the agent.
        alike = BORROWED if mean("closer") else BORROWED / max(mean("accepted") or 0.0, FEW)
        return Times(screen, draft, cold, warm), (off * seen + cold * alike) / (seen + alike)


def _fitting(cold: float, warm: float, seen_cold: float, seen_warm: float, screen: float) -> tuple[float, float]:
    """Runs without and after screening, made to fit: screening saves at least nothing and at most what it has taken.

    One of the two is mostly seen much more often than the other, so of a misfit it takes the smaller part.
    """
    share = (seen_warm + 1.0) / (seen_cold + seen_warm + 2.0)
    saved = cold - warm
    misfit = saved - min(max(saved, 0.0), screen)
    return cold - share * misfit, warm + (1.0 - share) * misfit
