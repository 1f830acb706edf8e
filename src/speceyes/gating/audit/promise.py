"""From a calibration to the audit of what it promises."""

from __future__ import annotations

from typing import Any

from speceyes.errors import ConfigError
from speceyes.gating.audit.plan import AuditPlan, Risk
from speceyes.gating.audit.reference import Reference
from speceyes.gating.calibration import Calibration


def plan_for(calibration: Calibration, *, risk: Risk = "disagreement", **settings: Any) -> AuditPlan:
    """The audit of one of a calibration's promises, over its certified thresholds.

    Traffic has no labels, so in service only disagreement of draft and agent can be seen. It is never rarer than
    excess loss, and often more frequent: two models may be wrong in different ways. So a promise about excess cannot
    be audited by counting disagreements against the same alpha; that would raise alarms where nothing is wrong.

    Args:
        calibration: As it was made: its own threshold and the stricter certified ones are the audit's levels.
        risk: The promise to be audited.
        settings: Further fields of `AuditPlan`. With an `alpha` of its own the audit watches that limit, promised or
            not.

    Raises:
        ConfigError: The calibration does not promise this, and no `alpha` is given.
    """
    promised = {promise.risk: promise.alpha for promise in calibration.promises}
    alpha = settings.pop("alpha", None) or promised.get(risk)
    if alpha is None:
        raise ConfigError(
            f"This calibration ({calibration.method}, {calibration.created}) promises "
            f"{', '.join(promised) or 'nothing'}, so there is no limit of the {risk} rate to be audited. Calibrate "
            f"for {risk} as well, with a limit of its own, or set the audit's alpha."
        )
    lowest = calibration.threshold
    levels = [one for one in reversed(calibration.certified) if lowest is not None and one.threshold >= lowest]
    thresholds = tuple(one.threshold for one in levels) or (() if lowest is None else (lowest,))
    reference = None
    if calibration.traffic is not None and len(levels) == len(thresholds):
        reference = Reference(
            n=calibration.n,
            screened=calibration.traffic.screened,
            accepted=tuple(one.accepted for one in levels),
            score_edges=calibration.traffic.score_edges,
            score_counts=calibration.traffic.score_counts,
        )
    made = {"reference": reference, **({"delta": calibration.delta} if calibration.delta else {})}
    return AuditPlan(thresholds=thresholds, alpha=alpha, risk=risk, calibration=calibration.digest, **(made | settings))
