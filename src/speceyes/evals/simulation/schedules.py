"""One query's way through simulated servers, under each plan as `speceyes.funnel` runs it.

A query keeps to one replica of the agent for all its calls, since that one has its picture in the prompt cache, and has
one draft on the replica of the draft that is least loaded then.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from simpy import Environment, Event, Interrupt

from speceyes.engines.server_clock import ServerClock, ServerClocks, Stay
from speceyes.evals.simulation.servers import Call, Pool, Replica, Servers
from speceyes.evals.simulation.workload import QueryTimes
from speceyes.scheduling import Outcome, Plan

Way = Generator[Event, Any, bool]
"""A stretch of a query's way; its value is whether the draft is the answer."""


class Fleet:
    """The servers of a simulation.

    Attributes:
        env: Simulated time.
        draft: Servers of the draft model.
        agent: Servers of the agent.
        inside: Queries that are somewhere on their way.
        loops: Those among them whose agent's loop runs: what the planner takes its load from.
        clocks: How many calls are at the servers, as the client of both sees it.
    """

    def __init__(self, env: Environment, draft: Servers, agent: Servers) -> None:
        self.env = env
        self.draft = Pool(env, draft)
        self.agent = Pool(env, agent)
        self.inside = 0
        self.loops = 0
        self.clocks = ServerClocks(lambda: env.now)


