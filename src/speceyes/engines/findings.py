"""The words of a probe's result."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

NOT_ASKED = "not asked"
"""The detail of a finding that nobody wanted."""


class Feature(StrEnum):
    """What a probe asks about, in the order in which it asks."""

    MODELS = "models"
    """The server lists the model's name."""
    CHAT = "chat"
    """It answers a plain question."""
    LOGPROBS = "logprobs"
    """It sends the likeliest tokens of each position, in a stream."""
    LOGPROB_COUNT = "logprob_count"
    """As many as the gate wants. The finding's number is how many it can have."""
    RAW_LOGPROBS = "raw_logprobs"
    """They are those of the model, before temperature."""
    SAMPLED_FIRST = "sampled_first"
    """The sampled token comes first in the list, whatever its rank."""
    SENTINELS = "sentinels"
    """Values that stand for "no number", such as -9999.0, were among them."""
    TOKEN_IDENTITY = "token_identity"
    """Entries carry ids or bytes, so that tokens of the same text can be told apart."""
    IMAGES = "images"
    """A picture in a user message reaches the prompt."""
    TWO_IMAGES = "two_images"
    """So do two pictures in one request."""
    TOOL_IMAGES = "tool_images"
    """So does a picture in a message of the role `tool`."""
    PREFIX_CACHE = "prefix_cache"
    """The same system prompt and image before another question are not computed again."""
    SLOTS = "slots"
    """It is a llama.cpp with slots. The finding's number is how many it has."""
    STOP = "stop"
    """Stop strings end the reply."""
    STOP_INCLUDED = "stop_included"
    """With `include_stop_str_in_output` the stop string is part of the text."""
    CANCEL = "cancel"
    """The server stops generating when its client hangs up."""
    TOOLS_RENDERED = "tools_rendered"
    """Tools reach the prompt also with `tool_choice` `none`."""


class Outcome(StrEnum):
    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """What came out for one feature: an outcome, how it was seen, and for some features a number."""

    feature: Feature
    outcome: Outcome
    detail: str
    number: int | None = None


def yes(feature: Feature, detail: str, number: int | None = None) -> Finding:
    return Finding(feature, Outcome.YES, detail, number)


def no(feature: Feature, detail: str, number: int | None = None) -> Finding:
    return Finding(feature, Outcome.NO, detail, number)


def unknown(feature: Feature, detail: str, number: int | None = None) -> Finding:
    return Finding(feature, Outcome.UNKNOWN, detail, number)
