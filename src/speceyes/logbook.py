"""What is written down about one query on its way through the funnel; in the end, its trace."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from speceyes.errors import EngineError
from speceyes.events import Listener, PhaseEnded, TurnEnded
from speceyes.types import AgentRun, Answer, Draft, Query, Reason, Screening, Trace, Turn, Usage, Verdict


class Logbook:
    """The notes on one query. The phases' results are assigned to it as they come in.

    Args:
        query: The query.
        draft_model: Name of the draft model, for the sums of tokens.
        agent_model: Name of the agent.
        listen: Is told when a phase ends.
    """

    def __init__(self, query: Query, draft_model: str, agent_model: str, listen: Listener) -> None:
        self.query = query
        self.screening: Screening | None = None
        self.draft: Draft | None = None
        self.run: AgentRun | None = None
        self._turns: list[Turn] = []
        self._models = (draft_model, agent_model)
        self._listen = listen
        self._began = time.monotonic()
        self._seconds: dict[str, float] = {}
        self._notes: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase, also one that fails."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = time.monotonic() - began
            self._listen(PhaseEnded(self.query.id, name, self._seconds[name]))

    def turn(self, turn: Turn) -> None:
        """Take down a turn of the agent when it is over: what it cost counts even if the run breaks off."""
        self._turns.append(turn)
        self._listen(TurnEnded(self.query.id, turn))

    def survived(self, error: EngineError, reason: Reason) -> Verdict:
        """Note an error that sends the query to the agent.

        Raises:
            EngineError: This very one, if every query would meet it: then the agent would do all of the work, and
                nobody would know.
        """
        if error.misconfigured:
            raise error
        self._notes.append(f"{type(error).__name__}: {error}")
        return Verdict(reason)

    def usage(self) -> Mapping[str, Usage]:
        """Tokens by model of all complete calls so far, refused drafts and screening included."""
        draft, agent = self._models
        spent: dict[str, Usage] = {}
        for model, part in ((agent, self.screening), (draft, self.draft), *((agent, turn) for turn in self._turns)):
            if part is not None:
                spent[model] = spent.get(model, Usage()) + part.usage
        return spent

    def answer(self, verdict: Verdict) -> Answer:
        """Close the book: the draft's text where the verdict accepted it, else the agent's."""
        chosen = self.draft if verdict.accepted else self.run
        assert chosen is not None, "an answer needs an accepted draft or an agent run"
        trace = Trace(
            reason=verdict.reason,
            screening=self.screening,
            draft=self.draft,
            verdict=verdict,
            run=self.run,
            seconds=time.monotonic() - self._began,
            phase_seconds=dict(self._seconds),
            usage=self.usage(),
            notes=tuple(self._notes),
        )
        return Answer(chosen.text, trace, self.query.id)
