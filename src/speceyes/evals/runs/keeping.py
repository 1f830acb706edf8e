"""The folder of a run while it is written: made or gone on with, safe from crashes, tidied at the end.

with RunKeeper(folder, header, items) as kept:
    kept.results.append(...); kept.laps.append(...)
    kept.finish()
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from speceyes.errors import ConfigError
from speceyes.evals.records.durable import remove_unfinished, replace_file
from speceyes.evals.records.lock import locked
from speceyes.evals.records.manifest import now
from speceyes.evals.runs.format import Header, Sample, to_line
from speceyes.evals.runs.lines import Lines
from speceyes.evals.runs.loading import (
    HEADER,
    IMAGES,
    JUDGED,
    LAPS,
    RESULTS,
    SAMPLES,
    SUMMARY,
    EvalRun,
    open_run,
    read_header,
)
from speceyes.evals.runs.thumbnails import keep_thumbnail
from speceyes.imaging.decode import DecodedImage

_MAY_DIFFER: Final = ("dataset.name", "dataset.files", "models.draft.url", "models.agent.url")
"""Where the same questions and the same models are found, and nothing that changes an answer."""


class RunKeeper:
    """One process at a time writes a run.

    Args:
        folder: Where; new, empty, or a run with the same header.
        header: What is run now; its last session is this one.
        samples: The questions, their pictures not seen yet.

    Attributes:
        before: The run as it was found; what it holds is not done again.
        results: Lines of `results.jsonl`.
        laps: Lines of `laps.jsonl`.
        judged: Lines of `gate.jsonl`.

    Raises:
        ConfigError: The folder holds something else, another process writes to it, or it cannot be written.
        DatasetError: A file in it is damaged.
    """

    def __init__(self, folder: Path, header: Header, samples: Sequence[Sample]) -> None:
        self._folder, self._header = folder, header
        self._samples = {sample.id: sample for sample in samples}
        self._open, self._looking = ExitStack(), threading.Lock()
        self.before: EvalRun
        self.results: Lines
        self.laps: Lines
        self.judged: Lines
        self._seen: Lines

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be made: {error.strerror or error}.") from error
        with self._open:
            self._open.enter_context(locked(self._folder))
            remove_unfinished(self._folder)
            self._begin()
            self.before = open_run(self._folder)
            self._samples |= self.before.by_id
            for name, file in (("results", RESULTS), ("laps", LAPS), ("judged", JUDGED), ("_seen", SAMPLES)):
                setattr(self, name, self._open.enter_context(Lines(self._folder / file)))
            self._open = self._open.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def see(self, name: str, image: DecodedImage) -> None:
        """Note a picture's size and keep its thumbnail, when the picture is first loaded. Threads may call it."""
        with self._looking:  # two questions about one picture make one file
            sample = self._samples[name]
            if sample.size is not None:
                return
            kept = keep_thumbnail(image, self._folder / IMAGES) if self._header.images else None
            path = None if kept is None else kept.relative_to(self._folder).as_posix()
            self._samples[name] = replace(sample, size=image.size, image=path)
            self._seen.append(self._samples[name])

    def finish(self) -> None:
        """Close the run: each line once, in the order of the questions, and the time of the end."""
        for lines in (self.results, self.laps, self.judged, self._seen):
            lines.sync()
        run = open_run(self._folder)
        order = {name: place for place, name in enumerate(run.header.systems)}
        places = {name: place for place, name in enumerate(run.by_id)}
        laps = sorted(run.laps, key=lambda lap: (lap.concurrency, order.get(lap.system, -1), lap.system, lap.block))
        rows = [row for name in run.header.systems for row in run.results[name]]
        self._rewrite(SAMPLES, run.samples)
        self._rewrite(RESULTS, rows)
        self._rewrite(LAPS, laps)
        judged = sorted(run.judged.values(), key=lambda line: places[line.id])
        if judged:
            self._rewrite(JUDGED, judged)
        last = replace(self._header.sessions[-1], ended=now())
        self._header = replace(self._header, sessions=(*self._header.sessions[:-1], last))
        self._save_header()

    def summary(self, figures: Mapping[str, Any]) -> None:
        """Write `summary.json`."""
        self._write(SUMMARY, json.dumps(figures, indent=1, allow_nan=False).encode("ascii") + b"\n")

    def _begin(self) -> None:
        """Write what a run begins with, or find it there."""
        if (self._folder / HEADER).exists():
            found = read_header(self._folder)
            check_same(found, self._header, self._folder)
            self._header = replace(self._header, sessions=(*found.sessions, *self._header.sessions))
        elif any((self._folder / name).exists() for name in (RESULTS, LAPS)):
            raise ConfigError(f"{self._folder} holds results without a {HEADER}. Restore it, or name another folder.")
        else:
            self._rewrite(SAMPLES, list(self._samples.values()))
        self._save_header()

    def _save_header(self) -> None:
        text = msgspec.json.format(to_line(self._header), indent=2) + b"\n"
        self._write(HEADER, text)

    def _rewrite(self, name: str, records: Sequence[object]) -> None:
        self._write(name, b"".join(map(to_line, records)))

    def _write(self, name: str, data: bytes) -> None:
        try:
            replace_file(self._folder / name, lambda file: file.write(data))
        except OSError as error:
            raise ConfigError(f"{self._folder / name} cannot be written: {error.strerror or error}.") from error


def check_same(found: Header, wanted: Header, folder: Path) -> None:
    """Refuse to go on with a run that was made otherwise.

    Raises:
        ConfigError: Names every difference.
    """
    old, new = _identity(found), _identity(wanted)
    differing = [
        f"  {name}: the run has {old.get(name)!r}, wanted is {new.get(name)!r}"
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
    if differing:
        advice = "Go on with the same, or name another folder."
        raise ConfigError("\n".join([f"{folder} holds a run that was made otherwise:", *differing, advice]))


def _identity(header: Header) -> dict[str, Any]:
    plain = msgspec.to_builtins(replace(header, sessions=()))
    return {name: value for name, value in _flat(plain) if not name.startswith(_MAY_DIFFER)}


def _flat(value: Mapping[str, Any], above: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, inner in value.items():
        found += _flat(inner, f"{above}{name}.") if isinstance(inner, dict) else [(above + name, inner)]
    return found
