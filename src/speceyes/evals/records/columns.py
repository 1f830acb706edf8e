"""Columns of a run's table as arrays."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from speceyes.evals.records.table import BoolArray, FloatArray
from speceyes.gating import AnswerTable, is_repetitive

if TYPE_CHECKING:
    import pyarrow as pa


def answers(table: pa.Table) -> AnswerTable:
    """The drafts' tokens, with the same values that `AnswerTable.of` makes of them.

    Read are the columns `tokens`, `logprobs` and `top_logprobs`.
    """
    tokens = one_array(table, "tokens").to_pylist()
    said = ["".join(answer or ()) for answer in tokens]
    loops = {text: is_repetitive(text) for text in set(said)}
    lists = one_array(table, "top_logprobs").flatten()
    given = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    rows = np.full((len(given), int(given.max(initial=0))), np.nan)
    values = lists.flatten().to_numpy(zero_copy_only=False)
    rows[np.arange(rows.shape[1]) < given[:, None]] = values
    sampled = one_array(table, "logprobs").flatten().to_numpy(zero_copy_only=False)
    found = AnswerTable.from_arrays(rows, [len(answer or ()) for answer in tokens], sampled)
    return dataclasses.replace(
        found,
        given=given,
        blank=np.array([not text.strip() for text in said], dtype=np.bool_),
        repetitive=np.array([loops[text] for text in said], dtype=np.bool_),
    )


def one_array(table: pa.Table, name: str) -> Any:
    """A column as one Arrow array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def nulls(table: pa.Table, name: str) -> BoolArray:
    """Where a column has no value. (N,)."""
    found: BoolArray = one_array(table, name).is_null().to_numpy(zero_copy_only=False)
    return found


def floats(table: pa.Table, name: str) -> FloatArray:
    """Numbers, NaN for none. (N,)."""
    found: FloatArray = one_array(table, name).to_numpy(zero_copy_only=False).astype(np.float64)
    return found


def flags(table: pa.Table, name: str) -> BoolArray:
    """Truth values, False for none. (N,)."""
    found: BoolArray = one_array(table, name).fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def texts(table: pa.Table, name: str) -> NDArray[np.str_]:
    """Texts; every row has one. (N,)."""
    return np.array(one_array(table, name).to_pylist(), dtype=np.str_)
