"""A chat completion as server-sent events.

    data: {"choices": [{"delta": {"role": "assistant", "content": ""}, ...}], "speceyes": {what is known already}}
    data: {"choices": [{"delta": {"reasoning_content": "..."}, ...}]}       thoughts, when asked for
    data: {"choices": [{"delta": {}, ...}], "speceyes": {"phase": ...}}      progress, when asked for
    data: {"choices": [{"delta": {"content": "..."}, ...}]}
    data: {"choices": [{"delta": {}, "finish_reason": "stop"}], "speceyes": {...}}
    data: {"choices": [], "usage": {...}}                                    when asked for, once
    data: [DONE]

Lines that begin with a colon are comments, which keep connections open and which clients skip. Where something fails on
the way, `data: {"error": {...}}` is the last event, without `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from speceyes.events import Decided, Event, PhaseEnded, TurnEnded
from speceyes.export import plain_text
from speceyes.gateway.wire.errors import ApiError
from speceyes.gateway.wire.responses import Envelope, encode, verdict_json

KEEP_ALIVE = b": still working\n\n"
DONE = b"data: [DONE]\n\n"
CONTENT_TYPE = "text/event-stream; charset=utf-8"


class Chunks:
    """Writes the events of one stream.

    Args:
        envelope: What each of them repeats.
        include_usage: Whether the client asked for token counts. Then all chunks but the last say null, as OpenAI's do.
    """

    def __init__(self, envelope: Envelope, *, include_usage: bool) -> None:
        self._common = envelope.of("chat.completion.chunk")
        self._null: dict[str, Any] = {"usage": None} if include_usage else {}

    def opening(self, known: Mapping[str, Any]) -> bytes:
        """The first chunk, with what is known of the route."""
        return self._chunk({"role": "assistant", "content": ""}, speceyes=known)

    def content(self, text: str) -> bytes:
        """A piece of the answer."""
        return self._chunk({"content": plain_text(text)})

    def thought(self, text: str) -> bytes:
        """A piece of the agent's thoughts."""
        return self._chunk({"reasoning_content": plain_text(text)})

    def logprobs(self, text: str, logprobs: Any) -> bytes:
        """A piece of the answer with its log-probs."""
        return self._chunk({"content": plain_text(text)}, logprobs=logprobs)

    def progress(self, told: Mapping[str, Any]) -> bytes:
        """What has just been done."""
        return self._chunk({}, speceyes=told)

    def end(self, finish: str, extension: Mapping[str, Any]) -> bytes:
        """The last chunk with a choice."""
        return self._chunk({}, finish=finish, speceyes=extension)

    def usage(self, counts: Mapping[str, Any] | None) -> bytes:
        """The token counts, in a chunk without a choice."""
        return event(self._common | {"choices": [], "usage": counts})

    def _chunk(
        self,
        delta: Mapping[str, Any],
        *,
        finish: str | None = None,
        logprobs: Any = None,
        speceyes: Mapping[str, Any] | None = None,
    ) -> bytes:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
        if logprobs is not None:
            choice["logprobs"] = logprobs
        chunk = self._common | {"choices": [choice]} | self._null
        return event(chunk if speceyes is None else chunk | {"speceyes": speceyes})


def event(payload: Any) -> bytes:
    """One event."""
    return b"data: " + encode(payload) + b"\n\n"


def failure(error: ApiError) -> bytes:
    """The last event of a stream that failed."""
    return event(error.as_json())


def progress(event: Event) -> dict[str, Any] | None:
    """What a client is told of an event of the core; None where it is nothing of interest.

    A phase that is over: {"phase": "screen", "seconds": 0.21}. The gate: {"phase": "gate", "route", "reason", "score",
    "threshold"}. A turn of the agent: {"phase": "fall_back", "turn": 0,
    "tool": "image_zoom_in_tool", "crop": {"image", "box", "size", "label"}, "seconds": 1.3}, the box in pixels of the
    original image, `crop` null where nothing was shown.
    """
    match event:
        case PhaseEnded(phase=phase, seconds=seconds):
            return {"phase": phase, "seconds": round(seconds, 6)}
        case Decided(verdict=verdict):
            return {"phase": "gate", **verdict_json(verdict)}
        case TurnEnded(turn=turn):
            shown = turn.crops[0] if turn.crops else None
            crop = shown and {
                "image": shown.image,
                "box": [round(edge, 2) for edge in shown.box],
                "size": list(shown.size),
                "label": plain_text(shown.label),
            }
            seconds = round(turn.seconds + turn.tool_seconds, 6)
            return {"phase": "fall_back", "turn": turn.index, "tool": turn.tool, "crop": crop, "seconds": seconds}
    return None
