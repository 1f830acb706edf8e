"""One engine from its settings: a nano model or a GGUF file served in this process, or a server elsewhere."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from speceyes.agents.dialects import is_native, make_dialect
from speceyes.config import AgentSettings, DraftSettings
from speceyes.engines.client import ChatClient
from speceyes.engines.embedded import PROMPT_CACHE_MIB, EmbeddedServer, available_cores
from speceyes.engines.gguf import read_header
from speceyes.engines.nano import NANO_CONTEXT, NANO_LIMITS, nano_agent, nano_draft, nano_files
from speceyes.engines.slot_leases import SlotLeases
from speceyes.engines.wire import api_base
from speceyes.errors import ConfigError, EngineProtocolError, EngineRefused
from speceyes.imaging.resize import PixelLimits

NANO_DIALECTS = ("deepeyes", "deepeyes-native", "thyme")
"""What the nano agent was taught to speak; in code it is weaker about relative positions."""
GGUF_SLOTS = 2
GGUF_CONTEXT = 16_384
_SAMPLE = 1 << 20
"""Bytes at each end of a GGUF file that its fingerprint looks at."""

Role = Literal["draft", "agent"]
EngineChoice = DraftSettings | AgentSettings


@dataclass(frozen=True, slots=True)
class OpenEngine:
    """An engine that is ready.

    Attributes:
        client: To talk to it.
        limits: Sizes of picture that its model takes.
        fingerprint: What a calibration is bound to: the model's name, with a hash of the weights where they are here.
    """

    client: ChatClient
    limits: PixelLimits
    fingerprint: str


@asynccontextmanager
async def open_engine(role: Role, chosen: EngineChoice, *, calls: int) -> AsyncIterator[OpenEngine]:
    """Start or reach the model that the settings choose. It is closed again whatever happens, clients first.

    Args:
        role: For messages, and to choose the nano model.
        chosen: The settings.
        calls: Calls that may be under way at a time. A nano model gets a slot for each, so that what one query left
            in the prompt cache is there for its next call.

    Raises:
        ConfigError: The settings cannot be carried out.
        EngineError: The server cannot be reached or does not start.
    """
    async with AsyncExitStack() as stack:
        if chosen.url is not None:
            client = await connect(chosen.url, chosen.model, setting=f"{role}.model", **_options(chosen, calls))
            stack.push_async_callback(client.aclose)
            yield OpenEngine(client, pixel_limits(role, chosen), client.model)
            return
        start, limits, weights = _nano(role, chosen, calls) if chosen.gguf is None else _gguf(role, chosen, chosen.gguf)
        # In a thread, because starting waits for the server. A start that is cancelled meanwhile closes itself, for
        # then nobody holds the server.
        servers = []
        for _ in range(_copies(role, chosen)):
            servers.append(await asyncio.to_thread(start))
            stack.callback(servers[-1].close)
        server = servers[0]
        leases = SlotLeases(server.parallel, servers=[api_base(one.url) for one in servers])
        client = ChatClient(server.url, server.model, **_options(chosen, calls) | {"leases": leases})
        stack.push_async_callback(client.aclose)
        yield OpenEngine(client, limits, f"{server.model}@{weights}")


async def connect(url: str, model: str | None = None, *, setting: str = "--model", **options: Any) -> ChatClient:
    """A client for a server. Where no model is named, the server is asked, and its only one is taken.

    Args:
        url: The server's base.
        model: The model's name.
        setting: What an error tells to set.
        options: As `ChatClient` takes them.

    Raises:
        ConfigError: The server has no model, or several, or does not tell.
        EngineError: It does not answer.
    """
    if model is not None:
        return ChatClient(url, model, **options)
    async with ChatClient(url, "", **options, name="the model server") as asker:
        try:
            found = await asker.models()
        except (EngineRefused, EngineProtocolError) as error:
            if error.status in (401, 403):
                raise
            raise ConfigError(f"{error}. It does not tell which models it has: name one ({setting})") from error
    if len(found) != 1:
        host = urlsplit(asker.url).netloc.rpartition("@")[2]
        has = f"has {len(found)} models: {', '.join(found[:12])}" if found else "lists no model"
        raise ConfigError(f"the server at {host} {has}. Name one ({setting})")
    return ChatClient(url, found[0], **options)


def pixel_limits(role: Role, chosen: EngineChoice, *, tokens: int = 16_384) -> PixelLimits:
    """The sizes of picture from the settings; of at most so many image tokens where they set no maximum.

    An agent for which they name no factor has the sizes of its dialect's family.

    Raises:
        ConfigError: No picture satisfies them, or there is no such dialect.
    """
    family = make_dialect(chosen.dialect).limits if isinstance(chosen, AgentSettings) else None
    if family is not None and chosen.factor in (None, family.factor):
        factor, least, most = family.factor, family.min_pixels, family.max_pixels
    else:
        factor = chosen.factor or 28
        least, most = 4 * factor**2, tokens * factor**2
    least = chosen.min_pixels or least
    most = chosen.max_pixels or max(least, min(most, tokens * factor**2))
    try:
        return PixelLimits(factor, least, most)
    except ConfigError as error:
        raise ConfigError(f"{role}: {error}") from error


def nano_fingerprint(role: Role) -> str:
    """`nano-draft@sha256:` or `nano-agent@sha256:` and 12 digits of the hash of the language model's file.

    Raises:
        ConfigError: The files are not there, or not those of their manifest.
    """
    return f"nano-{role}@{_nano_weights(role)}"


def _options(chosen: EngineChoice, calls: int) -> dict[str, Any]:
    """What `ChatClient` is told."""
    is_remote = chosen.url is not None
    return {
        "api_key": chosen.api_key.get_secret_value() if chosen.api_key and is_remote else None,
        "timeout_s": chosen.timeout_s,
        "connect_timeout_s": chosen.connect_timeout_s,
        "leases": None if chosen.slots is None else SlotLeases(chosen.slots),
        "retries": chosen.retries,
        # llama.cpp in this process has a fixed number of threads, and every open connection holds one.
        "max_connections": max(64, calls) if is_remote else 64,
    }


Start = Callable[[], EmbeddedServer]


def _copies(role: Role, chosen: EngineChoice) -> int:
    """Servers of one model: for the nano agent, whose runs are most of the work, one for each core up to two."""
    if chosen.copies is not None:
        return chosen.copies
    return min(2, available_cores()) if role == "agent" and chosen.is_nano else 1


def _nano(role: Role, chosen: EngineChoice, calls: int) -> tuple[Start, PixelLimits, str]:
    _check_nano(role, chosen)
    serve = nano_draft if role == "draft" else partial(nano_agent, parse_calls=_parses_calls(chosen))
    slots = chosen.parallel or -(-calls // _copies(role, chosen))
    context = chosen.context or NANO_CONTEXT

    def start() -> EmbeddedServer:
        return serve(
            parallel=slots, context=context, threads=chosen.threads, prompt_cache_mib=_prompt_cache_mib(chosen)
        )

    return start, NANO_LIMITS, _nano_weights(role)


def _gguf(role: Role, chosen: EngineChoice, model: Path) -> tuple[Start, PixelLimits, str]:
    trained = read_header(model).model_number("context_length")
    context = chosen.context or min(GGUF_CONTEXT, trained or GGUF_CONTEXT)
    limits = pixel_limits(role, chosen, tokens=context // 4)

    def start() -> EmbeddedServer:
        return EmbeddedServer(
            model,
            chosen.mmproj,
            parallel=chosen.parallel or GGUF_SLOTS,
            context=context,
            limits=limits,
            threads=chosen.threads,
            alias=chosen.model,
            cache_ram_mib=_prompt_cache_mib(chosen),
            parse_calls=_parses_calls(chosen),
        )

    return start, limits, _weights(model)


def _parses_calls(chosen: EngineChoice) -> bool:
    """Whether the server is to take tool calls out of the text."""
    return isinstance(chosen, AgentSettings) and is_native(chosen.dialect)


def _prompt_cache_mib(chosen: EngineChoice) -> int:
    return PROMPT_CACHE_MIB if chosen.prompt_cache_mib is None else chosen.prompt_cache_mib


def _check_nano(role: Role, chosen: EngineChoice) -> None:
    """The nano models are what they are: refuse settings that say otherwise."""
    facts: dict[str, tuple[object, ...]] = {
        "factor": (NANO_LIMITS.factor,),
        "min_pixels": (NANO_LIMITS.min_pixels,),
        "max_pixels": (NANO_LIMITS.max_pixels,),
        "dialect": NANO_DIALECTS,
        "coordinates": ("resized",),
    }
    for name in sorted(chosen.model_fields_set & set(facts)):
        if getattr(chosen, name) not in facts[name]:
            raise ConfigError(
                f"{role}.{name} is {getattr(chosen, name)}, but for the nano {role} it is "
                f"{' or '.join(map(str, facts[name]))}. Leave it out, or name another model ({role}.url or {role}.gguf)"
            )


def _nano_weights(role: Role) -> str:
    files = nano_files()
    model = files.draft if role == "draft" else files.agent
    manifest = model.parent / "manifest.json"
    if manifest.is_file():  # and `nano_files` has held it against the file
        digest = str(json.loads(manifest.read_text())["files"][model.name]["sha256"])
    else:
        digest = hashlib.sha256(model.read_bytes()).hexdigest()
    return f"sha256:{digest[:12]}"


def _weights(model: Path) -> str:
    """A hash of a GGUF file's size and both its ends: a quick guard against a mix-up, not against malice."""
    size = model.stat().st_size
    digest = hashlib.sha256(size.to_bytes(8, "big"))
    with model.open("rb") as file:
        digest.update(file.read(_SAMPLE))
        file.seek(max(0, size - _SAMPLE))
        digest.update(file.read(_SAMPLE))
    return f"ends-sha256:{digest.hexdigest()[:12]}"
