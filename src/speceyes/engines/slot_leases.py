"""Which slot of which llama.cpp server a call goes to: the one that holds what its prompt begins with.

llama.cpp keeps the last prompt of each slot and computes what follows the common beginning. Left to itself it gives a
new query's first call to any idle slot whose prompt begins alike, and system prompt and tools are alike everywhere: so
the picture of a query between two of its calls is pushed out, and computed again. Here a query keeps its slot from its
first call to its last.

A call for a slot that is busy waits for that one even where others are idle, so only idle ones are asked for, and what
has no slot yet waits here. This needs a server that gets its calls from here alone.

Where screening and the agent's loop begin at the same moment, the loop's first call waits for screening's one token: in
the same slot it finds the picture read. That costs the loop one token and one more request; beside it, in a slot of its
own, it would read the picture a second time.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace

from speceyes.types import ChatRequest

SLOT_FIELD = "id_slot"

Pieces = tuple[int, ...]
"""A prompt's texts and pictures in their order, each as a hash."""


@dataclass(slots=True, eq=False)
class _Slot:
    server: str
    index: int
    holds: Pieces = ()
    """Of its last prompt."""
    owner: weakref.ref[object] | None = None
    busy: bool = False
    brief: bool = False
    """The call that it is busy with, or was, is of one token."""
    since: float = 0.0
    """When its last call ended."""
    spent: float = 0.0
    """Seconds of its owner's calls."""

    @property
    def is_free(self) -> bool:
        """Idle, and nobody goes on from what it holds."""
        return not self.busy and (self.owner is None or self.owner() is None)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a call goes.

    Attributes:
        request: As it is to be sent: with its slot.
        server: Base of the API of the server whose slot that is. Empty: the client's own.
    """

    request: ChatRequest
    server: str = ""


class SlotLeases:
    """The slots of one server, or of several that serve the same model, and who has them.

    A call's `affinity` is an object that all calls of one query name. The first of them takes a free slot, the others
    find it again, and it is free as soon as the object is gone or a call was broken off. A call that names none takes a
    slot for itself alone.
    Of several free slots that one is taken which shares most of the prompt's beginning, of those one on the server that
    the fewest queries have, of those the one that was idle longest. A call for a slot that its own query is working in
    takes another for itself alone; or waits, if that is for one token only.

    Where more queries are under way than there are slots, the rest wait in the order in which they came. A slot that
    its owner leaves idle is taken from it once it has been idle for as long as the owner's calls took: so long it was
    cheaper to keep than to compute again.

    Args:
        count: How many slots each server has.
        servers: Bases of the APIs of servers that are alike, `/v1` included. By default the client's own.
        clock: Monotonic seconds.
    """

    def __init__(
        self, count: int, *, servers: Sequence[str] = ("",), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._slots = [_Slot(server, index) for index in range(count) for server in servers]
        self._clock = clock
        self._waiting: deque[asyncio.Event] = deque()
        self._watching: list[asyncio.Event] = []
        self._visits = 0
        self._visiting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"SlotLeases({len(self._slots)}, held={self.held}, waiting={len(self._waiting)})"

    @property
    def held(self) -> int:
        """How many slots are busy, or kept for an owner."""
        return sum(not slot.is_free for slot in self._slots)

    @asynccontextmanager
    async def place(self, request: ChatRequest) -> AsyncIterator[Placement]:
        """Where the request goes; its slot is busy until the block ends. A slot that it names stands."""
        if SLOT_FIELD in request.extra:
            yield Placement(request)
            return
        pieces = _pieces(request)
        slot = await self._take(request.affinity, pieces, brief=request.max_tokens == 1)
        began = self._clock()
        try:
            extra = request.extra if self._visits else {**request.extra, SLOT_FIELD: slot.index}
            yield Placement(replace(request, extra=extra), slot.server)
        except BaseException:
            slot.owner = None  # mostly the query is over, and its error may keep what it was about alive
            raise
        finally:
            slot.busy, slot.since, slot.holds = False, self._clock(), pieces
            slot.spent += slot.since - began
            self._wake()

    @contextmanager
    def visited(self) -> Iterator[None]:
        """The server works on a call in the block that is not ours to place, in a slot of its own choice. Meanwhile it
        chooses for all. It may be another thread's."""
        with self._visiting:
            self._visits += 1
        try:
            yield
        finally:
            with self._visiting:
                self._visits -= 1

    async def _take(self, affinity: object | None, pieces: Pieces, *, brief: bool) -> _Slot:
        if not brief and affinity is not None and self._of(affinity) is None:
            await asyncio.sleep(0)  # a screening that is asked for at the same moment goes first
        slot: _Slot | None = None
        while slot is None:
            own = self._of(affinity)
            if own is None or (own.busy and not own.brief):
                slot = await self._in_line(affinity, pieces)
            elif own.busy:
                await self._change()
            else:
                slot = self._given(own, affinity)
        slot.brief = brief
        return slot

    async def _change(self) -> None:
        """Wait until a call is over."""
        changed = asyncio.Event()
        self._watching.append(changed)
        try:
            await changed.wait()
        finally:
            self._watching.remove(changed)

    async def _in_line(self, affinity: object | None, pieces: Pieces) -> _Slot | None:
        """A slot, when it is one's turn. None: one's own is at work on a single token now."""
        self._loop, turn = asyncio.get_running_loop(), asyncio.Event()
        self._waiting.append(turn)
        try:
            while True:
                turn.clear()
                own = self._of(affinity)
                if own is not None and not own.busy:
                    return self._given(own, affinity)
                if own is not None and own.brief:
                    return None
                first = self._waiting[0] is turn
                if first and (found := self._free(pieces) or self._forsaken()) is not None:
                    return self._given(found, None if own is not None else affinity)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._until_forsaken() if first else None):
                        await turn.wait()
        finally:
            self._waiting.remove(turn)
            self._wake()

    def _of(self, affinity: object | None) -> _Slot | None:
        if affinity is None:
            return None
        return next((slot for slot in self._slots if slot.owner is not None and slot.owner() is affinity), None)

    def _given(self, slot: _Slot, affinity: object | None) -> _Slot:
        """Mark a slot as busy, and as the affinity's own."""
        slot.busy = True
        if slot.owner is None or slot.owner() is not affinity:
            slot.owner = None if affinity is None else weakref.ref(affinity, self._owner_is_gone)
            slot.spent = 0.0
        return slot

    def _free(self, pieces: Pieces) -> _Slot | None:
        free = [slot for slot in self._slots if slot.is_free]
        kept = Counter(slot.server for slot in self._slots if not slot.is_free)
        return max(free, key=lambda s: (_shared(s.holds, pieces), -kept[s.server], -s.since), default=None)

    def _forsaken(self) -> _Slot | None:
        """A slot to take from its owner: that of the latest comer, for those before it will go on sooner."""
        now = self._clock()
        idle = [slot for slot in self._slots if not slot.busy and now - slot.since >= slot.spent]
        return max(idle, key=lambda slot: slot.since, default=None)

    def _until_forsaken(self) -> float | None:
        now = self._clock()
        return min((max(0.0, slot.since + slot.spent - now) for slot in self._slots if not slot.busy), default=None)

    def _owner_is_gone(self, owner: weakref.ref[object]) -> None:
        # Wherever the last reference went: another thread's, perhaps, or one of a loop that has ended.
        if self._waiting and self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for turn in (*self._waiting, *self._watching):
            turn.set()


def _pieces(request: ChatRequest) -> Pieces:
    """What stands in the prompt, piece by piece. The tools come first: templates put them into the system prompt."""
    found = [hash(repr(request.tools))]
    for message in request.messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else [content]:
            picture = part.get("image_url") if isinstance(part, Mapping) else None
            url = picture.get("url") if isinstance(picture, Mapping) else None
            # a picture's text is long, and a string knows its hash once it was asked for
            found.append(hash(url) if isinstance(url, str) else hash((message.get("role"), repr(part))))
    return tuple(found)


def _shared(held: Pieces, wanted: Pieces) -> int:
    """How many pieces two prompts have in common at their beginning."""
    return next((i for i, (a, b) in enumerate(zip(held, wanted, strict=False)) if a != b), min(len(held), len(wanted)))
