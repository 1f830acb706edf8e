"""`run.json`: what a run was recorded with. It is resumed with nothing else, and calibrations are bound to it."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from speceyes.errors import ConfigError, DatasetError
from speceyes.evals.records.durable import replace_file
from speceyes.evals.records.schema import SCHEMA_VERSION

MANIFEST: Final = "run.json"
MAX_DEPTH: Final = "draft_max_depth"
"""Name in `Manifest.setup`: how often the draft model looked closer by itself. Runs from before it could lack it."""
_PACKAGES: Final = ("speceyes", "xllamacpp", "numpy", "pillow", "pyarrow", "httpx")


class DatasetFacts(BaseModel):
    """Which questions were asked."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str
    """As it was named on the command line."""
    kind: str
    """`nano`, `vstar`, `hrbench`, `pope`, `mcq`, or `gateway` for exported traffic."""
    digest: str
    """Hash of the questions, the right answers and the images."""
    samples: int
    """How many questions it has; a limit may leave some of them out."""


class Session(BaseModel):
    """One stretch of recording, from start to end or to a crash."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    started: str
    """UTC, ISO 8601."""
    ended: str | None = None
    """None: it goes on, or it was killed."""
    command: str = ""
    """How it was started; keys and passwords are left out."""
    concurrency: int = 1
    """Queries under way at a time. Above 1 they wait for each other, so their timings are those of a loaded server."""
    limit: int | None = None
    """Only the first so many questions."""
    rows: int = 0
    """Rows in the run when it ended."""
    versions: Mapping[str, str] = Field(default_factory=dict)
    machine: Mapping[str, str | int] = Field(default_factory=dict)


class Manifest(BaseModel):
    """The content of `run.json`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    format: str = "speceyes.run"
    schema_version: int = SCHEMA_VERSION
    """Of the columns; `docs/records.md` describes them."""
    dataset: DatasetFacts
    bound_to: Mapping[str, str]
    """Models, prompts and log-prob mode, under the names that a calibration uses."""
    k: int
    """Log-probs asked for of each answer token: sweeps go up to this K."""
    setup: Mapping[str, str | int | float | None] = Field(default_factory=dict)
    """What else decides the answers: sizes of pictures, lengths of answers, closer looks, the agent's dialect and
    budget."""
    sessions: tuple[Session, ...] = ()

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for all rows of a run, flat."""
        return {
            "schema": self.schema_version,
            "dataset": self.dataset.digest,
            **self.bound_to,
            "k": self.k,
            MAX_DEPTH: 0,
            **self.setup,
        }

    @property
    def max_depth(self) -> int:
        """How often the draft model was to look closer by itself, for every query."""
        return int(self.setup.get(MAX_DEPTH) or 0)

    def check_same(self, other: Manifest, where: Path) -> None:
        """Refuse to add rows that were made otherwise.

        Args:
            other: What is in use now.
            where: The run's folder, for the message.

        Raises:
            ConfigError: Names every difference.
        """
        old, new = self.identity, other.identity
        differing = [
            f"  {name}: recorded with {old.get(name)!r}, in use is {new.get(name)!r}"
            for name in dict.fromkeys([*old, *new])
            if old.get(name) != new.get(name)
        ]
        if differing:
            raise ConfigError(
                "\n".join(
                    [
                        f"{where} holds a run that was recorded with something else:",
                        *differing,
                        "Resume it with the same, or record into another folder.",
                    ]
                )
            )

    def starting(self, session: Session) -> Self:
        """With another session behind those that there are."""
        return self.model_copy(update={"sessions": (*self.sessions, session)})

    def ending(self, rows: int) -> Self:
        """With the last session closed now."""
        last = self.sessions[-1].model_copy(update={"ended": now(), "rows": rows})
        return self.model_copy(update={"sessions": (*self.sessions[:-1], last)})

    def save(self, folder: Path) -> None:
        """Write it in one step. OSError where that fails."""
        content = json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False) + "\n"
        replace_file(folder / MANIFEST, lambda file: file.write(content.encode()))

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read it.

        Raises:
            DatasetError: There is none, it is damaged, or a later version made it.
        """
        path = folder / MANIFEST
        try:
            found = cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise DatasetError(f"{folder} holds no recorded run: there is no {MANIFEST}.") from None
        except OSError as error:
            raise DatasetError(f"{path} cannot be read: {error.strerror or error}.") from error
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DatasetError(f"{path} is damaged ({place or 'file'}: {first['msg']}). Restore it.") from error
        if found.schema_version != SCHEMA_VERSION:
            raise DatasetError(
                f"{path} has the schema {found.schema_version}; this version reads {SCHEMA_VERSION}. Read it with the "
                "version that recorded it."
            )
        return found


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that have a say in answers and timings."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, str | int]:
    """The machine: system, processor, and how many of its cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0
    return {"system": platform.platform(), "processor": _processor(), "cores": cores}


def shown_command(words: Sequence[str]) -> str:
    """A command line without keys and passwords."""
    shown = " ".join(words)
    shown = re.sub(r"(api_key=)\S+", r"\1***", shown, flags=re.IGNORECASE)
    return re.sub(r"(https?://)[^/\s@]+@", r"\1***@", shown)


def _processor() -> str:
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
