"""What becomes of each field of a chat request: written once, for the code that refuses and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from speceyes.gateway.wire.errors import bad_request
from speceyes.gateway.wire.requests import ChatBody
from speceyes.types import Route, Sampling


@dataclass(frozen=True, slots=True)
class Field:
    """One field, and what becomes of it in a request that we answer ourselves.

    Attributes:
        name: As in the request.
        effect: Where it goes, in words.
        served: The only values that are served, where not all are; null always is.
        draft_only: `served` does not bind the model `speceyes/draft`.
    """

    name: str
    effect: str
    served: tuple[Any, ...] | None = None
    draft_only: bool = False


_NOT_SERVED = "400"

FIELDS = (
    Field(
        "model", "chooses the route: `speceyes`, `speceyes/agent`, `speceyes/draft`, an alias; any other name is 404"
    ),
    Field("messages", "system and developer texts, the question and its images, to both models"),
    Field(
        "speceyes", "what to tell beside the answer: `trace`, `reasoning`, `progress`, `deadline_s`, `mode`, `dialect`"
    ),
    Field("stream", "the final answer as server-sent events"),
    Field("stream_options", "`include_usage`: one last chunk with the token counts"),
    Field("temperature", "agent's turns; screening and draft are always greedy"),
    Field("top_p", "agent's turns"),
    Field("seed", "all calls"),
    Field("stop", "cuts the final answer; never the agent's loop"),
    Field("max_tokens", "length of the final answer, without thoughts and tool calls"),
    Field("max_completion_tokens", "the same; where both are given they must be equal"),
    Field("frequency_penalty", "agent's turns"),
    Field("presence_penalty", "agent's turns"),
    Field("repetition_penalty", "agent's turns"),
    Field("top_k", "agent's turns"),
    Field("min_p", "agent's turns"),
    Field("logit_bias", "agent's turns, with token ids of the agent"),
    Field("reasoning_effort", "agent's turns"),
    Field("n", "only 1", (1,)),
    Field("logprobs", "only with `speceyes/draft`, which returns those of the draft's tokens", (False,), True),
    Field("top_logprobs", "only with `speceyes/draft` and `logprobs`; at most the draft's K", (0,), True),
    Field("response_format", 'only `{"type": "text"}`', ({"type": "text"},)),
    Field(
        "tools",
        "with a tool in it, you run the loop yourself (transparent mode): tools never mix with the agent's",
        ([],),
    ),
    Field("tool_choice", 'without tools only `"none"` and `"auto"`', ("none", "auto")),
    Field("parallel_tool_calls", "no effect without tools"),
    Field("functions", f"{_NOT_SERVED}: the old form of `tools`", ([],)),
    Field("function_call", f"{_NOT_SERVED}: the old form of `tool_choice`", ("none", "auto")),
    Field("user", "the request's record"),
    Field("safety_identifier", "the request's record, where there is no `user`"),
    Field("metadata", "the request's record"),
    Field("store", "only false: no conversation is kept for you", (False,)),
    Field("service_tier", 'only `"auto"` and `"default"`', ("auto", "default")),
    Field("prompt_cache_key", "no effect: prefixes are found by their content"),
    Field("prompt_cache_retention", "no effect: the models' servers decide"),
    Field("modalities", 'only `["text"]`', (["text"],)),
    Field("audio", _NOT_SERVED, ()),
    Field("prediction", _NOT_SERVED, ()),
    Field("verbosity", _NOT_SERVED, ()),
    Field("web_search_options", _NOT_SERVED, ()),
)
"""In the order of the documentation. Any other field is a 400 that names it."""

_EXTRA = ("frequency_penalty", "presence_penalty", "repetition_penalty", "top_k", "min_p", "logit_bias")


def check_served(body: ChatBody, route: Route | None) -> None:
    """Refuse what cannot be done, by name, before anything is spent.

    Args:
        body: The request.
        route: The forced route; None for the funnel.

    Raises:
        ApiError: 400.
    """
    for field in FIELDS:
        value = getattr(body, field.name)
        if value is None or field.served is None or value in field.served:
            continue
        if field.draft_only and route is Route.DRAFT:
            continue
        raise bad_request(_refusal(field, value), field.name, "unsupported_value")
    if body.top_logprobs and not body.logprobs:
        raise bad_request("top_logprobs: needs `logprobs` to be true.", "top_logprobs")


def sampling(body: ChatBody) -> Sampling:
    """What of the request concerns how the models write.

    Raises:
        ApiError: 400 where the two limits on the answer's length differ.
    """
    limits = {body.max_tokens, body.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise bad_request(
            f"max_completion_tokens: {body.max_completion_tokens} differs from max_tokens, {body.max_tokens}. "
            "They mean the same; give one of them.",
            "max_completion_tokens",
        )
    extra = {name: value for name in _EXTRA if (value := getattr(body, name)) is not None}
    if body.reasoning_effort is not None:
        extra["reasoning_effort"] = body.reasoning_effort
    return Sampling(
        temperature=body.temperature or 0.0,
        top_p=body.top_p,
        seed=body.seed,
        stop=body.stops,
        max_answer_tokens=limits.pop() if limits else None,
        extra=extra,
    )


def table() -> Iterator[str]:
    """The lines of the table in the documentation."""
    yield "| Field | What becomes of it |"
    yield "|---|---|"
    for field in FIELDS:
        yield f"| `{field.name}` | {field.effect} |"


def _refusal(field: Field, value: object) -> str:
    shown = msgspec.json.encode(value).decode()
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    said = f"{field.name}: {shown} is not served here."
    if field.draft_only:
        return (
            f"{said} The model `speceyes/draft` returns log-probs; an answer of the agent's loop has none of its own."
        )
    served = ", ".join(msgspec.json.encode(good).decode() for good in field.served or ())
    return f"{said} Leave it out" + (f", or send {served}." if served else ".")
