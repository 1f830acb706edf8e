"""From a recorded run to a calibration: which records count, what is promised, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from made_tables import BOUND_TO, answers_with, drawn_table, made_table

from speceyes.errors import CalibrationMismatch, ConfigError, InputError
from speceyes.evals.calibrating import GateSetting, Method, calibrate, collect, summary_lines
from speceyes.gating import Calibration, confidence
from speceyes.gating.audit.reference import Reference
from speceyes.gating.certify import Limit, Risk
from speceyes.phases.gate import gate, gate_screening
from speceyes.types import Draft, Reason, Screening, Token

GATE = GateSetting(k=4)
EXCESS = [Limit(Risk.EXCESS, 0.05)]


def test_it_names_all_that_it_depends_on() -> None:
    table = drawn_table(2000)
    made = calibrate(table, GATE, EXCESS, 0.05).calibration
    assert {name: getattr(made, name) for name in BOUND_TO} == BOUND_TO
    assert (made.score, made.k, made.aggregate, made.screen_threshold) == ("separability", 4, "min", 0.5)
    assert (made.data, made.method, made.n, made.n_tuning) == (table.digest, "split", 1600, 400)
    assert (made.alpha, made.delta) == (0.05, 0.05)
    assert [promise.model_dump() for promise in made.promises] == [{"risk": "excess", "alpha": 0.05}]
    evidence = made.evidence
    assert evidence is not None
    assert evidence == made.certified[-1]
    assert made.accepted == evidence.accepted
    assert made.risk == evidence.losses[0] / evidence.accepted
    assert made.bound == evidence.bounds[0] <= 0.05
    assert made.interval is not None
    assert made.interval[0] < made.risk < made.bound < made.interval[1]


@pytest.mark.parametrize("method", Method)
def test_its_figures_are_those_of_the_gate_applied_one_by_one(method: Method) -> None:
    table = drawn_table(600, seed=3, draft_usable=np.arange(600) % 50 != 0)
    limits = [Limit(Risk.EXCESS, 0.1), Limit(Risk.ERROR, 0.2)]
    result = calibrate(table, GATE, limits, 0.1, method=method)
    assert result.calibration.feasible
    everything = collect(table, GATE, limits).outcomes
    for passed in result.calibration.certified:
        setting = Calibration.manual(passed.threshold, k=4)
        taken = [i for i in range(len(table)) if accepts(table, i, setting)]
        accepted, lost = everything.count([passed.threshold])
        assert accepted[0] == len(taken)
        assert lost[0, 0] == sum(table.agent_right[i] and not table.draft_right[i] for i in taken)
        assert lost[1, 0] == sum(not table.draft_right[i] for i in taken)
        if method is Method.FIXED_SEQUENCE:
            assert (passed.accepted, passed.losses) == (len(taken), tuple(lost[:, 0].tolist()))


def accepts(table, i: int, setting: Calibration) -> bool:
    top = tuple(table.answers.logprobs[i].tolist())
    p = float(table.help_probability[i])
    if gate_screening(Screening(p_yes=p, p_no=1 - p), setting) is not None:
        return False
    fault = None if table.draft_usable[i] else Reason.TRUNCATED_ANSWER
    return gate(Draft("x", (Token("x", top[0], top),), fault), setting).accepted


def test_the_split_is_of_the_records_and_cannot_be_shopped_for() -> None:
    table = drawn_table(2000)
    one, same = (calibrate(table, GATE, EXCESS, 0.05).calibration for _ in range(2))
    assert one == same
    other = calibrate(drawn_table(2000, digest="sha256:other"), GATE, EXCESS, 0.05).calibration
    assert other.certified != one.certified


@pytest.mark.parametrize("method", Method)
def test_infeasible_says_what_it_would_take(method: Method) -> None:
    result = calibrate(drawn_table(80), GATE, [Limit(Risk.EXCESS, 0.01)], 0.05, method=method)
    made = result.calibration
    assert (made.threshold, made.accepted, made.certified, made.bound) == (None, 0, (), None)
    assert not made.feasible
    assert result.need is not None
    assert result.more_records is not None
    assert result.more_records > 200
    text = " ".join(summary_lines(result))
    assert f"About {result.more_records:,} more records" in text
    assert "excess at most" in text


def test_so_many_more_records_do() -> None:
    """Taken at its word, on a world without losses: where the number is exact."""
    short = calibrate(clean(100), GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE)
    assert short.need is None  # 90 clean ones are enough for the grid
    short = calibrate(clean(80), GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE)
    assert short.more_records == 10
    assert calibrate(clean(89), GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE).need is not None
    assert calibrate(clean(90), GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE).need is None


def clean(n: int):
    return made_table(np.full(n, 6.0), np.ones(n), np.ones(n))


def test_no_number_of_records_helps_a_draft_that_is_always_wrong() -> None:
    result = calibrate(made_table(np.full(300, 6.0), np.zeros(300), np.ones(300)), GATE, EXCESS, 0.05)
    assert result.need is not None
    assert result.more_records is None
    assert "would not help" in " ".join(summary_lines(result))


def test_nothing_reaches_the_draft() -> None:
    table = drawn_table(100, help_probability=np.full(100, 0.9))
    for method in Method:
        result = calibrate(table, GATE, EXCESS, 0.05, method=method)
        assert not result.calibration.feasible
        assert "Not one certifying question" in " ".join(summary_lines(result))
    assert result.coverage.kept_back == 100


def test_which_records_count() -> None:
    n = 400
    unscored = answers_with(np.full(n, 6.0)).logprobs.copy()
    unscored[:10, 2:] = np.nan
    table = made_table(
        np.full(n, 6.0),
        np.ones(n),
        np.ones(n),
        answers=type(answers_with([6.0])).from_arrays(unscored, np.ones(n, dtype=np.int64)),
        agent_seconds=np.where(np.arange(n) >= 380, np.nan, 1.0),
        labelled=np.arange(n) < 370,
        help_probability=np.where(np.arange(n) < 340, 0.1, 0.9),
        draft_usable=np.arange(n) != 20,
    )
    coverage = collect(table, GATE, EXCESS).coverage
    assert (coverage.recorded, coverage.incomplete, coverage.unlabelled, coverage.used) == (400, 20, 10, 370)
    assert coverage.kept_back == 30
    assert coverage.unscored == {"logprobs_too_few": 10, "draft_fault": 1}
    # without labels, disagreement still counts them
    assert collect(table, GATE, [Limit(Risk.DISAGREEMENT, 0.05)]).coverage.used == 380


def test_runs_that_no_calibration_can_rest_on() -> None:
    with pytest.raises(InputError, match="disagreement"):
        collect(drawn_table(10, labelled=np.zeros(10, dtype=np.bool_)), GATE, EXCESS)
    with pytest.raises(InputError, match="speceyes record"):
        collect(drawn_table(10, agent_seconds=np.full(10, np.nan)), GATE, EXCESS)
    with pytest.raises(InputError, match=r"use 64 log-probs.*but 4 were recorded"):
        collect(drawn_table(10), GateSetting(), EXCESS)
    with pytest.raises(InputError, match="one part would be empty"):
        calibrate(drawn_table(1), GATE, EXCESS, 0.05)


@pytest.mark.parametrize(
    ("changes", "says"),
    [({"score": "sep"}, "no score"), ({"k": 2}, "k >= 3"), ({"screen_threshold": 1.5}, "between 0 and 1")],
)
def test_settings_that_are_none(changes: dict[str, object], says: str) -> None:
    with pytest.raises((InputError, ConfigError), match=says):
        GateSetting(**{"k": 4, **changes})  # type: ignore[arg-type]


def test_a_risk_has_one_limit() -> None:
    with pytest.raises(ConfigError, match="two limits"):
        calibrate(drawn_table(100), GATE, [*EXCESS, Limit(Risk.EXCESS, 0.1)], 0.05)


def test_disagreement_bounds_the_excess() -> None:
    table = drawn_table(3000, seed=5)
    limits = [Limit(Risk.EXCESS, 0.05), Limit(Risk.DISAGREEMENT, 0.3)]
    for passed in calibrate(table, GATE, limits, 0.05).calibration.certified:
        assert passed.losses[0] <= passed.losses[1]


def test_an_earlier_calibration_as_the_sequence() -> None:
    earlier = calibrate(drawn_table(2000, seed=1), GATE, EXCESS, 0.05).calibration
    fresh = drawn_table(2000, seed=2)
    result = calibrate(fresh, GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE, earlier=earlier)
    assert [step.threshold for step in result.certificate.steps] == [c.threshold for c in earlier.certified]
    assert result.certificate.steps[0].level == 0.05
    assert result.calibration.feasible
    by_hand = Calibration.manual(5.0, k=4)
    alone = calibrate(fresh, GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE, earlier=by_hand)
    assert [step.threshold for step in alone.certificate.steps] == [5.0]


def test_an_earlier_calibration_that_will_not_do() -> None:
    table = drawn_table(2000, seed=1)
    earlier = calibrate(table, GATE, EXCESS, 0.05).calibration
    fixed = {"method": Method.FIXED_SEQUENCE, "earlier": earlier}
    with pytest.raises(InputError, match="same records"):
        calibrate(table, GATE, EXCESS, 0.05, **fixed)  # type: ignore[arg-type]
    with pytest.raises(CalibrationMismatch, match="k: calibrated for 4"):
        calibrate(drawn_table(100), GateSetting(k=3), EXCESS, 0.05, **fixed)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="fixed-sequence"):
        calibrate(drawn_table(100), GATE, EXCESS, 0.05, earlier=earlier)
    empty = calibrate(drawn_table(20), GATE, EXCESS, 0.05).calibration
    with pytest.raises(InputError, match="no threshold"):
        calibrate(table, GATE, EXCESS, 0.05, method=Method.FIXED_SEQUENCE, earlier=empty)


def test_what_the_audit_needs_is_in_the_file() -> None:
    """Counts that a drift monitor compares with, the same that it would make of the records itself."""
    table = drawn_table(500)
    made = calibrate(table, GATE, EXCESS, 0.2, method=Method.FIXED_SEQUENCE).calibration
    thresholds = [passed.threshold for passed in made.certified]
    outcomes = collect(table, GATE, EXCESS)
    expected = Reference.of(outcomes.outcomes.scores, outcomes.screened, thresholds)
    assert made.traffic is not None
    assert expected == Reference(
        n=made.n,
        screened=made.traffic.screened,
        accepted=tuple(passed.accepted for passed in made.certified),
        score_edges=made.traffic.score_edges,
        score_counts=made.traffic.score_counts,
    )


def test_kinds_of_questions_add_up() -> None:
    result = calibrate(drawn_table(2000), GATE, EXCESS, 0.05)
    made, evidence = result.calibration, result.calibration.evidence
    assert evidence is not None
    assert [sum(column) for column in zip(*result.groups.values(), strict=True)] == [
        made.n,
        evidence.accepted,
        evidence.losses[0],
    ]
    assert set(result.groups) == {"large", "small"}


def test_made_answers_have_the_scores_that_tests_ask_for() -> None:
    values = answers_with([2.0, 5.5]).score("separability", 4, "min").values
    assert values == pytest.approx([2.0, 5.5], rel=1e-5)
    top = tuple(answers_with([5.5]).logprobs[0].tolist())
    assert confidence([Token("x", top[0], top)], k=4).score == pytest.approx(5.5, rel=1e-5)
