"""What a judge may say, how its reply is read, and how verdicts are kept.

A judge that is read leniently gives whatever its reader looks for: "1" occurs in "10", in "0 (not 1)" and in the
thoughts of a model that then says 0. So a verdict is one of three words and nothing else, or it is none.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from speceyes.errors import ConfigError
from speceyes.evals.records.durable import replace_file
from speceyes.gating.reply import spoken

_VERDICT = re.compile(r"(?:(?:verdict|judge?ment):\s*)?(1|0|none)\.?", re.IGNORECASE)


class Verdict(StrEnum):
    """Whether an answer is the right one."""

    RIGHT = "1"
    WRONG = "0"
    """It settles on another answer."""
    NEITHER = "none"
    """It settles on no answer, or on several."""


def read_verdict(reply: str) -> Verdict | None:
    """The verdict of a reply, which must be it and nothing else; None where it is not.

    Thoughts in `<think>` do not count. A full stop behind it, and "Verdict:" before it, may be there.
    """
    match = _VERDICT.fullmatch(spoken(reply).strip())
    return Verdict(match[1].lower()) if match else None


def case_digest(question: str, options: Sequence[str], gold: str, answer: str, model: str, prompt: str) -> str:
    """Hash of all that a verdict depends on: the case, the judge and its prompt."""
    text = json.dumps([question, list(options), gold, answer, model, prompt])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class VerdictCache:
    """Verdicts on the disk, a small JSON file each, named by the hash of what was judged.

    Any number of processes may share the folder. A file that cannot be read is as good as none.

    Args:
        folder: Is made if it is not there.

    Raises:
        ConfigError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the judge's cache {folder} cannot be made: {error.strerror or error}") from error

    def get(self, digest: str) -> Verdict | None:
        """The verdict on a case, if there is one."""
        try:
            found = json.loads((self.folder / f"{digest}.json").read_bytes())
            return Verdict(found["verdict"]) if found["digest"] == digest else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, digest: str, verdict: Verdict, case: dict[str, Any]) -> None:
        """Keep a verdict, and beside it, for people, the case.

        Raises:
            ConfigError: It cannot be written.
        """
        text = json.dumps({"digest": digest, "verdict": verdict.value, **case}, indent=2, allow_nan=False) + "\n"
        path = self.folder / f"{digest}.json"
        try:
            replace_file(path, lambda file: file.write(text.encode("ascii")))
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
