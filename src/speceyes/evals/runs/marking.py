"""Whether an answer is right, by the run's rule, and what a benchmark's authors count from that: the one place where
runs meet the scoring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from speceyes.evals.datasets.readers import Dataset, Item
from speceyes.evals.runs.format import Result
from speceyes.evals.runs.loading import EvalRun
from speceyes.evals.scoring import ERROR, KINDS, Mark, Rule, averages, failed, find_rule, pope_by_split, pope_metrics
from speceyes.evals.scoring import score_answer as _score
from speceyes.evals.systems import Reply


def check_rule(name: str, dataset: Dataset) -> str:
    """The rule's name, if there is such a rule and it covers all questions.

    Raises:
        ConfigError: There is not, or it does not.
    """
    return find_rule(name, dataset.items).value


def mark_reply(reply: Reply, item: Item, rule: str, kind: str) -> Mark:
    """The mark of a system's reply; a failed query has one too, and is wrong."""
    return failed(item.gold) if reply.answer is None else mark_text(reply.text, item, rule, kind)


def mark_text(text: str, item: Item, rule: str, kind: str) -> Mark:
    """The mark of an answer.

    Args:
        text: The answer.
        item: The question.
        rule: A value of `Rule`.
        kind: Whose question it is.
    """
    return _score(text, item, Rule(rule), kind=kind if kind in KINDS else "mcq")


def set_metrics(run: EvalRun, rows: Sequence[Result]) -> dict[str, Any]:
    """Of HR-Bench both averages, of POPE precision, recall and the like, over all and by split; else nothing."""
    pairs = [(run.by_id[row.id], Mark(row.parsed, row.right, ERROR if row.error else row.how)) for row in rows]
    kind, rule = run.header.dataset.kind, Rule(run.header.rule)
    if not pairs:
        return {}
    if kind == "pope":
        splits = {name: found.as_json() for name, found in pope_by_split(pairs, rule).items()}
        return {"pope": {**pope_metrics(pairs, rule).as_json(), "splits": splits}}
    if kind == "hrbench" and all(sample.group for sample, _ in pairs):
        return {"rotations": averages(pairs).as_json()}
    return {}
