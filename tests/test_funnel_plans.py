"""Every plan of the funnel, against scripted servers: who is asked, what is accepted, and what is cancelled."""

import asyncio
import itertools
from typing import Any

import pytest

from scripted_funnel import TORN, agent_script, funnel_over, is_screening, query
from speceyes.engines.script import Hang, Outcome, Reply, Status
from speceyes.errors import DeadlineExceeded
from speceyes.events import Decided, Event, TextStreamed, TurnEnded
from speceyes.phases.speculate import LOOK
from speceyes.scheduling import Auto, Choice, Fixed, Plan
from speceyes.scheduling import Outcome as Seen
from speceyes.scheduling.plan import SAME_DECISIONS
from speceyes.types import Answer, Reason, Route

KIND = "1 images, about 0.125 MP, open"
SURE, UNSURE = Reply("B"), Reply(tokens=TORN)


async def answered(plan: Plan, draft: Any, agent: Any, **options: Any) -> tuple[Answer, int, int, int]:
    """The answer, and how often the draft, the screening and the loop were asked."""
    async with funnel_over(draft, agent, planner=Fixed(plan), **options) as (funnel, small, large):
        answer = await funnel.answer(query())
        assert (funnel.stateless.held, funnel.loops.held) == (0, 0)
        await small.wait_until(lambda: small.active == 0)
        await large.wait_until(lambda: large.active == 0)
    screened = sum(is_screening(request.json) for request in large.completions)
    return answer, len(small.completions), screened, len(large.completions) - screened


@pytest.mark.parametrize("plan", SAME_DECISIONS)
@pytest.mark.parametrize(("draft", "helps"), itertools.product((SURE, UNSURE, Status(500, "no")), (0.1, 0.9)))
async def test_every_plan_accepts_the_same_drafts(plan: Plan, draft: Outcome, helps: float) -> None:
    answer, *_ = await answered(plan, draft, agent_script(helps))
    accepted = draft is SURE and helps < 0.5
    assert (answer.text, answer.route) == (("B", Route.DRAFT) if accepted else ("agent says", Route.AGENT))
    assert answer.trace.plan == plan.value
    if accepted:
        assert answer.score is not None


async def test_a_thousand_queries_are_decided_alike_by_every_plan() -> None:
    """Queries whose screening and draft are sure or not, by the digits of their number."""

    def draft(request: dict[str, Any], n: int) -> Outcome:
        return SURE if _number(request) % 3 else UNSURE

    def agent(request: dict[str, Any], n: int) -> Outcome:
        return agent_script(0.9 if _number(request) % 5 == 0 else 0.1, (Reply("<answer>agent says"),))(request, n)  # type: ignore[return-value]

    found: dict[Plan, list[Route]] = {}
    for plan in SAME_DECISIONS:
        async with funnel_over(draft, agent, planner=Fixed(plan), stateless=16, loops=16) as (funnel, _, _large):
            asked = [_numbered(i) for i in range(250)]
            found[plan] = [answer.route for answer in await funnel.answer_many(asked)]
            # an agent that is done before a draft is checked answers in its place; that never adds an acceptance
    paper = found[Plan.PAPER]
    assert paper.count(Route.DRAFT) == sum(i % 3 > 0 and i % 5 > 0 for i in range(250))
    assert found[Plan.DRAFT_FIRST] == found[Plan.PARALLEL] == paper
    assert all(
        route is Route.AGENT or want is Route.DRAFT for route, want in zip(found[Plan.HEDGED], paper, strict=True)
    )


async def test_draft_first_screens_only_drafts_that_pass() -> None:
    answer, drafts, screened, turns = await answered(Plan.DRAFT_FIRST, UNSURE, agent_script())
    assert (answer.reason, drafts, screened, turns) == (Reason.BELOW_THRESHOLD, 1, 0, 2)
    answer, drafts, screened, turns = await answered(Plan.DRAFT_FIRST, SURE, agent_script(0.9))
    assert (answer.reason, drafts, screened, turns) == (Reason.TOOL_WOULD_HELP, 1, 1, 2)


