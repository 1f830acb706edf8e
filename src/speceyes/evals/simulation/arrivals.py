"""How queries come: from clients that wait for their answers, or on their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speceyes.errors import ConfigError
from speceyes.gating.separability import FloatArray


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed loop: each client asks its next question when it has been answered.

    Attributes:
        clients: How many.
    """

    clients: int

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise ConfigError(f"A closed loop needs at least one client, not {self.clients}.")

    def scaled(self, share: float) -> Closed:
        """The same before a part of the servers."""
        return Closed(max(1, round(self.clients * share)))


@dataclass(frozen=True, slots=True)
class Open:
    """An open loop: queries come whether or not others have been answered.

    Attributes:
        rate: Queries a second on the average.
        burstiness: Squared coefficient of variation of the gaps. 1: a Poisson process; 0: like a clock; above 1 in
            bursts. The gaps are gamma distributed.
    """

    rate: float
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.rate < float("inf"):
            raise ConfigError(f"{self.rate} queries a second: that must be a positive number.")
        if not 0.0 <= self.burstiness < float("inf"):
            raise ConfigError(f"A burstiness of {self.burstiness}: that must be 0 or more; 1 is a Poisson process.")

    def scaled(self, share: float) -> Open:
        """The same before a part of the servers."""
        return Open(self.rate * share, self.burstiness)

    def gaps(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Seconds before each of so many queries. Shape (count,)."""
        mean = 1.0 / self.rate
        if self.burstiness == 0.0:
            return np.full(count, mean)
        return rng.gamma(1.0 / self.burstiness, mean * self.burstiness, size=count)

    def times(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Seconds after the begin at which so many queries come. Shape (count,)."""
        return np.cumsum(self.gaps(count, rng))


Arrivals = Closed | Open
