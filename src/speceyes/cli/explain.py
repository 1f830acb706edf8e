"""A trace as an account for people: what each phase said, how long it took, what it cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from speceyes.agents.dialects.tags import without_tags
from speceyes.cli.output import visible
from speceyes.cli.reasons import WHY
from speceyes.gating import Calibration, confidence
from speceyes.types import AgentRun, Answer, Crop, Draft, Query, Reason, Screening, Trace, Turn, Usage, Verdict

_SHOWN_RIVALS = 3


def explanation(answer: Answer, query: Query, names: Sequence[str], calibration: Calibration) -> RenderableType:
    """The account of one answer.

    Args:
        answer: The answer.
        query: What was asked.
        names: What to call its images.
        calibration: The gate's.
    """
    trace = answer.trace
    parts: list[RenderableType] = [_question(query, names)]
    if trace.screening is not None:
        parts.append(_screening(trace.screening, calibration, trace))
    if trace.draft is not None:
        parts.append(_draft("II Draft", trace.draft, calibration, _took(trace, "speculate")))
    parts += [_draft("II Closer", draft, calibration, f"{draft.seconds:.2f} s", names) for draft in trace.closer]
    if trace.verdict is not None:
        parts.append(_verdict(trace.verdict))
    if trace.run is not None:
        parts.append(_run(trace.run, names))
    parts += [_line("Note", visible(note), style="yellow") for note in trace.notes]
    parts += [_outcome(answer), _costs(trace)]
    return Group(*(Padding(part, (0, 0, 1, 0)) for part in parts))


def _question(query: Query, names: Sequence[str]) -> RenderableType:
    lines = [_line("Question", visible(query.question))]
    for index, (name, image) in enumerate(zip(names, query.images, strict=True)):
        lines.append(_line(f"Image {index}", f"{visible(name)}, {image.size[0]} x {image.size[1]} pixels"))
    return Group(*lines)


def _screening(screening: Screening, calibration: Calibration, trace: Trace) -> RenderableType:
    helps = screening.help_probability
    said = "neither word" if helps is None else f"a tool would help with probability {helps:.3f}"
    words = f"P(yes) {screening.p_yes:.3f}, P(no) {screening.p_no:.3f}: {said}"
    limit = f"A draft may pass at {calibration.screen_threshold:g} or less."
    return Group(_line("I Screen", words, _took(trace, "screen")), _indented(limit))


def _draft(title: str, draft: Draft, calibration: Calibration, took: str, names: Sequence[str] = ()) -> RenderableType:
    head: RenderableType = _line(title, visible(draft.text) or "(nothing)", took)
    if draft.crops and draft.fault is not Reason.LOOK_FAILED:
        head = Group(head, _crop("looks at", draft.crops[-1], names, by=2))
    if not draft.tokens:
        return head
    found = confidence(draft.tokens, score=calibration.score, k=calibration.k, aggregate=calibration.aggregate)
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("token", "probability", "score", "rivals"):
        table.add_column(title, overflow="fold")
    scores = found.token_scores or (None,) * len(draft.tokens)
    for token, score in zip(draft.tokens, scores, strict=True):
        ranked = list(zip(token.top_tokens, token.top_logprobs, strict=False))
        rivals = ", ".join(f"{_quoted(text)} {_share(value)}" for text, value in ranked[1 : 1 + _SHOWN_RIVALS])
        table.add_row(
            Text(_quoted(token.text)), _share(token.logprob), "none" if score is None else f"{score:.3f}", Text(rivals)
        )
    return Group(head, Padding(table, (0, 0, 0, 2)))


def _verdict(verdict: Verdict) -> RenderableType:
    words = WHY[verdict.reason]
    if verdict.score is not None and verdict.threshold is not None:
        sign = ">=" if verdict.accepted else "<"
        squashed = "" if verdict.squashed is None else f" (squashed {verdict.squashed:.3f})"
        words += f": score {verdict.score:.4f}{squashed} {sign} threshold {verdict.threshold:.4f}"
    return _line("III Gate", f"{verdict.reason.value}: {words}", style="green" if verdict.accepted else "yellow")


def _run(run: AgentRun, names: Sequence[str]) -> RenderableType:
    calls = "1 tool call" if run.depth == 1 else f"{run.depth} tool calls"
    head = _line("IV Agent", f"{run.finish.value} after {calls}", f"{run.seconds:.2f} s")
    return Group(head, *(part for turn in run.turns for part in _turn(turn, names)))


def _turn(turn: Turn, names: Sequence[str]) -> Iterator[RenderableType]:
    took = f"{turn.seconds:.2f} s" + (f" and {turn.tool_seconds:.2f} s for the tool" if turn.tool else "")
    yield _indented(f"turn {turn.index + 1}, {_tokens(turn.usage)}, {took}", style="dim")
    yield _indented(visible(without_tags(turn.text)) or "(nothing)", by=4)
    if turn.repairs:
        yield _indented(f"its call was mended: {visible(', '.join(turn.repairs))}", by=4, style="dim")
    yield from (_crop(str(turn.tool), crop, names, by=4) for crop in turn.crops)
    if turn.error is not None:
        yield _indented(f"{turn.tool or 'not run'}: {visible(turn.error)}", by=4, style="yellow")
    elif turn.observation:
        yield _indented(visible(turn.observation), by=4, style="cyan")


def _crop(what: str, crop: Crop, names: Sequence[str], by: int) -> RenderableType:
    left, top, right, bottom = crop.box
    name = names[crop.image] if crop.image < len(names) else f"image {crop.image}"
    label = f' "{visible(crop.label)}"' if crop.label else ""
    return _indented(
        f"{what}{label}: ({left:.0f}, {top:.0f}) to ({right:.0f}, {bottom:.0f}) of {visible(name)}, "
        f"shown at {crop.size[0]} x {crop.size[1]}",
        by=by,
        style="cyan",
    )


def _outcome(answer: Answer) -> RenderableType:
    return _line("Answer", visible(answer.text) or "(nothing)", f"by the {answer.route.value}", style="bold")


def _costs(trace: Trace) -> RenderableType:
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in trace.phase_seconds.items())
    lines = [_line("Time", f"{trace.seconds:.2f} s" + (f" ({phases})" if phases else ""))]
    for model, usage in trace.usage.items():
        calls = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
        lines.append(_line("Tokens", f"{visible(model)}: {calls}, {_tokens(usage)}"))
    return Group(*lines)


def _line(title: str, text: str, aside: str = "", style: str = "") -> RenderableType:
    """A title, and beside it a text that keeps its margin where it is wrapped."""
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=8, no_wrap=True, style="bold")
    line.add_column(overflow="fold")
    line.add_row(title, Text.assemble((text, style), (f"   {aside}" if aside else "", "dim")))
    return line


def _indented(text: str, by: int = 2, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 0, by))


def _quoted(text: str) -> str:
    return f'"{visible(text)}"'.replace("\n", "\\n").replace("\t", "\\t")


def _share(logprob: float | None) -> str:
    return "?" if logprob is None or math.isnan(logprob) or logprob > 0 else f"{math.exp(logprob):.3f}"


def _took(trace: Trace, phase: str) -> str:
    return f"{trace.phase_seconds[phase]:.2f} s" if phase in trace.phase_seconds else ""


def _tokens(usage: Usage) -> str:
    read = "?" if usage.prompt_tokens is None else str(usage.prompt_tokens)
    cached = f" ({usage.cached_tokens} cached)" if usage.cached_tokens else ""
    written = "?" if usage.completion_tokens is None else str(usage.completion_tokens)
    return f"{read} tokens read{cached}, {written} written"
