"""Bounded concurrency: how many of one kind of work may be under way, and who comes next."""

from __future__ import annotations

import asyncio
from types import TracebackType

from speceyes.errors import ConfigError, EngineOverloaded, EngineTimeout
from speceyes.scheduling.limit import AdaptiveLimit
from speceyes.scheduling.line import Claim, Line

CALL_WORK = 32.0
"""Work of a call beside the tokens that it generates: reading its prompt, as if it were so many more of them."""


class Slots:
    """A number of slots, within one event loop at a time. Who waits for one stands in a `Line`.

    `async with slots.place(claim):` waits for a slot and holds it; `async with slots:` does so without a claim. A task
    that is cancelled while it waits or works gives its place back at once. Where the number is lowered, what is under
    way goes on, and no slot is given out until fewer are held.

    Args:
        capacity: How many may be held at a time; or a limit that finds it out by what `Place`s tell of their calls.

    Attributes:
        limit: The adaptive limit. None: the number is fixed.
        most: The most that may ever be held.
        held: How many are held now.

    Raises:
        ConfigError: There would be none.
    """

    def __init__(self, capacity: int | AdaptiveLimit) -> None:
        self.limit = capacity if isinstance(capacity, AdaptiveLimit) else None
        self.most = capacity.most if isinstance(capacity, AdaptiveLimit) else capacity
        if self.most < 1:
            raise ConfigError(f"Slots need a capacity of at least 1, not {capacity}.")
        self.held = 0
        self._line: Line[asyncio.Future[None]] = Line()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def capacity(self) -> int:
        """How many may be held now."""
        return self.most if self.limit is None else self.limit.current

    @property
    def waiting(self) -> int:
        """How many tasks wait for one."""
        return len(self._line)

    @property
    def load(self) -> float:
        """Share of the slots that will be held or waited for if one more is asked for; at most 1."""
        return min(1.0, (self.held + self.waiting + 1) / self.capacity)

    def report(self) -> dict[str, object]:
        """How it stands, for people and programs."""
        return {
            "limit": "fixed" if self.limit is None else "auto",
            "capacity": self.capacity,
            "most": self.most,
            "held": self.held,
            "waiting": self.waiting,
        }

    def __repr__(self) -> str:
        return f"Slots({self.held}/{self.capacity} held, {self.waiting} waiting)"

    def place(self, claim: Claim = Claim()) -> Place:  # noqa: B008 - frozen
        """One slot, to be held in an `async with` block."""
        return Place(self, claim)

    async def __aenter__(self) -> None:
        await self._take(Claim())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._give_back()

    async def _take(self, claim: Claim) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a script may call asyncio.run several times
            self._loop, self._line, self.held = loop, Line(), 0
            self._tell_if_free()
        if self.held < self.capacity and not self._line:
            self.held += 1
            return
        granted = loop.create_future()
        ticket = self._line.join(granted, claim, loop.time())
        try:
            await granted
        except asyncio.CancelledError:
            self._line.leave(ticket)
            if not granted.cancelled():  # the slot came just before
                self._give_back()
            raise

    def _give_back(self) -> None:
        self.held -= 1
        self._hand_out()
        self._tell_if_free()

    def _hand_out(self) -> None:
        """Slots are counted as held from here on, so that no newcomer gets between."""
        now = asyncio.get_running_loop().time()
        while self.held < self.capacity and (granted := self._line.next(now)) is not None:
            if not granted.done():  # it is where its task was cancelled and has not noticed yet
                self.held += 1
                granted.set_result(None)

    def _tell_if_free(self) -> None:
        if self.limit is not None:
            self.limit.freed(self.held)

    def _called(self, work: float) -> None:
        if self.limit is not None:
            self.limit.called(asyncio.get_running_loop().time(), work, self.held)
            self._hand_out()

    def _overloaded(self, began: float) -> None:
        if self.limit is not None:
            self.limit.overloaded(asyncio.get_running_loop().time(), began)


class Place:
    """One slot, held inside `async with`. What is done in it tells of its model calls; else all of it counts as one."""

    def __init__(self, slots: Slots, claim: Claim) -> None:
        self._slots, self._claim = slots, claim
        self._began = 0.0
        self._told = False

    def called(self, tokens: int = 0) -> None:
        """A model call is over that has generated so many tokens; 0 where the server does not say."""
        self._told = True
        self._slots._called(CALL_WORK + tokens)

    def struggled(self, began: float) -> None:
        """A call that was made then, on the clock of the event loop, was too much for the server."""
        self._told = True
        self._slots._overloaded(began)

    async def __aenter__(self) -> Place:
        await self._slots._take(self._claim)
        self._began = asyncio.get_running_loop().time()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._told and error is None:
            self.called()
        elif not self._told and isinstance(error, OVERLOADS):
            self.struggled(self._began)
        self._slots._give_back()


OVERLOADS = (EngineOverloaded, EngineTimeout)
"""Errors that say that a server has more to do than it can."""
