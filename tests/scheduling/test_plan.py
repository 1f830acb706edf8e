"""Plans: what each is expected to cost, and how a choice is made from what queries have shown."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.simulation import QueryTimes, Workload, demand
from speceyes.evals.sweeps.plans import plan_times
from speceyes.scheduling import Auto, Outcome, Plan, kind_of, planner_of
from speceyes.scheduling.decayed import Decayed
from speceyes.scheduling.estimates import OTHERS, Traffic
from speceyes.scheduling.plan import SAME_DECISIONS, Chances, Cost, Loads, Times, expected_cost

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


@given(SECONDS, SECONDS, SECONDS, SHARES, chances())
def test_each_server_gets_the_work_that_queries_one_by_one_give_it(
    s: float, d: float, a: float, saved: float, like: Chances
) -> None:
    """Beside the closed form by query in `evals.simulation.demand`, with a cache that helps."""
    after = a - saved * min(s, a)
    let, gate, q = like.let_through, like.passed, like.accepted
    weights = np.array([q, gate - q, let - q, 1.0 - let - gate + q])
    pairs = ((True, True), (False, True), (True, False), (False, False))
    workload = Workload(tuple(QueryTimes(s, d, a, after, through, passes) for through, passes in pairs))
    for plan in Plan:
        cost, asked = expected_cost(plan, Times(s, d, a, after), like), demand(plan, workload)
        assert cost.wait == pytest.approx(float(weights @ asked.wait), abs=1e-9), plan
        if plan is Plan.HEDGED and a < max(s, d):  # the formula lets the fronts run on; the closed form ends them
            continue
        assert cost.draft_work == pytest.approx(float(weights @ asked.draft), abs=1e-9), plan
        assert cost.agent_work == pytest.approx(float(weights @ asked.agent), abs=1e-9), plan


def test_a_screening_that_is_cut_short_saves_in_proportion() -> None:
    """s = 4, d = 1, a = 10, 8 after screening, and every draft is refused: a quarter of the 2 s is saved."""
    cost = expected_cost(Plan.PARALLEL, Times(4.0, 1.0, 10.0, 8.0), Chances(1.0, 0.0, 0.0))
    assert cost == Cost(wait=1.0 + 9.5, work=1.0 + 1.0 + 9.5, draft_work=1.0)


@given(SECONDS, SECONDS, SECONDS, chances())
def test_hedging_never_waits_longer_and_never_works_less(s: float, d: float, a: float, like: Chances) -> None:
    times = Times(s, d, a, a)
    hedged, alone = expected_cost(Plan.HEDGED, times, like), expected_cost(Plan.OFF, times, like)
    assert hedged.wait <= alone.wait + 1e-9
    assert hedged.work >= hedged.wait - 1e-9


@given(SECONDS, SECONDS, SECONDS, chances(), SHARES, SHARES)
def test_a_price_is_the_wait_and_what_others_wait(
    s: float, d: float, a: float, like: Chances, draft: float, agent: float
) -> None:
    for plan in Plan:
        cost = expected_cost(plan, Times(s, d, a, a), like)
        assert cost.price(Loads(0.0, 0.0)) == cost.wait
        assert cost.wait <= cost.price(Loads(draft, 0.0)) <= cost.price(Loads(draft, agent)) < math.inf
        # where both servers are loaded alike, it is (1 - load) wait + load work, to scale
        if draft < 0.98:
            assert (1.0 - draft) * cost.price(Loads(draft, draft)) == pytest.approx(
                (1.0 - draft) * cost.wait + draft * cost.work
            )


def test_a_price_by_hand() -> None:
    """Three others at the draft's server, one at the agent's, each a processor that calls share."""
    assert Cost(wait=2.0, work=5.0, draft_work=1.0).price(Loads(3 / 4, 1 / 2)) == pytest.approx(2.0 + 3 * 1.0 + 1 * 4.0)


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
    times, like = known.times, known.chances
    assert (times.screen, times.draft, times.agent, times.agent_after_screen) == pytest.approx((0.1, 0.2, 2.0, 2.0))
    assert (like.let_through, like.passed, like.accepted) == pytest.approx((1.0, 1.0, 1.0))


def test_there_is_an_end_to_the_kinds_that_are_kept_apart() -> None:
    traffic = Traffic(most=3)
    for i in range(10):
        traffic.add(f"kind {i}", Outcome(screen=1.0, accepted=False))
    assert traffic.kinds == ["kind 0", "kind 1", "kind 2", OTHERS]
    assert traffic.judged("kind 2") == pytest.approx(1.0)
    assert traffic.judged("kind 7") == traffic.judged("never seen") > 6.0, "the rest count as one, and do count"


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
    assert hard[200:].count(Plan.OFF) >= 150, "close to what the agent takes, so it is looked at more often"
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
    kinds: Any = told["kinds"]
    (row,) = kinds
    assert row["queries"] == 30
    assert row["costs"]["off"] == {"wait": 2.0, "work": 2.0, "draft_work": 0.0, "price": 4.0}, (
        "at half load each second"
    )
    unseen = {"calls": None, "elasticity": 1.0, "load": 0.5}
    assert told["servers"] == {"draft": unseen, "agent": unseen}
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
