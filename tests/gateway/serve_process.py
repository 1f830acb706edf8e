"""`speceyes serve` as people start it: a process of its own."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from speceyes.evals.datasets.samples import Sample

PROGRAM = [sys.executable, "-c", "from speceyes.cli import main; main()", "serve"]


@dataclass
class Process:
    """A gateway process. `url` is what it printed first."""

    popen: subprocess.Popen[str]
    url: str

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str, str]:
        """Exit code, the rest of standard output, and standard error."""
        if self.popen.poll() is None:
            self.popen.send_signal(number)
        return self.ended()

    def ended(self) -> tuple[int, str, str]:
        """The same of a process that has had its signal: a second one would end it at once, and with another code."""
        out, err = self.popen.communicate(timeout=60)
        return self.popen.returncode, out, err


def start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    return subprocess.Popen(
        [*PROGRAM, *flags],
        cwd=folder,
        env=clean | {"XDG_STATE_HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(folder: Path, *flags: str) -> Process:
    popen = start(folder, "--port", "0", *flags)
    assert popen.stdout is not None
    url = popen.stdout.readline().strip()
    if not url:
        pytest.fail(f"the gateway did not start: {popen.communicate()[1]}", pytrace=False)
    return Process(popen, url)


def refused(folder: Path, *flags: str) -> str:
    """What a start that must fail says; with code 2, in one line, and without a URL."""
    popen = start(folder, *flags)
    out, err = popen.communicate(timeout=120)
    assert (popen.returncode, out) == (2, ""), err
    assert err.count("error: ") == 1
    assert "Traceback" not in err
    return err


def question(sample: Sample, **fields: Any) -> dict[str, Any]:
    query = sample.query()
    url = f"data:image/png;base64,{base64.b64encode(query.images[0].source).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": query.question}]
    return {"model": "speceyes", "messages": [{"role": "user", "content": content}], **fields}


def told(answer: Any) -> dict[str, Any]:
    """The field `speceyes`, which OpenAI's client keeps although it does not know it."""
    found: dict[str, Any] = answer.model_extra["speceyes"]
    return found
