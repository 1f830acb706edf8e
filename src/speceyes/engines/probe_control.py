"""Checks of a probe: what the agent's loop relies on."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from speceyes.engines.findings import Feature, Finding, no, unknown, yes
from speceyes.engines.probe_asker import Asker
from speceyes.engines.probe_vision import TOOL
from speceyes.errors import EngineRefused
from speceyes.types import Completion

_QUESTION = "Count from one to twenty in words."
_RUNNING = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
)
_FREED_S = 5.0
"""A server that still works for a client this long after it hung up does not notice."""
_LAG_S = 1.0
_LOOK_S = 0.01


async def stop(asker: Asker) -> Finding:
    """Does a string from the middle of a reply end the same reply when it is a stop string?"""
    feature = Feature.STOP
    text, word, extra = await _stoppable(asker)
    if word is None:
        return unknown(feature, f"the reply {text[:40]!r} is too short to be stopped")
    stopped = (await _count(asker, word, extra)).text
    before = text.partition(word)[0]
    if stopped == before:
        return yes(feature, "the text ends before the stop string")
    if stopped == before + word:
        return yes(feature, "the text ends with the stop string")
    if stopped == text:
        return no(feature, f"the reply went on past {word!r}")
    return unknown(feature, "the same question got another reply")


async def stop_included(asker: Asker) -> Finding:
    """Does the text end with the stop string where that is asked for?"""
    feature = Feature.STOP_INCLUDED
    text, word, extra = await _stoppable(asker)
    if word is None:
        return unknown(feature, f"the reply {text[:40]!r} is too short to be stopped")
    stopped = (await _count(asker, word, {**extra, "include_stop_str_in_output": True})).text
    before = text.partition(word)[0]
    if stopped == before + word:
        return yes(feature, "the text ends with the stop string")
    if stopped == before:
        return no(feature, "`include_stop_str_in_output` is accepted and has no effect")
    return unknown(feature, "the reply did not stop, or was another one")


async def _stoppable(asker: Asker) -> tuple[str, str | None, dict[str, Any]]:
    """(a reply, a string to stop it at if it is long enough, the further fields that made it so long)."""
    text = (await _count(asker, None, {})).text
    word = _middle(text)
    if word is None:  # a model of few words: let it go on past its end of turn
        extra = {"ignore_eos": True}
        text = (await _count(asker, None, extra)).text
        return text, _middle(text), extra
    return text, word, {}


async def _count(asker: Asker, stop: str | None, extra: Mapping[str, Any]) -> Completion:
    return await asker.ask(_QUESTION, max_tokens=24, stop=(stop,) if stop else (), extra=extra)


def _middle(text: str) -> str | None:
    """A piece of the text, of letters if there are such, that does not begin it and occurs in it once at
    first sight: what comes before it is then what must be left."""
    for match in re.finditer(r"\w{2,}|\S", text):
        if match.start() > 0 and text.find(match[0]) == match.start():
            return match[0]
    return None


async def cancel(asker: Asker) -> Finding:
    """Does the server's own count of running requests go down when the client hangs up?"""
    feature = Feature.CANCEL
    before = await _at_rest(asker)
    if before is None:
        return unknown(feature, "the server shows neither `/metrics` nor `/slots`")
    for max_tokens in (2000, 500, 100):
        call = asyncio.create_task(
            asker.ask(
                _QUESTION,
                max_tokens=max_tokens,
                top_logprobs=asker.usable_k or 0,
                extra={"ignore_eos": True},
            )
        )
        try:
            began = await _until(asker, lambda count: count > before, call, _FREED_S)
        finally:
            call.cancel()
            await asyncio.wait({call})
        if began or not _was_refused(call):
            break
    if not began:
        return unknown(feature, "a long reply was over, or refused, before it could be cancelled")
    if await _until(asker, lambda count: count <= before, None, _FREED_S):
        return yes(feature, "the server stopped when the client hung up")
    return no(feature, f"the server still worked {_FREED_S:g} s after the client hung up")


def _was_refused(call: asyncio.Task[Completion]) -> bool:
    return not call.cancelled() and isinstance(call.exception(), EngineRefused)


async def _at_rest(asker: Asker) -> int | None:
    """How many requests run when ours do not: metrics may lag behind the last answer, so the least of some
    readings."""
    least = await _running(asker)
    deadline = time.monotonic() + _LAG_S
    while least and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_S)
        least = min(least, await _running(asker) or 0)
    return least


async def _until(
    asker: Asker, holds: Callable[[int], bool], call: asyncio.Task[Completion] | None, timeout_s: float
) -> bool:
    """Whether a condition on the number of running requests comes to hold while a call runs."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            while call is None or not call.done():
                count = await _running(asker)
                if count is not None and holds(count):
                    return True
                await asyncio.sleep(_LOOK_S)
    return False


def _names(line: str, metrics: tuple[str, ...]) -> bool:
    """Whether a line is the value of one of these metrics, and not of one whose name only begins so."""
    return line.startswith(metrics) and line.replace("{", " ").partition(" ")[0] in metrics


async def _running(asker: Asker) -> int | None:
    """How many requests the server is working on or keeps waiting, by its metrics or its slots."""
    metrics = await asker.page("/metrics")
    if metrics is not None:
        counts = [float(line.rpartition(" ")[2]) for line in metrics.splitlines() if _names(line, _RUNNING)]
        if counts:
            return round(sum(counts))
    slots = await asker.page("/slots")
    try:
        rows = json.loads(slots or "")
        return sum(bool(row["is_processing"]) for row in rows)
    except (ValueError, TypeError, KeyError):
        return None


async def tools_rendered(asker: Asker) -> Finding:
    """Does the prompt grow by a tool that must not be called?"""
    feature = Feature.TOOLS_RENDERED
    plain = (await asker.ask(_QUESTION)).usage.prompt_tokens
    offered = (await asker.ask(_QUESTION, tools=[TOOL], extra={"tool_choice": "none"})).usage.prompt_tokens
    if plain is None or offered is None:
        return unknown(feature, "the server does not count tokens")
    if offered > plain + 10:
        return yes(feature, f"a tool takes {offered - plain} tokens", offered - plain)
    return no(feature, "with `tool_choice` `none` the model is not told of its tools")
