"""Phase III's arithmetic: how sure a draft is, and which threshold decides. Calls nobody, awaits nothing."""

from speceyes.gating.answers import AnswerScores, AnswerTable
from speceyes.gating.calibration import Calibration, fingerprint
from speceyes.gating.confidence import Confidence, confidence
from speceyes.gating.intervals import wilson
from speceyes.gating.repetition import is_repetitive
from speceyes.gating.scores import SCORES, Score, find_score
from speceyes.gating.separability import AGGREGATES, aggregate, separability, squash, unsquash

__all__ = [
    "AGGREGATES",
    "SCORES",
    "AnswerScores",
    "AnswerTable",
    "Calibration",
    "Confidence",
    "Score",
    "aggregate",
    "confidence",
    "find_score",
    "fingerprint",
    "is_repetitive",
    "separability",
    "squash",
    "unsquash",
    "wilson",
]
