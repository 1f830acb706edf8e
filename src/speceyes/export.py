"""An answer and its trace as JSON. The fields are a promise: they are added to, not renamed or removed.

    {"answer": "7",                  what to show a user
     "route": "draft" | "agent",     who gave it
     "reason": "accepted" | ...,     one of `speceyes.types.Reason`
     "score": 3.4 | null,            of the draft; null where there is no confidence, or no draft
     "threshold": 2.9 | null,        what the score was held against; null where it was not
     "finish": "stop" | "length",     whether a token limit cut the answer
     "usage": USAGE + {"models": {name: USAGE}},     all calls, refused drafts and screening included
     "trace": {
       "version": 1,
       "query_id": "",
       "seconds": 1.2,
       "phase_seconds": {"screen": .., "speculate": .., "look_closer": .., "fall_back": ..},      those that ran
       "screening": null | {"p_yes", "p_no", "help_probability", "seconds", "usage"},
       "draft": null | DRAFT,           from the first look
       "verdict": null | {"reason", "score", "squashed", "threshold"},
       "run": null | {"text", "finish", "depth", "whole", "turns": [TURN], "seconds", "usage"},
       "notes": [..],
       "attempts": {name: 2},           requests sent to each model, retries and failures included
       "images": [{"original": [width, height], "agent": [..] | null, "draft": [..] | null,
                   "agent_tokens": 36 | null, "draft_tokens": null}],
       "plan": "paper", "plan_why": "",
       "closer": [DRAFT]}}              what the draft model said after looks of its own

    DRAFT = {"text", "fault", "tokens": [TOKEN], "depth", "crops": [CROP], "seconds", "usage"}
    USAGE = {"prompt_tokens", "completion_tokens", "cached_tokens", "calls"}        null: the server did not say
    TOKEN = {"token", "logprob", "top_logprobs": [{"token", "logprob"}]}            null: not a finite number
    TURN  = {"index", "text", "tool", "observation", "crops": [CROP], "error", "repairs": [..], "seconds",
             "tool_seconds", "usage"}
    CROP  = {"image", "box": [left, top, right, bottom], "size": [width, height], "label"}     box: original pixels

It is strict JSON: no NaN, no infinity, no half of a surrogate pair. Images are not in it.
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import Any

from speceyes.types import AgentRun, Answer, Crop, Draft, ImageSizes, Screening, Token, Trace, Turn, Usage, Verdict

VERSION = 1
"""Of the trace's layout. A new one may mean something else by the same field."""


def as_json(answer: Answer) -> dict[str, Any]:
    """The answer as plain lists, dictionaries, texts and numbers; the module says which."""
    trace, verdict = answer.trace, answer.trace.verdict
    total = reduce(add, trace.usage.values(), Usage())
    return {
        "answer": plain_text(answer.text),
        "route": answer.route.value,
        "reason": answer.reason.value,
        "score": plain_number(answer.score),
        "threshold": plain_number(verdict.threshold if verdict else None),
        "finish": answer.finish,
        "usage": {**_usage(total), "models": {plain_text(name): _usage(used) for name, used in trace.usage.items()}},
        "trace": _trace(trace, answer.query_id),
    }


def token_json(token: Token) -> dict[str, Any]:
    """One token and its rivals."""
    rivals = zip(token.top_tokens, token.top_logprobs, strict=False)
    return {
        "token": plain_text(token.text),
        "logprob": plain_number(token.logprob),
        "top_logprobs": [{"token": plain_text(text), "logprob": plain_number(value)} for text, value in rivals],
    }


def plain_number(value: float | None) -> float | None:
    """A number that JSON has; None for NaN and the infinities, which it has not."""
    return value if value is not None and math.isfinite(value) else None


def plain_text(text: str) -> str:
    """A text that every JSON reader takes: a lone half of a surrogate pair becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _trace(trace: Trace, query_id: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "query_id": plain_text(query_id),
        "seconds": _seconds(trace.seconds),
        "phase_seconds": {name: _seconds(value) for name, value in trace.phase_seconds.items()},
        "screening": trace.screening and _screening(trace.screening),
        "draft": trace.draft and _draft(trace.draft),
        "verdict": trace.verdict and _verdict(trace.verdict),
        "run": trace.run and _run(trace.run),
        "notes": [plain_text(note) for note in trace.notes],
        "attempts": {plain_text(name): count for name, count in trace.attempts.items()},
        "images": [_sizes(image) for image in trace.images],
        "plan": trace.plan,
        "plan_why": trace.plan_why,
        "closer": [_draft(draft) for draft in trace.closer],
    }


def _screening(screening: Screening) -> dict[str, Any]:
    return {
        "p_yes": plain_number(screening.p_yes),
        "p_no": plain_number(screening.p_no),
        "help_probability": plain_number(screening.help_probability),
        "seconds": _seconds(screening.seconds),
        "usage": _usage(screening.usage),
    }


def _draft(draft: Draft) -> dict[str, Any]:
    return {
        "text": plain_text(draft.text),
        "fault": draft.fault and draft.fault.value,
        "tokens": [token_json(token) for token in draft.tokens],
        "depth": draft.depth,
        "crops": [_crop(crop) for crop in draft.crops],
        "seconds": _seconds(draft.seconds),
        "usage": _usage(draft.usage),
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "reason": verdict.reason.value,
        "score": plain_number(verdict.score),
        "squashed": plain_number(verdict.squashed),
        "threshold": plain_number(verdict.threshold),
    }


def _run(run: AgentRun) -> dict[str, Any]:
    return {
        "text": plain_text(run.text),
        "finish": run.finish.value,
        "depth": run.depth,
        "whole": run.whole,
        "turns": [_turn(turn) for turn in run.turns],
        "seconds": _seconds(run.seconds),
        "usage": _usage(run.usage),
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "index": turn.index,
        "text": plain_text(turn.text),
        "tool": turn.tool and plain_text(turn.tool),
        "observation": plain_text(turn.observation),
        "crops": [_crop(crop) for crop in turn.crops],
        "error": turn.error and plain_text(turn.error),
        "repairs": [plain_text(repair) for repair in turn.repairs],
        "seconds": _seconds(turn.seconds),
        "tool_seconds": _seconds(turn.tool_seconds),
        "usage": _usage(turn.usage),
    }


def _crop(crop: Crop) -> dict[str, Any]:
    return {
        "image": crop.image,
        "box": [round(edge, 2) for edge in crop.box],
        "size": list(crop.size),
        "label": plain_text(crop.label),
    }


def _sizes(image: ImageSizes) -> dict[str, Any]:
    return {
        "original": list(image.original),
        "agent": image.agent and list(image.agent),
        "draft": image.draft and list(image.draft),
        "agent_tokens": image.agent_tokens,
        "draft_tokens": image.draft_tokens,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "cached_tokens": usage.cached_tokens,
        "calls": usage.calls,
    }


def _seconds(value: float) -> float:
    return round(value, 6)
