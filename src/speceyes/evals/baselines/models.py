"""What all systems share: the same two models and the same gate."""

from __future__ import annotations

from dataclasses import dataclass

from speceyes.gating import Calibration
from speceyes.phases import AgentModel, DraftModel
from speceyes.scheduling import Plan


@dataclass(frozen=True, slots=True)
class Models:
    """The pair that all systems work with.

    Attributes:
        draft: The draft model.
        agent: The agent.
        calibration: The gate's threshold, and phase I's.
        plan: In which order SpecEyes runs the phases: a `Plan`, or `auto`. The baselines keep to the paper's.
    """

    draft: DraftModel
    agent: AgentModel
    calibration: Calibration
    plan: str = Plan.PAPER.value
