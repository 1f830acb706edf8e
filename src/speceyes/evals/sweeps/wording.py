"""What the figures are called and what they mean, for people who see them for the first time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from speceyes.evals.sweeps.outcomes import Against


@dataclass(frozen=True, slots=True)
class Wording:
    """The words for one way to judge answers.

    Attributes:
        accuracy: What the share of good answers is called.
        right: A draft that is good.
        wrong: One that is not.
        are: That drafts are good, as a verb.
        as_good: What the best setting keeps to, as the start of a sentence.
        judged: How answers were judged, as a sentence.
        loss: What an accepted draft costs against the agent.
    """

    accuracy: str
    right: str
    wrong: str
    are: str
    as_good: str
    judged: str
    loss: str


_WORDS = {
    Against.LABELS: Wording(
        accuracy="accuracy",
        right="right",
        wrong="wrong",
        are="are right",
        as_good="At the same accuracy as the agent, or more,",
        judged="Answers are judged by the labels of the data set.",
        loss="excess loss",
    ),
    Against.AGENT: Wording(
        accuracy="agreement",
        right="agreeing",
        wrong="disagreeing",
        are="agree",
        as_good="Without a disagreement with the agent",
        judged=(
            "There are no labels in use: answers are judged by whether they say what the agent says. Every accuracy "
            "is an agreement with the agent, not a share of right answers."
        ),
        loss="disagreement",
    ),
}


def wording(against: Against) -> Wording:
    """The words to use."""
    return _WORDS[against]


def meanings(against: Against, *, closer: bool = False) -> dict[str, str]:
    """Each figure of the JSON in one or two sentences; with those of closer looks, where some were recorded."""
    word = _WORDS[against]
    good, bad = word.right, word.wrong
    texts = {
        "auroc": (
            f"Chance that of two drafts, one {good} and one {bad}, the {good} one scores higher; equal scores count "
            "half. 0.5 is a coin, 1 is perfect. Only drafts with a score count."
        ),
        "auroc_lead": "AUROC minus that of the default gate, on the same resamples. An interval without 0 is a lead.",
        "aurc": (
            f"Share of {bad} drafts among the i surest, averaged over all i. Smaller is better; a score that knows "
            f"nothing has the share of {bad} drafts among all."
        ),
        "excess_aurc": f"AURC above the best possible ranking, which puts every {bad} draft last. 0 is perfect.",
        "accepted": "Queries that the draft answers.",
        "acceptance": "Share of all queries that the draft answers: phase I lets them through and the gate passes.",
        "selective_accuracy": f"Share of {good} drafts among the accepted ones.",
        "final_accuracy": f"{word.accuracy.capitalize()} of the system: the draft where accepted, else the agent.",
        "accuracy_change": f"Final {word.accuracy} minus the agent's own, on the same queries.",
        "excess_loss": "Share of the accepted queries that the agent would have answered right and the draft did not.",
        "seconds": "Mean seconds that a query waits, from the recorded times of its phases.",
        "speedup": "The agent's recorded seconds over the plan's, both summed over the same queries.",
        "work_speedup": (
            "The same with the seconds of all model calls added up, parallel ones and cancelled ones too: what a "
            "loaded server gains."
        ),
        "law_ideal": "1 / (1 - acceptance): the speedup if screening and drafting cost nothing.",
        "law_honest": "The speedup with the mean recorded cost of screening, drafting and agent runs.",
        "threshold": "A draft passes where its score is at least this. null accepts nothing.",
        "squashed_threshold": "The same between 0 and 1; for separability the scale of the published thresholds.",
        "interval": "low and high: percentile bootstrap over queries, the threshold held fixed.",
    }
    if against is Against.AGENT:
        texts["excess_loss"] = "Share of the accepted queries whose draft does not say what the agent says."
    return {_key(name, against): text for name, text in (texts | (_looks(word) if closer else {})).items()}


def _looks(word: Wording) -> dict[str, str]:
    return {
        "max_depth": "How often the draft model may look closer by itself before the agent is asked.",
        "accepted_at": "Share of all queries that is answered at the first look, after one closer look, after two, ...",
        "looked": "Share of the queries of which the draft model was shown a part that it had named.",
        "won": (
            "What closer looks have won: its share of the queries that the first look left over, the "
            f"{word.accuracy} on it and the agent's on the same, the mean seconds of the looks that won it, and those "
            "that the agent takes for the same. won_at: for each depth."
        ),
        "as_accurate": f"Each depth at its own fastest threshold whose {word.accuracy} is not below the agent's.",
        "same_threshold": "Each depth at the threshold that depth 0 has there: what the looks alone change.",
    }


def renamed(content: Any, against: Against) -> Any:
    """JSON whose keys say what was measured: judged against the agent, accuracy is agreement and loss disagreement."""
    if isinstance(content, Mapping):
        return {_key(name, against): renamed(value, against) for name, value in content.items()}
    if isinstance(content, list):
        return [renamed(value, against) for value in content]
    return content


def _key(name: str, against: Against) -> str:
    if against is Against.LABELS:
        return name
    return name.replace("accuracy", "agreement").replace("excess_loss", "disagreement")
