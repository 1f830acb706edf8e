"""The report in one sentence: whether the agent's accuracy was kept, and what was gained in time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from speceyes.evals.reporting.words import Ranged, percent, points, points_range, times, times_range
from speceyes.evals.scoring.tallies import MOST_ERRORS

MARGIN: Final = 0.02
"""Accuracy counts as kept where the interval of the difference excludes a loss of more than two points."""


class Accuracy(StrEnum):
    """What became of the accuracy."""

    KEPT = "kept"
    BETTER = "better"
    LOST = "lost"
    OPEN = "open"
    """The questions are too few to tell."""
    NONE = "none"
    """There is nothing to compare."""


class Speed(StrEnum):
    """What became of the time."""

    FASTER = "faster"
    SLOWER = "slower"
    OPEN = "open"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Compared:
    """SpecEyes against the agent.

    Attributes:
        agent: The agent's accuracy.
        speceyes: That of SpecEyes.
        difference: SpecEyes less agent, paired over the questions.
        speedup: The agent's time over that of SpecEyes.
        questions: How many both were asked.
        sets: How many columns the figures are means over.
        errors: The larger share of failed questions of the two.
        complete: Whether every question was answered by every system.
    """

    agent: Ranged
    speceyes: Ranged
    difference: Ranged
    speedup: Ranged
    questions: int
    sets: int = 1
    errors: float = 0.0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement and its words.

    Attributes:
        accuracy: What became of it.
        speed: What became of the time.
        sentence: For the head of the report.
        reading: What the sentence rests on.
    """

    accuracy: Accuracy
    speed: Speed
    sentence: str
    reading: str

    @property
    def tone(self) -> str:
        """ "good", "bad" or "open", for the page's colours."""
        if self.accuracy is Accuracy.LOST or self.speed is Speed.SLOWER:
            return "bad"
        kept = self.accuracy in (Accuracy.KEPT, Accuracy.BETTER)
        return "good" if kept and self.speed is Speed.FASTER else "open"

    def as_json(self) -> dict[str, Any]:
        return {
            "accuracy": self.accuracy.value,
            "speed": self.speed.value,
            "sentence": self.sentence,
            "margin": MARGIN,
            "most_errors": MOST_ERRORS,
        }


def judge(compared: Compared | None) -> Verdict:
    """The verdict on SpecEyes; None where agent and SpecEyes were not both run on the same questions."""
    if compared is None or not compared.difference.known:
        return Verdict(
            Accuracy.NONE,
            Speed.NONE,
            "No verdict: it needs the agent alone and SpecEyes on the same questions, with right answers known.",
            "",
        )
    if compared.errors > MOST_ERRORS:
        return Verdict(
            Accuracy.NONE,
            Speed.NONE,
            f"No verdict: {percent(compared.errors)} % of a system's questions failed, more than the "
            f"{percent(MOST_ERRORS, 0)} % that a figure can stand. See the errors below, and resume the run.",
            "Failed questions count as wrong in every table.",
        )
    so_far = "" if compared.complete else " A run is not complete: this is the state so far."
    accuracy, speed = _accuracy(compared.difference), _speed(compared.speedup)
    over = f"; figures are unweighted means over {compared.sets} columns of the table" if compared.sets > 1 else ""
    return Verdict(
        accuracy,
        speed,
        f"{_accuracy_words(accuracy, compared)} {_speed_words(speed, compared.speedup)}",
        f"{compared.questions:,} questions asked of both{over}. In brackets 95 % intervals, paired over the questions. "
        f"Accuracy counts as kept where a loss of more than {points(MARGIN).lstrip('+')} points can be excluded."
        + so_far,
    )


def _accuracy(difference: Ranged) -> Accuracy:
    if difference.low is None or difference.high is None:
        return Accuracy.OPEN
    if difference.low > 0:
        return Accuracy.BETTER
    if difference.low > -MARGIN:
        return Accuracy.KEPT
    return Accuracy.LOST if difference.high < 0 else Accuracy.OPEN


def _speed(speedup: Ranged) -> Speed:
    if not speedup.known:
        return Speed.NONE
    if speedup.low is None or speedup.high is None:
        return Speed.OPEN
    return Speed.FASTER if speedup.low > 1 else Speed.SLOWER if speedup.high < 1 else Speed.OPEN


def _accuracy_words(accuracy: Accuracy, compared: Compared) -> str:
    heads = {
        Accuracy.KEPT: "SpecEyes keeps the agent's accuracy",
        Accuracy.BETTER: "SpecEyes is more accurate than the agent alone",
        Accuracy.LOST: "SpecEyes loses accuracy against the agent",
        Accuracy.OPEN: "Whether SpecEyes keeps the agent's accuracy these questions cannot tell",
    }
    figures = f"{percent(compared.speceyes.value)} % against {percent(compared.agent.value)} %"
    ranged = points_range(compared.difference)
    change = f"{points(compared.difference.value)} points" + (f" ({ranged})" if ranged else "")
    return f"{heads[accuracy]}: {figures}, {change}."


def _speed_words(speed: Speed, speedup: Ranged) -> str:
    figure = f"{times(speedup.value)}" + (f" ({times_range(speedup)})" if speedup.bounded else "")
    return {
        Speed.FASTER: f"It is {figure} as fast.",
        Speed.SLOWER: f"It is slower: {figure} the agent's speed.",
        Speed.OPEN: f"Its speedup of {figure} cannot be told from none.",
        Speed.NONE: "Its speedup was not measured.",
    }[speed]