class Visit:
    """One query on its way.

    Args:
        fleet: The servers.
        times: What the query takes, and what the phases say of it.
        plan: The order of the phases.
    """

    def __init__(self, fleet: Fleet, times: QueryTimes, plan: Plan) -> None:
        self._fleet = fleet
        self._env = fleet.env
        self._times = times
        self._plan = plan
        self._agent = fleet.agent.least_loaded()
        self._seconds: dict[str, float] = {}
        self._stays = {name: Stay() for name in ("screen", "draft", "closer", "agent")}
        self._warm = 0.0
        """How much of a screening has been done."""
        self._drafted = 0.0
        """How much of a draft."""

    def run(self) -> Way:
        """From arrival to answer."""
        times, plan = self._times, self._plan
        yield self._env.timeout(times.look)
        if plan is Plan.OFF:
            return (yield from self._loop(times.agent))
        if plan is Plan.HEDGED:
            return (yield from self._hedged())
        accepted = yield from self._closer(self._front())
        if not accepted:
            yield from self._loop(times.agent - self._warm * (times.agent - times.agent_after_screen))
        return accepted

    def _front(self) -> Way:
        """Phases I to III."""
        times, plan = self._times, self._plan
        if plan is Plan.PAPER:
            yield from self._timed("screen", self._screen())
            if times.let_through:
                yield from self._timed("draft", self._draft())
            return times.accepted
        if plan in (Plan.DRAFT_FIRST, Plan.NO_SCREEN):
            yield from self._timed("draft", self._draft())
            if times.passed and plan is Plan.DRAFT_FIRST:
                yield from self._timed("screen", self._screen())
                return times.let_through
            return times.passed
        return (yield from self._side_by_side())

    def _closer(self, glance: Way) -> Way:
        """What is refused at a glance, and then the draft model's own looks."""
        if (yield from glance):
            return True
        if not self._times.closer:
            return False
        began, server = self._env.now, self._fleet.draft.least_loaded()
        seconds = self._times.closer + (1.0 - self._drafted) * self._times.draft  # the picture has to be read by then
        call = self._sent("closer", server.call(seconds), self._fleet.clocks.draft)
        try:
            yield call
        finally:
            self._stop(call)
        self._seconds["closer"] = self._env.now - began
        return self._times.passed_closer

    def _side_by_side(self) -> Way:
        """Phase I beside II; the first refusal cancels the other."""
        began, agrees = self._env.now, {"screen": self._times.let_through, "draft": self._times.passed}
        calls = {"screen": self._screen(), "draft": self._draft()}
        screen, draft = calls.values()
        try:
            for first in (True, False):
                yield (screen | draft) if first else (screen & draft)
                done = [name for name, call in calls.items() if call.triggered]
                for name in done:
                    self._seconds.setdefault(name, self._env.now - began)
                if not all(agrees[name] for name in done):
                    break
        finally:
            self._stop(screen)
            self._stop(draft)
            self._warm, self._drafted = screen.share, draft.share
        return self._times.accepted

    def _hedged(self) -> Way:
        """Phases I to III beside the agent, which is cancelled where its answer is not needed."""
        agent = self._env.process(self._until_interrupted(self._loop(self._times.agent)))
        front = self._env.process(self._until_interrupted(self._closer(self._side_by_side())))
        yield agent | front
        if front.is_alive:
            front.interrupt()
            return False
        if front.value:
            if agent.is_alive:
                agent.interrupt()
            return True
        yield agent
        return False

    def _until_interrupted(self, way: Way) -> Way:
        try:
            return (yield from way)
        except Interrupt:
            return False

    def _loop(self, seconds: float) -> Way:
        """The agent's run: its turns, one after another, each as long as the others."""
        began, turns = self._env.now, self._times.turns
        call: Call | None = None
        self._fleet.loops += 1
        try:
            for _ in range(turns):
                call = self._sent("agent", self._agent.call(seconds / turns), self._fleet.clocks.agent)
                yield call
        finally:
            self._fleet.loops -= 1
            if call is not None:
                self._stop(call)
        self._seconds["agent"] = self._env.now - began
        return False

    def _timed(self, phase: str, call: Call) -> Generator[Event, Any, None]:
        began = self._env.now
        yield call
        self._seconds[phase] = self._env.now - began
        if phase == "screen":
            self._warm = 1.0
        else:
            self._drafted = 1.0

    def _screen(self) -> Call:
        return self._sent("screen", self._agent.call(self._times.screen), self._fleet.clocks.agent)

    def _draft(self) -> Call:
        return self._sent("draft", self._fleet.draft.least_loaded().call(self._times.draft), self._fleet.clocks.draft)

    def _sent(self, phase: str, call: Call, clock: ServerClock) -> Call:
        """A call that its server's clock counts until it is done, or stopped."""
        came, stay = clock.enter(), self._stays[phase]
        call.callbacks.append(lambda event: clock.leave(came, stay))
        return call

    def _stop(self, call: Call) -> None:
        """Cancel a call that is not done."""
        call.cancel()
        if call.cancelled and call.callbacks:
            told, call.callbacks = call.callbacks[0], []
            told(call)

    def outcome(self) -> Outcome:
        """What the planner is told of it: the same that `speceyes.logbook` tells."""
        plan, seconds, times = self._plan, self._seconds, self._times
        screened, drafted = "screen" in seconds, "draft" in seconds
        let, passed = (times.let_through if screened else None), (times.passed if drafted else None)
        warm, closer = screened and plan is not Plan.HEDGED, seconds.get("closer", 0.0)
        refused = "agent" in seconds or "closer" in seconds
        agent = closer + seconds.get("agent", 0.0) if refused else None
        calls = {name: at.beside for name, at in self._stays.items() if at.beside is not None and name != "closer"}
        if "agent" in calls:
            calls["agent_after_screen"] = calls["agent"]
        return Outcome(
            calls=calls,
            screen=seconds.get("screen"),
            draft=seconds.get("draft"),
            agent=None if warm else agent,
            agent_after_screen=agent if warm else None,
            let_through=None if plan is Plan.DRAFT_FIRST else let,
            passed=None if plan is Plan.PAPER else passed,
            accepted=False if let is False or passed is False else True if let and passed else None,
            closer=closer if refused else None,
        )


class Waiting:
    """A query that waits for the published schedule to take it into a batch.

    Attributes:
        times: What it takes.
        answered: Happens when it is answered; its value is whether by the draft.
    """

    def __init__(self, env: Environment, times: QueryTimes) -> None:
        self.times = times
        self.answered: Event = env.event()


def published_batch(fleet: Fleet, agent: Replica, block: list[Waiting]) -> Generator[Event, Any, None]:
    """One batch of the published schedule: I for all, II for all that I lets through, then IV one by one.

    It knows no closer looks of the draft model.

    Args:
        fleet: The servers.
        agent: The replica of the agent that the batch is for.
        block: Its queries.
    """
    env = fleet.env
    yield env.timeout(max(query.times.look for query in block))
    yield env.all_of([agent.call(query.times.screen) for query in block])
    through = [query for query in block if query.times.let_through]
    yield env.all_of([fleet.draft.least_loaded().call(query.times.draft) for query in through])
    for query in through:
        if query.times.accepted:
            query.answered.succeed(True)
    for query in block:
        if not query.times.accepted:
            for _ in range(query.times.turns):
                yield agent.call(query.times.agent_after_screen / query.times.turns)
            query.answered.succeed(False)
