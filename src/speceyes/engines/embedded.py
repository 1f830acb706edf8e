"""llama.cpp inside this process: a real vision-language model behind an OpenAI-compatible URL on 127.0.0.1.

What differs from llama.cpp's defaults, and why:

- Replies are raw text. llama.cpp would read tool calls and thoughts out of them, and constrain sampling by a
  grammar wherever a request has tools; here the dialects read them. Tools still reach the prompt through the
  model's own chat template.
- Pictures within the pixel limits are taken as they are, for its resize differs from the model family's.
- Keys and values are kept in 32 bits and attention is the plain one: log-probs then agree with Hugging Face's
  to about 2e-3, and to 1e-2 otherwise.
- It answers this machine only, and no page in a browser.
"""

from __future__ import annotations

import atexit
import http.client
import os
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from speceyes.engines import llamacpp
from speceyes.engines.fit import check_model, check_projector
from speceyes.engines.gguf import read_header
from speceyes.engines.sockets import end_service
from speceyes.errors import ConfigError, EngineTimeout
from speceyes.imaging.resize import PixelLimits

_HTTP_THREADS = 80
"""Each open connection holds a thread of the server, also while it is idle; the client keeps up to 64."""
_HANG_UP_S = 10.0
"""llama.cpp looks once a second whether the client of a call that does not stream is still there."""

PROMPT_CACHE_MIB = 64
"""Memory for prompts that were pushed out of their slot. llama.cpp's own default takes 8 GiB."""

_ALWAYS: dict[str, Any] = {
    "reasoning_format": "COMMON_REASONING_FORMAT_NONE",
    "use_jinja": True,  # the model's own chat template
    "warmup": True,
    "cache_prompt": True,
    "fit_params": False,  # would load the model twice, and shrink the context without a word
    "endpoint_metrics": True,
    "endpoint_slots": True,
    "hostnames": ["127.0.0.1"],
    "port": 0,
    "ui": False,
    "cors_origins": "http://127.0.0.1",
    "n_threads_http": _HTTP_THREADS,
    "verbosity": 0,
}
_EXACT = {
    "flash_attn_type": "LLAMA_FLASH_ATTN_TYPE_DISABLED",
    "cache_type_k": "GGML_TYPE_F32",
    "cache_type_v": "GGML_TYPE_F32",
}


