"""Whether an answer to a made question is right: it states the gold choice, by the rule of `speceyes.gating.agreement`.

What states nothing is not right.
"""

from __future__ import annotations

from collections.abc import Sequence

from speceyes.gating.agreement import stated

__all__ = ["is_right", "stated"]


def is_right(answer: str, gold: str, options: Sequence[str] = ()) -> bool:
    """Whether the answer states the gold choice.

    Args:
        answer: What the model said.
        gold: The right option's letter, or the right word where there are no options.
        options: The options in the order shown.
    """
    said = stated(answer, options)
    return said is not None and said.casefold() == gold.strip().casefold()
