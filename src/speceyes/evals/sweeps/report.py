"""A sweep as JSON, and what must be said about it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from speceyes.evals.sweeps.curves import Curve
from speceyes.evals.sweeps.grid import LEARNED
from speceyes.evals.sweeps.learned import LEAST
from speceyes.evals.sweeps.operating import Point
from speceyes.evals.sweeps.published import PUBLISHED, SOURCE
from speceyes.evals.sweeps.sweep import Sweep
from speceyes.evals.sweeps.wording import meanings, renamed, wording
from speceyes.gating import SCORES, wilson

FORMAT = 1
"""Version of the JSON's layout."""
CURVE_POINTS = 51
FEW = 100


def sweep_json(swept: Sweep) -> dict[str, Any]:
    """Everything that a sweep found, as strict JSON: null stands for what is undefined or has no bound."""
    against = swept.outcomes.against
    content = {
        "run": _run(swept),
        "notes": notes(swept),
        "agent": _share(int(swept.outcomes.agent_right.sum()), len(swept.outcomes)),
        "draft": _share(int(swept.outcomes.draft_right.sum()), len(swept.outcomes)),
        "costs": {f"{name}_s": _number(getattr(swept.costs, name)) for name in ("screen", "draft", "agent")},
        "screening": swept.screening.as_json(),
        "gates": [_gate(swept, index) for index in range(len(swept.gates))],
        "best": _points({plan.value: point for plan, point in swept.best.items()}),
        "default_gate": _points({plan.value: point for plan, point in swept.default.items()}),
        "pareto": {plan.value: [point.as_json() for point in points] for plan, points in swept.fronts.items()},
        "published": {"source": SOURCE, "measured_here": False, "systems": [p.as_json() for p in PUBLISHED]},
    }
    if swept.depth is not None:
        content["depth"] = swept.depth.as_json()
    named = renamed(content, against)
    meaning = meanings(against, closer=swept.depth is not None)
    return {"format": FORMAT, "against": against.value, "meaning": meaning, **named}


def notes(swept: Sweep) -> list[str]:
    """What a reader must know before believing a figure."""
    outcomes, word = swept.outcomes, wording(swept.outcomes.against)
    found = [word.judged]
    for count, why in ((outcomes.incomplete, "lack a phase"), (outcomes.unlabelled, "have no label")):
        if count:
            found.append(f"{count} of {len(swept.table)} records {why} and are left out.")
    if len(outcomes) < FEW:
        found.append(f"Few records ({len(outcomes)}): the intervals are wide, and still narrower than they should be.")
    if outcomes.draft_right.all() or not outcomes.draft_right.any():
        all_of_them = word.right if outcomes.draft_right.all() else word.wrong
        found.append(f"All drafts are {all_of_them}, so no score can tell {word.right} from {word.wrong}: no AUROC.")
    missing = swept.gates[swept.reference].missing
    if missing:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(missing.items()))
        found.append(
            f"{sum(missing.values())} drafts have no score at K = {swept.k} ({reasons}). They go to the agent at every "
            "threshold; they count in acceptance and final figures, and are not in AUROC and AURC."
        )
    if all(np.isnan(g.values).all() for g in swept.gates if g.setting.score == LEARNED):
        found.append(
            f"The learned gate was not trained: it needs at least {LEAST} {word.right} and {LEAST} {word.wrong} drafts "
            "with a score."
        )
    if swept.depth is not None and swept.depth.left_out:
        found.append(
            f"Of {swept.depth.left_out} judged records a closer look is not known, since its server failed; they are "
            "left out of what is said about looks."
        )
    found.append("Times are each query's own, as recorded: no waiting for slots, no batching of other queries' work.")
    found.append(
        f"Front and best settings are picked from {settings_tried(swept):,} on these same records, so they look a "
        "little better than they are. A threshold to rely on comes from `speceyes calibrate`."
    )
    return found


def settings_tried(swept: Sweep) -> int:
    """Gate, K, threshold and plan: all combinations whose figures were computed."""
    return sum(gate.ranking.scores.size + 1 for gate in swept.gates) * len(swept.ledgers)


def _run(swept: Sweep) -> dict[str, Any]:
    options = swept.options
    return {
        "records": len(swept.table),
        "judged": len(swept.outcomes),
        "digest": swept.table.digest,
        "bound_to": dict(swept.table.bound_to),
        "ks": list(swept.ks),
        "k": swept.k,
        "screen_threshold": options.screen_threshold,
        "plan": options.plan.value,
        "settings": settings_tried(swept),
        "intervals": {
            "method": "percentile bootstrap, paired over queries, those of one group (image) drawn together",
            "source": "Efron, Bootstrap Methods: Another Look at the Jackknife, 1979",
            "groups": int(swept.groups.max()) + 1,
            "replicates": options.replicates,
            "confidence": options.confidence,
            "seed": options.seed,
        },
    }


def _gate(swept: Sweep, index: int) -> dict[str, Any]:
    gate, found, setting = swept.gates[index], swept.separations[index], swept.gates[index].setting
    content: dict[str, Any] = {
        "score": setting.score,
        "aggregate": setting.aggregate or None,
        "k": setting.k,
        "scored": int(gate.ranking.order.size),
        "without_score": dict(gate.missing),
        "auroc": found.auroc.as_json(),
        "auroc_lead": found.auroc_lead.as_json(),
        "aurc": found.aurc.as_json(),
        "excess_aurc": found.excess_aurc.as_json(),
    }
    if setting.k == swept.k:
        content["curve"] = _curve(swept.curves[index], setting.score)
    return content


def _curve(curve: Curve, score: str) -> dict[str, list[float | None]]:
    """The curve at about fifty of its thresholds, evenly spread over acceptance; each list has one value a point."""
    places = np.linspace(0.0, curve.acceptance[-1], CURVE_POINTS)
    points = np.unique(np.minimum(np.searchsorted(curve.acceptance, places), curve.acceptance.size - 1))
    content = {}
    for name in Curve.__slots__:
        content["threshold" if name == "thresholds" else name] = [
            _number(value) for value in getattr(curve, name)[points].tolist()
        ]
    if score in SCORES:
        squash = SCORES[score].squash
        content["squashed_threshold"] = [None if t is None else float(squash(t)) for t in content["threshold"]]
    return content


def _points(points: dict[str, Point]) -> dict[str, Any]:
    return {name: point.as_json() for name, point in points.items()}


def _share(count: int, n: int) -> dict[str, Any]:
    low, high = wilson(count, n)
    return {"accuracy": {"value": count / n, "low": low, "high": high, "interval": "Wilson, 95 %"}, "n": n}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
