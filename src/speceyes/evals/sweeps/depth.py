"""What closer looks of the draft model add to the default gate: at every threshold, and where it equals the agent.

Times are those of the plan `paper`, as recorded; see `Drafts`. Under the other plans that screen the same drafts are
accepted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speceyes.evals.records import RecordTable
from speceyes.evals.statistics.bootstrap import Estimate, resamples
from speceyes.evals.sweeps.depth_curves import DepthCurve, Drafts
from speceyes.evals.sweeps.depth_points import DepthPoint, Sureness
from speceyes.evals.sweeps.grid import GateSetting
from speceyes.evals.sweeps.measures import auroc
from speceyes.evals.sweeps.outcomes import Against, Outcomes
from speceyes.evals.sweeps.ranking import Ranking, RightAndWrong
from speceyes.gating.separability import FloatArray, IntArray
from speceyes.scheduling import Plan

CURVE_POINTS = 51


@dataclass(frozen=True, slots=True)
class DraftsOfDepth:
    """All drafts of one depth, whatever screening, or a gate before it, would say.

    Attributes:
        depth: After so many closer looks.
        looked: Share of the queries of which the draft model was shown a part; 1 at depth 0.
        scored: Drafts with a score.
        accuracy: Share of right ones among these.
        auroc: Chance that of a right and a wrong one of these the right one scores higher.
        seconds: Mean seconds of the look and its answer; at depth 0 of the first draft. NaN where nobody looked.
    """

    depth: int
    looked: float
    scored: int
    accuracy: Estimate
    auroc: Estimate
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """The same; null for what is undefined."""
        return {
            "depth": self.depth,
            "looked": self.looked,
            "scored": self.scored,
            "accuracy": self.accuracy.as_json(),
            "auroc": self.auroc.as_json(),
            "seconds": _number(self.seconds),
        }


@dataclass(frozen=True, slots=True, eq=False)
class DepthSweep:
    """What the closer looks of a run add to its default gate.

    Attributes:
        setting: The gate.
        judged: Queries of which all is known, up to the greatest depth.
        left_out: Judged queries of which it is not: a look failed.
        drafts: For each depth from 0.
        curves: For each number of looks allowed, from 0.
        as_accurate: The same, each at its own fastest threshold that is as accurate as the agent.
        same_threshold: The same from 1 look, at the threshold that 0 looks have among those.
    """

    setting: GateSetting
    judged: int
    left_out: int
    drafts: Sequence[DraftsOfDepth]
    curves: Sequence[DepthCurve]
    as_accurate: Sequence[DepthPoint]
    same_threshold: Sequence[DepthPoint]

    def as_json(self) -> dict[str, Any]:
        """The same as plain dictionaries; curves at about fifty of their thresholds."""
        return {
            "gate": {"score": self.setting.score, "aggregate": self.setting.aggregate or None, "k": self.setting.k},
            "plan": Plan.PAPER.value,
            "judged": self.judged,
            "left_out": self.left_out,
            "drafts": [drafts.as_json() for drafts in self.drafts],
            "as_accurate": [point.as_json() for point in self.as_accurate],
            "same_threshold": [point.as_json() for point in self.same_threshold],
            "curves": [_curve(curve) for curve in self.curves],
        }


def depth_effect(
    table: RecordTable, outcomes: Outcomes, setting: GateSetting, screen_threshold: float, sureness: Sureness
) -> DepthSweep | None:
    """Measure each depth that was recorded. None: no closer look was, or of no query all that there are to be.

    Args:
        table: The run.
        outcomes: Which records are judged, and against what.
        setting: The gate.
        screen_threshold: Of phase I.
        sureness: Of the intervals, with groups for all judged records.
    """
    depths = len(table.closer)
    known = table.complete_to(depths)[outcomes.rows]
    if not depths or not known.any():
        return None
    rows = outcomes.rows[known]
    drawn_together = np.unique(sureness.groups[known], return_inverse=True)[1]
    sure = Sureness(drawn_together, sureness.replicates, sureness.confidence, sureness.seed)
    drafts = Drafts.of(table, rows, outcomes.against, setting, screen_threshold)
    curves = [DepthCurve.of(drafts, depth) for depth in range(depths + 1)]
    first = curves[0].fastest_as_accurate
    return DepthSweep(
        setting=setting,
        judged=rows.size,
        left_out=int((~known).sum()),
        drafts=[_drafts_of(table, rows, outcomes.against, setting, depth, sure) for depth in range(depths + 1)],
        curves=curves,
        as_accurate=[DepthPoint.of(drafts, curve.max_depth, curve.fastest_as_accurate, sure) for curve in curves],
        same_threshold=[DepthPoint.of(drafts, curve.max_depth, first, sure) for curve in curves[1:]],
    )


def _drafts_of(
    table: RecordTable, rows: IntArray, against: Against, setting: GateSetting, depth: int, sure: Sureness
) -> DraftsOfDepth:
    part = table.closer[depth - 1] if depth else None
    answers, seconds = (part.answers, part.seconds) if part else (table.answers, table.draft_seconds)
    usable = part.usable if part else table.draft_usable
    if against is Against.LABELS:
        right = (part.right if part else table.draft_right)[rows]
    else:
        right = (part.agrees if part else table.agrees)[rows]
    values = np.where(usable, answers.score(setting.score, setting.k, setting.aggregate).values, np.nan)[rows]
    ranking, scored = Ranking.of(values), ~np.isnan(values)
    area = float(auroc(RightAndWrong.of(ranking, right))[0])
    drawn = [
        auroc(RightAndWrong.of(ranking, right, weights))
        for weights in resamples(sure.groups, sure.replicates, sure.seed)
    ]
    taken = seconds[rows][~np.isnan(seconds[rows])]
    return DraftsOfDepth(
        depth=depth,
        looked=float(part.looked[rows].mean()) if part else 1.0,
        scored=int(scored.sum()),
        accuracy=sure.of({"accuracy": ((scored & right).astype(float), scored.astype(float))})["accuracy"],
        auroc=Estimate.of(area, np.concatenate(drawn) if drawn else np.empty(0), sure.confidence),
        seconds=float(taken.mean()) if taken.size else math.nan,
    )


def _curve(curve: DepthCurve) -> dict[str, Any]:
    """About fifty of its thresholds, evenly spread over acceptance; each list has one value a point."""
    acceptance = curve.acceptance
    places = np.linspace(0.0, acceptance[-1], CURVE_POINTS)
    points = np.unique(np.minimum(np.searchsorted(acceptance, places), acceptance.size - 1))

    def plain(values: FloatArray) -> list[float | None]:
        return [_number(value) for value in values[points].tolist()]

    lines = ("final_accuracy", "accuracy_change", "seconds", "speedup")
    return {
        "max_depth": curve.max_depth,
        "threshold": plain(curve.thresholds),
        "accepted_at": [plain(share) for share in curve.accepted],
        **{name: plain(getattr(curve, name)) for name in lines},
    }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
