"""The nano pair: the two small models that come with SpecEyes, and how to serve them.

An installed package carries their files in `speceyes/_nano`; a checkout of the repository has them in
`models/nano/gguf`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speceyes.engines.embedded import PROMPT_CACHE_MIB, EmbeddedServer, default_threads
from speceyes.errors import ConfigError
from speceyes.imaging.resize import PixelLimits

NANO_LIMITS = PixelLimits(factor=32, min_pixels=192 * 192, max_pixels=192 * 192)
"""Every picture that the nano models see has this many pixels: 36 image tokens, 192 x 192 for a square."""
NANO_ZOOM_CONTEXT = 0.15
"""Margin of the nano agent's crops: its boxes lie on a coarse grid, and it is sometimes one step off."""
NANO_CONTEXT = 4096
"""Tokens in a slot: a whole agent run with several zooms."""
NANO_THREADS = 4
"""More threads than this make models of this size no faster."""

DRAFT, AGENT = "nano-draft", "nano-agent"
"""The names by which `nano_draft` and `nano_agent` serve the models."""

_MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class NanoFiles:
    """The GGUF files of the nano pair: language models and their image projectors."""

    draft: Path
    draft_mmproj: Path
    agent: Path
    agent_mmproj: Path


_NAMES = NanoFiles(
    draft=Path("draft-f16.gguf"),
    draft_mmproj=Path("draft-mmproj-f16.gguf"),
    agent=Path("agent-f16.gguf"),
    agent_mmproj=Path("agent-mmproj-f16.gguf"),
)


def nano_files(folder: Path | None = None) -> NanoFiles:
    """Find the nano pair's files, and check them against the manifest beside them, if there is one.

    The manifest is JSON: `{"files": {"draft-f16.gguf": {"bytes": 1234, "sha256": "..."}, ...}, ...}`.

    Args:
        folder: Where to look. None: in the installed package, then in the checkout.

    Raises:
        ConfigError: A file is missing, or is not the one that the manifest describes.
    """
    home = folder or _home()
    files = NanoFiles(*(home / getattr(_NAMES, part) for part in NanoFiles.__slots__))
    missing = [path.name for path in _paths(files) if not path.is_file()]
    if missing:
        raise ConfigError(
            f"the nano models are not complete: {home} lacks {', '.join(missing)}. In a checkout, "
            "fetch them with the repository or make them with `make train-nano`; else reinstall speceyes"
        )
    manifest = home / _MANIFEST
    if manifest.is_file():
        described = _described(manifest)
        for path in _paths(files):
            _check(path, described.get(path.name))
    return files


def nano_draft(
    *,
    parallel: int = 4,
    context: int = NANO_CONTEXT,
    threads: int | None = None,
    prompt_cache_mib: int = PROMPT_CACHE_MIB,
) -> EmbeddedServer:
    """Serve the nano draft model from this process, as `nano-draft`.

    Raises:
        ConfigError: As `nano_files` and `EmbeddedServer`.
        EngineError: As `EmbeddedServer`.
    """
    files = nano_files()
    return _serve(files.draft, files.draft_mmproj, DRAFT, parallel, context, threads, prompt_cache_mib)


def nano_agent(
    *,
    parallel: int = 4,
    context: int = NANO_CONTEXT,
    threads: int | None = None,
    prompt_cache_mib: int = PROMPT_CACHE_MIB,
    parse_calls: bool = False,
) -> EmbeddedServer:
    """Serve the nano agent model from this process, as `nano-agent`.

    `parse_calls` as for `EmbeddedServer`.

    Raises:
        ConfigError: As `nano_files` and `EmbeddedServer`.
        EngineError: As `EmbeddedServer`.
    """
    files = nano_files()
    return _serve(files.agent, files.agent_mmproj, AGENT, parallel, context, threads, prompt_cache_mib, parse_calls)


def _serve(
    model: Path,
    mmproj: Path,
    alias: str,
    parallel: int,
    context: int,
    threads: int | None,
    prompt_cache_mib: int,
    parse_calls: bool = False,
) -> EmbeddedServer:
    return EmbeddedServer(
        model,
        mmproj,
        parallel=parallel,
        context=context,
        limits=NANO_LIMITS,
        threads=threads or min(NANO_THREADS, default_threads()),
        alias=alias,
        cache_ram_mib=prompt_cache_mib,
        parse_calls=parse_calls,
    )


def _home() -> Path:
    installed, checkout = _candidates()
    is_checkout = (checkout.parents[2] / "pyproject.toml").is_file()
    return checkout if is_checkout and not installed.is_dir() else installed


def _candidates() -> tuple[Path, Path]:
    """(in the installed package, in a checkout), whether they exist or not."""
    package = Path(__file__).resolve().parents[1]
    return package / "_nano", package.parents[1] / "models" / "nano" / "gguf"


def _paths(files: NanoFiles) -> tuple[Path, ...]:
    return files.draft, files.draft_mmproj, files.agent, files.agent_mmproj


def _described(manifest: Path) -> Mapping[str, Any]:
    try:
        files = json.loads(manifest.read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{manifest} is no manifest of the nano models: {error!r}") from error
    if not isinstance(files, Mapping):
        raise ConfigError(f"{manifest} is no manifest of the nano models: `files` is not an object")
    return files


def _check(path: Path, described: object) -> None:
    if not isinstance(described, Mapping):
        raise ConfigError(f"{path.parent / _MANIFEST} does not describe {path.name}")
    content = path.read_bytes()
    if described.get("bytes") not in (None, len(content)):
        raise ConfigError(
            f"{path} has {len(content):,} bytes, and {described['bytes']:,} by its manifest: fetch it again"
        )
    digest = hashlib.sha256(content).hexdigest()
    if described.get("sha256") != digest:
        raise ConfigError(
            f"{path} is not the file of its manifest (SHA-256 {digest[:12]}..., not "
            f"{str(described.get('sha256'))[:12]}...): fetch it again, or make the manifest anew"
        )
