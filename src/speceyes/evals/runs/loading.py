"""Reading an evaluation run: every file checked, each system's results in the order of the questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from speceyes.errors import DatasetError
from speceyes.evals.runs.format import FORMAT, Header, Judged, Lap, Line, Result, Sample, from_line

HEADER: Final = "run.json"
SAMPLES: Final = "samples.jsonl"
RESULTS: Final = "results.jsonl"
LAPS: Final = "laps.jsonl"
JUDGED: Final = "gate.jsonl"
SUMMARY: Final = "summary.json"
IMAGES: Final = "images"


@dataclass(frozen=True)
class EvalRun:
    """An evaluation run, finished or not.

    Attributes:
        folder: Where it is.
        header: What was run.
        samples: The questions, in their order.
        results: By system, in the order of `header.systems`: its results, in the order of the questions. A question
            that it has not answered yet has none.
        laps: One for each system, concurrency and block that is done.
        judged: What phases I to III said beforehand, by question; empty where it was not needed.
    """

    folder: Path
    header: Header
    samples: Sequence[Sample]
    results: Mapping[str, Sequence[Result]]
    laps: Sequence[Lap]
    judged: Mapping[str, Judged]

    @property
    def complete(self) -> bool:
        """Whether every system has a result for every question; some of them may be errors."""
        return all(len(rows) == len(self.samples) for rows in self.results.values())

    @cached_property
    def by_id(self) -> Mapping[str, Sample]:
        """The questions by their names."""
        return {sample.id: sample for sample in self.samples}

    @cached_property
    def answers(self) -> Mapping[str, Mapping[str, Result]]:
        """`results` as dictionaries: by system, then by the question's name."""
        return {name: {row.id: row for row in rows} for name, rows in self.results.items()}

    def picture(self, sample: Sample) -> Path | None:
        """The thumbnail's file; None where there is none."""
        path = self.folder / sample.image if sample.image else None
        return path if path is not None and path.is_file() else None


def open_run(folder: Path) -> EvalRun:
    """Read a run.

    Raises:
        DatasetError: There is none, a file is damaged, or a later version made it.
    """
    header = read_header(folder)
    # A question's line is written again once its picture has been seen; a dictionary keeps the first one's place.
    samples = {sample.id: sample for sample in read_lines(folder / SAMPLES, Sample)}
    if len(samples) != header.dataset.asked:
        raise DatasetError(
            f"{folder / SAMPLES} holds {len(samples)} questions; {header.dataset.asked} were asked. Restore the file."
        )
    ids = {name: place for place, name in enumerate(samples)}
    latest: dict[str, dict[str, Result]] = {name: {} for name in header.systems}
    for row in read_lines(folder / RESULTS, Result):
        if row.system not in latest or row.id not in ids:
            raise DatasetError(
                f"{folder / RESULTS} holds a result of {row.system} for {row.id!r}, which is no part of this run. "
                "Restore the file."
            )
        latest[row.system][row.id] = row
    results = {name: sorted(rows.values(), key=lambda row: ids[row.id]) for name, rows in latest.items()}
    laps = {(lap.system, lap.concurrency, lap.block): lap for lap in read_lines(folder / LAPS, Lap)}
    judged = {line.id: line for line in read_lines(folder / JUDGED, Judged)}
    return EvalRun(folder, header, list(samples.values()), results, list(laps.values()), judged)


def read_header(folder: Path) -> Header:
    """`run.json` alone.

    Raises:
        DatasetError: There is none, it is damaged, or a later version made it.
    """
    path = folder / HEADER
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(f"{folder} holds no evaluation run: there is no {HEADER}.") from None
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}.") from error
    try:
        plain = msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise DatasetError(f"{path} is damaged: {error}. Restore it.") from error
    found = plain.get("format") if isinstance(plain, dict) else None
    if isinstance(found, str):
        raise DatasetError(f"{folder} holds no evaluation run: its {HEADER} belongs to a record ({found}).")
    if found != FORMAT:
        raise DatasetError(
            f"{path} has the format {found}; this version reads {FORMAT}. Read it with the version that made it."
        )
    return from_line(data, Header, str(path))


def read_lines(path: Path, kind: type[Line]) -> Iterator[Line]:
    """The records of a file; none where there is no file. A torn last line is passed over.

    Raises:
        DatasetError: Another line is damaged, or the file cannot be read.
    """
    try:
        data = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}.") from error
    for number, line in enumerate(data[: whole(data)].splitlines(), start=1):
        yield from_line(line, kind, f"{path}, line {number},")


def whole(data: bytes) -> int:
    """How many of these bytes are whole lines."""
    return data.rfind(b"\n") + 1
