"""From what systems and readers give to the lines of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from speceyes.agents.dialects.base import Call, Dialect
from speceyes.evals.datasets.readers import Item
from speceyes.evals.runs.format import CropLine, Judged, Result, Sample, TurnLine, UsageLine
from speceyes.evals.scoring import Mark
from speceyes.evals.systems import Reply, Role, StepNote, SystemName
from speceyes.export import plain_number, plain_text
from speceyes.gating import Calibration
from speceyes.phases import gate_screening
from speceyes.types import Completion, Crop, Turn, Usage


def sample_line(item: Item) -> Sample:
    """A question as it stands before its picture has been seen."""
    return Sample(
        id=plain_text(item.id),
        question=plain_text(item.prompt),
        options=tuple(map(plain_text, item.options)),
        order=item.order,
        gold=None if item.gold is None else plain_text(item.gold),
        category=plain_text(item.category),
        group=plain_text(item.group),
        image_name=plain_text(item.image_name),
    )


def result_line(system: SystemName, item: Item, block: int, reply: Reply, mark: Mark, dialect: Dialect) -> Result:
    """What a system said to a question.

    Args:
        system: Who.
        item: The question.
        block: In which block it was asked.
        reply: What was said.
        mark: What it is worth.
        dialect: The agent's, which reads the calls in its turns again.
    """
    known = Result(system.value, plain_text(item.id), block, how=mark.how, right=mark.right, at=round(time.time(), 3))
    if reply.answer is None:
        return replace(known, error=plain_text(reply.error or "no answer"))
    answer, trace = reply.answer, reply.answer.trace
    verdict, run = trace.verdict, trace.run
    return replace(
        known,
        text=plain_text(reply.text),
        parsed=None if mark.parsed is None else plain_text(mark.parsed),
        seconds=_seconds(reply.seconds),
        route=answer.route.value,
        reason=answer.reason.value,
        score=plain_number(verdict.score) if verdict else None,
        squashed=plain_number(verdict.squashed) if verdict else None,
        threshold=plain_number(verdict.threshold) if verdict else None,
        help_probability=trace.screening.help_probability if trace.screening else None,
        depth=run.depth if run else 0,
        finish=run.finish.value if run else None,
        phase_seconds={name: round(value, 6) for name, value in trace.phase_seconds.items()},
        usage=usage_lines(reply.usage),
        turns=turn_lines(run.turns if run else (), reply.steps, dialect),
        notes=tuple(map(plain_text, trace.notes)),
    )


def judged_line(item: Item, reply: Reply, calibration: Calibration) -> Judged:
    """What phases I to III said to a question."""
    name = plain_text(item.id)
    trace = reply.answer.trace if reply.answer else None
    if trace is None or trace.screening is None or trace.verdict is None:
        return Judged(name, error=plain_text(reply.error or "no answer"))
    refused = gate_screening(trace.screening, calibration)
    return Judged(
        name,
        reason=(refused or trace.verdict).reason.value,
        help_probability=trace.screening.help_probability,
        score=plain_number(trace.verdict.score),
        let_through=refused is None,
        accepted=refused is None and trace.verdict.accepted,
    )


def usage_lines(usage: Mapping[Role, Usage]) -> dict[str, UsageLine]:
    """Tokens by role."""
    return {
        role.value: UsageLine(used.prompt_tokens, used.completion_tokens, used.cached_tokens, used.calls)
        for role, used in usage.items()
    }


def turn_lines(turns: Sequence[Turn], steps: Sequence[StepNote], dialect: Dialect) -> tuple[TurnLine, ...]:
    """The turns of a run; with SpecReason's notes about them, where there are such."""
    notes = steps or [StepNote(Role.AGENT)] * len(turns)
    return tuple(_turn(turn, note, dialect) for turn, note in zip(turns, notes, strict=True))


def _turn(turn: Turn, note: StepNote, dialect: Dialect) -> TurnLine:
    called = dialect.parse(Completion(turn.text, "stop")) if turn.tool else None
    return TurnLine(
        text=plain_text(turn.text),
        tool=turn.tool and plain_text(turn.tool),
        arguments=_plain(called.arguments) if isinstance(called, Call) else None,
        error=turn.error and plain_text(turn.error),
        crops=tuple(map(_crop, turn.crops)),
        by=note.by.value,
        rating=note.rating,
        kept=note.kept,
    )


def _plain(arguments: Mapping[str, object]) -> dict[str, object]:
    """Arguments that a model wrote, as strict JSON has them: what it has no number for becomes a text."""

    def plain(value: object) -> object:
        match value:
            case str():
                return plain_text(value)
            case bool() | None:
                return value
            case int() | float():
                return value if abs(value) < 1e18 else str(value)
            case Mapping():
                return {plain_text(str(name)): plain(inner) for name, inner in value.items()}
            case list() | tuple():
                return [plain(inner) for inner in value]
            case _:
                return str(value)

    return {plain_text(name): plain(value) for name, value in arguments.items()}


def _crop(crop: Crop) -> CropLine:
    left, top, right, bottom = (round(edge, 2) for edge in crop.box)
    return CropLine(crop.image, (left, top, right, bottom), plain_text(crop.label))


def _seconds(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
