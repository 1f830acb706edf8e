"""Every setting, its default and its meaning.

In `speceyes.toml` a section is a table; in the environment `SPECEYES_DRAFT__URL` is `url` of the section `draft`.

    [draft]
    url = "http://gpu1:8000"

    [agent]
    url = "http://gpu2:8000"
    model = "deepeyes-7b"

    [gate]
    calibration = "deepeyes.json"
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from error


_Path = Annotated[Path, AfterValidator(_at_home)]
_Count = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0)]
_Share = Annotated[float, Field(ge=0, le=1)]
_Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A group of settings. Frozen; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)


class EngineSettings(Section):
    """Where a model is: behind a URL, in GGUF files, or, with neither, the nano model that comes with SpecEyes."""

    url: str | None = None
    """An OpenAI-compatible server, with or without `/v1`."""
    gguf: _Path | None = None
    """A language model's GGUF file, to be served by llama.cpp inside this process."""
    mmproj: _Path | None = None
    """The image projector that belongs to `gguf`."""
    model: _Text | None = None
    """The name by which the server knows the model. None: the only one that it has; of a GGUF file, its name."""
    api_key: SecretStr | None = None
    """Sent to `url` as a bearer token. Better kept in the environment than in a file."""

    min_pixels: _Count | None = None
    """Least width x height of a picture. None: 4 factor^2, as the model family's own processor."""
    max_pixels: _Count | None = None
    """Most width x height of a picture. None: 16384 factor^2, as the model family's own processor, but for a GGUF
    file at most what fills a quarter of its context."""

    timeout_s: _Seconds = 120.0
    """Seconds that one call may take, its retries included."""
    connect_timeout_s: _Seconds = 5.0
    """Seconds that a connection may take to come about."""
    retries: Annotated[int, Field(ge=0)] = 2
    """Attempts after the first one, where the error may pass."""

    parallel: _Count | None = None
    """Requests that a model in this process works on at a time; more wait. None: 2 for a GGUF file, and for the nano
    models as many as the funnel sends."""
    context: _Count | None = None
    """Tokens for one request to a model in this process, prompt and reply together. None: 16384 for a GGUF file, or
    what it was trained for if that is less; 4096 for the nano models."""
    threads: _Count | None = None
    """Processor threads of a model in this process. None: as many as help on this machine."""

    @property
    def is_nano(self) -> bool:
        """Whether the nano model is meant."""
        return self.url is None and self.gguf is None

    @field_validator("url")
    @classmethod
    def _is_web_address(cls, url: str | None) -> str | None:
        if url is not None and not url.strip().lower().startswith(("http://", "https://")):
            raise ValueError("a model server's address begins with http:// or https://")
        return url

    @field_validator("api_key")
    @classmethod
    def _is_not_blank(cls, key: SecretStr | None) -> SecretStr | None:
        return key if key is not None and key.get_secret_value() else None

    @model_validator(mode="after")
    def _names_one_place(self) -> Self:
        if self.url is not None and self.gguf is not None:
            raise ValueError("`url` and `gguf` exclude each other: a model is on a server or in this process")
        if self.gguf is None and self.mmproj is not None:
            raise ValueError("`mmproj` belongs to a language model's file: give `gguf` too")
        if self.gguf is not None and self.mmproj is None:
            raise ValueError("`gguf` alone sees no images: give its image projector as `mmproj` too")
        if self.is_nano and self.model is not None:
            raise ValueError("`model` names a model on a server: give `url` too, or neither for the nano model")
        if self.url is not None and (local := {"parallel", "context", "threads"} & self.model_fields_set):
            names = ", ".join(f"`{name}`" for name in sorted(local))
            raise ValueError(f"{names} are for a model in this process; the server at `url` has its own settings")
        return self


class DraftSettings(EngineSettings):
    """The small model of phase II, and how it is asked."""

    factor: _Count = 32
    """Both sides of a picture are multiples of it: 32 for Qwen3-VL, 28 for Qwen2.5-VL."""
    prompt: _Text | None = None
    """Follows the question. None: words that ask for one word or a short phrase."""
    max_tokens: _Count = 32
    """Longest answer; a draft that reaches it goes to the agent."""
    logprobs: Annotated[int, Field(ge=3)] | None = None
    """Log-probs of each token to ask for. None: as many as the gate scores."""


class AgentSettings(EngineSettings):
    """The agent of phases I and IV, how it speaks, and what one run of it may spend."""

    factor: _Count = 28
    """Both sides of a picture are multiples of it: 28 for Qwen2.5-VL (so DeepEyes), 32 for Qwen3-VL."""
    dialect: _Text = "deepeyes"
    """How the model calls tools; `speceyes models` lists the dialects."""
    coordinates: Literal["resized", "original", "unit", "per_mille"] | None = None
    """What the numbers of a box mean: pixels of the resized picture, pixels of the original, 0 to 1, 0 to 1000. None:
    as the dialect has it."""
    zoom_context: Annotated[float, Field(ge=0, le=10)] | None = None
    """Margin of a crop on each side of its box, as a share of the box's side. None: 0; for the nano agent 1."""
    prompts: _Path | None = None
    """A TOML or JSON file with any of the dialect's prompts: `system`, `act`, `screen`, `reminder`, `closing`, ..."""

    max_turns: _Count | None = None
    """Turns in which tools may be called. None: as the dialect has it."""
    max_tokens_per_turn: _Count | None = None
    """None: as the dialect has it; for the nano agent 256."""
    max_tokens: _Count | None = None
    """Generated tokens of a whole run. None: `max_turns` full turns and a closing one."""
    max_seconds: _Seconds | None = None
    """Wall time after which no new turn begins. None: no limit."""


class GateSettings(Section):
    """When a draft is accepted: by a calibration, or by a threshold set by hand, which promises nothing."""

    calibration: _Path | None = None
    """A calibration's file. With neither this nor a threshold, the nano pair uses the one that comes with it."""
    threshold: float | None = None
    """Least score of an accepted draft. It is on the raw score, not the squashed one."""
    score: _Text = "separability"
    """How sure a draft was of a token. This and the rest of the section go with `threshold`; a calibration has its
    own."""
    k: _Count = 64
    """Log-probs of each token that the score uses."""
    aggregate: _Text = "min"
    """How the scores of an answer's tokens become one."""
    screen_threshold: _Share = 0.5
    """Greatest probability, by the agent's own estimate, that a tool would help, at which a draft may pass."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if self.calibration is not None and self.threshold is not None:
            raise ValueError("`calibration` and `threshold` exclude each other: a calibration has its own threshold")
        given = [name for name in ("score", "k", "aggregate", "screen_threshold") if name in self.model_fields_set]
        if given and self.threshold is None:
            names = ", ".join(f"`{name}`" for name in given)
            raise ValueError(f"{names} can be set only together with `threshold`: a calibration has its own values")
        return self


class FunnelSettings(Section):
    """How much is under way at a time."""

    stateless: _Count = 8
    """Queries in phases I to III."""
    loops: _Count = 8
    """Agent loops."""


class ImageSettings(Section):
    """What is accepted as an image."""

    max_bytes: _Count = 64 * 1024**2
    """Most bytes of a file."""
    max_pixels: _Count = 150_000_000
    """Most width x height."""


class Settings(Section):
    """All settings."""

    draft: DraftSettings = DraftSettings()
    agent: AgentSettings = AgentSettings()
    gate: GateSettings = GateSettings()
    funnel: FunnelSettings = FunnelSettings()
    images: ImageSettings = ImageSettings()
