"""Which accepted queries are audited, and in which order their results count."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from speceyes.errors import InputError

T = TypeVar("T")


def is_chosen(query_id: str, share: float, key: str) -> bool:
    """Whether an accepted query is audited: a draw with probability `share` that anybody with the key can repeat.

    The draw must not depend on the question or on the draft, or the audited queries would not stand for the others.
    Where clients choose the ids, the key must be a secret, or they could choose ids that are never audited.

    Raises:
        InputError: The share is not in 0..1.
    """
    if not 0.0 <= share <= 1.0:
        raise InputError(f"An audit share of {share} is not between 0 and 1.")
    texts = (key, query_id)
    data = b"".join(len(part).to_bytes(8, "big") + part for part in (t.encode("utf-8", "surrogatepass") for t in texts))
    return int.from_bytes(hashlib.sha256(data).digest()[:8], "big") < share * 2.0**64


@dataclass(slots=True)
class InOrder(Generic[T]):
    """Brings results back into the order in which their work began.

    A wrong draft's agent run may well take longer than a right one's. Were results counted as they come, the first of
    a burst would look too good and the last too bad. So each result waits for those that began before it; work
    that fails must be closed too, or all later results would wait for it for ever.
    """

    _next: int = 0
    _released: int = 0
    _waiting: dict[int, T] = field(default_factory=dict)

    def open(self) -> int:
        """Work begins. Returns its ticket."""
        self._next += 1
        return self._next - 1

    def close(self, ticket: int, result: T) -> list[T]:
        """Work has ended. Returns the results whose turn has come, in order; often none, sometimes several.

        Raises:
            InputError: No such ticket, or it was closed before.
        """
        if not self._released <= ticket < self._next or ticket in self._waiting:
            raise InputError(f"Ticket {ticket} is not open: it was never given out, or closed before.")
        self._waiting[ticket] = result
        ready = []
        while self._released in self._waiting:
            ready.append(self._waiting.pop(self._released))
            self._released += 1
        return ready

    def __len__(self) -> int:
        """Results that wait, and work that is still under way."""
        return self._next - self._released
