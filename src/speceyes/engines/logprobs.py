"""Log-probs as servers send them, made into tokens, and the tokens of an answer picked out of a whole reply.

What servers send differs in more ways than the API's description has room for; each function says which it
bears.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from speceyes.types import Completion, Reason, Token

MARKER = re.compile(r"<[|｜][^<>]{1,40}[|｜]>|</s>|<eos>|<end_of_turn>|</?think>")
"""Special tokens of the common chat templates, as they look where a server spells them out."""

END_OF_REASONING = ("</think>", "[/THINK]", "<|message|>")
"""What stands between reasoning and answer. Only the first one is looked for in visible text."""

CUT_OFF = frozenset({"length", "max_tokens", "content_filter", "abort", "error"})
"""Reasons for the end under which an answer is not whole."""


def parse_entries(entries: object, k: int | None = None) -> tuple[Token, ...]:
    """Tokens from `choices[].logprobs.content`, in order; () where it is null, missing or not a list.

    The text of a token comes from its bytes, so that the texts of all tokens spell the whole reply: a token
    that ends inside a UTF-8 character has the text up to it, and the token that completes the character has
    all of it. `top_logprobs` are sorted best first, freed of doubled tokens and cut to `k`. Values that are
    no numbers become NaN; sentinels such as -9999.0 and infinities stay, for the gate to remove.

    Args:
        entries: The parsed JSON.
        k: How many log-probs a token to keep; None keeps them all.
    """
    if not isinstance(entries, list):
        return ()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    tokens: list[Token] = []
    for entry in entries:
        if not isinstance(entry, Mapping):
            entry = {}
        top = _top(entry.get("top_logprobs"), k)
        tokens.append(
            Token(
                text=decoder.decode(_bytes(entry)),
                logprob=None if entry.get("logprob") is None else _number(entry["logprob"]),
                top_logprobs=tuple(value for value, _ in top),
                top_tokens=tuple(text for _, text in top),
            )
        )
    return tuple(tokens)


def visible_answer(completion: Completion) -> str:
    """The text that a user would see: no inline reasoning, no outer white space, no end-of-turn marker.

    The answer starts after the last `</think>`. Reasoning that was opened and not closed leaves no answer.
    """
    text = completion.text.rpartition(END_OF_REASONING[0])[2]
    return "" if text.lstrip().startswith("<think>") else text[: _end_of(text)].strip()


def answer_tokens(completion: Completion, *, stop: Sequence[str] = ()) -> tuple[tuple[Token, ...], Reason | None]:
    """The tokens that spell the visible answer, and what is wrong with them if something is.

    Left out are reasoning (inline or separated by the server, whether the server sends log-probs for it or
    not), white space around the answer, and the end-of-turn token. Nothing is guessed: where the tokens of
    the reply cannot be accounted for one by one, there is a fault and no token.

    Args:
        completion: A whole reply.
        stop: The stop strings of the request: a server leaves them out of the text, but not out of the
            log-probs.

    Returns:
        The tokens, and None or one of
        `TRUNCATED_ANSWER` (cut off by a limit; with the tokens that there are),
        `EMPTY_ANSWER` (no visible text),
        `LOGPROBS_MISSING` (no tokens, or one of the answer's without any rivals),
        `LOGPROBS_MISALIGNED` (the tokens do not spell the text).
    """
    answer = visible_answer(completion)
    span = _locate(answer, completion, stop) if answer else None
    tokens = () if span is None else _covering(completion.tokens, *span)
    if completion.finish_reason in CUT_OFF:
        return tokens, Reason.TRUNCATED_ANSWER
    if not answer:
        return (), Reason.EMPTY_ANSWER
    if not completion.tokens:
        return (), Reason.LOGPROBS_MISSING
    if span is None:
        return (), Reason.LOGPROBS_MISALIGNED
    if not all(token.top_logprobs for token in tokens):
        return tokens, Reason.LOGPROBS_MISSING
    return tokens, None


def _locate(answer: str, completion: Completion, stop: Sequence[str]) -> tuple[int, int] | None:
    """Where the answer stands in the joined texts of all tokens, as (start, end), or None."""
    spelled = "".join(token.text for token in completion.tokens)
    ends = [_end_of(spelled)]
    ends += [_end_of(spelled[:at]) for text in stop if text and (at := spelled.rfind(text)) >= 0]
    for end in ends:
        start = end - len(answer)
        if spelled[:end].endswith(answer) and _accounted_for(spelled[:start], completion.reasoning):
            return start, end
    return None


def _accounted_for(before: str, reasoning: str) -> bool:
    """Whether all that was generated before the answer is reasoning, a marker or white space."""
    bare = _squeeze(before)
    return not bare or before.rstrip().endswith(END_OF_REASONING) or bare == _squeeze(reasoning)


def _covering(tokens: Sequence[Token], start: int, end: int) -> tuple[Token, ...]:
    """The tokens that spell the characters from `start` to `end`, also those that hold part of one."""
    chosen: list[Token] = []
    waiting: list[Token] = []
    position = 0
    for token in tokens:
        behind = position + len(token.text)
        if token.text and position < end and behind > start:
            if not chosen and position == start and not token.text[0].isascii():
                # The tokens before the one that completes a character: at most three hold part of it.
                chosen += waiting[-3:]
            chosen.append(token)
        elif not token.text and start < position < end:
            chosen.append(token)
        waiting = [*waiting, token] if not token.text else []
        position = behind
    return tuple(chosen)


def _end_of(text: str) -> int:
    """Length of the text without the markers and white space at its end."""
    end = len(text.rstrip())
    while marker := next((m for m in MARKER.finditer(text, max(0, end - 48), end) if m.end() == end), None):
        end = len(text[: marker.start()].rstrip())
    return end


def _squeeze(text: str) -> str:
    """The text without markers and white space, which servers strip and add at will."""
    return re.sub(r"\s+", "", MARKER.sub("", text))


def _bytes(entry: Mapping[str, Any]) -> bytes:
    """The bytes of a token: as sent, else those of its text."""
    raw, text = entry.get("bytes"), entry.get("token")
    if isinstance(raw, list) and raw and all(isinstance(byte, int) and 0 <= byte < 256 for byte in raw):
        return bytes(raw)
    return text.encode("utf-8", "replace") if isinstance(text, str) else b""


def _top(rivals: object, k: int | None) -> list[tuple[float, str]]:
    """(log-prob, text) of the K likeliest tokens, best first, with what is not a number at the end."""
    seen: set[object] = set()
    pairs: list[tuple[float, str]] = []
    for entry in rivals if isinstance(rivals, list) else []:
        if not isinstance(entry, Mapping):
            continue
        value = _number(entry.get("logprob"))
        text = entry["token"] if isinstance(entry.get("token"), str) else ""
        identity = _identity(entry, text, value)
        if identity is None or identity not in seen:
            seen.add(identity)
            pairs.append((value, text))
    pairs.sort(key=lambda pair: math.inf if math.isnan(pair[0]) else -pair[0])
    return pairs[:k]


def _identity(entry: Mapping[str, Any], text: str, value: float) -> object:
    """What makes two entries the same token. None: nothing does, since unlike tokens can share this text."""
    if isinstance(entry.get("id"), int):
        return entry["id"]
    return None if not text or "\N{REPLACEMENT CHARACTER}" in text else (text, _bytes(entry), value)


def _number(value: object) -> float:
    """A log-prob as JSON can hold it: a number, `null`, or "-Infinity" written as text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
