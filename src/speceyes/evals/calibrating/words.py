"""What a calibration promises and what it does not, in words for people who never heard of p-values."""

from __future__ import annotations

import math

from speceyes.evals.calibrating.calibrate import Calibrated, Method
from speceyes.gating import find_score
from speceyes.gating.certify import Limit, Risk
from speceyes.gating.certify.sample_size import POWER

LOSSES = {
    Risk.EXCESS: "are answered wrongly by the draft where the agent would have been right",
    Risk.DISAGREEMENT: "get another answer from the draft than the agent would have given",
    Risk.ERROR: "are answered wrongly by the draft",
}
SHORT = {
    Risk.EXCESS: "draft wrong, agent right",
    Risk.DISAGREEMENT: "draft and agent differ",
    Risk.ERROR: "draft wrong",
}
NOT_PROMISED = (
    (
        "Other questions than these",
        "The promise holds for questions of the same kind as the recorded ones, in the same mix, drawn independently "
        "of each other. If users ask other things, send other pictures, or many questions about one picture, it does "
        "not. Record what your users really ask.",
    ),
    (
        "The future",
        "Traffic changes, and a server's update may change the log-probs without changing a name. Nothing in this file "
        "notices. An audit does: it sends a share of the accepted questions to the agent as well, and raises an alarm. "
        "It too sees only that share, so small changes take it a while.",
    ),
    (
        "Each kind of question",
        "It is a share over all accepted questions. One kind may lose more, and another less; the table of kinds shows "
        "what was measured, and proves nothing for a single kind.",
    ),
    (
        "Each single answer",
        "An accepted answer may be wrong. The promise is about how many are.",
    ),
    (
        "More than one try",
        "Whoever calibrates again and again, with other scores or limits or with a few more records each time, until "
        "one attempt passes, has used up the promise. Choose the setting and the number of records first (on other "
        "records: that is what sweeps are for), then calibrate once.",
    ),
    (
        "Better than the labels",
        "Right and wrong are what the data set's labels and the scoring of answers say. The statistics take their word "
        "for it.",
    ),
)
"""What a guarantee on future accepted questions does not cover: (heading, explanation)."""


def share_words(share: float) -> str:
    """0.02 as "2 in 100", 0.025 as "25 in 1,000"."""
    for base in (100, 1000, 10_000):
        if math.isclose(share * base, round(share * base), rel_tol=1e-9) and round(share * base) > 0:
            return f"{round(share * base):,} in {base:,}"
    return f"{share * 100:.3g} in 100"


def percent(share: float | None) -> str:
    """0.01234 as "1.23 %", 0.5 as "50 %"."""
    if share is None:
        return "none"
    digits = f"{share * 100:.2f}" if share < 0.1 else f"{share * 100:.1f}"
    return f"{digits.rstrip('0').rstrip('.')} %"


def promise(limit: Limit) -> str:
    """What is promised of one risk."""
    return f"Of the questions that the draft answers, at most {share_words(limit.alpha)} {LOSSES[limit.risk]}."


def confidence(delta: float) -> str:
    """How far the promise can be trusted."""
    return (
        f"A promise made in this way is wrong at most {share_words(delta)} times: so many of all calibrations, each on "
        "fresh questions, would be misled by the luck of the draw."
    )


def found(result: Calibrated) -> str:
    """The threshold, and what it was found on."""
    gate, chosen = result.calibration, result.certificate.chosen
    assert chosen is not None
    assert gate.threshold is not None
    squashed = float(find_score(gate.score, gate.aggregate).squash(gate.threshold))
    lost = ", ".join(
        f"{lost} lost ({SHORT[limit.risk]})"
        for lost, limit in zip(chosen.losses, result.certificate.limits, strict=True)
    )
    return (
        f"Accept a draft where its score is at least {gate.threshold:.4g} ({squashed:.4f} on the scale from 0 to 1). "
        f"Of {gate.n:,} certifying questions this accepts {chosen.accepted:,} ({percent(chosen.accepted / gate.n)}), "
        f"and of these {lost}.{by_depth(result)}"
    )


