"""The whole sweep: every gate at every threshold under every plan, computed from a record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import ConfigError
from speceyes.evals.law import Costs
from speceyes.evals.records import DRAFT_FAULT, RecordTable
from speceyes.evals.sweeps.curves import Curve, Ledger, mean_costs
from speceyes.evals.sweeps.depth import DepthSweep, depth_effect
from speceyes.evals.sweeps.depth_points import Sureness
from speceyes.evals.sweeps.grid import LEARNED, REFERENCE, GateSetting, default_ks, gate_grid, recorded_k
from speceyes.evals.sweeps.learned import cross_fit, features
from speceyes.evals.sweeps.operating import Choice, Point, fastest_as_accurate, front, measure_points
from speceyes.evals.sweeps.outcomes import Against, Outcomes
from speceyes.evals.sweeps.ranking import Ranking
from speceyes.evals.sweeps.screening import Screened, screening_effect
from speceyes.evals.sweeps.separation import Separation, separations
from speceyes.gating.separability import FloatArray, IntArray
from speceyes.scheduling import SPECULATIVE, Plan

TOO_FEW_TO_LEARN = "too_few_to_learn"

Progress = Callable[[str, float], None]
"""Is told the stage and how much of it is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """What to sweep, and how.

    Attributes:
        ks: The K to try; None for a handful up to what was recorded.
        screen_threshold: The greatest help probability with which phase I lets a query through.
        plan: The plan of the curves and pictures; the others are compared at chosen points.
        against: What "right" means; None takes labels where there are any.
        replicates: Bootstrap resamples; 0 for no intervals.
        confidence: Of the intervals.
        seed: Of the resamples and of the learned gate's folds.
    """

    ks: Sequence[int] | None = None
    screen_threshold: float = 0.5
    plan: Plan = Plan.PAPER
    against: Against | None = None
    replicates: int = 1000
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.screen_threshold <= 1.0:
            raise ConfigError(f"A screen threshold is a probability; {self.screen_threshold} is not between 0 and 1.")
        if not 0.0 < self.confidence < 1.0:
            raise ConfigError(f"A confidence lies between 0 and 1, both excluded; this one is {self.confidence}.")
        if self.replicates < 0:
            raise ConfigError(f"There cannot be {self.replicates} resamples. 0 leaves the intervals out.")


@dataclass(frozen=True, slots=True, eq=False)
class Gate:
    """One gate over the M records that were judged.

    Attributes:
        setting: Which.
        values: Score of each draft, NaN where there is none. Shape (M,).
        ranking: The same, sorted.
        missing: How many drafts have no score, by reason. They go to the agent at every threshold.
    """

    setting: GateSetting
    values: FloatArray
    ranking: Ranking
    missing: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """A finished sweep.

    Attributes:
        table: The run.
        outcomes: Who is right.
        groups: Number of each judged record's group: those of one group are drawn together. Shape (M,).
        options: As asked for.
        ks: The K that were tried.
        k: The K of the main table: the one at which most drafts have a score, and the largest of those.
        gates: All gates, those at `k` first.
        separations: Each gate's AUROC and AURC.
        curves: Each gate's curve under the chosen plan.
        ledgers: Each plan's.
        costs: Mean recorded seconds of the phases.
        fronts: For each plan, the settings that none beats in both speed and accuracy, fastest first.
        best: For each plan, the fastest setting that is as accurate as the agent on this record.
        default: The default gate at its own fastest setting that is as accurate, under each plan.
        screening: What phase I does.
        depth: What closer looks of the draft model add to the default gate; None where none were recorded.
    """

    table: RecordTable
    outcomes: Outcomes
    groups: IntArray
    options: SweepOptions
    ks: Sequence[int]
    k: int
    gates: Sequence[Gate]
    separations: Sequence[Separation]
    curves: Sequence[Curve]
    ledgers: Mapping[Plan, Ledger]
    costs: Costs
    fronts: Mapping[Plan, Sequence[Point]]
    best: Mapping[Plan, Point]
    default: Mapping[Plan, Point]
    screening: Screened
    depth: DepthSweep | None = None

    @property
    def reference(self) -> int:
        """Index of the default gate at the main K."""
        return reference_index(self.gates, self.k)

    def at_main_k(self) -> list[int]:
        """Indices of the gates at the main K, the best AUROC first."""
        chosen = [i for i, gate in enumerate(self.gates) if gate.setting.k == self.k]
        return sorted(chosen, key=lambda i: -np.nan_to_num(self.separations[i].auroc.value, nan=-1.0))


