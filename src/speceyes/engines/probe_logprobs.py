"""Checks of a probe: what the gate reads."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from speceyes.engines.failures import LogprobLimit
from speceyes.engines.findings import Feature, Finding, no, unknown, yes
from speceyes.engines.probe_asker import Asker
from speceyes.types import Completion

_QUESTION = "Name some colours."
_SENTINEL = -9000.0
"""vLLM sends -9999.0 for what has no probability; no real log-prob is that low."""
_MOVED = 0.1
"""Log-probs that move by more than this share of their own spread have been processed."""


async def logprobs(asker: Asker) -> Finding:
    """Does each token of a stream come with its likeliest rivals?"""
    completion = await asker.ask(_QUESTION, max_tokens=8, top_logprobs=1)
    with_top = sum(bool(token.top_logprobs) for token in completion.tokens)
    if with_top == 0:
        return no(Feature.LOGPROBS, f"HTTP 200, but {await _how_missing(asker)}")
    lacking = len(completion.tokens) - with_top
    return yes(
        Feature.LOGPROBS,
        f"for {with_top} tokens" + (f", and none for {lacking}" if lacking else ""),
    )


async def _how_missing(asker: Asker) -> str:
    reply = await asker.whole(
        {
            "messages": [{"role": "user", "content": _QUESTION}],
            "max_tokens": 8,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 2,
        }
    )
    choice = reply["choices"][0]
    if "logprobs" not in choice:
        return "`logprobs` is missing from the reply"
    if choice["logprobs"] is None:
        return "`logprobs` is null"
    content = choice["logprobs"].get("content")
    if not content:
        return f"`logprobs.content` is {'null' if content is None else 'empty'}"
    if not any(entry.get("top_logprobs") for entry in content):
        return "every `top_logprobs` is empty"
    return "a stream has no log-probs, though a whole reply has them"


async def logprob_count(asker: Asker) -> Finding:
    """How many a token, up to the K that is wanted? Found with the client, which asks for one more than K."""
    got, limit = await _try(asker, asker.want)
    if got is not None:
        asker.usable_k = got
        if got >= asker.want:
            return yes(Feature.LOGPROB_COUNT, f"{got} a token", got)
        if got == 0:
            return no(Feature.LOGPROB_COUNT, "none", 0)
        return no(Feature.LOGPROB_COUNT, f"{got} a token, without a word, where more were asked for", got)
    low, high = 0, asker.want
    guesses = [19, 4] if limit is None else [limit - 1]  # OpenAI's and vLLM's limit is 20, others' 5
    while high - low > 1:
        k = next((guess for guess in guesses if low < guess < high), (low + high) // 2)
        guesses = [guess for guess in guesses if guess != k]
        got, _ = await _try(asker, k)
        if got is None:
            high = k
        elif got < k:
            low = got
            break
        else:
            low = k
            if limit is not None and k == limit - 1:
                break
    asker.usable_k = low
    return no(Feature.LOGPROB_COUNT, f"the server refuses `top_logprobs` above {low + 1}", low)


async def _try(asker: Asker, k: int) -> tuple[int | None, int | None]:
    """(how many came or None where the server refused, the limit that it named)."""
    try:
        completion = await asker.ask(_QUESTION, max_tokens=4, top_logprobs=k)
    except LogprobLimit as error:
        return None, error.limit
    return max((len(token.top_logprobs) for token in completion.tokens), default=0), None


async def raw_logprobs(asker: Asker) -> Finding:
    """Do they stay the same at another temperature? Processed ones are divided by it."""
    feature = Feature.RAW_LOGPROBS
    if not asker.usable_k:
        return unknown(feature, "there are no log-probs")
    k = min(20, asker.usable_k)
    cold = _first_position(await asker.ask(_QUESTION, top_logprobs=k, temperature=0.0))
    for seed in range(1, 5):
        hot = _first_position(await asker.ask(_QUESTION, top_logprobs=k, temperature=2.0, seed=seed))
        common = sorted(cold.keys() & hot.keys())
        if len(common) >= 3:
            break
    else:
        return unknown(feature, "too few tokens are common to two temperatures")
    moved = statistics.median(abs(cold[token] - hot[token]) for token in common)
    spread = max(cold[token] for token in common) - min(cold[token] for token in common)
    how = f"from temperature 0 to 2 they move by {moved:.3g} in {spread:.3g}"
    return (no if moved > _MOVED * spread else yes)(feature, how)


def _first_position(completion: Completion) -> dict[str, float]:
    """Log-probs at the first position that has any, by token text, where a text names one token only."""
    first = next((token for token in completion.tokens if token.top_logprobs), None)
    if first is None:
        return {}
    pairs = list(zip(first.top_tokens, first.top_logprobs, strict=True))
    return {
        text: value
        for text, value in pairs
        if text and math.isfinite(value) and value > _SENTINEL and first.top_tokens.count(text) == 1
    }


async def sampled_first(asker: Asker) -> Finding:
    """Where does the sampled token stand when it is not the likeliest?"""
    feature = Feature.SAMPLED_FIRST
    seen = 0
    for entry in await asker.sampled_entries():
        values = [rival.get("logprob") for rival in _rivals(entry)]
        numbers = [value for value in values if isinstance(value, int | float)]
        own = entry.get("logprob")
        if not isinstance(own, int | float) or len(numbers) < 2 or own >= max(numbers):
            continue
        seen += 1
        if values[0] == own:
            return yes(feature, "the list begins with the sampled token, also where others are likelier")
    if not seen:
        return unknown(feature, "the likeliest token was sampled at every position")
    return no(feature, f"the list is ordered by probability ({seen} less likely tokens were sampled)")


async def sentinels(asker: Asker) -> Finding:
    """Are there values that are no log-probs?"""
    feature = Feature.SENTINELS
    values = [rival.get("logprob") for entry in await asker.sampled_entries() for rival in _rivals(entry)]
    if not values:
        return unknown(feature, "there are no log-probs")
    strange = [value for value in values if not _is_logprob(value)]
    if strange:
        return yes(feature, f"{len(strange)} of {len(values)} values, such as {strange[0]!r}")
    return no(feature, f"none among {len(values)} values")


async def token_identity(asker: Asker) -> Finding:
    """Do the entries say more than a token's text?"""
    feature = Feature.TOKEN_IDENTITY
    rivals = [rival for entry in await asker.sampled_entries() for rival in _rivals(entry)]
    if not rivals:
        return unknown(feature, "there are no log-probs")
    carried = [name for name in ("id", "bytes") if all(rival.get(name) is not None for rival in rivals)]
    if carried:
        return yes(feature, f"entries carry {' and '.join(carried)}")
    return no(feature, "entries carry a text only")


def _rivals(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [rival for rival in entry.get("top_logprobs") or [] if isinstance(rival, Mapping)]


def _is_logprob(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and _SENTINEL < value <= 1e-3
