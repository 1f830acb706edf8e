"""Rows as Parquet: the finished parts of a run, in `parts/00000.parquet`, `00001.parquet`, ...

Parquet is read by pandas, Polars, DuckDB and Spark as it is. Texts are dictionary-encoded (the rivals of an answer are
much the same few hundred tokens in every row), log-probs are 32-bit floats, split by bytes so that zstd finds more in
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from speceyes.errors import ConfigError, DatasetError
from speceyes.evals.records.durable import replace_file
from speceyes.evals.records.schema import COLUMNS, NAMES, SCHEMA_VERSION, Row

if TYPE_CHECKING:
    import pyarrow as pa

PARTS: Final = "parts"
_COMPRESSION_LEVEL: Final = 9


def need_pyarrow() -> Any:
    """The package pyarrow.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import pyarrow
    except ImportError as error:
        raise ConfigError(
            f"records are Parquet files, and pyarrow is not installed ({error}): pip install 'speceyes[evals]'"
        ) from error
    return pyarrow


def part_path(folder: Path, number: int) -> Path:
    """The file of a part of a run."""
    return folder / PARTS / f"{number:05d}.parquet"


def part_numbers(folder: Path) -> list[int]:
    """The parts that there are, in order."""
    return sorted(int(path.stem) for path in (folder / PARTS).glob("*.parquet") if path.stem.isdigit())


def as_table(rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table with the schema's columns; a column that a row lacks is null.

    Raises:
        DatasetError: A value is not of its column's type.
    """
    pa = need_pyarrow()
    try:
        return pa.Table.from_pylist(list(rows), schema=_arrow_schema())
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise DatasetError(f"A row does not fit the record's schema: {error}") from error


def write_part(folder: Path, number: int, table: pa.Table) -> None:
    """Write a part of a run in one step, or put another in its place.

    Raises:
        OSError: It cannot be written.
    """
    import pyarrow.parquet as pq

    path = part_path(folder, number)
    path.parent.mkdir(exist_ok=True)
    floats = [_leaf(column.name, column.type) for column in COLUMNS if _is_number(column.type)]

    def write(file: Any) -> None:
        pq.write_table(
            table,
            file,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=[_leaf(column.name, column.type) for column in COLUMNS if not _is_number(column.type)],
            column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
        )

    replace_file(path, write, beside=folder)


def read_part(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a part, or some of its columns.

    Raises:
        FileNotFoundError: It is not there.
        DatasetError: It is damaged, or of another schema.
    """
    pa = need_pyarrow()
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            there = file.schema_arrow
            version = (there.metadata or {}).get(b"speceyes.schema", b"?").decode()
            if version != str(SCHEMA_VERSION):
                raise DatasetError(f"{path} has the schema {version}; this version reads {SCHEMA_VERSION}.")
            known = [name for name in columns or NAMES if name in there.names]
            table = file.read(columns=known)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DatasetError(f"{path} is damaged ({error}). Restore it, or record the run again.") from error
    schema = _arrow_schema(columns)
    for field in schema:
        if field.name not in known:  # a part from before the column was added
            table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names).cast(schema)


def _arrow_schema(columns: Sequence[str] | None = None) -> pa.Schema:
    pa = need_pyarrow()
    simple = {
        "string": pa.string(),
        "bool": pa.bool_(),
        "int32": pa.int32(),
        "float": pa.float32(),
        "double": pa.float64(),
    }

    def arrow_type(name: str) -> Any:
        if name.startswith("list<"):
            return pa.list_(arrow_type(name.removeprefix("list<").removesuffix(">")))
        return simple[name]

    fields = {column.name: pa.field(column.name, arrow_type(column.type)) for column in COLUMNS}
    chosen = [fields[name] for name in columns or NAMES]
    return pa.schema(chosen, metadata={"speceyes.schema": str(SCHEMA_VERSION)})


def _is_number(column_type: str) -> bool:
    return column_type.rpartition("<")[2].rstrip(">") in ("float", "double")


def _leaf(name: str, column_type: str) -> str:
    """A column's path inside a Parquet file."""
    return name + ".list.element" * column_type.count("list<")
