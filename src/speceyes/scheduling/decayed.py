"""A mean that forgets."""

from __future__ import annotations

from dataclasses import dataclass

MEMORY = 100.0
"""Observations after which an old one weighs about a third (1/e) of a new one."""
BORROWED = 5.0
"""What has just turned up is taken to be as all the others are, as if that had been seen so often."""


@dataclass(slots=True)
class Decayed:
    """A mean whose observations fade: each new one takes e^(-1/memory) off the weight of all before it.

    Attributes:
        total: Weighted sum.
        weight: Sum of weights; at most about `memory`.
    """

    memory: float = MEMORY
    total: float = 0.0
    weight: float = 0.0

    def add(self, value: float) -> None:
        """Take an observation in."""
        keep = 1.0 - 1.0 / self.memory
        self.total, self.weight = self.total * keep + value, self.weight * keep + 1.0

    def mean(self, like: float | None = None) -> float | None:
        """The mean, drawn towards `like` as long as little has been seen. None where nothing is known at all."""
        if like is None:
            return self.total / self.weight if self.weight else None
        return (self.total + BORROWED * like) / (self.weight + BORROWED)
