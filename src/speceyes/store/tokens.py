"""A draft's tokens as a few hundred bytes.

The blob is one version byte, then a zlib stream of

    one line of JSON     {"k": K, "type": "<f4" | "<f8", "given": T counts, "texts": T strings | null,
                          "rivals": T lists of strings | null}
    T values             the sampled tokens' log-probs, NaN where the server gave none
    T x K values         the K largest, row by row

Rows shorter than K are padded with NaN and `given` says how long they are, so that a NaN which the server sent is told
from padding. Values stand as 32-bit floats where that loses nothing (servers print 32-bit numbers), else as 64-bit
ones: a score computed from a record is the score that the gate computed.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speceyes.errors import InputError
from speceyes.types import Token

VERSION = 1
_LEVEL = 6


def pack(tokens: Sequence[Token], *, texts: bool) -> bytes | None:
    """Tokens to bytes; None for no tokens.

    Args:
        tokens: With their K largest log-probs.
        texts: Whether to keep what the tokens and their rivals say.
    """
    if not tokens:
        return None
    given = [len(token.top_logprobs) for token in tokens]
    top = np.full((len(tokens), max(given)), np.nan)
    for row, token in zip(top, tokens, strict=True):
        row[: len(token.top_logprobs)] = token.top_logprobs
    sampled = np.array([np.nan if token.logprob is None else token.logprob for token in tokens])
    kind = "<f4" if _fits(top) and _fits(sampled) else "<f8"
    head = {
        "k": max(given),
        "type": kind,
        "given": given,
        "texts": [token.text for token in tokens] if texts else None,
        "rivals": [token.top_tokens for token in tokens] if texts else None,
    }
    line = json.dumps(head, separators=(",", ":")).encode("ascii") + b"\n"
    values = sampled.astype(kind).tobytes() + top.astype(kind).tobytes()
    return bytes([VERSION]) + zlib.compress(line + values, _LEVEL)


def unpack(blob: bytes | None) -> tuple[Token, ...]:
    """Bytes to tokens. Texts that were not kept are empty.

    Raises:
        InputError: The blob is damaged, or of a later version.
    """
    if not blob:
        return ()
    if blob[0] != VERSION:
        raise InputError(f"these tokens are written in version {blob[0]}; this program reads version {VERSION}")
    try:
        line, _, values = zlib.decompress(blob[1:]).partition(b"\n")
        head: dict[str, Any] = json.loads(line)
        given: list[int] = head["given"]
        numbers = np.frombuffer(values, head["type"]).astype(np.float64)
        sampled, top = numbers[: len(given)].tolist(), numbers[len(given) :].reshape(len(given), head["k"]).tolist()
    except (zlib.error, ValueError, KeyError, TypeError) as error:
        raise InputError(f"the log-probs of a stored draft are damaged: {error}") from error
    texts = head["texts"] or [""] * len(given)
    rivals = head["rivals"] or [[]] * len(given)
    return tuple(
        Token(text, None if math.isnan(logprob) else logprob, tuple(row[:count]), tuple(others))
        for text, logprob, row, count, others in zip(texts, sampled, top, given, rivals, strict=True)
    )


def _fits(values: NDArray[np.float64]) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.array_equal(values.astype(np.float32).astype(np.float64), values, equal_nan=True))
