"""What was run, so that somebody else can run it again: commands, hashes, versions, machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from speceyes.evals.reporting.study import Study
from speceyes.evals.reporting.table import Table, plain
from speceyes.evals.runs import EvalRun

UNKNOWN = "not known"
FILES = 8
"""Hashes of files that are listed; the digest covers all of them."""


def manifest_tables(study: Study) -> list[Table]:
    """One table a run."""
    return [
        plain(
            ("what", "value"),
            facts(run),
            name="manifest",
            title=f"{label}: what was run",
            text="With the same data, models and settings the same answers come out; times depend on the machine.",
        )
        for run, label in zip(study.runs, study.labels, strict=True)
    ]


def facts(run: EvalRun) -> list[tuple[str, str]]:
    """A run's particulars, name and value."""
    header = run.header
    data, gate = header.dataset, header.gate
    shuffled = "as in the file" if data.shuffle_seed is None else f"shuffled by seed {data.shuffle_seed}"
    promise = (
        "no promise"
        if gate.alpha is None
        else f"excess loss at most {gate.alpha:g}, wrong with probability {gate.delta:g} at most"
    )
    threshold = "none, nothing passes" if gate.threshold is None else f"{gate.threshold:.6g}"
    rows = [
        ("folder", run.folder.name),
        ("data set", f"{data.name} ({data.kind}), {data.asked:,} of {data.items:,} questions asked"),
        ("its digest", data.digest),
        ("its form", data.form or data.kind),
        *((f"file {name}", digest) for name, digest in list(data.files.items())[:FILES]),
        *([("further files", f"{len(data.files) - FILES:,}")] if len(data.files) > FILES else []),
        ("order of options", shuffled),
        *((f"{role} model", _model(model.name, model.url)) for role, model in header.models.items()),
        *((f"{role} fingerprint", model.fingerprint) for role, model in header.models.items()),
        ("gate", f"{gate.score}, aggregate {gate.aggregate}, K = {gate.k}"),
        ("threshold", f"{threshold} ({gate.method}; {promise})"),
        ("screening threshold", f"{gate.screen_threshold:g}"),
        ("scoring rule", header.rule),
        ("questions at a time", ", ".join(map(str, header.concurrency))),
        ("blocks", f"{header.blocks:,} of about {header.block:,} questions, taken in turns by all systems"),
        ("seed", str(header.seed)),
        *((f"setting {name}", _plain(value)) for name, value in header.settings.items()),
    ]
    for number, session in enumerate(header.sessions, 1):
        which = f"session {number}: " if len(header.sessions) > 1 else ""
        rows += [
            (f"{which}command", session.command or UNKNOWN),
            (f"{which}began, ended", f"{session.began}, {session.ended or 'not ended'}"),
            (f"{which}versions", _pairs(session.versions)),
            (f"{which}machine", _pairs(session.machine)),
        ]
    return rows


def ran(run: EvalRun, label: str) -> str:
    """A run in one line."""
    header = run.header
    models = ", ".join(f"{role} {model.name}" for role, model in header.models.items())
    when = (header.began or UNKNOWN)[:10]
    done = "" if run.complete else ", not complete"
    return f"{label}: {len(run.samples):,} questions, {len(header.systems)} systems, {models}; {when}{done}"


def _model(name: str, url: str | None) -> str:
    return f"{name}, {url or 'llama.cpp in this process'}"


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_plain(value)}" for name, value in values.items()) or UNKNOWN


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