async def test_no_screen_accepts_what_screening_would_have_refused_and_says_so() -> None:
    answer, drafts, screened, turns = await answered(Plan.NO_SCREEN, SURE, agent_script(0.9))
    assert (answer.reason, answer.trace.plan, drafts, screened, turns) == (Reason.ACCEPTED, "no-screen", 1, 0, 0)


async def test_off_asks_the_agent_alone() -> None:
    answer, drafts, screened, turns = await answered(Plan.OFF, SURE, agent_script())
    assert (answer.reason, drafts, screened, turns) == (Reason.SPECULATION_OFF, 0, 0, 2)


async def test_parallel_cancels_the_draft_when_screening_refuses() -> None:
    async with funnel_over(Hang(SURE, 1), agent_script(0.9), planner=Fixed(Plan.PARALLEL)) as (funnel, small, _):
        answer = await funnel.answer(query())
        await small.wait_until(lambda: small.completions[0].done)
        assert small.completions[0].closed_by_client
    assert answer.reason is Reason.TOOL_WOULD_HELP


async def test_parallel_cancels_screening_when_the_gate_refuses() -> None:
    def agent(request: dict[str, Any], n: int) -> Outcome:
        return Hang() if is_screening(request) else Reply("<answer>agent says")

    async with funnel_over(UNSURE, agent, planner=Fixed(Plan.PARALLEL)) as (funnel, _, large):
        answer = await funnel.answer(query())
        (screening,) = (request for request in large.completions if is_screening(request.json))
        await large.wait_until(lambda: screening.done)
        assert screening.closed_by_client
    assert answer.reason is Reason.BELOW_THRESHOLD


def _loop_hangs(request: dict[str, Any], n: int) -> Any:
    return agent_script()(request, n) if is_screening(request) else Hang(Reply("<think>so many words here"), 2)


async def test_an_accepted_draft_ends_the_hedge_and_nothing_of_it_is_heard() -> None:
    events: list[Event] = []
    async with funnel_over(SURE, _loop_hangs, planner=Fixed(Plan.HEDGED)) as (funnel, _, large):
        answer = await funnel.answer(query(), listen=events.append)
        (loop,) = (request for request in large.completions if not is_screening(request.json))
        await large.wait_until(lambda: loop.done)
        assert loop.closed_by_client
        assert (funnel.stateless.held, funnel.loops.held) == (0, 0)
    assert (answer.text, answer.reason) == ("B", Reason.ACCEPTED)
    assert not [event for event in events if isinstance(event, TextStreamed)]


async def test_where_the_hedge_is_done_first_its_answer_counts() -> None:
    events: list[Event] = []
    async with funnel_over(Hang(SURE, 1), agent_script(), planner=Fixed(Plan.HEDGED)) as (funnel, small, _):
        answer = await funnel.answer(query(), listen=events.append)
        await small.wait_until(lambda: small.completions[0].closed_by_client)
    assert (answer.text, answer.reason) == ("agent says", Reason.AGENT_FIRST)
    said = [event.text for event in events if isinstance(event, TextStreamed) and event.kind == "answer"]
    assert "".join(said) == "agent says"


async def test_a_hedge_that_fails_matters_only_where_the_draft_is_refused() -> None:
    def agent(request: dict[str, Any], n: int) -> Any:
        return agent_script()(request, n) if is_screening(request) else Status(500, "no")

    answer, *_ = await answered(Plan.HEDGED, SURE, agent)
    assert answer.reason is Reason.ACCEPTED
    with pytest.raises(Exception, match="500"):
        await answered(Plan.HEDGED, UNSURE, agent)


