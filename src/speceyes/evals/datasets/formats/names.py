"""The file forms that we read and write."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """A benchmark's file form."""

    VSTAR = "vstar"
    VSTAR_JSONL = "vstar-jsonl"
    VSTAR_PARQUET = "vstar-parquet"
    HRBENCH = "hrbench"
    HRBENCH_PARQUET = "hrbench-parquet"
    POPE = "pope"
    POPE_PARQUET = "pope-parquet"
    MCQ = "mcq"

    @property
    def kind(self) -> str:
        """Whose questions they are, in whatever form."""
        return self.value.partition("-")[0]
