"""The laws of speculation, the costs that they need, and the figures of a race."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_pair import CALIBRATION, Knowing, scripted_pair

from speceyes.errors import InputError
from speceyes.evals.baselines import Models, make_system
from speceyes.evals.datasets.samples import Size, make_samples
from speceyes.evals.demo import SYSTEMS
from speceyes.evals.law import Costs, law_honest, law_ideal, measure_costs
from speceyes.evals.race import Course, Result, race
from speceyes.evals.summary import figures, summarise
from speceyes.evals.systems import Reply, Role
from speceyes.gating import wilson
from speceyes.types import Reason, Usage

SHARES = st.floats(0.0, 1.0)
SECONDS = st.floats(1e-3, 10.0)
COSTS = Costs(screen=0.1, draft=0.05, agent=1.0, queries=1)


def test_the_laws_by_hand() -> None:
    assert law_ideal(0.8, 0.5) == pytest.approx(1 / 0.6)
    assert law_honest(0.8, 0.5, COSTS) == pytest.approx(1.0 / (0.1 + 0.5 * 0.05 + 0.6 * 1.0))
    assert law_ideal(0.0, 0.5) == 1.0
    assert law_honest(0.0, 0.0, COSTS) == pytest.approx(1 / 1.1)


def test_the_ideal_law_has_no_bound_where_nothing_is_left() -> None:
    assert law_ideal(1.0, 1.0) is None
    assert law_honest(1.0, 1.0, COSTS) == pytest.approx(1 / 0.15)


@given(SHARES, SHARES, SECONDS, SECONDS, SECONDS)
def test_the_honest_law_never_promises_more_than_the_ideal_one(
    alpha: float, beta: float, screen: float, draft: float, agent: float
) -> None:
    ideal = law_ideal(alpha, beta)
    honest = law_honest(alpha, beta, Costs(screen, draft, agent, 1))
    assert ideal is None or honest <= ideal
    assert honest < agent / screen


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_shares_out_of_range_are_refused(share: float) -> None:
    with pytest.raises(InputError, match="share"):
        law_ideal(share, 0.5)
    with pytest.raises(InputError, match="share"):
        law_honest(0.5, share, COSTS)


async def test_costs_are_measured_on_equally_many_samples_of_both_kinds() -> None:
    samples = make_samples(6, 11)
    steps: list[int] = []
    async with scripted_pair(Knowing(samples)) as (draft, agent):
        costs = await measure_costs(draft, agent, samples[:3], samples[3:], done=lambda: steps.append(1))
        with pytest.raises(InputError, match="equally many"):
            await measure_costs(draft, agent, samples[:2], samples[3:])
        with pytest.raises(InputError, match="equally many"):
            await measure_costs(draft, agent, [], [])
    assert costs.queries == len(steps) == 3
    assert min(costs.screen, costs.draft, costs.agent) > 0


async def test_the_figures_of_a_race() -> None:
    samples = make_samples(20, 12)
    async with scripted_pair(Knowing(samples)) as (draft, agent):
        models = Models(draft, agent, CALIBRATION)
        courses = await race([make_system(name, models, 4) for name in SYSTEMS], samples, 4)
    summary = summarise(courses, COSTS, {"seed": 12})
    assert summary.reasons == {Reason.ACCEPTED: 12, Reason.TOOL_WOULD_HELP: 8}
    assert (summary.beta, summary.alpha) == (0.6, 1.0)
    content = json.loads(json.dumps(summary.as_json(), allow_nan=False))
    assert set(content) >= {"systems", "alpha", "beta", "speedup", "law_ideal", "law_honest"}
    assert set(content["systems"]) == {"agent", "draft", "speceyes"}
    for system in content["systems"].values():
        assert system["n"] == 20
        assert system["interval"] == list(wilson(system["right"], 20))
    assert content["systems"]["draft"]["accuracy"] == 0.6
    assert content["systems"]["draft"]["groups"]["digit/small"] == {"right": 0, "n": 4}
    assert content["speedup"] == pytest.approx(courses[SYSTEMS[0]].seconds / courses[SYSTEMS[2]].seconds)
    assert content["law_ideal"] == pytest.approx(2.5)
    assert content["law_honest"] == pytest.approx(1 / (0.1 + 0.6 * 0.05 + 0.4))
    assert content["run"] == {"seed": 12}


def test_failures_count_as_not_right_and_make_the_tokens_unknown() -> None:
    good, bad = make_samples(2, 13)
    course = Course(
        [
            Result(good, Reply("7", 0.5, {Role.AGENT: Usage(10, 1, 0, 1)}), True),
            Result(bad, Reply(error="EngineTimeout: too slow"), False),
        ],
        seconds=2.0,
    )
    found = figures(course)
    assert (found.n, found.right, found.errors, found.accuracy) == (2, 1, 1, 0.5)
    assert found.queries_per_s == 1.0
    assert found.usage.prompt_tokens is None
    assert found.as_json()["tokens"]["prompt"] is None


def test_a_race_in_which_every_query_failed_has_figures_too() -> None:
    (sample,) = make_samples(1, 14)
    failed = Result(sample, Reply(error="EngineTimeout: too slow"), False)
    summary = summarise({name: Course([failed], 1.0) for name in SYSTEMS}, COSTS, {})
    assert (summary.alpha, summary.beta, summary.law_ideal) == (0.0, 0.0, 1.0)
    assert summary.reasons == {}
    assert sample.size is Size.SMALL
    json.dumps(summary.as_json(), allow_nan=False)
