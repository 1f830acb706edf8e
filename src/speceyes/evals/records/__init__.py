"""What was recorded of a data set, once: everything that any gate, threshold or plan can be computed from.

    table = load_run("run/")                    arrays, for sweeps and calibrations
    for row in read_rows("run/"): ...           dictionaries, for reports
    with RunWriter(folder, manifest) as run:    to write one: `record` does, and so may whoever has traces
        run.write_rows([make_row(Asked(...), Observed.of_trace(answer.trace))])

`schema` says what a row holds, `writer` how it is kept safe.
"""

from speceyes.evals.records.loading import load_run, read_rows, run_bytes
from speceyes.evals.records.manifest import DatasetFacts, Manifest, Session
from speceyes.evals.records.rows import Asked, ImageFacts, Observed, make_row
from speceyes.evals.records.schema import COLUMNS, SCHEMA_VERSION, Column, Row, is_failed
from speceyes.evals.records.table import DRAFT_FAULT, CloserTable, RecordTable
from speceyes.evals.records.writer import RunWriter
from speceyes.gating.agreement import agree

__all__ = [
    "COLUMNS",
    "DRAFT_FAULT",
    "SCHEMA_VERSION",
    "Asked",
    "CloserTable",
    "Column",
    "DatasetFacts",
    "ImageFacts",
    "Manifest",
    "Observed",
    "RecordTable",
    "Row",
    "RunWriter",
    "Session",
    "agree",
    "is_failed",
    "load_run",
    "make_row",
    "read_rows",
    "run_bytes",
]
