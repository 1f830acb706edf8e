"""From what the phases returned to a row. The gateway's traces become rows in the same way."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from speceyes.evals.matching import is_right
from speceyes.evals.records.schema import Row
from speceyes.export import plain_text
from speceyes.gating.agreement import agree
from speceyes.imaging.decode import DecodedImage
from speceyes.types import AgentRun, Draft, Reason, Screening, Token, Trace, Usage


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What a record keeps of an image: hash and size of its file, (width, height) in pixels."""

    sha256: str
    size: tuple[int, int]
    bytes: int

    @classmethod
    def of(cls, image: DecodedImage) -> Self:
        """Of a decoded image."""
        return cls(image.sha256, image.size, len(image.source))


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked.

    Attributes:
        id: Name of the query.
        index: Its place in the data set, or in the order of arrival.
        question: The text, answer options included.
        images: What was shown.
        category: What kind of question it is.
        options: The answer options in the order shown.
        gold: The right option's letter or the right word; None where it is not known.
    """

    id: str
    index: int
    question: str
    images: Sequence[ImageFacts] = ()
    category: str = ""
    options: Sequence[str] = ()
    gold: str | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What the phases made of it. A phase that did not run has neither a result nor an error.

    Attributes:
        screening: Phase I's result.
        draft: Phase II's.
        run: Phase IV's.
        errors: Why there is no result, under `image`, `screen`, `draft`, `closer` or `agent`.
        seconds: Wall time under `look`, `screen`, `draft` and `agent`; a phase that is missing here has its own word
            for it in its result.
        closer: Phase II's results after looks of the draft model's own, one after another. Under `closer` stands in
            `errors` why the next one has none.
    """

    screening: Screening | None = None
    draft: Draft | None = None
    run: AgentRun | None = None
    errors: Mapping[str, str] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    closer: Sequence[Draft] = ()

    @classmethod
    def of_trace(cls, trace: Trace) -> Self:
        """What a query in service left behind; without a run of the agent where a draft was accepted."""
        names = {"screen": "screen", "speculate": "draft", "fall_back": "agent"}
        seconds = {names[name]: value for name, value in trace.phase_seconds.items() if name in names}
        return cls(trace.screening, trace.draft, trace.run, seconds=seconds, closer=trace.closer)


def make_row(asked: Asked, observed: Observed, *, recorded_at: float | None = None) -> Row:
    """One row of a record.

    Args:
        asked: The query.
        observed: What came of it.
        recorded_at: Seconds since 1970, UTC. None: now.
    """
    screening, draft, run = observed.screening, observed.draft, observed.run
    tokens = draft.tokens if draft else ()
    return {
        "index": asked.index,
        "id": plain_text(asked.id),
        "category": plain_text(asked.category),
        "question": plain_text(asked.question),
        "options": [plain_text(option) for option in asked.options],
        "gold": _text(asked.gold),
        "image_sha256": [image.sha256 for image in asked.images],
        "image_width": [image.size[0] for image in asked.images],
        "image_height": [image.size[1] for image in asked.images],
        "image_bytes": [image.bytes for image in asked.images],
        "image_error": _text(observed.errors.get("image")),
        "look_seconds": observed.seconds.get("look"),
        "p_yes": screening.p_yes if screening else None,
        "p_no": screening.p_no if screening else None,
        **_costs("screen", screening, observed),
        "draft_text": _text(draft.text if draft else None),
        "draft_fault": draft.fault.value if draft and draft.fault else None,
        "tokens": [plain_text(token.text) for token in tokens],
        "logprobs": [token.logprob for token in tokens],
        "top_logprobs": [list(token.top_logprobs) for token in tokens],
        "top_tokens": [_rivals(token) for token in tokens],
        **_costs("draft", draft, observed),
        **_closer(observed),
        "agent_text": _text(run.text if run else None),
        "agent_finish": run.finish.value if run else None,
        "agent_depth": run.depth if run else None,
        "agent_turns": len(run.turns) if run else None,
        **_costs("agent", run, observed),
        "draft_right": _right(draft, asked),
        "agent_right": _right(run, asked),
        "agrees": _agrees(draft, run, asked),
        "closer_right": [_right(one, asked) for one in observed.closer],
        "closer_agrees": [_agrees(one, run, asked) for one in observed.closer],
        "recorded_at": time.time() if recorded_at is None else recorded_at,
    }


def _closer(observed: Observed) -> Row:
    """The drafts after closer looks: in each list, one entry for each of them."""
    drafts = observed.closer
    seen = [draft.crops[-1] if draft.fault is not Reason.LOOK_FAILED and draft.crops else None for draft in drafts]
    return {
        "closer_text": [plain_text(draft.text) for draft in drafts],
        "closer_fault": [draft.fault.value if draft.fault else None for draft in drafts],
        "closer_tokens": [[plain_text(token.text) for token in draft.tokens] for draft in drafts],
        "closer_logprobs": [[token.logprob for token in draft.tokens] for draft in drafts],
        "closer_top_logprobs": [[list(token.top_logprobs) for token in draft.tokens] for draft in drafts],
        "closer_top_tokens": [[_rivals(token) for token in draft.tokens] for draft in drafts],
        "closer_image": [crop and crop.image for crop in seen],
        "closer_box": [crop and list(crop.box) for crop in seen],
        "closer_seconds": [draft.seconds for draft in drafts],
        "closer_prompt_tokens": [draft.usage.prompt_tokens for draft in drafts],
        "closer_completion_tokens": [draft.usage.completion_tokens for draft in drafts],
        "closer_cached_tokens": [draft.usage.cached_tokens for draft in drafts],
        "closer_calls": [draft.usage.calls for draft in drafts],
        "closer_error": _text(observed.errors.get("closer")),
    }


def _agrees(draft: Draft | None, run: AgentRun | None, asked: Asked) -> bool | None:
    return agree(draft.text, run.text, asked.options) if draft and run else None


def _right(said: Draft | AgentRun | None, asked: Asked) -> bool | None:
    if said is None or asked.gold is None:
        return None
    return is_right(said.text, asked.gold, asked.options)


def _costs(phase: str, result: Screening | Draft | AgentRun | None, observed: Observed) -> Row:
    used = result.usage if result else Usage(None, None, None)
    return {
        f"{phase}_seconds": observed.seconds.get(phase, result.seconds) if result else None,
        f"{phase}_prompt_tokens": used.prompt_tokens,
        f"{phase}_completion_tokens": used.completion_tokens,
        f"{phase}_cached_tokens": used.cached_tokens,
        f"{phase}_calls": used.calls if result else None,
        f"{phase}_error": _text(observed.errors.get(phase)),
    }


def _rivals(token: Token) -> list[str]:
    """As many texts as there are log-probs: a server may leave some out."""
    count = len(token.top_logprobs)
    texts = [plain_text(text) for text in token.top_tokens[:count]]
    return texts + [""] * (count - len(texts))


def _text(text: str | None) -> str | None:
    return None if text is None else plain_text(text)
