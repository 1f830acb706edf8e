"""The funnel with a lot drawn in the gate's place: what is the gate's score worth beyond its acceptance?

Screening is the agent's, as in the funnel. Before the systems run, phases I to III judge every question once
(`evals/runs/judging.py`). Of the L questions that phase I let through, the gate accepted m; the lot draws m of these L,
each choice of m as likely as any other, from the run's seed. So the acceptance is not estimated: it is the gate's own
count, whatever the order in which blocks run, and it is drawn anew in the same way after an interruption. The realised
share can still differ by a question or two, where a help probability at its threshold falls to the other side when the
servers are loaded otherwise; the summary shows both.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable

from speceyes.evals.baselines.cascade import Cascade
from speceyes.evals.baselines.models import Models
from speceyes.evals.baselines.screening import screened_by_agent
from speceyes.evals.systems import Question, SystemName
from speceyes.phases import gate
from speceyes.types import Draft, Verdict


def draw(let_through: Iterable[str], accepted: int, seed: int) -> frozenset[str]:
    """Draw the questions whose drafts are accepted.

    Args:
        let_through: Names of the questions that phase I lets through, in whatever order.
        accepted: How many of them the gate accepts.
        seed: The same seed draws the same ones.
    """
    return frozenset(random.Random(f"random gate {seed}").sample(sorted(let_through), accepted))


def random_gate(models: Models, drawn: Collection[str]) -> Cascade:
    """The funnel, accepting the drafts to these questions and no others."""

    def judge(draft: Draft, question: Question) -> Verdict:
        return Cascade.decided(gate(draft, models.calibration), question.id in drawn)

    return Cascade(SystemName.RANDOM, models, screen=screened_by_agent, judge=judge)
