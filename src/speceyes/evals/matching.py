"""Whether an answer to a made question is right: it states the gold choice, by the strict rule of scoring.

What states nothing is not right.
"""

from __future__ import annotations

from collections.abc import Sequence

from speceyes.errors import InputError
from speceyes.evals.scoring.score import score_answer
from speceyes.gating.agreement import stated

__all__ = ["is_right", "stated"]


def is_right(answer: str, gold: str, options: Sequence[str] = ()) -> bool:
    """Whether the answer states the gold choice. One that is none of the options is stated by no answer.

    Args:
        answer: What the model said.
        gold: The right option's letter, or the right word where there are no options.
        options: The options in the order shown.
    """
    try:
        return score_answer(answer, (gold, options)).right is True
    except InputError:
        return False
