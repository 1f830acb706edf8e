"""Decisions do not depend on the plan: 1,000 recorded queries of real models, under every plan and order of events.

The models' answers are recorded, the delays are drawn from a seed, and time is virtual. So screening, draft and agent
end in every order, at 16 queries at a time, and a failure comes again when it is looked for.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from PIL import Image

from replayed_pair import Call, K, Recorded, Replay, Role, load_records
from speceyes import logbook
from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.nano import NANO_LIMITS
from speceyes.funnel import Funnel
from speceyes.gating import Calibration
from speceyes.imaging.decode import decode
from speceyes.phases import AgentModel, DraftModel
from speceyes.scheduling import Plan, planner_of
from speceyes.scheduling.plan import SAME_DECISIONS
from speceyes.types import Answer, Reason, Route
from virtual_time import run_virtually

AT_A_TIME = 16
CALIBRATION = Calibration.manual(7.5, k=K)
"""A threshold that refuses drafts which screening has let through, and passes others that it has not."""
FRONT = (0.05, 1.0)
"""Seconds that screening takes, and the draft, at least and at most."""
ANY_ORDER, LAST = (0.05, 1.5), (20.0, 40.0)
"""Of the agent: so that it may be done before the others are, or never."""
PLANS = tuple(plan.value for plan in SAME_DECISIONS)

Agent = tuple[float, float]


@cache
def records() -> list[Recorded]:
    return load_records()


@cache
def accepted_by_record() -> dict[int, float]:
    """The rows whose draft both phases accept, and its score."""
    found = {}
    for i, row in enumerate(records()):
        screened, gated = row.decision(CALIBRATION)
        if screened is None and gated.accepted:
            assert gated.score is not None
            found[i] = gated.score
    return found


@cache
def answered(plan: str, agent: Agent) -> tuple[Sequence[Answer], Sequence[Call]]:
    """All queries under a plan, and the requests that this took."""
    return run_virtually(_answered(plan, agent))


async def _answered(plan: str, agent: Agent) -> tuple[Sequence[Answer], Sequence[Call]]:
    def seconds(row: int, role: Role) -> float:
        return random.Random(f"{row} {role}").uniform(*(agent if role is Role.AGENT else FRONT))

    replay = Replay(records(), seconds)
    funnel = Funnel(
        DraftModel(replay.engine(Role.DRAFT), NANO_LIMITS, logprobs=K),
        AgentModel(replay.engine(Role.SCREEN, Role.AGENT), DeepEyes(limits=NANO_LIMITS)),
        CALIBRATION,
        stateless=AT_A_TIME,
        loops=AT_A_TIME,
        planner=planner_of(plan),
    )
    file = io.BytesIO()
    Image.new("RGB", (192, 192)).save(file, "PNG")
    image = decode(file.getvalue())
    # What `auto` learns is read from this clock.
    with patch.object(logbook, "time", SimpleNamespace(monotonic=asyncio.get_running_loop().time)):
        answers = await funnel.answer_many(replay.query(i, image) for i in range(len(records())))
    assert (funnel.stateless.held, funnel.loops.held) == (0, 0)
    return answers, replay.calls


def scores(answers: Sequence[Answer]) -> dict[int, float | None]:
    """The rows that a draft has answered, and its score."""
    return {i: answer.score for i, answer in enumerate(answers) if answer.route is Route.DRAFT}


def test_the_record_holds_what_the_test_needs() -> None:
    assert len(records()) == 1000
    kinds = Counter((s is None, g.accepted) for s, g in (row.decision(CALIBRATION) for row in records()))
    assert len(kinds) == 4
    assert min(kinds.values()) >= 20, "of each: let through or not, passed or not"


@pytest.mark.parametrize("plan", PLANS)
def test_the_very_same_drafts_are_accepted_by_every_plan(plan: str) -> None:
    answers, _ = answered(plan, LAST)
    assert scores(answers) == accepted_by_record()
    assert {answer.trace.plan for answer in answers} == {plan}
    for i, (answer, row) in enumerate(zip(answers, records(), strict=True)):
        check_reason(answer, row)
        assert answer.query_id == str(i)


def test_auto_accepts_the_very_same_drafts_whatever_plan_it_takes() -> None:
    """But for the few queries that it gives to the agent alone, to see what that costs now."""
    answers, _ = answered("auto", LAST)
    off = {i for i, answer in enumerate(answers) if answer.trace.plan == Plan.OFF}
    assert len(off) < 40
    assert scores(answers) == {i: score for i, score in accepted_by_record().items() if i not in off}
    assert {answer.trace.plan for answer in answers} == {*PLANS, Plan.OFF}
    for answer, row in zip(answers, records(), strict=True):
        check_reason(answer, row)


@pytest.mark.parametrize("plan", [*PLANS, "auto"])
def test_no_order_of_events_changes_a_decision(plan: str) -> None:
    """But where the agent was there first, or speculation was off: then nobody decided."""
    answers, calls = answered(plan, ANY_ORDER)
    undecided = {i for i, answer in enumerate(answers) if answer.reason in (Reason.AGENT_FIRST, Reason.SPECULATION_OFF)}
    wanted = {i: score for i, score in accepted_by_record().items() if i not in undecided}
    assert scores(answers) == wanted
    ended = {(call.row, call.role) for call in calls if call.ended is not None}
    for i, (answer, row) in enumerate(zip(answers, records(), strict=True)):
        check_reason(answer, row)
        if answer.reason is Reason.AGENT_FIRST:
            assert answer.trace.plan == Plan.HEDGED
            screened, gated = row.decision(CALIBRATION)
            refused = (screened is not None and (i, Role.SCREEN) in ended) or (
                not gated.accepted and (i, Role.DRAFT) in ended
            )
            assert not refused, f"row {i} was refused before the agent was done"
            assert not {(i, Role.SCREEN), (i, Role.DRAFT)} <= ended, f"row {i} was decided before the agent was done"
        elif answer.reason is Reason.SPECULATION_OFF:
            assert answer.trace.plan == Plan.OFF


def check_reason(answer: Answer, row: Recorded) -> None:
    """The reason is one that the record has, and the text that of the model which it names."""
    screened, gated = row.decision(CALIBRATION)
    assert answer.text == (row.draft if answer.route is Route.DRAFT else row.agent)
    if answer.reason in (Reason.AGENT_FIRST, Reason.SPECULATION_OFF):
        return
    possible = {verdict.reason for verdict in (screened, gated) if verdict is not None and not verdict.accepted}
    assert answer.reason in (possible or {Reason.ACCEPTED})
    if answer.trace.plan == Plan.PAPER and screened is not None:
        assert answer.reason is screened.reason
    if answer.trace.plan == Plan.DRAFT_FIRST and not gated.accepted:
        assert answer.reason is gated.reason


def test_off_accepts_nothing_and_asks_for_nothing() -> None:
    answers, calls = answered("off", ANY_ORDER)
    assert {answer.reason for answer in answers} == {Reason.SPECULATION_OFF}
    assert Counter(call.role for call in calls) == {Role.AGENT: len(records())}


def test_every_order_has_occurred() -> None:
    """Of screening and draft side by side, and of the agent beside them; for each of what the two may say."""
    outcomes = set(itertools.product((True, False), repeat=2))
    for plan, roles in (("parallel", (Role.SCREEN, Role.DRAFT)), ("hedged", tuple(Role))):
        due: dict[int, dict[Role, float]] = {}
        for call in answered(plan, ANY_ORDER)[1]:
            if call.role in roles:
                due.setdefault(call.row, {})[call.role] = call.due
        seen = set()
        for i, times in due.items():
            if len(times) == len(roles):
                screened, gated = records()[i].decision(CALIBRATION)
                seen.add((tuple(sorted(times, key=times.__getitem__)), screened is None, gated.accepted))
        assert seen == {(order, *said) for order in itertools.permutations(roles) for said in outcomes}
