"""The figures of a run that need no gate: who was right, how long the phases took, what the record weighs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from speceyes.evals.records.loading import load_run, read_rows, run_bytes
from speceyes.evals.records.manifest import Manifest
from speceyes.evals.records.schema import ERRORS, is_failed
from speceyes.evals.records.table import BoolArray, FloatArray, RecordTable

PHASES: Final = ("screen", "draft", "agent")
KINDS: Final = ("prompt", "completion", "cached")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Figures of a run.

    Attributes:
        manifest: What it was recorded with.
        rows: Rows in it.
        failed: Rows that hold an error.
        labelled: Rows whose right answer is known and whose phases all ran; so for the shares that follow.
        draft_accuracy: Share of drafts that are right; None without labels.
        agent_accuracy: Share of the agent's answers that are right.
        agreement: Share of queries to which both give the same answer, of those whose phases all ran.
        draft_unusable: Share of drafts without usable tokens.
        seconds: Median and mean seconds of each phase.
        tokens: Mean tokens a row of each phase; None where a server did not say.
        mean_depth: Tool calls of an agent run.
        closer: For each closer look of the draft model, the share of queries that it was shown a part of (`looked`),
            the accuracy and the agreement of its answers then, and median and mean seconds.
        bytes: Size of the rows on the disk.
        digest: Hash of the rows.
    """

    manifest: Manifest
    rows: int
    failed: int
    labelled: int
    draft_accuracy: float | None
    agent_accuracy: float | None
    agreement: float | None
    draft_unusable: float | None
    seconds: dict[str, dict[str, float | None]]
    tokens: dict[str, dict[str, float | None]]
    mean_depth: float | None
    closer: Sequence[Mapping[str, Any]]
    bytes: int
    digest: str

    @property
    def bytes_per_row(self) -> float:
        return self.bytes / self.rows

    def as_json(self) -> dict[str, Any]:
        """The same as plain dictionaries and numbers."""
        plain = {name: getattr(self, name) for name in self.__slots__ if name != "manifest"}
        return {
            **plain,
            "bytes_per_row": round(self.bytes_per_row, 1),
            "run": self.manifest.model_dump(mode="json"),
        }


def summarise_run(folder: Path) -> RunSummary:
    """The figures of a run.

    Raises:
        DatasetError: As `load_run`.
    """
    table = load_run(folder)
    columns = [f"{phase}_{kind}_tokens" for phase in PHASES for kind in KINDS]
    costs = list(read_rows(folder, [*columns, *ERRORS]))
    ran = table.complete
    judged = table.labelled & ran
    return RunSummary(
        manifest=Manifest.load(folder),
        rows=len(table),
        failed=sum(map(is_failed, costs)),
        labelled=int(judged.sum()),
        draft_accuracy=_share(table.draft_right, judged),
        agent_accuracy=_share(table.agent_right, judged),
        agreement=_share(table.agrees, ran),
        draft_unusable=_share(~table.draft_usable, ran),
        seconds={phase: _seconds(getattr(table, f"{phase}_seconds")) for phase in PHASES},
        tokens={
            phase: {kind: _mean([row[f"{phase}_{kind}_tokens"] for row in costs]) for kind in KINDS} for phase in PHASES
        },
        mean_depth=_mean(list(table.depth[ran])),
        closer=[_looked(table, depth) for depth in range(1, len(table.closer) + 1)],
        bytes=run_bytes(folder),
        digest=table.digest,
    )


def _looked(table: RecordTable, depth: int) -> dict[str, Any]:
    """Figures of one closer look, over the queries of which it is known."""
    closer, ran = table.closer[depth - 1], table.complete_to(depth)
    return {
        "depth": depth,
        "looked": _share(closer.looked, ran),
        "accuracy": _share(closer.right, closer.looked & table.labelled & ran),
        "agreement": _share(closer.agrees, closer.looked & ran),
        "seconds": _seconds(closer.seconds),
    }


def _share(flags: BoolArray, among: BoolArray) -> float | None:
    return float(flags[among].mean()) if among.any() else None


def _seconds(values: FloatArray) -> dict[str, float | None]:
    known = values[~np.isnan(values)]
    if not len(known):
        return {"median": None, "mean": None}
    return {"median": float(np.median(known)), "mean": float(known.mean())}


def _mean(values: list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
