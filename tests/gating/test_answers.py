"""Many answers as arrays: the same numbers as one by one."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.errors import InputError
from speceyes.gating import SCORES, AnswerTable, confidence
from speceyes.types import Reason, Token

logprobs = st.one_of(st.floats(-30.0, 0.0), st.sampled_from([math.nan, -math.inf, -9999.0, 4.0]))
answers = st.lists(
    st.lists(
        st.builds(
            Token,
            text=st.sampled_from(["", "A", " red"]),
            logprob=st.none() | st.floats(-30.0, 0.0),
            top_logprobs=st.lists(logprobs, max_size=7).map(tuple),
        ),
        max_size=4,
    ),
    max_size=6,
)


@settings(max_examples=100)
@given(
    answers,
    st.sampled_from([(name, how) for name, score in SCORES.items() for how in score.aggregates]),
    st.integers(0, 8),
)
def test_a_batch_is_its_answers_one_by_one(batch, setting, k):
    name, how = setting
    scored = AnswerTable.of(batch).score(name, k, how)
    singles = [confidence(answer, score=name, k=k, aggregate=how) for answer in batch]
    assert list(scored.reasons) == [single.reason for single in singles]
    assert scored.values == pytest.approx(
        [math.nan if single.score is None else single.score for single in singles], nan_ok=True
    )
    assert len(scored.token_values) == sum(map(len, batch))


def test_from_arrays_equals_from_tokens():
    rng = np.random.default_rng(3)
    rows = np.log(rng.dirichlet(np.full(12, 0.4), size=9))
    lengths = [2, 0, 3, 1, 3]
    tokens = iter([Token("x", float(row[0]), tuple(row.tolist())) for row in rows])
    of_tokens = AnswerTable.of([[next(tokens) for _ in range(n)] for n in lengths])
    of_arrays = AnswerTable.from_arrays(rows, lengths, rows[:, 0])
    for name, how in (("separability", "min"), ("margin", "bottom"), ("logprob", "mean")):
        expected, found = (table.score(name, 12, how) for table in (of_tokens, of_arrays))
        assert np.array_equal(expected.values, found.values, equal_nan=True)
        assert list(expected.reasons) == list(found.reasons)


def test_a_second_setting_does_not_see_the_first():
    table = AnswerTable.of([[Token("x", -0.1, (-0.1, -3.0, -4.0, -6.0))]])
    at_three = table.score("separability", 3, "min").values[0]
    at_four = table.score("separability", 4, "min").values[0]
    assert at_three != at_four
    assert table.score("separability", 3, "min").values[0] == at_three
    assert table.score("separability", 5, "min").reasons[0] is Reason.LOGPROBS_TOO_FEW
    with pytest.raises(ValueError, match="read-only"):
        table.score("separability", 3, "min").token_values[0] = 9.0


@pytest.mark.parametrize(
    ("rows", "lengths", "sampled"),
    [
        (np.zeros(3), [3], None),
        (np.zeros((3, 4)), [2], None),
        (np.zeros((3, 4)), [4, -1], None),
        (np.zeros((3, 4)), [3], np.zeros(2)),
    ],
)
def test_shapes_that_do_not_fit(rows, lengths, sampled):
    with pytest.raises(InputError):
        AnswerTable.from_arrays(rows, lengths, sampled)