class EmbeddedServer:
    """A model served by llama.cpp from this process, until `close`, the end of a `with` block, or exit.

    Several may run in one process, and any thread may start, use and close one. Starting holds the
    interpreter's lock while the weights load (a tenth of a second for the nano models, seconds for 7B): in an
    async program, start before the event loop matters. Close after the clients, whose calls fail otherwise.

    Args:
        model: The language model's GGUF file.
        mmproj: The image projector's GGUF file; None for a model without images.
        parallel: Slots: requests that are generated at the same time. More requests wait their turn.
        context: Tokens for prompt and reply in each slot.
        limits: Pixels a picture may have; pictures outside them are resized by llama.cpp. None: what the
            model file says.
        threads: Threads that compute; by default half as many as this process may use cores. They wait for
            each other at every step, so where something else wants the cores, more threads are far slower.
        alias: The model's name in the API; by default the file's name without its ending.
        cache_ram_mib: Memory for prompts that were pushed out of their slot, in MiB.
        exact: 32-bit keys and values and plain attention. Without it memory halves, and log-probs move by
            about 1e-2.
        parse_calls: Take tool calls out of the text and return them as such, as the chat template writes them. Without
            it the text comes back as the model wrote it.
        start_timeout_s: How long the server may take to be ready once the weights are loaded.

    Attributes:
        url: The server's base, without `/v1`.
        model: The name by which the server knows the model.
        parallel: As given: useful values of `id_slot` are 0 to parallel - 1.

    Raises:
        ConfigError: A file is missing, damaged, or not of its kind; the two files, the limits or the context
            do not fit the model or the memory.
        EngineError: llama.cpp did not start, for the reason that it gives.
    """

    def __init__(
        self,
        model: Path,
        mmproj: Path | None,
        *,
        parallel: int = 4,
        context: int = 4096,
        limits: PixelLimits | None = None,
        threads: int | None = None,
        alias: str | None = None,
        cache_ram_mib: int = PROMPT_CACHE_MIB,
        exact: bool = True,
        parse_calls: bool = False,
        start_timeout_s: float = 30.0,
    ) -> None:
        _check_positive(parallel=parallel, context=context, threads=1 if threads is None else threads)
        header = read_header(model)
        check_model(header, parallel=parallel, context=context, bytes_a_value=4 if exact else 2)
        if mmproj is not None:
            check_projector(read_header(mmproj), header, limits)
        self.model = alias or model.stem
        self.parallel = parallel
        settings: dict[str, Any] = {
            **_ALWAYS,
            **(_EXACT if exact else {}),
            **_image_settings(mmproj, limits),
            "model.path": str(model),
            "model_alias": [self.model],
            "n_parallel": parallel,
            "n_ctx": parallel * context,
            "cpuparams.n_threads": threads or default_threads(),
            "cpuparams_batch.n_threads": threads or default_threads(),
            "cache_ram_mib": cache_ram_mib,
            "force_pure_content_parser": not parse_calls,
        }
        holder = [llamacpp.start(settings)]
        self.url: str = holder[0].listening_address
        # A finalizer also runs at exit, before the interpreter takes itself apart under the server.
        self._finalizer = weakref.finalize(self, _stop, holder, self.url)
        try:
            _wait_until_ready(self.url, start_timeout_s)
        except EngineTimeout:
            # Deleted now, it would never end (see there): leave it until exit.
            self._finalizer.detach()
            atexit.register(_stop, holder, self.url)
            raise

    def __repr__(self) -> str:
        return f"EmbeddedServer({self.model!r}, {'closed' if self.closed else self.url})"

    @property
    def closed(self) -> bool:
        return not self._finalizer.alive

    def close(self) -> None:
        """Stop the server and free its memory. Calls in flight break off. Closing twice does no harm."""
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def default_threads() -> int:
    """Half the cores that this process may use: most come in pairs that share one, and the rest of the process
    wants some too."""
    return max(1, available_cores() // 2)


def available_cores() -> int:
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _image_settings(mmproj: Path | None, limits: PixelLimits | None) -> dict[str, Any]:
    if mmproj is None:
        return {}
    if limits is None:
        return {"mmproj.path": str(mmproj)}
    cell = limits.factor**2
    return {
        "mmproj.path": str(mmproj),
        "image_min_tokens": -(-limits.min_pixels // cell),
        "image_max_tokens": limits.max_pixels // cell,
    }


def _stop(holder: list[Any], url: str) -> None:
    """Deleting the server waits, with the interpreter's lock held, for every call in flight: for ever for one
    that does not stream. So all calls are ended first."""
    port = httpx.URL(url).port
    if port is not None:
        end_service(port, _HANG_UP_S)
    holder.clear()


def _wait_until_ready(url: str, timeout_s: float) -> None:
    """Wait until the server's main loop has done something.

    `/health` answers before that loop runs, and a server that is deleted before it runs never ends. The metrics
    come from the loop.
    """
    address = httpx.URL(url)
    deadline = time.monotonic() + timeout_s
    said = "nothing"
    while (left := deadline - time.monotonic()) > 0:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=left)
        try:
            connection.request("GET", "/metrics")
            status = connection.getresponse().status
            if status == 200:
                return
            said = f"HTTP {status}"
        except (OSError, http.client.HTTPException) as error:
            said = str(error) or type(error).__name__
        finally:
            connection.close()
        time.sleep(0.02)  # 503 while it loads
    raise EngineTimeout(f"llama.cpp at {url} was not ready within {timeout_s:g} s; it said {said}")


def _check_positive(**values: int) -> None:
    for name, value in values.items():
        if value < 1:
            raise ConfigError(f"embedded engine: {name} is {value}; it must be 1 or more")
