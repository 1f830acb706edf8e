"""The funnel with a phase left out, or with another model in it: what is each phase worth?"""

from __future__ import annotations

from speceyes.evals.baselines.cascade import Cascade, by_gate
from speceyes.evals.baselines.models import Models
from speceyes.evals.baselines.screening import screened_by_agent, screened_by_draft
from speceyes.evals.systems import Question, Role, SystemName
from speceyes.phases import gate
from speceyes.types import Draft, Verdict


def no_screen(models: Models) -> Cascade:
    """Every query has a draft, and the gate alone decides."""
    return Cascade(SystemName.NO_SCREEN, models, screen=None, judge=by_gate(models))


def no_gate(models: Models) -> Cascade:
    """Screening alone decides: what it lets through, the draft answers, whatever its score and even its faults."""

    def judge(draft: Draft, question: Question) -> Verdict:
        return Cascade.decided(gate(draft, models.calibration), accepted=True)

    return Cascade(SystemName.NO_GATE, models, screen=screened_by_agent, judge=judge)


def draft_screen(models: Models) -> Cascade:
    """The draft model screens in the agent's place, against the same threshold.

    That threshold was found for the agent's screening, so this shows what becomes of it with another model, not the
    best that the draft could do.
    """
    return Cascade(
        SystemName.DRAFT_SCREEN, models, screen=screened_by_draft, judge=by_gate(models), screened_by=Role.DRAFT
    )
