"""A circuit breaker before a model's server: one that is down costs a query nothing but its reason."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from speceyes.engines.circuit import Circuit, State
from speceyes.engines.client import Engine, OnDelta, was_sent
from speceyes.errors import EngineDown, EngineError
from speceyes.events import CircuitChanged, Listener, Misconfigured, ignore
from speceyes.types import ChatRequest, Completion, Delta

REMIND_S = 60.0
"""Seconds between two events about the same fault of the set-up."""


class CircuitBreaker:
    """An engine that is not asked while it is down.

    Only what is the server's own fault counts against it. A request that it refuses shows that it is alive.

    Args:
        engine: The engine.
        circuit: Decides; of this engine only.
        silent_s: A call that is given up after so many seconds, without a sign of life, counts as a failure. The
            callers' deadlines may be shorter than the engine's own time-out, and then nothing else would.
        listen: Hears `CircuitChanged` and `Misconfigured`.
        clock: Monotonic seconds.

    Attributes:
        engine: As given.
        last_error: The last fault of the server, None since it last answered.
        misconfigured: What the server refuses of all that is asked of it, None since it last answered.
    """

    def __init__(
        self,
        engine: Engine,
        circuit: Circuit | None = None,
        *,
        silent_s: float = 30.0,
        listen: Listener = ignore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self.last_error: EngineError | None = None
        self.misconfigured: EngineError | None = None
        self._circuit = circuit or Circuit(clock=clock)
        self._silent_s = silent_s
        self._listen = listen
        self._clock = clock
        self._told: State = self._circuit.state
        self._reminded = -REMIND_S

    def __repr__(self) -> str:
        return f"CircuitBreaker({self.engine!r}, {self.state})"

    @property
    def model(self) -> str:
        """As the engine has it."""
        return self.engine.model

    @property
    def state(self) -> State:
        """Of the circuit."""
        return self._circuit.state

    @property
    def retry_after_s(self) -> float:
        """Seconds until the server may be asked again; 0 where it may now."""
        return self._circuit.retry_after_s

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        """As the engine does it.

        Raises:
            EngineDown: The server is down and was not asked.
        """
        with self.call() as alive:

            def heard(delta: Delta) -> None:
                alive()
                if on_delta is not None:
                    on_delta(delta)

            return await self.engine.complete(request, on_delta=heard)

    @contextmanager
    def call(self) -> Iterator[Callable[[], None]]:
        """A call to this server that is made in another way: inside, its outcome counts as one of `complete` does.

        Gives a function to be called at a sign of life, which matters if the call is cancelled.

        Raises:
            EngineDown: The server is down; the call must not be made.
        """
        began, heard = self._clock(), False

        def alive() -> None:
            nonlocal heard
            heard = True

        ticket = self._enter()
        try:
            yield alive
        except EngineError as error:
            self._judge(ticket, error)
            raise
        except asyncio.CancelledError as error:
            hangs = was_sent(error) and not heard and self._clock() - began >= self._silent_s
            (self._circuit.failed if hangs else self._circuit.given_up)(ticket)
            raise
        except BaseException:
            self._circuit.given_up(ticket)
            raise
        else:
            self.last_error = self.misconfigured = None
            self._circuit.succeeded(ticket)
        finally:
            self._tell()

    def _enter(self) -> int:
        ticket = self._circuit.enter()
        self._tell()
        if ticket is not None:
            return ticket
        wait = self.retry_after_s
        # Not the server's own words: another caller's question may be in them.
        kind = f" ({type(self.last_error).__name__})" if self.last_error else ""
        down = EngineDown(
            f"{self.model} was not asked, for its last calls failed{kind}. Next try in {wait:.0f} s", retry_after=wait
        )
        down.attempts = 0
        raise down

    def _judge(self, ticket: int, error: EngineError) -> None:
        if error.misconfigured:
            self.misconfigured = error
            if self._clock() - self._reminded >= REMIND_S:
                self._reminded = self._clock()
                self._listen(Misconfigured(self.model, error))
        if error.unsent:
            self._circuit.given_up(ticket)
        elif is_fault(error):
            self.last_error = error
            self._circuit.failed(ticket, error.retry_after or 0.0)
        else:
            self._circuit.succeeded(ticket)

    def _tell(self) -> None:
        if (state := self._circuit.state) != self._told:
            self._told = state
            self._listen(CircuitChanged(self.model, state, self.last_error if state == "open" else None))


def is_fault(error: EngineError) -> bool:
    """Whether an error is the server's own: unreachable, too slow, overloaded, a 5xx, or no readable reply."""
    if isinstance(error, EngineDown):
        return False
    return error.retryable or error.status is None or error.status >= 500
