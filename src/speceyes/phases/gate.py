"""Phase III: pure arithmetic decides. It calls nobody and awaits nothing."""

from __future__ import annotations

import json

from speceyes.errors import CalibrationMismatch
from speceyes.gating import Calibration, confidence, fingerprint
from speceyes.phases.fall_back import AgentModel
from speceyes.phases.speculate import DraftModel
from speceyes.types import Draft, Reason, Screening, Verdict


def in_use(draft: DraftModel, agent: AgentModel) -> dict[str, str]:
    """What a calibration is bound to, under the names that it uses: both models and all that is said to them."""
    prompts = agent.dialect.prompts
    tools = json.dumps(agent.dialect.tools, sort_keys=True)
    looks = (draft.look_prompt, draft.coordinates.value, f"{draft.zoom_context:g}")
    return {
        **({"look_prompt": fingerprint(*looks)} if draft.max_depth else {}),
        "draft_model": draft.identity,
        "agent_model": agent.identity,
        "draft_prompt": fingerprint(draft.prompt),
        "screen_prompt": fingerprint(prompts.system, prompts.screen, tools),
        "agent_prompt": fingerprint(prompts.fingerprint, tools),
    }


def check_calibration(calibration: Calibration, draft: DraftModel, agent: AgentModel) -> None:
    """Refuse a calibration that was made for something else.

    Raises:
        CalibrationMismatch: Names what differs.
    """
    calibration.check(**in_use(draft, agent), max_depth=draft.max_depth)
    if draft.logprobs < calibration.k:
        raise CalibrationMismatch(
            f"This calibration scores the {calibration.k} largest log-probs of a token, but the draft model is asked "
            f"for {draft.logprobs} only. Ask for at least {calibration.k}, or calibrate with k = {draft.logprobs}."
        )


def gate_screening(screening: Screening, calibration: Calibration) -> Verdict | None:
    """Refuse a query of which the agent says that a tool would help. None: a draft may still answer it."""
    if screening.help_probability is None:
        return Verdict(Reason.SCREEN_UNREADABLE)
    if screening.help_probability > calibration.screen_threshold:
        return Verdict(Reason.TOOL_WOULD_HELP)
    return None


def gate(draft: Draft, calibration: Calibration) -> Verdict:
    """Accept a draft whose answer stands apart from its rivals by at least the calibrated threshold.

    Whatever cannot be scored is refused, under the reason why: never an exception, never an accept by default.
    """
    if not calibration.feasible:
        return Verdict(Reason.INFEASIBLE)
    if draft.fault is not None:
        return Verdict(draft.fault, threshold=calibration.threshold)
    found = confidence(draft.tokens, score=calibration.score, k=calibration.k, aggregate=calibration.aggregate)
    if found.score is None or calibration.threshold is None:
        return Verdict(found.reason or Reason.SCORE_UNDEFINED, threshold=calibration.threshold)
    passed = found.score >= calibration.threshold
    reason = Reason.ACCEPTED if passed else Reason.BELOW_THRESHOLD
    return Verdict(reason, found.score, found.squashed, calibration.threshold)
