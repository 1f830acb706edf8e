"""From a gateway's request records to a recorded run, so that real traffic can be swept and calibrated on.

Only requests that the agent answered whatever its draft scored are a fair sample: those of a gateway that observes
(all of its traffic), or those that an audit chose among the accepted ones. The two are never mixed, since a
calibration promises something about queries like those that it was made from.

Nobody has labelled such queries, so a row says whether draft and agent agree, and not who is right. Where the store
kept no words, `[not kept]` stands in their place, and `[1]`, `[2]`, ... in that of the tokens; scores need none.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from speceyes.errors import InputError
from speceyes.evals.records.manifest import DatasetFacts, Manifest
from speceyes.evals.records.rows import Asked, ImageFacts, Observed, make_row
from speceyes.evals.records.schema import Row
from speceyes.evals.records.writer import RunWriter
from speceyes.gating.agreement import same_answer
from speceyes.store import RequestRecord, Selection, Store
from speceyes.types import AgentRun, Draft, Finish, Reason, Screening, Usage

NOT_KEPT: Final = "[not kept]"
BATCH: Final = 100

Sample = Literal["observed", "audited"]


@dataclass(slots=True)
class Exported:
    """What an export wrote.

    Attributes:
        rows: Rows written.
        left_out: Requests of the sample that are not in it, by cause.
    """

    rows: int = 0
    left_out: Counter[str] = field(default_factory=Counter)


async def export_requests(
    store: Store,
    folder: Path,
    sample: Sample = "observed",
    selection: Selection | None = None,
    *,
    done: Callable[[int], None] = lambda rows: None,
) -> Exported:
    """Write a store's requests as a recorded run.

    Requests that were answered with other models or prompts than the latest one are left out.

    Args:
        store: The store.
        folder: The run's folder, new or empty.
        sample: Which requests: those of a gateway that observes, or those that an audit chose.
        selection: From when to when, of which key.
        done: Is told how many rows there are, as they are written.

    Raises:
        InputError: The store has no such request.
        ConfigError: The folder cannot be written, or pyarrow is not installed.
    """
    chosen = selection or Selection()
    chosen = replace(chosen, audited=True) if sample == "audited" else replace(chosen, trust="observe")
    exported = Exported()
    manifest = await _manifest(store, chosen, sample, exported)
    exported.left_out.clear()  # the second reading counts them again
    with RunWriter(folder, manifest) as writer:
        rows: list[Row] = []
        async for record in _usable(store, chosen, manifest.bound_to, exported):
            rows.append(row_of(record, exported.rows + len(rows)))
            if len(rows) == BATCH:
                _write(writer, rows, exported, done)
        _write(writer, rows, exported, done)
    return exported


def row_of(record: RequestRecord, index: int) -> Row:
    """A request that the agent answered, as a row of a run."""
    screening = None
    if record.p_yes is not None and record.p_no is not None:
        screening = Screening(record.p_yes, record.p_no, _usage(record, "screen"))
    draft = _draft(record)
    agent_s = record.audit_seconds if record.audited else record.phase_seconds.get("fall_back")
    text = NOT_KEPT if record.agent_text is None else record.agent_text
    run = AgentRun(text, (), Finish(record.agent_finish or "answered"), _usage(record, "fall_back"), agent_s or 0.0)
    images = [ImageFacts(image.sha256, (image.width, image.height), image.bytes) for image in record.images]
    names = {"screen": "screen", "speculate": "draft"}
    seconds = {names[phase]: value for phase, value in record.phase_seconds.items() if phase in names}
    asked = Asked(record.id, index, NOT_KEPT if record.question is None else record.question, images)
    row = make_row(asked, Observed(screening, draft, run, seconds=seconds), recorded_at=record.created)
    return row | {"agent_depth": record.agent_depth, "agent_turns": None, "agrees": _agrees(record)}


def _draft(record: RequestRecord) -> Draft | None:
    if not _has_draft(record):
        return None
    tokens = record.draft_tokens
    if record.draft_text is None:
        tokens = tuple(replace(token, text=f"[{number}]") for number, token in enumerate(tokens, start=1))
    fault = Reason(record.draft_fault) if record.draft_fault else None
    text = NOT_KEPT if record.draft_text is None else record.draft_text
    return Draft(text, tokens, fault, _usage(record, "speculate"))


async def _manifest(store: Store, chosen: Selection, sample: Sample, exported: Exported) -> Manifest:
    latest = await store.newest(1, chosen)
    if not latest:
        how = {
            "observed": "let the gateway observe",
            "audited": "let the gateway audit a share of the accepted requests",
        }
        raise InputError(f"the store has no {sample} request to export; {how[sample]}, or name another time")
    setup, digest, count, k = latest[0].setup, hashlib.sha256(), 0, 0
    async for record in _usable(store, chosen, setup, exported):
        digest.update(record.id.encode("utf-8", "replace") + b"\n")
        count += 1
        k = max([k, *(len(token.top_logprobs) for token in record.draft_tokens)])
    if not count:
        causes = "; ".join(f"{number}: {cause}" for cause, number in exported.left_out.items())
        raise InputError(f"none of the store's {sample} requests can be exported ({causes})")
    facts = DatasetFacts(name=sample, kind="gateway", digest=f"sha256:{digest.hexdigest()}", samples=count)
    return Manifest(dataset=facts, bound_to=dict(setup), k=k)


async def _usable(
    store: Store, chosen: Selection, setup: Mapping[str, str], exported: Exported
) -> AsyncIterator[RequestRecord]:
    async for record in store.iterate(chosen):
        if dict(record.setup) != dict(setup):
            exported.left_out["answered with other models or prompts than the latest request"] += 1
        elif record.agent_finish is None:
            exported.left_out["the agent did not answer"] += 1
        elif record.audited and record.reason == Reason.ACCEPTED_CLOSER:
            # What was compared is the draft after the look, and what is kept that of the first glance.
            exported.left_out["the draft model had looked closer, and the store does not keep what it said then"] += 1
        elif _has_draft(record) and _agrees(record) is None:
            exported.left_out["nobody compared the two answers"] += 1
        else:
            yield record


def _has_draft(record: RequestRecord) -> bool:
    return "speculate" in record.phase_usage


def _agrees(record: RequestRecord) -> bool | None:
    if record.agrees is not None or record.draft_text is None or record.agent_text is None:
        return record.agrees
    return same_answer(record.draft_text, record.agent_text, record.question or "")


def _usage(record: RequestRecord, phase: str) -> Usage:
    return record.phase_usage.get(phase, Usage(None, None, None))


def _write(writer: RunWriter, rows: list[Row], exported: Exported, done: Callable[[int], None]) -> None:
    writer.write_rows(rows)
    exported.rows += len(rows)
    rows.clear()
    done(exported.rows)