@pytest.mark.parametrize("plan", [Plan.PARALLEL, Plan.HEDGED])
async def test_a_query_that_is_cancelled_leaves_nothing_behind(plan: Plan) -> None:
    async with funnel_over(Hang(), lambda r, n: Hang(), planner=Fixed(plan)) as (funnel, small, large):
        asking = asyncio.create_task(funnel.answer(query()))
        want = 1 if plan is Plan.PARALLEL else 2
        await large.wait_until(lambda: len(large.completions) == want)
        await small.wait_until(lambda: len(small.completions) == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        for server in (small, large):
            await server.wait_until(lambda server=server: all(one.done for one in server.completions))  # type: ignore[misc]
        assert (funnel.stateless.held, funnel.loops.held) == (0, 0)


class _Listening:
    """A planner that takes the paper's plan and keeps what it hears."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.heard = plan, []  # type: ignore[var-annotated]

    def choose(self, kind: object, load: float) -> Choice:
        return Choice(self.plan, "as told")

    def learn(self, kind: object, seen: Seen) -> None:
        self.heard.append((kind, seen))


@pytest.mark.parametrize(
    ("plan", "draft", "helps", "facts"),
    [
        (Plan.PAPER, SURE, 0.1, (True, None, True)),
        (Plan.PAPER, UNSURE, 0.1, (True, None, False)),
        (Plan.PAPER, SURE, 0.9, (False, None, False)),
        (Plan.DRAFT_FIRST, SURE, 0.1, (None, True, True)),
        (Plan.DRAFT_FIRST, SURE, 0.9, (None, True, False)),
        (Plan.DRAFT_FIRST, UNSURE, 0.1, (None, False, False)),
        (Plan.OFF, SURE, 0.1, (None, None, None)),
    ],
)
async def test_a_planner_hears_only_what_its_plan_has_asked(
    plan: Plan, draft: Outcome, helps: float, facts: tuple[bool | None, ...]
) -> None:
    planner = _Listening(plan)
    async with funnel_over(draft, agent_script(helps), planner=planner) as (funnel, _, _large):
        answer = await funnel.answer(query())
    ((kind, seen),) = planner.heard
    assert kind == KIND
    assert (seen.let_through, seen.passed, seen.accepted) == facts
    assert (seen.screen is None) == ("screen" not in answer.trace.phase_seconds)
    ran = answer.route is Route.AGENT
    warm = ran and answer.trace.screening is not None
    assert ((seen.agent is not None), (seen.agent_after_screen is not None)) == (ran and not warm, warm)
    assert answer.trace.plan_why == "as told"


async def test_auto_stays_off_what_has_not_paid_and_goes_on_asking() -> None:
    planner = Auto(probe_every=5)
    for _ in range(400):  # of such queries, so far: hours of screening and drafting for nothing
        planner.learn(
            KIND, Seen(screen=3600.0, draft=3600.0, agent_after_screen=1.0, let_through=False, accepted=False)
        )
        planner.learn(KIND, Seen(agent=1.0))
    async with funnel_over(SURE, agent_script(), planner=planner) as (funnel, _small, _large):
        answers = [await funnel.answer(query(str(i))) for i in range(10)]
    plans = [answer.trace.plan for answer in answers]
    assert [i for i, plan in enumerate(plans) if plan != "off"] == [4, 9]
    assert {answer.reason for answer in answers if answer.trace.plan == "off"} == {Reason.SPECULATION_OFF}
    assert "agent alone" in answers[0].trace.plan_why


async def test_no_plan_is_made_for_what_is_forced() -> None:
    planner = Fixed(Plan.HEDGED)
    async with funnel_over(SURE, agent_script(), planner=planner) as (funnel, small, _large):
        answer = await funnel.answer_by(Route.AGENT, query())
        assert (answer.reason, len(small.completions)) == (Reason.FORCED_AGENT, 0)
        answer = await funnel.answer_by(Route.DRAFT, query())
        assert answer.reason is Reason.FORCED_DRAFT


def _numbered(i: int) -> Any:
    from dataclasses import replace

    return replace(query(str(i)), question=f"Number {i}?")


def _number(request: dict[str, Any]) -> int:
    text = next(
        part["text"]
        for message in request["messages"][:2]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "text"
    )
    return int(text.split()[1].rstrip("?"))


def drafted_late(draft: Outcome, second_turn: Outcome) -> tuple[Any, Any]:
    """Scripts of a draft that is not written before the agent's second turn has begun, and of that agent."""
    begun = asyncio.Event()

    async def small(request: dict[str, Any], n: int) -> Outcome:
        await begun.wait()
        return draft

    def large(request: dict[str, Any], n: int) -> Outcome:
        if not is_screening(request) and len(request["messages"]) > 2:
            begun.set()
            return second_turn
        return agent_script()(request, n)  # type: ignore[return-value]

    return small, large


async def test_what_a_hedge_thinks_and_does_is_told_in_its_order_and_only_where_it_counts() -> None:
    """The draft is refused once the agent's second turn has begun: until then nothing of its run may be heard."""
    draft, agent = drafted_late(UNSURE, Reply("<think>now I see</think><answer>agent says"))
    events: list[Event] = []
    async with funnel_over(draft, agent, planner=Fixed(Plan.HEDGED)) as (funnel, _, _large):
        answer = await funnel.answer(query(), listen=events.append)
    assert answer.reason in (Reason.BELOW_THRESHOLD, Reason.AGENT_FIRST)
    told = [event for event in events if isinstance(event, (Decided, TurnEnded, TextStreamed))]
    assert isinstance(told[0], Decided)
    first = next(i for i, event in enumerate(told) if isinstance(event, TurnEnded))
    before = "".join(event.text for event in told[:first] if isinstance(event, TextStreamed))
    assert before == "small"


async def test_of_a_hedge_that_is_thrown_away_no_turn_is_told() -> None:
    draft, agent = drafted_late(SURE, Hang())
    events: list[Event] = []
    async with funnel_over(draft, agent, planner=Fixed(Plan.HEDGED)) as (funnel, small, large):
        answer = await funnel.answer(query(), listen=events.append)
        await large.wait_until(lambda: large.active == 0)
    assert (answer.reason, len(small.completions)) == (Reason.ACCEPTED, 1)
    assert not [event for event in events if isinstance(event, (TextStreamed, TurnEnded))]
    assert answer.trace.attempts == {"small": 1, "large": 3}, "the turn that was broken off was sent"
    assert answer.trace.usage["large"].calls == 2, "and is no complete call"


class Noting:
    """One plan, and a note of all that it is told."""

    def __init__(self, plan: Plan) -> None:
        self.fixed = Fixed(plan)
        self.seen: list[Seen] = []

    def choose(self, kind: str, load: float) -> Choice:
        return self.fixed.choose(kind, load)

    def learn(self, kind: str, seen: Seen) -> None:
        self.seen.append(seen)

    def report(self) -> dict[str, Any]:
        return {}


@pytest.mark.parametrize("plan", [Plan.PAPER, Plan.PARALLEL, Plan.HEDGED])
async def test_a_look_that_is_accepted_has_cost_no_agent(plan: Plan) -> None:
    """Under `hedged` the agent's run is broken off: its seconds are no part of what a refused query takes."""
    planner = Noting(plan)

    def draft(request: dict[str, Any], n: int) -> Outcome:
        last = request["messages"][-1]["content"][-1]["text"]
        if last.endswith(LOOK):
            return Reply('{"bbox_2d": [10, 10, 60, 60]}')
        return Reply("7") if len(request["messages"]) > 1 else UNSURE

    async with funnel_over(draft, _loop_hangs, planner=planner, max_depth=1) as (funnel, _, _large):
        answer = await funnel.answer(query())
    assert answer.reason is Reason.ACCEPTED_CLOSER
    (seen,) = planner.seen
    told = seen.agent if plan is Plan.HEDGED else seen.agent_after_screen
    assert told == seen.closer == pytest.approx(answer.trace.phase_seconds["look_closer"])


async def test_a_deadline_tells_of_a_hedge_beside_a_draft_that_failed() -> None:
    setup = funnel_over(Status(500, "no"), _loop_hangs, planner=Fixed(Plan.HEDGED), deadline_s=0.5)
    async with setup as (funnel, _, _large):
        with pytest.raises(DeadlineExceeded) as late:
            await funnel.answer(query())
    assert "fall_back took" in str(late.value)
    assert "and was not finished" in str(late.value)
    assert "waited -" not in str(late.value)
