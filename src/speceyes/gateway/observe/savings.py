"""An estimate of the time that accepted drafts save."""

from __future__ import annotations

from dataclasses import dataclass

ENOUGH = 20
"""Runs on accepted queries from which on their own mean is used."""


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        self.total += value
        self.count += 1

    @property
    def value(self) -> float:
        return self.total / self.count


class Savings:
    """Each accepted draft saves the agent's mean run time, as far as it is known by then.

    What the agent would have taken for an accepted query is only known of those that it ran all the same: audited and
    observed ones. Once there are `ENOUGH`, their mean is used. Before that it is the mean over all runs, which are
    those on harder queries: an estimate from above.
    """

    def __init__(self) -> None:
        self._all, self._accepted = _Mean(), _Mean()
        self._waiting = 0

    def agent_ran(self, seconds: float, *, accepted: bool) -> float:
        """The agent ran; `accepted`: on a query whose draft was good.

        Returns:
            Seconds saved by the drafts that were accepted before any run was known.
        """
        self._all.add(seconds)
        if accepted:
            self._accepted.add(seconds)
        waiting, self._waiting = self._waiting, 0
        return waiting * self._mean

    def accepted(self) -> float:
        """A draft was the answer. Returns the seconds that this saved; 0 while no run of the agent is known."""
        if not self._all.count:
            self._waiting += 1
            return 0.0
        return self._mean

    @property
    def _mean(self) -> float:
        return (self._accepted if self._accepted.count >= ENOUGH else self._all).value
