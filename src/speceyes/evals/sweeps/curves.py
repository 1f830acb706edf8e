"""What a gate does at every threshold under a plan: quality, acceptance and speed.

A draft that passes the gate changes each total by a fixed amount that is known beforehand (one more accepted, one
more right, so many seconds less). `Ledger` holds these amounts, and a curve is their running totals along a ranking.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speceyes.evals.law import Costs
from speceyes.evals.records import RecordTable
from speceyes.evals.sweeps.outcomes import Outcomes
from speceyes.evals.sweeps.plans import plan_times
from speceyes.evals.sweeps.ranking import Ranking
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray
from speceyes.scheduling import Plan

COLUMNS = ("accepted", "right", "lost", "gained", "seconds", "work", "law")
"""What a ledger adds up. `lost`: accepted, the draft wrong, the agent right; `gained`: the other way round."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One gate under one plan at each of its thresholds, from accept-nothing to accept-all. All of shape (g + 1,).

    Attributes:
        thresholds: A draft passes where its score is at least this; the first is infinity.
        accepted: Queries that the draft answers.
        acceptance: The same as a share of all M queries (beta * alpha in the law).
        selective_accuracy: Share of right drafts among the accepted; NaN where none is accepted.
        final_accuracy: Share of all queries that the system answers right: the draft where accepted, else the agent.
        accuracy_change: Final accuracy minus the agent's own.
        excess_loss: Share of the accepted whose draft is wrong where the agent was right; NaN where none is accepted.
        seconds: Mean seconds a query, from the recorded times.
        speedup: The agent's recorded seconds over these.
        work_speedup: The agent's recorded seconds over those of all model calls: what a loaded server gains.
        law_ideal: 1 / (1 - acceptance): phases I to III cost nothing. Infinite where all is accepted.
        law_honest: The law with the mean recorded cost of each phase.
    """

    thresholds: FloatArray
    accepted: FloatArray
    acceptance: FloatArray
    selective_accuracy: FloatArray
    final_accuracy: FloatArray
    accuracy_change: FloatArray
    excess_loss: FloatArray
    seconds: FloatArray
    speedup: FloatArray
    work_speedup: FloatArray
    law_ideal: FloatArray
    law_honest: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Ledger:
    """What each of M queries adds to the totals of a plan if its draft passes the gate.

    Attributes:
        plan: The plan.
        eligible: Where a passing draft becomes the answer. Shape (M,).
        changes: Rows as `COLUMNS`: change of each total if the draft passes. Shape (7, M).
        before: Rows as `COLUMNS`: each query's part of the totals if nothing passes. Shape (7, M).
        agent_right: Shape (M,).
        agent_seconds: Recorded seconds of the agent. Shape (M,).
        costs: Mean recorded seconds of each phase.
    """

    plan: Plan
    eligible: BoolArray
    changes: FloatArray
    before: FloatArray
    agent_right: BoolArray
    agent_seconds: FloatArray
    costs: Costs

    @classmethod
    def of(cls, table: RecordTable, outcomes: Outcomes, plan: Plan, screen_threshold: float) -> Ledger:
        """Work out the amounts."""
        rows = outcomes.rows
        let_through = table.screened(screen_threshold)[rows]
        agent = table.agent_seconds[rows]
        times = plan_times(plan, table.screen_seconds[rows], table.draft_seconds[rows], agent, let_through)
        costs = mean_costs(table, outcomes)
        flat = [np.full(rows.shape, cost) for cost in (costs.screen, costs.draft, costs.agent)]
        law = plan_times(plan, flat[0], flat[1], flat[2], let_through)
        answers = times.eligible & outcomes.usable
        right, agent_right = outcomes.draft_right, outcomes.agent_right
        changes, before = np.zeros((7, rows.size)), np.zeros((7, rows.size))
        for index, wins in enumerate((answers, answers & right, answers & ~right & agent_right)):
            changes[index] = wins
        changes[3] = answers & right & ~agent_right
        before[4], changes[4] = times.refused, times.passed - times.refused
        before[5], changes[5] = times.refused_work, times.passed_work - times.refused_work
        before[6], changes[6] = law.refused, law.passed - law.refused
        return cls(plan, answers, changes, before, agent_right, agent, costs)

    def curve(self, ranking: Ranking) -> Curve:
        """All figures at all thresholds."""
        totals = ranking.totals(self.changes) + self.before.sum(axis=-1, keepdims=True)
        return self._figures(totals, ranking.thresholds)

    def at(self, passing: BoolArray, weights: FloatArray | None = None) -> Curve:
        """The figures where given drafts pass, in each of R resamples.

        Args:
            passing: Which drafts pass the gate. Shape (M,).
            weights: How often each query is in each resample, shape (R, M). None: once.

        Returns:
            A "curve" of R points; its thresholds are NaN.
        """
        counts = np.ones((1, passing.size)) if weights is None else weights
        totals = (self.before + np.where(passing, self.changes, 0.0)) @ counts.T
        return self._figures(totals, np.full(len(counts), np.nan), counts)

    def _figures(self, totals: FloatArray, thresholds: FloatArray, weights: FloatArray | None = None) -> Curve:
        ones = np.ones((1, self.agent_right.size)) if weights is None else weights
        n = ones.sum(axis=-1)
        accepted, right, lost, gained, seconds, work, law = totals
        agent_seconds = ones @ self.agent_seconds
        with np.errstate(divide="ignore", invalid="ignore"):
            return Curve(
                thresholds=thresholds,
                accepted=accepted,
                acceptance=accepted / n,
                selective_accuracy=right / accepted,
                final_accuracy=(ones @ self.agent_right.astype(np.float64) - lost + gained) / n,
                accuracy_change=(gained - lost) / n,
                excess_loss=lost / accepted,
                seconds=seconds / n,
                speedup=agent_seconds / seconds,
                work_speedup=agent_seconds / work,
                law_ideal=np.where(accepted < n, n / (n - accepted), np.inf),
                law_honest=self.costs.agent * n / law,
            )


def mean_costs(table: RecordTable, outcomes: Outcomes) -> Costs:
    """Mean recorded seconds of each phase, over the records that were judged."""
    recorded = (table.screen_seconds, table.draft_seconds, table.agent_seconds)
    screen, draft, agent = (float(seconds[outcomes.rows].mean()) for seconds in recorded)
    return Costs(screen, draft, agent, queries=len(outcomes))
