"""`calibrate`: from a recorded run to a certificate, and from that to a calibration's file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from speceyes.errors import ConfigError, InputError
from speceyes.evals.calibrating.evidence import BoolArray, Coverage, Evidence, GateSetting, collect
from speceyes.evals.records import RecordTable
from speceyes.gating import Calibration, find_score
from speceyes.gating.audit.reference import Reference
from speceyes.gating.certify import (
    Certificate,
    Limit,
    Need,
    ThresholdSequence,
    absolute_grid,
    certify,
    need_for,
    split_at_random,
    tuned,
)
from speceyes.gating.evidence import CertifiedThreshold, Promise, Traffic

SHARE = 0.2
"""Share of the records that choose the thresholds, where the run is split."""


class Method(StrEnum):
    """Where the thresholds come from that the records are to certify."""

    SPLIT = "split"
    """Some of the records, drawn at random, choose them; the others certify."""
    FIXED_SEQUENCE = "fixed-sequence"
    """They were fixed before: one grid for everybody, or those of an earlier calibration. All records certify."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration and how it came about.

    Attributes:
        calibration: What the gate uses. Its threshold is None where nothing could be certified.
        certificate: The test.
        method: Where the thresholds came from.
        coverage: What became of the recorded queries.
        depths: After so many closer looks, from 0: accepted certifying records, and lost ones by the first risk. They
            add up to those of the threshold. Measured, and not certified.
        groups: By kind of question: certifying records, accepted ones, and lost ones by the first risk. Measured, and
            not certified.
        need: What it would have taken; None where a threshold was certified.
    """

    calibration: Calibration
    certificate: Certificate
    method: Method
    coverage: Coverage
    depths: Sequence[tuple[int, int]]
    groups: Mapping[str, tuple[int, int, int]]
    need: Need | None

    @property
    def more_records(self) -> int | None:
        """How many more records it would have taken, those that choose the thresholds included; None if unknown."""
        if self.need is None or self.need.more is None:
            return None
        n, n_tuning = self.calibration.n, self.calibration.n_tuning
        return math.ceil(self.need.more * (n + n_tuning) / n)


def calibrate(
    table: RecordTable,
    gate: GateSetting,
    limits: Sequence[Limit],
    delta: float,
    *,
    method: Method = Method.SPLIT,
    share: float = SHARE,
    earlier: Calibration | None = None,
    max_depth: int | None = None,
) -> Calibrated:
    """Find the loosest threshold of which the records prove that every risk keeps its limit.

    With closer looks the promise is about all drafts that are accepted, of whatever depth: one threshold holds for all,
    and each query's answer is the first that reaches it.

    Args:
        table: The recorded run.
        gate: All of the gate but its threshold.
        limits: The risks, and the most of each that is allowed. The first one is the calibration's main promise.
        delta: The greatest chance that the promise is wrong.
        method: Where the thresholds come from.
        share: For `split`: the part of the records that chooses them.
        earlier: For `fixed-sequence`: test the certified thresholds of this calibration, not the grid.
        max_depth: How often the draft model may look closer by itself before the agent is asked. None: as often as it
            did in the records.

    Raises:
        ConfigError: Limits, delta or the earlier calibration are not fit for this.
        InputError: The records are not fit for it: see `collect` and `split_at_random`.
    """
    if len({limit.risk for limit in limits}) != len(limits):
        raise ConfigError("A risk has two limits. Name each risk once.")
    depth = len(table.closer) if max_depth is None else max_depth
    evidence = collect(table, gate, limits, depth)
    tuning = np.zeros(len(evidence.outcomes), dtype=np.bool_)
    if method is Method.SPLIT:
        if earlier is not None:
            raise ConfigError("An earlier calibration's thresholds go with the method fixed-sequence, not with split.")
        tuning = split_at_random(len(tuning), share, seed=table.digest)
        ratio = float((~tuning).sum() / tuning.sum())
        sequence = tuned(evidence.outcomes.part(tuning), limits, delta, ratio)
    else:
        sequence = (
            absolute_grid(find_score(gate.score, gate.aggregate)) if earlier is None else _of(earlier, gate, table)
        )
    certifying = Evidence(
        evidence.outcomes.part(~tuning),
        evidence.screened[~tuning],
        evidence.categories[~tuning],
        evidence.coverage,
    )
    certificate = certify(certifying.outcomes, sequence, limits, delta)
    calibration = make_calibration(
        certificate,
        gate,
        bound_to=_bound_to(table, depth),
        data=table.digest,
        method=method,
        n_tuning=int(tuning.sum()),
        traffic=_traffic(certifying),
        max_depth=depth or None,
    )
    threshold = math.inf if calibration.threshold is None else calibration.threshold
    answered_at, lost = certifying.outcomes.answered_at(threshold)
    level = delta * float(sequence.weights.max(initial=0.0))
    return Calibrated(
        calibration=calibration,
        certificate=certificate,
        method=method,
        coverage=evidence.coverage,
        depths=[(int((answered_at == d).sum()), int(lost[0, answered_at == d].sum())) for d in range(depth + 1)],
        groups=_groups(certifying, answered_at >= 0, lost[0]),
        need=None if calibration.feasible else need_for(certificate, level or delta),
    )


def make_calibration(
    certificate: Certificate, gate: GateSetting, *, bound_to: Mapping[str, str], data: str, method: str, **more: Any
) -> Calibration:
    """The calibration that a certificate carries: the loosest certified threshold, or none.

    Args:
        certificate: The test's outcome.
        gate: All of the gate but its threshold.
        bound_to: Models, prompts and log-prob mode of the records.
        data: Hash of the records.
        method: How the thresholds were found.
        more: Further fields of `Calibration`.
    """
    certified = tuple(
        CertifiedThreshold(
            threshold=step.threshold,
            accepted=step.accepted,
            losses=step.losses,
            bounds=step.bounds,
            intervals=step.intervals,
        )
        for step in certificate.certified
    )
    at_threshold: dict[str, Any] = certified[-1].summary() if certified else {"threshold": None}
    return Calibration(
        score=gate.score,
        k=gate.k,
        aggregate=gate.aggregate,
        screen_threshold=gate.screen_threshold,
        **at_threshold,
        **dict[str, Any](bound_to),
        data=data,
        method=str(method),
        n=certificate.n,
        alpha=certificate.limits[0].alpha,
        delta=certificate.delta,
        promises=tuple(Promise(risk=limit.risk.value, alpha=limit.alpha) for limit in certificate.limits),
        certified=certified,
        **more,
    )


def _of(earlier: Calibration, gate: GateSetting, table: RecordTable) -> ThresholdSequence:
    """The thresholds of an earlier calibration, which must not have been made of these records."""
    earlier.check(score=gate.score, k=gate.k, aggregate=gate.aggregate)
    if earlier.data == table.digest:
        raise InputError(
            "The earlier calibration was made of these same records. Its thresholds were chosen by looking at them, so "
            "these records cannot certify them. Use other records, or the method split."
        )
    thresholds = [passed.threshold for passed in earlier.certified]
    if not thresholds and earlier.threshold is not None:
        thresholds = [earlier.threshold]
    if not thresholds:
        raise InputError(
            "The earlier calibration has no threshold that could be tested. Use the grid or the method split."
        )
    return ThresholdSequence.from_start(thresholds)


def _bound_to(table: RecordTable, depth: int) -> dict[str, str]:
    """What the records were made with, so far as a gate of this depth hangs on it."""
    return {name: value for name, value in table.bound_to.items() if depth or name != "look_prompt"}


def _traffic(evidence: Evidence) -> Traffic:
    counted = Reference.of(evidence.outcomes.scores, evidence.screened, [])
    return Traffic(screened=counted.screened, score_edges=counted.score_edges, score_counts=counted.score_counts)


def _groups(evidence: Evidence, accepted: BoolArray, lost: BoolArray) -> dict[str, tuple[int, int, int]]:
    return {
        str(name): (int(of.sum()), int((of & accepted).sum()), int((of & lost).sum()))
        for name in np.unique(evidence.categories)
        for of in [evidence.categories == name]
    }
