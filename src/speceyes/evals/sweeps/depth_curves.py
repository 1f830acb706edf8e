"""All drafts of every query, of the first look and after closer ones, and what a threshold makes of them.

A query is answered by the first of its drafts that reaches the threshold: the one of the first look, where screening
lets it through, then those after one closer look, two, ... as far as is allowed, and else by the agent. So the draft of
a depth answers at the thresholds from its own score down to the best score of those before it, this one excluded, and a
total at a threshold is a running sum of what has come in less what has gone over to an earlier draft.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speceyes.evals.records import RecordTable
from speceyes.evals.sweeps.grid import GateSetting
from speceyes.evals.sweeps.outcomes import Against
from speceyes.gating.answers import BoolArray
from speceyes.gating.separability import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Drafts:
    """The drafts of M queries, a row for each depth from 0 to N.

    Times are those of the plan `paper`: screen, draft where it is let through, then look after look. A look without a
    draft before it has to read the picture first: it is charged with the first draft's seconds too.

    Attributes:
        scores: NaN where no threshold accepts: no score, or, at depth 0, not let through. Shape (N + 1, M).
        right: Shape (N + 1, M).
        spent: Seconds until this draft is there, those before it refused; a look that came to nothing has cost its
            own, and one that was not taken nothing. Shape (N + 1, M).
        agent_right: Shape (M,).
        agent_seconds: Of the agent alone. Shape (M,).
    """

    scores: FloatArray
    right: BoolArray
    spent: FloatArray
    agent_right: BoolArray
    agent_seconds: FloatArray

    @classmethod
    def of(
        cls, table: RecordTable, rows: IntArray, against: Against, setting: GateSetting, screen_threshold: float
    ) -> Drafts:
        """Score the drafts of these records as the gate would."""
        by_labels = against is Against.LABELS
        through = table.screened(screen_threshold) & table.draft_usable
        scores = [np.where(through, table.answers.score(setting.score, setting.k, setting.aggregate).values, np.nan)]
        right = [table.draft_right if by_labels else table.agrees]
        drafted = np.where(table.screened(screen_threshold), table.draft_seconds, 0.0)
        spent, so_far = [table.screen_seconds + drafted], table.screen_seconds + table.draft_seconds
        for closer in table.closer:
            values = closer.answers.score(setting.score, setting.k, setting.aggregate).values
            scores.append(np.where(closer.usable, values, np.nan))
            right.append(closer.right if by_labels else closer.agrees)
            so_far = so_far + np.nan_to_num(closer.seconds)
            spent.append(so_far)
        agent_right = table.agent_right if by_labels else np.ones(len(table), dtype=np.bool_)
        return cls(
            np.stack(scores)[:, rows],
            np.stack(right)[:, rows],
            np.stack(spent)[:, rows],
            agent_right[rows],
            table.agent_seconds[rows],
        )

    def refused(self, depth: int) -> FloatArray:
        """Seconds of each query where so many looks are allowed and no draft is accepted. (M,)."""
        found: FloatArray = self.spent[depth] + self.agent_seconds
        return found

    def answered_at(self, threshold: float, depth: int) -> IntArray:
        """Depth of the draft that answers each query where so many looks are allowed, -1 for the agent. (M,)."""
        reached = self.scores[: depth + 1] >= threshold  # NaN compares false
        return np.where(reached.any(axis=0), reached.argmax(axis=0), -1)


@dataclass(frozen=True, slots=True, eq=False)
class DepthCurve:
    """So many looks allowed, at each of g + 1 thresholds.

    Attributes:
        max_depth: Looks that are allowed.
        thresholds: Infinity, which accepts nothing, then every distinct score of the depths allowed. Shape (g + 1,).
        accepted: Share of all queries that is answered at each depth. Shape (max_depth + 1, g + 1).
        final_accuracy: Share of all queries that the system answers right. Shape (g + 1,).
        accuracy_change: Final accuracy minus the agent's own. Shape (g + 1,).
        seconds: Mean seconds a query. Shape (g + 1,).
        speedup: The agent's recorded seconds over these. Shape (g + 1,).
    """

    max_depth: int
    thresholds: FloatArray
    accepted: FloatArray
    final_accuracy: FloatArray
    accuracy_change: FloatArray
    seconds: FloatArray
    speedup: FloatArray

    @classmethod
    def of(cls, drafts: Drafts, depth: int) -> DepthCurve:
        """All figures at all thresholds, with so many looks allowed."""
        scores, n, refused = drafts.scores[: depth + 1], drafts.agent_right.size, drafts.refused(depth)
        thresholds = np.concatenate([[np.inf], -np.unique(-scores[~np.isnan(scores)])])
        accepted, change = np.zeros((depth + 1, thresholds.size)), np.zeros(thresholds.size)
        seconds = np.full(thresholds.size, refused.sum())
        best = np.full(n, np.nan)
        for j in range(depth + 1):
            gain = drafts.right[j].astype(np.float64) - drafts.agent_right
            columns = np.stack([np.ones(n), gain, drafts.spent[j] - refused])
            # NaN compares false; a draft that scores no more than one before it never answers
            able = ~np.isnan(scores[j]) & ~(scores[j] <= best)
            come = _reaching(np.where(able, scores[j], np.nan), columns, thresholds)
            gone = _reaching(np.where(able, best, np.nan), columns, thresholds)
            accepted[j], moved, saved = come - gone
            change, seconds = change + moved, seconds + saved
            best = np.fmax(best, scores[j])
        return cls(
            max_depth=depth,
            thresholds=thresholds,
            accepted=accepted / n,
            final_accuracy=(drafts.agent_right.sum() + change) / n,
            accuracy_change=change / n,
            seconds=seconds / n,
            speedup=drafts.agent_seconds.sum() / seconds,
        )

    @property
    def acceptance(self) -> FloatArray:
        """Share of all queries that some draft answers. Shape (g + 1,)."""
        found: FloatArray = self.accepted.sum(axis=0)
        return found

    @property
    def fastest_as_accurate(self) -> float:
        """The fastest threshold whose final accuracy is not below the agent's; infinity accepts nothing."""
        speed = np.where(self.accuracy_change >= 0, self.speedup, -np.inf)
        return float(self.thresholds[int(np.argmax(speed))])


def _reaching(scores: FloatArray, columns: FloatArray, thresholds: FloatArray) -> FloatArray:
    """The columns' sums over the queries whose score is at least each threshold. (M,), (C, M), (T,) -> (C, T)."""
    order = np.argsort(-scores, kind="stable")[: int((~np.isnan(scores)).sum())]
    running = np.cumsum(np.pad(columns[:, order], ((0, 0), (1, 0))), axis=1)
    found: FloatArray = running[:, np.searchsorted(-scores[order], -thresholds, side="right")]
    return found
