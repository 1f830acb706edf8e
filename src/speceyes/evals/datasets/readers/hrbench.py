"""HR-Bench: one row a question and turn of its options, as a tab-separated table or in Parquet, pictures in base64.

Columns: `index, question, answer, category, A, B, C, D, cycle_category, image`; 800 rows are 200 questions in four
turns. Turns of one question share a group. Their order of options is never drawn anew: the turns are there for that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from speceyes.evals.datasets.readers.collecting import Collector
from speceyes.evals.datasets.readers.lettered import collect_lines, id_prefix, parquet_lines, table_lines

TURN: Final = "cycle_category"
"""The column that tells HR-Bench from other tables."""
_SHARD: Final = re.compile(r"-\d{5}-of-\d{5}$")


def read_hrbench(files: Sequence[Path], collector: Collector) -> None:
    """The rows, as they stand. Where there are several tables, each id begins with its table's name.

    Raises:
        DatasetError: A table is damaged, unless faults are kept.
    """
    for table in files:
        collect_lines(table_lines(table, collector), collector, id_prefix(table, files), turns=True)


def read_hrbench_parquet(files: Sequence[Path], collector: Collector) -> None:
    """The same from Parquet files. `x-00000-of-00002.parquet` and its like are one table.

    Raises:
        DatasetError: As `read_hrbench`.
    """
    tables: dict[Path, list[Path]] = {}
    for file in files:
        tables.setdefault(file.with_name(_SHARD.sub("", file.stem)), []).append(file)
    for table, shards in tables.items():
        lines = chain.from_iterable(parquet_lines(shard, collector) for shard in shards)
        collect_lines(lines, collector, id_prefix(table, list(tables)), turns=True)


def read_mcq(files: Sequence[Path], collector: Collector) -> None:
    """Any other table of this kind, as VLMEvalKit reads them.

    Raises:
        DatasetError: As `read_hrbench`.
    """
    for table in files:
        collect_lines(table_lines(table, collector), collector, id_prefix(table, files), turns=False)
