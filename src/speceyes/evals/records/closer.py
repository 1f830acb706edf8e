"""Drafts after closer looks: from the lists of a run's rows to arrays, one table for each depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from speceyes.evals.records.columns import answers, flags, floats, nulls, one_array
from speceyes.evals.records.parts import need_pyarrow
from speceyes.evals.records.table import BoolArray, CloserTable
from speceyes.types import Reason

if TYPE_CHECKING:
    import pyarrow as pa

_PREFIX: Final = "closer_"
_LISTS: Final = ("text", "fault", "tokens", "logprobs", "top_logprobs", "image", "seconds", "right", "agrees")
CLOSER_COLUMNS: Final = tuple(_PREFIX + name for name in _LISTS)
"""What `closer_tables` reads."""


def closer_tables(table: pa.Table, depths: int) -> tuple[CloserTable, ...]:
    """One table for each depth, from 1 to `depths`.

    After a look that came to nothing there is no deeper draft, and that is known. Where a list ends otherwise, a server
    failed, or nobody looked any further: then nobody knows what a deeper draft would have said.
    """
    ended = np.zeros(len(table), dtype=np.bool_)
    found = []
    for depth in range(depths):
        part = _entries(table, depth)
        there, fault = ~nulls(part, "text"), _is_look_failed(part)
        looked = ~nulls(part, "image")
        found.append(
            CloserTable(
                answers=answers(part),
                known=there | ended,
                looked=looked,
                usable=looked & nulls(part, "fault"),
                right=flags(part, "right"),
                agrees=flags(part, "agrees"),
                seconds=floats(part, "seconds"),
            )
        )
        ended = ended | fault
    return tuple(found)


def _entries(table: pa.Table, depth: int) -> pa.Table:
    """The entry at this place of each list, null where the list is shorter; columns without their prefix."""
    pa = need_pyarrow()
    columns = {}
    for name in _LISTS:
        lists = one_array(table, _PREFIX + name)
        short = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) <= depth
        places = lists.offsets.to_numpy()[:-1].astype(np.int64) + depth
        columns[name] = lists.values.take(pa.array(places, mask=short))
    return pa.table(columns)


def _is_look_failed(part: pa.Table) -> BoolArray:
    given = one_array(part, "fault").to_pylist()
    return np.array([fault == Reason.LOOK_FAILED.value for fault in given], dtype=np.bool_)
