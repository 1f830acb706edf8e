"""Whether the files of a model, its context, the pixel limits and the memory fit together.

llama.cpp takes what it is given: it allocates until the system kills some process, and resizes pictures that
were made for another model. So this is asked first.
"""

from __future__ import annotations

from pathlib import Path

from speceyes.engines.gguf import PROJECTOR, GgufHeader
from speceyes.errors import ConfigError
from speceyes.imaging.resize import PixelLimits

_QWEN_PROJECTORS = ("qwen2vl_merger", "qwen2.5vl_merger", "qwen3vl_merger")


def check_model(header: GgufHeader, *, parallel: int, context: int, bytes_a_value: int) -> None:
    """Whether a file is a language model, and so many slots of so many tokens fit it and the memory.

    Raises:
        ConfigError: They do not.
    """
    if header.architecture == PROJECTOR:
        raise ConfigError(f"{header.path} is an image projector (mmproj), not a language model: are the files swapped?")
    trained = header.model_number("context_length")
    if trained is not None and context > trained:
        raise ConfigError(
            f"embedded engine: context is {context}, but {header.path.name} was made for {trained} tokens"
        )
    # llama.cpp allocates what it is told to, and the system then kills some process.
    needed, free = _cache_bytes(header, parallel * context, bytes_a_value), _available_memory()
    if needed is not None and free is not None and needed > free:
        raise ConfigError(
            f"embedded engine: {parallel} slots of {context} tokens need {needed / 2**30:.1f} GiB for keys "
            f"and values, and {free / 2**30:.1f} GiB of memory are free: lower parallel or context"
        )


def check_projector(projector: GgufHeader, model: GgufHeader, limits: PixelLimits | None) -> None:
    """Whether a file is an image projector that fits a language model and the pixel limits.

    Raises:
        ConfigError: It is not, or does not fit.
    """
    if projector.architecture != PROJECTOR:
        raise ConfigError(
            f"{projector.path} is not an image projector (mmproj) but a model of the architecture "
            f"{projector.architecture!r}: are the files swapped?"
        )
    made, taken = projector.number("clip.vision.projection_dim"), model.model_number("embedding_length")
    if made is not None and taken is not None and made != taken:
        raise ConfigError(
            f"{projector.path.name} makes image tokens of width {made}, and {model.path.name} takes {taken}: "
            "they belong to different models"
        )
    patch = projector.number("clip.vision.patch_size")
    if limits is None or patch is None:
        return
    if projector.metadata.get("clip.projector_type") in _QWEN_PROJECTORS:
        side = patch * (projector.number("clip.vision.spatial_merge_size") or 2)
        if side != limits.factor:
            raise ConfigError(
                f"{projector.path.name} works in cells of {side} pixels, but the pixel limits have factor "
                f"{limits.factor}: every picture would be resized twice"
            )


def _cache_bytes(header: GgufHeader, tokens: int, bytes_a_value: int) -> int | None:
    """Memory for the keys and values of so many tokens, where the header says enough."""
    layers, heads = header.model_number("block_count"), header.model_number("attention.head_count")
    width = header.model_number("embedding_length")
    if not layers or not heads or not width:
        return None
    shared = header.model_number("attention.head_count_kv") or heads
    key = header.model_number("attention.key_length") or width // heads
    value = header.model_number("attention.value_length") or width // heads
    return tokens * layers * shared * (key + value) * bytes_a_value


def _available_memory() -> int | None:
    """Bytes that can be had without swapping, where the system says so (Linux)."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
