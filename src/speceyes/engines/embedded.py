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
from speceyes.engines.sockets import hang_up
from speceyes.errors import ConfigError, EngineError, EngineTimeout
from speceyes.imaging.resize import PixelLimits

_HTTP_THREADS = 80
"""Each open connection holds a thread of the server, also while it is idle; the client keeps up to 64."""


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
        threads: Threads that compute; by default as many as this process may use cores.
        alias: The model's name in the API; by default the file's name without its ending.
        cache_ram_mib: Memory for prompts that were pushed out of their slot, in MiB.
        exact: 32-bit keys and values and plain attention. Without it memory halves, and log-probs move by
            about 1e-2.
        start_timeout_s: How long the loaded server may take to answer its first health check.

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
        cache_ram_mib: int = 64,
        exact: bool = True,
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
            "model.path": str(model),
            "model_alias": [self.model],
            "n_parallel": parallel,
            "n_ctx": parallel * context,
            "fit_params": False,
            "cpuparams.n_threads": threads or available_cores(),
            "cpuparams_batch.n_threads": threads or available_cores(),
            "cache_ram_mib": cache_ram_mib,
            "warmup": True,
            "use_jinja": True,
            "force_pure_content_parser": True,
            "reasoning_format": "COMMON_REASONING_FORMAT_NONE",
            "endpoint_metrics": True,
            "endpoint_slots": True,
            "hostnames": ["127.0.0.1"],
            "port": 0,
            "ui": False,
            "cors_origins": "http://127.0.0.1",
            "n_threads_http": _HTTP_THREADS,
            "verbosity": 0,
        }
        if mmproj is not None:
            settings["mmproj.path"] = str(mmproj)
        if limits is not None:
            cell = limits.factor**2
            settings["image_min_tokens"] = -(-limits.min_pixels // cell)
            settings["image_max_tokens"] = limits.max_pixels // cell
        if exact:
            settings["flash_attn_type"] = "LLAMA_FLASH_ATTN_TYPE_DISABLED"
            settings["cache_type_k"] = settings["cache_type_v"] = "GGML_TYPE_F32"
        holder = [llamacpp.start(settings)]
        self.url: str = holder[0].listening_address
        # It also runs at exit, before the interpreter takes itself apart under the server's threads.
        self._finalizer = weakref.finalize(self, _stop, holder, self.url)
        try:
            _wait_until_healthy(self.url, start_timeout_s)
        except EngineError:
            self.close()
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


def available_cores() -> int:
    """Cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _stop(holder: list[Any], url: str) -> None:
    """Deleting the server waits, with the interpreter's lock held, for every call in flight: for ever for one
    that does not stream. Hanging up ends them first."""
    port = httpx.URL(url).port
    if port is not None:
        hang_up(port)
    holder.clear()


def _wait_until_healthy(url: str, timeout_s: float) -> None:
    address = httpx.URL(url)
    deadline = time.monotonic() + timeout_s
    said = "nothing"
    while (left := deadline - time.monotonic()) > 0:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=left)
        try:
            connection.request("GET", "/health")
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
