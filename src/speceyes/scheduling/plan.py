"""In which order the phases run, and what that costs. Pure: times and chances in, expected seconds out.

A draft is accepted only if phase I lets the query through *and* phase III passes the draft, so the order of the two is
free, and they may run side by side. With s, d, a the seconds of screening, draft and agent run, L: phase I lets the
query through, G: the gate passes the draft, and q = P(L and G):

    plan         seconds that the user waits                             model seconds (work)
    paper        s + P(L) d + (1-q) a'                                   the same
    draft-first  d + P(G) s + (1-q) a*                                   the same
    parallel     q max(s, d) + r + (1-q) a"                              both fronts until they end or are cancelled
    hedged       q min(max(s, d), a) + (1-q) a                           the same, and the agent until it is cancelled
    no-screen    d + (1-P(G)) a                                          the same
    off          a                                                       a

a' is the agent's run after screening, whose first prompt its server has in its cache; a* is a' where the query was
screened and a where it was not; r is what it takes to learn of a refusal: s where only L is false, d where only G is,
the shorter of the two where both are. a" is a' too, but where a draft's refusal has cut screening short, at d of its s
seconds, it saves only d/s of a - a'.

Screening and the agent's run work at the agent's server, the draft at its own. On servers that have nothing else to do,
the user's wait is what counts; on busy ones each second of work is a second that somebody else waits. So a plan's price
is its wait and, for each server, its work there times what a second of it costs the others:

    price = wait + sum over servers of  load / (1 - load) * work

A second at a server takes `load` seconds from the others there, whose longer stay takes as much from others in turn,
and so on: load + load^2 + ... (on a processor that calls share, with n others there on the average, that is n).
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
MOST_LOAD = 0.98
"""Higher loads count as this one: nothing is without end."""


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


class Loads(NamedTuple):
    """What a second at each server takes from the others there, in seconds: from 0, they do not notice, to below 1."""

    draft: float
    agent: float


class Cost(NamedTuple):
    """Expected seconds of one query.

    Attributes:
        wait: What its user waits.
        work: What the models work.
        draft_work: What of it is the draft model's.
    """

    wait: float
    work: float
    draft_work: float

    @property
    def agent_work(self) -> float:
        """What of the work is the agent's, screening included."""
        return self.work - self.draft_work

    def price(self, loads: Loads) -> float:
        """What to compare plans by: the wait, and the waits that its work causes to others."""
        draft, agent = (min(load, MOST_LOAD) for load in loads)
        return self.wait + draft / (1.0 - draft) * self.draft_work + agent / (1.0 - agent) * self.agent_work


def expected_cost(plan: Plan, times: Times, chances: Chances) -> Cost:
    """The table above."""
    s, d, a, after = times.screen, times.draft, times.agent, times.agent_after_screen
    let, gate, q = chances.let_through, chances.passed, chances.accepted
    if plan is Plan.OFF:
        return Cost(a, a, 0.0)
    if plan is Plan.NO_SCREEN:
        return _in_a_row(d, (1.0 - gate) * a)
    if plan is Plan.PAPER:
        return _in_a_row(let * d, s + (1.0 - q) * after)
    if plan is Plan.DRAFT_FIRST:
        return _in_a_row(d, gate * s + (gate - q) * after + (1.0 - gate) * a)
    both, shorter = max(s, d), min(s, d)
    only_let, only_gate, neither = let - q, gate - q, 1.0 - let - gate + q
    refused = only_gate * s + only_let * d + neither * shorter
    screening = (q + only_gate) * s + (only_let + neither) * shorter
    drafting = (q + only_let) * d + (only_gate + neither) * shorter
    if plan is Plan.PARALLEL:
        cut = (only_let + neither) * (1.0 - shorter / s if s else 0.0)
        rest = (1.0 - q) * after + cut * (a - after)
        return Cost(q * both + refused + rest, screening + drafting + rest, drafting)
    wait = q * min(both, a) + (1.0 - q) * a
    return Cost(wait, screening + drafting + wait, drafting)


def _in_a_row(draft: float, agent: float) -> Cost:
    return Cost(draft + agent, draft + agent, draft)