def by_depth(result: Calibrated) -> str:
    """How many are accepted after how many looks, as a further sentence; empty where there is only the first one."""
    if len(result.depths) < 2:
        return ""
    parts = [
        f"{accepted:,} {after(depth)} ({lost:,} lost)"
        for depth, (accepted, lost) in enumerate(result.depths)
        if accepted
    ]
    return f" Accepted were {', '.join(parts)}."


def after(depth: int) -> str:
    """When a draft was made."""
    return "at the first look" if depth == 0 else f"after {depth} closer look{'s' if depth > 1 else ''}"


def room(result: Calibrated) -> str:
    """Measured risk, bound and limit, for each risk."""
    chosen = result.certificate.chosen
    assert chosen is not None
    return " ".join(
        f"{limit.risk.value.capitalize()}: measured {percent(lost / chosen.accepted)}, upper bound {percent(bound)}, "
        f"limit {percent(limit.alpha)}."
        for limit, lost, bound in zip(result.certificate.limits, chosen.losses, chosen.bounds, strict=True)
    )


def infeasible(result: Calibrated) -> list[str]:
    """Why there is no threshold, and what would help."""
    certificate, need = result.certificate, result.need
    assert need is not None
    lines = ["No threshold could be proven with these records, so the gate accepts nothing and the agent answers all."]
    if need.carried_at is None:
        lines.append(
            "Not one certifying question was accepted at any threshold tested: see what became of the records."
        )
        return lines
    if need.records is None:
        lines.append(
            "More records of this kind would not help: at every threshold tested, the measured risk is at its limit, "
            "above it, or too close below it. Allow more, or improve the draft, the score or the screening."
        )
    else:
        lines.append(
            f"About {result.more_records:,} more records would do (the gate's threshold near {need.threshold:.4g}, "
            f"{need.accepted:,} accepted questions that certify). With so many, and if the rates seen here are the "
            f"true ones, the test passes {share_words(POWER).replace('80 in 100', '4 times in 5')}."
        )
    could = ", ".join(
        f"{limit.risk} at most {percent(carried)}"
        for limit, carried in zip(certificate.limits, need.carried, strict=True)
    )
    if all(carried <= limit.alpha for limit, carried in zip(certificate.limits, need.carried, strict=True)):
        lines.append(
            f"It was close: at {need.carried_at:.4g} alone the records would have been enough ({could}). But the test "
            "had ended at a stricter threshold, which accepted too few or lost too many, and to go on all the same "
            "would make the promise worth less. Fresh records will probably do."
        )
    else:
        lines.append(
            f"What these records come closest to: {could}. Take that as a limit to ask of fresh records; having seen "
            "it, these can no longer prove it."
        )
    return lines


def method(result: Calibrated) -> str:
    """Where the thresholds came from, and why testing several is no cheating."""
    gate, tested = result.calibration, sum(step.tested for step in result.certificate.steps)
    if result.method is Method.SPLIT:
        source = (
            f"{gate.n_tuning:,} of the records, drawn at random, chose which thresholds to try; the other {gate.n:,} "
            "put them to the test."
        )
    else:
        source = f"The thresholds were fixed before the records were looked at; all {gate.n:,} put them to the test."
    several = any(0.0 < step.level < result.certificate.delta for step in result.certificate.steps)
    after = (
        "after one that fails, nothing looser until the sequence's next start, for which a part of the allowed error "
        "was set aside"
        if several
        else "after one that fails, nothing looser"
    )
    return (
        f"{source} The strictest threshold was tested first, then looser ones, and {after}: {tested} of "
        f"{len(result.certificate.steps)} were tested. Each test asks how likely so few losses would be, were the true "
        "risk above its limit. It is exact, not an approximation; and as the order was fixed beforehand, trying "
        "several thresholds does not wear out the promise."
    )


def summary_lines(result: Calibrated) -> list[str]:
    """The whole outcome in a few lines."""
    if result.need is not None:
        return infeasible(result)
    promises = [promise(limit) for limit in result.certificate.limits]
    return [found(result), *promises, confidence(result.certificate.delta), room(result)]
