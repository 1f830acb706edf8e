"""Published figures to stand beside ours: the means of `evals/published.py`. They were not measured here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from speceyes.evals.published import SOURCE as SOURCE
from speceyes.evals.published import published_row


@dataclass(frozen=True, slots=True)
class Published:
    """Means over seven columns: V* (2), HR-Bench (2) and POPE (3). Minimum over tokens, K = 64, thresholds chosen for
    each benchmark.

    Attributes:
        name: Of the system.
        accuracy: In percent.
        agent_accuracy: In percent, of the agent that it speeds up.
        speedup: Over that agent.
    """

    name: str
    accuracy: float
    agent_accuracy: float
    speedup: float

    @property
    def change(self) -> float:
        """Accuracy minus the agent's, in percentage points."""
        return self.accuracy - self.agent_accuracy

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "change": round(self.change, 2)}


def _mean(name: str) -> Published:
    row = published_row(name)
    agent = published_row(row.agent)
    assert row.mean.speedup is not None
    return Published(name, row.mean.accuracy, agent.mean.accuracy, row.mean.speedup)


PUBLISHED = (_mean("SpecEyes on DeepEyes"), _mean("SpecEyes on Thyme"))
