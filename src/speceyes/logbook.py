"""What is written down about one query on its way through the funnel; in the end, its trace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import starmap, zip_longest
from typing import Literal

from speceyes.agents.ending import end_answer
from speceyes.engines.attempts import Attempts, CountedEngine
from speceyes.engines.server_clock import ServerClocks
from speceyes.errors import EngineError, SpecEyesError
from speceyes.events import Answered, Cancelled, Failed, Listener, PhaseEnded, TextStreamed, TurnEnded
from speceyes.gating import Calibration
from speceyes.imaging.view import View
from speceyes.phases import AgentModel, DraftModel, gate_screening
from speceyes.scheduling import Choice, Claim, Outcome, Plan, kind_of
from speceyes.types import (
    AgentRun,
    Answer,
    Draft,
    ImageSizes,
    Query,
    Reason,
    Screening,
    Trace,
    Turn,
    Usage,
    Verdict,
)

_PAPER = Choice(Plan.PAPER)


class Logbook:
    """The notes on one query. The phases' results are assigned to it as they come in.

    Args:
        query: The query.
        draft: The draft model.
        agent: The agent.
        tell: Hears what happens.
        choice: The plan that was made for it. None: none was, for who answers is forced.
        limit_s: Seconds that it may take. None: no limit.
        retries: Retries that all calls together may make. None: as many as their clients do.
        strict: Raise errors of the set-up, instead of noting them.
        clocks: Count how many calls the servers have at a time. None: nobody does.

    Attributes:
        draft_model: The draft model, its calls counted.
        agent_model: The agent, its calls counted.
        screener: The agent in phase I, counted by itself.
        draft_views: The images as the draft model was shown them, () before that.
        agent_views: The images as the agent was shown them.
    """

    def __init__(
        self,
        query: Query,
        draft: DraftModel,
        agent: AgentModel,
        tell: Listener,
        *,
        choice: Choice | None = _PAPER,
        limit_s: float | None = None,
        retries: int | None = None,
        strict: bool = True,
        clocks: ServerClocks | None = None,
    ) -> None:
        self.query = query
        self.choice = choice
        self.limit_s = limit_s
        self.tell = tell
        self._attempts = Attempts(retries)
        at = clocks or ServerClocks()
        small = CountedEngine(draft.engine, self._attempts, at.draft)
        once, large = (CountedEngine(agent.engine, self._attempts, at.agent) for _ in range(2))
        self._stays = {"screen": once.stay, "draft": small.stay, "agent": large.stay, "agent_after_screen": large.stay}
        self.draft_model = replace(draft, engine=small)
        self.screener, self.agent_model = replace(agent, engine=once), replace(agent, engine=large)
        self.draft_views: Sequence[View] = ()
        self.agent_views: Sequence[View] = ()
        self.screening: Screening | None = None
        self.draft: Draft | None = None
        self.gated: Verdict | None = None
        self.closer: list[Draft] = []
        self.run: AgentRun | None = None
        self._strict = strict
        self._turns: list[Turn] = []
        self._began = time.monotonic()
        self._seconds: dict[str, float] = {}
        self._broken_off: set[str] = set()
        self._running: set[str] = set()
        self._held: list[TextStreamed | TurnEnded] | None = None
        self._notes: list[str] = []
        self._in_vain: list[Usage] = []

    @property
    def plan(self) -> Plan | None:
        """In which order the phases run. None: none was chosen."""
        return None if self.choice is None else self.choice.plan

    @cached_property
    def kind(self) -> str:
        """What queries it is like."""
        return kind_of([image.size for image in self.query.images], self.query.question)

    def claim(self, expected_s: float | None = None) -> Claim:
        """What it stands in line with, for work that is expected to take so long."""
        left_s = None if self.limit_s is None else self.limit_s - (time.monotonic() - self._began)
        return Claim(self.query.priority, expected_s, left_s)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase, also one that fails."""
        began = time.monotonic()
        self._broken_off.add(name)
        self._running.add(name)
        try:
            yield
            self._broken_off.discard(name)
        finally:
            self._running.discard(name)
            took = time.monotonic() - began
            self._seconds[name] = self._seconds.get(name, 0.0) + took  # a second look adds to the first one
            self.tell(PhaseEnded(self.query.id, name, took))

    def turn(self, turn: Turn) -> None:
        """Take down a turn of the agent when it is over: what it cost counts even if the run breaks off."""
        self._turns.append(turn)
        self._tell_of_run(TurnEnded(self.query.id, turn))

    def said(self, kind: Literal["thought", "answer"], text: str) -> None:
        """Pass on what the agent has just written."""
        self._tell_of_run(TextStreamed(self.query.id, kind, text))

    def _tell_of_run(self, event: TextStreamed | TurnEnded) -> None:
        if self._held is None:
            self.tell(event)
        else:
            self._held.append(event)

    def hold_back(self) -> None:
        """Keep what the agent says and does until `release`: a draft may still be the answer, and nothing told is taken
        back."""
        self._held = []

    def release(self) -> None:
        """Pass on what has been kept, and from now on everything at once."""
        held, self._held = self._held or (), None
        for event in held:
            self.tell(event)

    def survived(self, error: EngineError, reason: Reason) -> Verdict:
        """Note an error that sends the query to the agent.

        Raises:
            EngineError: This very one, if every query would meet it and the book is strict: then the agent would do
                all of the work, and nobody would know.
        """
        if error.misconfigured and self._strict:
            raise error
        self._broken_off &= self._running
        self._in_vain += [] if error.spent is None else [error.spent]
        self._notes.append(f"{type(error).__name__}: {error}")
        return Verdict(reason)

    def story(self) -> str:
        """What has been done and what has not, for the error of a query that ran out of time."""
        parts = [
            f"{name} took {seconds:.2f} s" + (" and was not finished" if name in self._broken_off else "")
            for name, seconds in self._seconds.items()
        ]
        waited = time.monotonic() - self._began - sum(self._seconds.values())
        if not self._broken_off and waited > 0.0:
            parts.append(f"it waited {waited:.2f} s for its turn")
        turns = f", after {len(self._turns)} turns of the agent" if self._turns else ""
        return "; ".join(parts) + turns

    def outcome(self, calibration: Calibration) -> Outcome:
        """What the query has shown, for those who plan the next one."""
        plan, seconds = self.plan, self._seconds
        let = None if self.screening is None else gate_screening(self.screening, calibration) is None
        passed = None if self.gated is None else self.gated.accepted
        # What a refused query takes: the draft model's own looks, and the agent where these were not enough. Of a hedge
        # neither counts that was broken off.
        closer = 0.0 if "look_closer" in self._broken_off else seconds.get("look_closer", 0.0)
        refused = self.run is not None or bool(self.closer)
        run = 0.0 if self.run is None else seconds["fall_back"]
        agent = closer + run if refused else None
        warm = self.screening is not None and plan is not Plan.HEDGED
        return Outcome(
            screen=seconds.get("screen") if self.screening is not None else None,
            draft=seconds.get("speculate") if self.draft is not None else None,
            agent=None if warm else agent,
            agent_after_screen=agent if warm else None,
            let_through=None if plan is Plan.DRAFT_FIRST else let,
            passed=None if plan is Plan.PAPER else passed,
            accepted=False if let is False or passed is False else True if let and passed else None,
            closer=closer if agent is not None else None,
            calls={name: calls for name, stay in self._stays.items() if (calls := stay.beside) is not None},
        )

    def usage(self) -> Mapping[str, Usage]:
        """Tokens by model of all complete calls so far, refused drafts and screening included."""
        draft, agent = self.draft_model.engine.model, self.agent_model.engine.model
        spent: dict[str, Usage] = {}
        parts = [self.screening, *self._turns]
        drafts = [made.usage for made in (self.draft, *self.closer) if made is not None] + self._in_vain
        for model, used in [(agent, part.usage) for part in parts if part is not None] + [(draft, u) for u in drafts]:
            spent[model] = spent.get(model, Usage()) + used
        return spent

    def trace(self, verdict: Verdict) -> Trace:
        """All that is known by now."""
        return Trace(
            reason=verdict.reason,
            screening=self.screening,
            draft=self.draft,
            verdict=verdict,
            run=self.run,
            seconds=time.monotonic() - self._began,
            phase_seconds=dict(self._seconds),
            usage=self.usage(),
            notes=(*self._notes, *self._other_names(), *(self.run.notes if self.run else ())),
            attempts=dict(self._attempts.made),
            images=self._sizes(),
            plan=self.choice.plan.value if self.choice else "",
            plan_why=self.choice.why if self.choice else "",
            closer=tuple(self.closer),
        )

    @contextmanager
    def broken_off_told(self) -> Iterator[None]:
        """Tell of a query that ends without an answer, and what it has cost."""
        try:
            yield
        except SpecEyesError as error:
            self.tell(Failed(self.query.id, error, self.usage()))
            raise
        except asyncio.CancelledError:
            self.tell(Cancelled(self.query.id, self.usage()))
            raise
        finally:
            self._attempts.close()

    def answer(self, verdict: Verdict) -> Answer:
        """Close the book, and tell it: the draft's text where the verdict says so, else the agent's."""
        trace = self.trace(verdict)
        text, finish = self._final(trace)
        answer = Answer(text, trace, self.query.id, finish)
        self.tell(Answered(answer))
        return answer

    def _final(self, trace: Trace) -> tuple[str, Literal["stop", "length"]]:
        """The text to show, and why it ends. A draft's length was its server's business."""
        wanted = self.query.sampling
        if (draft := trace.answering) is not None:
            given, whole = draft.text, draft.fault is not Reason.TRUNCATED_ANSWER
            wanted = replace(wanted, max_answer_tokens=None)
        else:
            assert self.run is not None, "an answer needs an accepted draft or an agent run"
            given, whole = self.run.text, self.run.whole
        text, finish = end_answer(given, wanted)
        return text, finish if whole or text != given.strip() else "length"

    def _other_names(self) -> list[str]:
        """For whoever reads the trace: a calibration is bound to a model's name, and here a server gave another."""
        return [
            f"{asked} was asked, and its server says that {said} answered"
            for asked, said in self._attempts.answered_as.items()
        ]

    def _sizes(self) -> tuple[ImageSizes, ...]:
        originals = [image.size for image in self.query.images]
        agent, draft = self.agent_model.dialect.limits, self.draft_model.limits
        shown = (
            [view.size for view in self.agent_views],
            [view.size for view in self.draft_views],
            [agent.tokens(view.size) for view in self.agent_views],
            [draft.tokens(view.size) for view in self.draft_views],
        )
        return tuple(starmap(ImageSizes, zip_longest(originals, *shown)))
