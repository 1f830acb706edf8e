"""Which files hold a data set, and in which form: told from their names, and from the names of their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.formats.names import Format
from speceyes.evals.datasets.readers.collecting import Collector
from speceyes.evals.datasets.readers.hrbench import TURN, read_hrbench, read_hrbench_parquet, read_mcq
from speceyes.evals.datasets.readers.jsonlines import first_line
from speceyes.evals.datasets.readers.parquet import parquet_columns
from speceyes.evals.datasets.readers.pope import read_pope, read_pope_parquet
from speceyes.evals.datasets.readers.tables import columns_of
from speceyes.evals.datasets.readers.vstar import is_vstar, read_vstar
from speceyes.evals.datasets.readers.vstar_list import read_vstar_list, read_vstar_parquet


@dataclass(frozen=True, slots=True)
class Form:
    """A file form.

    Attributes:
        read: Its reader.
        patterns: Files below the folder that may be of this form.
        words: What is looked for, for a message.
    """

    read: Callable[[Sequence[Path], Collector], None]
    patterns: tuple[str, ...]
    words: str


_PARQUET: Final = ("*.parquet", "data/*.parquet")

FORMS: Final[dict[Format, Form]] = {
    Format.VSTAR: Form(read_vstar, (), "folders direct_attributes/ or relative_position/, JSON beside images"),
    Format.VSTAR_JSONL: Form(read_vstar_list, ("*.jsonl",), "*.jsonl with image, text and a letter as label"),
    Format.VSTAR_PARQUET: Form(read_vstar_parquet, _PARQUET, "*.parquet with image, text and label"),
    Format.HRBENCH: Form(read_hrbench, ("*.tsv",), f"*.tsv with {TURN}"),
    Format.HRBENCH_PARQUET: Form(read_hrbench_parquet, _PARQUET, f"*.parquet with {TURN}"),
    Format.POPE: Form(read_pope, ("*pope_*.json", "*pope_*.jsonl"), "*pope_*.json, images in images/"),
    Format.POPE_PARQUET: Form(
        read_pope_parquet, _PARQUET, "*.parquet with question_id, question, answer, category and image"
    ),
    Format.MCQ: Form(read_mcq, ("*.tsv",), "*.tsv with index, question, answer, A, B, ... and image or image_path"),
}


def named_form(name: str) -> tuple[Format | None, Path]:
    """The form and the path that a name like `hrbench:bench/hr_bench_4k.tsv` says; None for a path alone."""
    form, colon, path = name.partition(":")
    if colon and form in list(Format) and not Path(name).exists():
        return Format(form), Path(path)
    return None, Path(name)


def find_files(path: Path, wanted: Format | None) -> tuple[Format, list[Path]]:
    """The form of a data set, and its files: for `vstar` its folder.

    Args:
        path: A folder or a file.
        wanted: The form, where it was named.

    Raises:
        DatasetError: There is nothing at the path, no file of a known form, or files of several.
        ConfigError: There are Parquet files, and pyarrow is not installed.
    """
    if not path.exists():
        raise DatasetError(
            f"{path}: there is no such folder or file. Name one, or generated scenes as nano:N:SEED, or a form and a "
            f"path as in {Format.HRBENCH.value}:PATH (the forms are {', '.join(Format)})."
        )
    if wanted is not None:
        found = {wanted: _files_of(path, wanted)}
        if not found[wanted]:
            raise DatasetError(f"{path} holds no {wanted.value} files. Looked for: {FORMS[wanted].words}.")
    else:
        found = _forms_at(path)
    if not found:
        looked = "".join(f"\n  {name.value}: {form.words}" for name, form in FORMS.items())
        raise DatasetError(f"{path} holds no benchmark files that are known. Looked for:{looked}")
    if len(found) > 1:
        several = "; ".join(f"{name.value} ({', '.join(f.name for f in files)})" for name, files in found.items())
        raise DatasetError(
            f"{path} holds files of several forms: {several}. Name one file, or a form as in "
            f"{next(iter(found)).value}:{path}"
        )
    return next(iter(found.items()))


def _forms_at(path: Path) -> dict[Format, list[Path]]:
    if path.is_file():
        return {form: [path]} if (form := form_of(path)) else {}
    found: dict[Format, list[Path]] = {}
    if is_vstar(path):
        found[Format.VSTAR] = [path]
    for file in _candidates(path, [pattern for form in FORMS.values() for pattern in form.patterns]):
        if form := form_of(file):
            found.setdefault(form, []).append(file)
    if Format.VSTAR in found:
        found.pop(Format.VSTAR_JSONL, None)  # the same questions as a list, which the original download has too
    return found


def _files_of(path: Path, form: Format) -> list[Path]:
    """The files of a form that was named; what is in them is the reader's business."""
    if form is Format.VSTAR:
        return [path] if path.is_dir() else []
    if path.is_file():
        return [path]
    files = _candidates(path, FORMS[form].patterns)
    return [file for file in files if form_of(file) in (form, None)] or files


def _candidates(folder: Path, patterns: Sequence[str]) -> list[Path]:
    return sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})


def form_of(file: Path) -> Format | None:
    """The form of one file; None where it is none of ours.

    Raises:
        DatasetError: Its columns cannot be read.
        ConfigError: It is a Parquet file, and pyarrow is not installed.
    """
    match file.suffix:
        case ".tsv":
            return Format.HRBENCH if TURN in columns_of(file) else Format.MCQ
        case ".parquet":
            return _parquet_form(set(parquet_columns(file)))
        case ".json" | ".jsonl":
            return _lines_form(file)
    return None


def _parquet_form(columns: set[str]) -> Format | None:
    if TURN in columns:
        return Format.HRBENCH_PARQUET
    if {"image", "text", "label"} <= columns:
        return Format.VSTAR_PARQUET
    if {"question_id", "question", "answer", "category", "image"} <= columns:
        return Format.POPE_PARQUET
    return None


def _lines_form(file: Path) -> Format | None:
    row = first_line(file)
    pope, list_ = "pope_" in file.name, file.suffix == ".jsonl"
    if row is None:
        return Format.POPE if pope else Format.VSTAR_JSONL if list_ else None
    if not pope and not {"image", "text", "label"} <= row.keys():
        return None
    yes_no = str(row.get("label")).strip().casefold() in ("yes", "no")
    return Format.POPE if pope or yes_no else Format.VSTAR_JSONL