def sweep(
    table: RecordTable,
    options: SweepOptions = SweepOptions(),
    *,
    groups: NDArray[Any] | None = None,
    progress: Progress = lambda stage, share: None,
) -> Sweep:
    """Evaluate every gate, threshold and plan.

    Args:
        table: A recorded run.
        options: What to sweep.
        groups: Records of one group (the same image, say) are resampled together, and stay in one fold of the learned
            gate. Shape (N,). None: no groups.
        progress: Is told of each stage.

    Raises:
        InputError: There are no records, or none that can be judged.
        ConfigError: A K that was not recorded.
    """
    outcomes = Outcomes.of(table, options.against)
    names = np.arange(len(table)) if groups is None else np.asarray(groups)
    numbers = np.unique(names[outcomes.rows], return_inverse=True)[1]
    ks = checked_ks(options.ks, recorded_k(table))
    gates = score_gates(table, outcomes, ks, numbers, options.seed, progress)
    main_k = main_k_of(gates, ks)
    # The first of several equals is chosen: let it be one at the main K.
    gates.sort(key=lambda gate: gate.setting.k != main_k)
    at = reference_index(gates, main_k)
    found = separations(
        [gate.ranking for gate in gates],
        outcomes.draft_right,
        numbers,
        reference=at,
        replicates=options.replicates,
        confidence=options.confidence,
        seed=options.seed,
        progress=lambda share: progress("resampling", share),
    )
    ledgers = {plan: Ledger.of(table, outcomes, plan, options.screen_threshold) for plan in SPECULATIVE}
    chosen: dict[Plan, list[Point]] = {}
    curves: Sequence[Curve] = ()
    for number, (plan, ledger) in enumerate(ledgers.items()):
        progress("plans", number / len(ledgers))
        of_plan = [ledger.curve(gate.ranking) for gate in gates]
        own = fastest_as_accurate([of_plan[at]])
        choices = [fastest_as_accurate(of_plan), Choice(at, own.threshold), *front(of_plan)]
        chosen[plan] = _measured(choices, gates, ledger, numbers, options)
        curves = of_plan if plan is options.plan else curves
    progress("plans", 1.0)
    return Sweep(
        table=table,
        outcomes=outcomes,
        groups=numbers,
        options=options,
        ks=ks,
        k=main_k,
        gates=gates,
        separations=found,
        curves=curves,
        ledgers=ledgers,
        costs=mean_costs(table, outcomes),
        fronts={plan: points[2:] for plan, points in chosen.items()},
        best={plan: points[0] for plan, points in chosen.items()},
        default={plan: points[1] for plan, points in chosen.items()},
        screening=screening_effect(table, outcomes, options.screen_threshold),
        depth=depth_effect(
            table,
            outcomes,
            gates[at].setting,
            options.screen_threshold,
            Sureness(numbers, options.replicates, options.confidence, options.seed),
        ),
    )


def score_gates(
    table: RecordTable,
    outcomes: Outcomes,
    ks: Sequence[int],
    groups: IntArray | None = None,
    seed: int = 0,
    progress: Progress = lambda stage, share: None,
) -> list[Gate]:
    """Score the drafts by every gate of the kit at each K, then by the learned gate at each K."""
    settings = gate_grid(ks) or [GateSetting(*REFERENCE, ks[-1])]
    gates = []
    for number, setting in enumerate(settings):
        progress("scoring", number / len(settings))
        gates.append(score_gate(table, outcomes, setting))
    for number, k in enumerate(ks):
        progress("training the learned gate", number / len(ks))
        rows = features(table.answers, k)[outcomes.rows]
        rows[~_scorable(table, outcomes, k)] = np.nan
        values = cross_fit(rows, outcomes.draft_right, groups=groups, seed=seed)
        missing = {TOO_FEW_TO_LEARN: len(outcomes)} if np.isnan(values).all() else _unscored(values)
        gates.append(Gate(GateSetting(LEARNED, "", k), values, Ranking.of(values), missing))
    return gates


def score_gate(table: RecordTable, outcomes: Outcomes, setting: GateSetting) -> Gate:
    """Score the drafts by one gate, exactly as the gate in service would."""
    scored = table.answers.score(setting.score, setting.k, setting.aggregate)
    values = np.where(outcomes.usable, scored.values[outcomes.rows], np.nan)
    reasons = scored.reasons[outcomes.rows]
    missing = Counter(reason.value for reason in reasons[outcomes.usable] if reason is not None)
    missing[DRAFT_FAULT] += int((~outcomes.usable).sum())
    return Gate(setting, values, Ranking.of(values), dict(+missing))


def checked_ks(ks: Sequence[int] | None, most: int) -> tuple[int, ...]:
    """The K to try, in order; ConfigError where one was not recorded."""
    if ks is None:
        return default_ks(most)
    if not ks or min(ks) < 1 or max(ks) > most:
        raise ConfigError(f"K must lie between 1 and {most}, the most log-probs a token of this run has; not {[*ks]}.")
    return tuple(sorted(set(ks)))


def main_k_of(gates: Sequence[Gate], ks: Sequence[int]) -> int:
    """The K at which the default gate scores most drafts, and the largest of those; the largest K if there is none."""
    scored = {g.setting.k: g.ranking.order.size for g in gates if (g.setting.score, g.setting.aggregate) == REFERENCE}
    return max(scored, key=lambda k: (scored[k], k)) if scored else ks[-1]


def reference_index(gates: Sequence[Gate], k: int) -> int:
    """Index of the default gate at this K; of the first gate where K is too small for it."""
    return next((i for i, gate in enumerate(gates) if gate.setting == GateSetting(*REFERENCE, k)), 0)


def _scorable(table: RecordTable, outcomes: Outcomes, k: int) -> NDArray[np.bool_]:
    """Drafts that may be scored at all: whatever a gate refuses unseen (loops, blanks), the learned one refuses too."""
    reasons = table.answers.score("geometric_probability", k, "log").reasons[outcomes.rows]
    scorable: NDArray[np.bool_] = outcomes.usable & (reasons == np.array(None))
    return scorable


def _unscored(values: FloatArray) -> dict[str, int]:
    count = int(np.isnan(values).sum())
    return {"no_features": count} if count else {}


def _measured(
    choices: Sequence[Choice], gates: Sequence[Gate], ledger: Ledger, groups: IntArray, options: SweepOptions
) -> list[Point]:
    return measure_points(
        choices,
        [gate.setting for gate in gates],
        [gate.values for gate in gates],
        ledger,
        groups,
        replicates=options.replicates,
        confidence=options.confidence,
        seed=options.seed,
    )
