"""What is audited, and where a gate stands at each level of the audit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from speceyes.config import TrustSettings
from speceyes.errors import ConfigError
from speceyes.gating import Calibration, fingerprint
from speceyes.gating.audit import AuditPlan, plan_for
from speceyes.gating.calibration import MANUAL


def check_trust(settings: TrustSettings, calibration: Calibration) -> None:
    """Find out before anything is started whether what is to be audited has a limit.

    Raises:
        ConfigError: It has none.
    """
    if settings.mode == "audit":
        make_plan(settings, calibration)


def make_plan(settings: TrustSettings, calibration: Calibration, setup: Sequence[str] = ()) -> AuditPlan:
    """What is audited: disagreement of draft and agent, the only loss that can be seen in service.

    Args:
        settings: The section `trust`.
        calibration: As it was made.
        setup: Models and prompts in use; a threshold that was set by hand names none itself.

    Raises:
        ConfigError: Neither the calibration nor the settings name a limit, or the settings do not fit together.
    """
    promised = {promise.risk for promise in calibration.promises}
    if settings.audit_alpha is None and "disagreement" not in promised:
        promises = f"only {', '.join(sorted(promised))}" if promised else "nothing of the kind"
        raise ConfigError(
            f"an audit needs a limit of how many accepted drafts may differ from the agent's answer, and the "
            f"calibration in use ({calibration.method}, {calibration.created}) promises {promises}. Set the limit "
            "(trust.audit_alpha, such as 0.05), or calibrate with `--risk disagreement --alpha A`"
        )
    given = {
        "alpha": settings.audit_alpha,
        "delta": settings.audit_delta,
        "share": settings.audit_share,
        "on_change": settings.audit_on_change,
        "on_missing": settings.audit_on_missing,
    }
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return replace(plan_for(calibration, **chosen), calibration=identity(calibration, setup))


def identity(calibration: Calibration, setup: Sequence[str] = ()) -> str:
    """What tells one calibration from another. One that was set by hand is dated anew at every start."""
    if calibration.method != MANUAL:
        return calibration.digest
    content = calibration.model_dump(exclude={"created", "notes"})
    return fingerprint(json.dumps(content, sort_keys=True), *setup)


def at_level(calibration: Calibration, level: int) -> Calibration:
    """A calibration, tightened so many times. One that was set by hand has one threshold, and then accepts nothing."""
    if calibration.method == MANUAL and level:
        return calibration.model_copy(update={"threshold": None})  # which no manual calibration may be made with
    for _ in range(level):
        calibration = calibration.tightened()
    return calibration
