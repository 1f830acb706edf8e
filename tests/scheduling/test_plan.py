"""Plans: what each is expected to cost, and how a choice is made from what queries have shown."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.sweeps.plans import plan_times
from speceyes.scheduling import Auto, Outcome, Plan, kind_of, planner_of
from speceyes.scheduling.estimates import Decayed, Traffic
from speceyes.scheduling.plan import SAME_DECISIONS, Chances, Times, expected_cost

SECONDS = st.floats(0.001, 10.0)
SHARES = st.floats(0.0, 1.0)


@st.composite
def chances(draw: st.DrawFn) -> Chances:
    let, gate, accepted = draw(SHARES), draw(SHARES), draw(SHARES)
    return Chances.nearest(let, gate, accepted)


@given(SECONDS, SECONDS, SECONDS, chances())
def test_the_formulas_are_the_means_of_the_sweeps_table(s: float, d: float, a: float, like: Chances) -> None:
    """The table by query in `evals.sweeps.plans`, weighted with the four chances, and a cache that helps nobody."""
    let, gate, q = like.let_through, like.passed, like.accepted
    weights = np.array([q, gate - q, let - q, 1.0 - let - gate + q])
    through = np.array([True, False, True, False])
    passes = np.array([True, True, False, False])
    ones = np.ones(4)
    for plan in (*SAME_DECISIONS, Plan.NO_SCREEN):
        times = plan_times(plan, s * ones, d * ones, a * ones, through)
        wait = float(weights @ np.where(passes, times.passed, times.refused))
        work = float(weights @ np.where(passes, times.passed_work, times.refused_work))
        cost = expected_cost(plan, Times(s, d, a, a), like)
        assert cost.wait == pytest.approx(wait, abs=1e-9), plan
        if not (plan is Plan.HEDGED and a < max(s, d)):  # the formula lets the fronts run on; the table ends them
            assert cost.work == pytest.approx(work, abs=1e-9), plan


@given(SECONDS, SECONDS, SECONDS, chances(), SHARES)
def test_hedging_never_waits_longer_and_never_works_less(
    s: float, d: float, a: float, like: Chances, load: float
) -> None:
    times = Times(s, d, a, a)
    hedged, alone = expected_cost(Plan.HEDGED, times, like), expected_cost(Plan.OFF, times, like)
    assert hedged.wait <= alone.wait + 1e-9
    low, high = sorted(hedged)
    assert low - 1e-9 <= hedged.price(load) <= high + 1e-9


@given(st.floats(-1, 2), st.floats(-1, 2), st.floats(-1, 2))
def test_estimates_that_do_not_fit_are_made_to(let: float, gate: float, accepted: float) -> None:
    found = Chances.nearest(let, gate, accepted)
    assert max(0.0, found.let_through + found.passed - 1) - 1e-9 <= found.accepted
    assert found.accepted <= min(found.let_through, found.passed)


@pytest.mark.parametrize("impossible", [(0.5, 0.5, 0.6), (0.9, 0.9, 0.1), (1.2, 0.5, 0.5)])
def test_chances_that_cannot_be_are_refused(impossible: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no two events"):
        Chances(*impossible)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=50))
def test_a_decayed_mean_is_the_weighted_mean(values: list[float]) -> None:
    mean = Decayed(memory=10)
    for value in values:
        mean.add(value)
    weights = 0.9 ** np.arange(len(values))[::-1]
    found = mean.mean()
    assert found is not None
    assert math.isclose(found, float(weights @ values / weights.sum()), rel_tol=1e-9, abs_tol=1e-9)


def test_a_decayed_mean_follows_a_change() -> None:
    mean = Decayed(memory=20)
    for value in [1.0] * 200 + [3.0] * 60:
        mean.add(value)
    assert mean.mean() == pytest.approx(3.0, abs=0.12)


def test_a_kind_that_is_new_is_taken_to_be_like_all_others() -> None:
    traffic = Traffic()
    assert traffic.of("new") is None
    for _ in range(50):
        traffic.add("old", Outcome(screen=0.1, draft=0.2, agent=2.0, let_through=True, accepted=True))
    known = traffic.of("new")
    assert known is not None
    times, like = known
    assert (times.screen, times.draft, times.agent, times.agent_after_screen) == pytest.approx((0.1, 0.2, 2.0, 2.0))
    assert (like.let_through, like.passed, like.accepted) == pytest.approx((1.0, 1.0, 1.0))


def test_there_is_an_end_to_the_kinds_that_are_kept_apart() -> None:
    traffic = Traffic(most=3)
    for i in range(10):
        traffic.add(f"kind {i}", Outcome(screen=1.0))
    assert len(traffic.kinds) == 3


def fed(
    auto: Auto, count: int, *, screen: float, draft: float, agent: float, accepted: float, kind: str = "k"
) -> list[Plan]:
    """Plans chosen for queries of which a share is accepted, each of which shows what its plan asks for."""
    plans = []
    for i in range(count):
        plan = auto.choose(kind, 0.0).plan
        plans.append(plan)
        yes = (i * accepted) % 1.0 + accepted >= 1.0
        asked = plan is not Plan.OFF
        auto.learn(
            kind,
            Outcome(
                screen=screen if asked else None,
                draft=draft if asked else None,
                agent=None if asked and yes else agent,
                let_through=yes if asked else None,
                passed=yes if asked else None,
                accepted=yes if asked else None,
            ),
        )
    return plans


def test_auto_speculates_where_it_pays_stops_where_it_does_not_and_comes_back() -> None:
    auto = Auto((Plan.PAPER, Plan.DRAFT_FIRST), probe_every=10)
    easy = fed(auto, 100, screen=0.1, draft=0.1, agent=1.0, accepted=0.7)
    assert easy[20:].count(Plan.OFF) <= 9
    hard = fed(auto, 400, screen=0.1, draft=0.1, agent=1.0, accepted=0.0)
    assert hard[200:].count(Plan.OFF) >= 170
    again = fed(auto, 1500, screen=0.1, draft=0.1, agent=1.0, accepted=0.9)
    assert again[1200:].count(Plan.OFF) <= 40


def test_under_load_work_counts_and_hedging_stops() -> None:
    auto = Auto(probe_every=1000)
    fed(auto, 50, screen=0.3, draft=0.3, agent=1.0, accepted=0.6)
    assert auto.choose("k", 0.0).plan is Plan.HEDGED
    assert auto.choose("k", 1.0).plan in (Plan.PAPER, Plan.DRAFT_FIRST)


def test_auto_reports_what_it_knows_and_why() -> None:
    auto = Auto()
    fed(auto, 30, screen=0.1, draft=0.2, agent=2.0, accepted=0.5)
    told = auto.report(load=0.5)
    assert (told["plan"], told["load"]) == ("auto", 0.5)
    (row,) = told["kinds"]  # type: ignore[misc]
    assert row["queries"] == 30
    assert row["seconds"] == {"screen": 0.1, "draft": 0.2, "agent": 2.0, "agent_after_screen": 2.0}
    choice = auto.choose("k", 0.0)
    assert choice.costs
    assert "agent alone 2.000 s" in choice.why


def test_auto_refuses_plans_that_accept_other_drafts() -> None:
    with pytest.raises(ValueError, match="no-screen"):
        Auto((Plan.PAPER, Plan.NO_SCREEN))


def test_planners_by_name() -> None:
    assert isinstance(planner_of("auto"), Auto)
    assert planner_of("hedged").choose("k", 0.5).plan is Plan.HEDGED
    with pytest.raises(ValueError, match="nonsense"):
        planner_of("nonsense")


@pytest.mark.parametrize(
    ("sizes", "question", "kind"),
    [
        ([(1024, 1024)], "What digit?", "1 images, about 1 MP, open"),
        ([(4000, 3000), (4000, 3000)], "Which?\nA. red\nB. blue", "2 images, about 32 MP, options"),
        ([(10, 10)], "x" * 500, "1 images, about 0.125 MP, long"),
        ([], "Hello?", "0 images, about 0.125 MP, open"),
    ],
)
def test_kinds_of_query(sizes: list[tuple[int, int]], question: str, kind: str) -> None:
    assert kind_of(sizes, question) == kind
