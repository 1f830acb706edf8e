"""From recorded outcomes to a threshold with a guarantee. Pure arithmetic on arrays; needs SciPy (the extra `evals`).

The parts, in the order in which a calibration goes through them:

    outcomes.py     what is known of N queries: the scores of each one's drafts, and whether accepting them loses
    risks.py        what counts as a loss, and how much of it is allowed
    sequence.py     the thresholds to be tested, in an order that the certifying records had no say in
    tuning.py       such a sequence, chosen on other records, with a curve that curve.py fits to their losses
    testing.py      which of them pass, with one budget of error for all
    certificate.py  the whole test, and what it found
    sample_size.py  how many records it would have taken
    binomial.py     the exact probabilities that all of it stands on
"""

from speceyes.gating.certify.binomial import interval, least_clean, most_allowed, tail, upper_bound
from speceyes.gating.certify.certificate import Certificate, Step, Walk, certify, walk
from speceyes.gating.certify.curve import loss_curve
from speceyes.gating.certify.outcomes import Candidates, Outcomes
from speceyes.gating.certify.risks import Limit, Risk, losses_of
from speceyes.gating.certify.sample_size import Need, accepted_needed, need_for
from speceyes.gating.certify.sequence import ThresholdSequence, absolute_grid
from speceyes.gating.certify.testing import run_sequence
from speceyes.gating.certify.tuning import split_at_random, thresholds_at, tuned

__all__ = [
    "Candidates",
    "Certificate",
    "Limit",
    "Need",
    "Outcomes",
    "Risk",
    "Step",
    "ThresholdSequence",
    "Walk",
    "absolute_grid",
    "accepted_needed",
    "certify",
    "interval",
    "least_clean",
    "loss_curve",
    "losses_of",
    "most_allowed",
    "need_for",
    "run_sequence",
    "split_at_random",
    "tail",
    "thresholds_at",
    "tuned",
    "upper_bound",
    "walk",
]
