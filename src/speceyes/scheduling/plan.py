"""In which order the phases run, and what that costs. Pure: times and chances in, expected seconds out.

A draft is accepted only if phase I lets the query through *and* phase III passes the draft, so the order of the two is
free, and they may run side by side. With s, d, a the seconds of screening, draft and agent run, L: phase I lets the
query through, G: the gate passes the draft, and q = P(L and G):

    plan         seconds that the user waits                             model seconds (work)
    paper        s + P(L) d + (1-q) a'                                   the same
    draft-first  d + P(G) s + (1-q) a*                                   the same
    parallel     q max(s, d) + r + (1-q) a'                              both fronts until they end or are cancelled
    hedged       q min(max(s, d), a) + (1-q) a                           the same, and the agent until it is cancelled
    no-screen    d + (1-P(G)) a                                          the same
    off          a                                                       a

a' is the agent's run after screening, whose first prompt its server has in its cache; a* is a' where the query was
screened and a where it was not; r is what it takes to learn of a refusal: s where only L is false, d where only G is,
the shorter of the two where both are.

On a server that has nothing else to do, the user's wait is what counts; on a busy one, each second of work is a second
that somebody else waits. So a plan's price is (1 - load) wait + load work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Plan(StrEnum):
    """Order and overlap of the phases. Which drafts are accepted is the same in all, but for `no-screen`."""

    PAPER = "paper"
    """I, II, III, IV, one after another."""
    DRAFT_FIRST = "draft-first"
    """II and III; I only for drafts that pass."""
    PARALLEL = "parallel"
    """I beside II; the first refusal cancels the other."""
    HEDGED = "hedged"
    """I, II and IV all start at once; IV is cancelled when the draft is accepted."""
    NO_SCREEN = "no-screen"
    """II and III alone decide, so more drafts are accepted than the calibration has promised for."""
    OFF = "off"
    """The agent alone."""


SPECULATIVE = (Plan.PAPER, Plan.DRAFT_FIRST, Plan.PARALLEL, Plan.HEDGED, Plan.NO_SCREEN)
"""All in which a draft may be the answer."""
SAME_DECISIONS = (Plan.PAPER, Plan.DRAFT_FIRST, Plan.PARALLEL, Plan.HEDGED)
"""The plans under which the very same drafts are accepted: what may be chosen between while queries come in."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How often phases I and III agree.

    Attributes:
        let_through: P(L), beta of the law.
        passed: P(G).
        accepted: P(L and G); with alpha of the law, beta * alpha.
    """

    let_through: float
    passed: float
    accepted: float

    def __post_init__(self) -> None:
        low, high = max(0.0, self.let_through + self.passed - 1.0), min(self.let_through, self.passed)
        within = all(0.0 <= value <= 1.0 for value in (self.let_through, self.passed))
        if not within or not low - 1e-9 <= self.accepted <= high + 1e-9:
            raise ValueError(f"{self}: no two events have such chances")

    @classmethod
    def nearest(cls, let_through: float, passed: float, accepted: float) -> Chances:
        """Three estimates that need not fit together, made to fit."""
        let, gate = (min(max(value, 0.0), 1.0) for value in (let_through, passed))
        return cls(let, gate, min(max(accepted, let + gate - 1.0, 0.0), let, gate))


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each part of the work, under the present load.

    Attributes:
        screen: Phase I.
        draft: Phase II.
        agent: A whole agent run of a query that was not screened.
        agent_after_screen: Of one that was: its server need not read the first prompt again.
    """

    screen: float
    draft: float
    agent: float
    agent_after_screen: float


class Cost(NamedTuple):
    """Expected seconds of one query: what its user waits, and what the models work."""

    wait: float
    work: float

    def price(self, load: float) -> float:
        """What to compare plans by. `load` from 0 (nothing else to do) to 1 (every place taken)."""
        return (1.0 - load) * self.wait + load * self.work


def expected_cost(plan: Plan, times: Times, chances: Chances) -> Cost:
    """The table above."""
    s, d, a, after = times.screen, times.draft, times.agent, times.agent_after_screen
    let, gate, q = chances.let_through, chances.passed, chances.accepted
    both = max(s, d)
    if plan is Plan.OFF:
        return Cost(a, a)
    if plan is Plan.NO_SCREEN:
        return _in_a_row(d + (1.0 - gate) * a)
    if plan is Plan.PAPER:
        return _in_a_row(s + let * d + (1.0 - q) * after)
    if plan is Plan.DRAFT_FIRST:
        return _in_a_row(d + gate * s + (gate - q) * after + (1.0 - gate) * a)
    only_let, only_gate, neither = let - q, gate - q, 1.0 - let - gate + q
    refused = only_gate * s + only_let * d + neither * min(s, d)
    front = q * (s + d) + only_gate * (s + min(s, d)) + only_let * (d + min(s, d)) + neither * 2 * min(s, d)
    if plan is Plan.PARALLEL:
        return Cost(q * both + refused + (1.0 - q) * after, front + (1.0 - q) * after)
    wait = q * min(both, a) + (1.0 - q) * a
    return Cost(wait, front + wait)


def _in_a_row(seconds: float) -> Cost:
    return Cost(seconds, seconds)
