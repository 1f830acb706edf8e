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

from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from speceyes.config.funnel import BreakerSettings, FunnelSettings, SpeculationSettings
from speceyes.config.sandbox import SandboxSettings
from speceyes.config.section import (
    Count,
    Door,
    FilePath,
    Names,
    Networks,
    Ports,
    Seconds,
    Section,
    Share,
    Text,
)
from speceyes.config.trust import TrustSettings


class EngineSettings(Section):
    """Where a model is: behind a URL, in GGUF files, or, with neither, the nano model that comes with SpecEyes."""

    url: str | None = None
    """An OpenAI-compatible server, with or without `/v1`."""
    gguf: FilePath | None = None
    """A language model's GGUF file, to be served by llama.cpp inside this process."""
    mmproj: FilePath | None = None
    """The image projector that belongs to `gguf`."""
    model: Text | None = None
    """The name by which the server knows the model. None: the only one that it has; of a GGUF file, its name."""
    api_key: SecretStr | None = None
    """Sent to `url` as a bearer token. Better kept in the environment than in a file."""

    min_pixels: Count | None = None
    """Least width x height of a picture. None: 4 factor^2, as the model family's own processor."""
    max_pixels: Count | None = None
    """Most width x height of a picture. None: 16384 factor^2, as the model family's own processor, but for a GGUF
    file at most what fills a quarter of its context."""

    timeout_s: Seconds = 120.0
    """Seconds that one call may take, its retries included."""
    connect_timeout_s: Seconds = 5.0
    """Seconds that a connection may take to come about."""
    retries: Annotated[int, Field(ge=0)] = 2
    """Attempts after the first one, where the error may pass."""

    parallel: Count | None = None
    """Requests that each copy of a model in this process works on at a time; more wait. None: 2 for a GGUF file, and
    for the nano models so many that all copies together take what the funnel sends."""
    copies: Count | None = None
    """Servers of the model in this process, each with weights and threads of its own; a query keeps to one. Where a
    server gains nothing by doing several requests at once, as on a processor, two do twice as much while there are
    cores. None: 1, but 2 of the nano agent where there are cores for them."""
    context: Count | None = None
    """Tokens for one request to a model in this process, prompt and reply together. None: 16384 for a GGUF file, or
    what it was trained for if that is less; 4096 for the nano models."""
    threads: Count | None = None
    """Processor threads of each copy of a model in this process. None: as many as help on this machine."""
    slots: Count | None = None
    """Slots of a llama.cpp server at `url` that nobody but this process asks: each query keeps one for all its calls,
    and finds its picture there. `speceyes probe` tells how many it has. None: the server chooses for each call."""
    prompt_cache_mib: Annotated[int, Field(ge=0)] | None = None
    """Memory that a model in this process keeps prompts in which were pushed out of their slot. None: 64 MiB."""

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
        if self.url is not None and (
            local := {"parallel", "copies", "context", "threads", "prompt_cache_mib"} & self.model_fields_set
        ):
            names = ", ".join(f"`{name}`" for name in sorted(local))
            raise ValueError(f"{names} are for a model in this process; the server at `url` has its own settings")
        if self.url is None and self.slots is not None:
            raise ValueError("`slots` are those of the server at `url`; a model in this process has `parallel` of them")
        return self


class DraftSettings(EngineSettings):
    """The small model of phase II, and how it is asked."""

    factor: Count = 32
    """Both sides of a picture are multiples of it: 32 for Qwen3-VL, 28 for Qwen2.5-VL."""
    prompt: Text | None = None
    """Follows the question. None: words that ask for one word or a short phrase."""
    max_tokens: Count = 32
    """Longest answer; a draft that reaches it goes to the agent."""
    logprobs: Annotated[int, Field(ge=3)] | None = None
    """Log-probs of each token to ask for. None: as many as the gate scores."""


class AgentSettings(EngineSettings):
    """The agent of phases I and IV, how it speaks, and what one run of it may spend."""

    factor: Count | None = None
    """Both sides of a picture are multiples of it: 28 for Qwen2.5-VL (so DeepEyes), 32 for Qwen3-VL. None: as the
    dialect's family has it; its sizes hold for `min_pixels` and `max_pixels` then, too."""
    dialect: Text = "deepeyes"
    """How the model calls tools; `speceyes dialects` lists the dialects."""
    coordinates: Literal["resized", "original", "unit", "per_mille"] | None = None
    """What the numbers of a box mean: pixels of the resized picture, pixels of the original, 0 to 1, 0 to 1000. None:
    as the dialect has it."""
    zoom_context: Annotated[float, Field(ge=0, le=10)] | None = None
    """Margin of a crop on each side of its box, as a share of the box's side. None: 0; for the nano agent 0.15."""
    result_form: Literal["user", "tool", "assistant"] | None = None
    """Where what a tool shows goes, for dialects that have a choice: into a message of the user, into a tool message
    (native calls), or on into the assistant's own turn (Thyme). None: as the dialect has it, mostly `user`."""
    prompts: FilePath | None = None
    """A TOML or JSON file with any of the dialect's prompts: `system`, `act`, `screen`, `reminder`, `closing`, ...
    `speceyes dialects show NAME` writes one."""

    max_turns: Count | None = None
    """Turns in which tools may be called. None: as the dialect has it."""
    max_tokens_per_turn: Count | None = None
    """None: as the dialect has it; for the nano agent 256."""
    max_tokens: Count | None = None
    """Generated tokens of a whole run. None: `max_turns` full turns and a closing one."""
    max_seconds: Seconds | None = None
    """Wall time after which no new turn begins. None: no limit."""


class GateSettings(Section):
    """When a draft is accepted: by a calibration, or by a threshold set by hand, which promises nothing."""

    calibration: FilePath | None = None
    """A calibration's file. With neither this nor a threshold, the nano pair uses the one that comes with it."""
    threshold: float | None = None
    """Least score of an accepted draft. It is on the raw score, not the squashed one."""
    score: Text = "separability"
    """How sure a draft was of a token. This and the rest of the section go with `threshold`; a calibration has its
    own."""
    k: Count = 64
    """Log-probs of each token that the score uses."""
    aggregate: Text = "min"
    """How the scores of an answer's tokens become one."""
    screen_threshold: Share = 0.5
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


class ImageSettings(Section):
    """What is accepted as an image."""

    max_bytes: Count = 64 * 1024**2
    """Most bytes of a file."""
    max_pixels: Count = 150_000_000
    """Most width x height."""


class ServeSettings(Section):
    """The gateway: where it listens, what it takes, and how it says it."""

    host: Text = "127.0.0.1"
    """Address to listen on. Beyond this machine an API key is needed, or `allow_unauthenticated`."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8040
    """0 takes a free one; the first line on standard output says which."""
    allow_unauthenticated: bool = False
    """Whether anybody who reaches an address beyond this machine may ask, without a key."""
    aliases: dict[str, str] = Field(default={})
    """Further model names and which of `speceyes`, `speceyes/agent`, `speceyes/draft`, `speceyes/transparent-DIALECT`
    each stands for. In the environment: `gpt-4o=speceyes,plain=speceyes/agent`."""
    max_body_bytes: Count = 96 * 1024**2
    """Most bytes of a request. Base64 makes an image a third larger than its file."""
    max_images: Count = 16
    """Most images of a request."""
    reasoning: bool = False
    """Whether answers carry the agent's thoughts as `reasoning_content` where a request does not say."""
    keep_alive_s: Seconds = 10.0
    """Seconds of silence after which a stream gets a comment, so that proxies keep the connection open."""
    deadline_s: Seconds = 300.0
    """Seconds within which a request must be answered; then it fails with 504. A request may ask for less."""
    drain_s: Seconds = 30.0
    """Seconds that running requests get after SIGTERM."""
    check_upstreams: bool = True
    """Whether model servers are asked at start-up for what the gate and the agent need."""

    @field_validator("aliases", mode="before")
    @classmethod
    def _from_one_line(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
        if not all(equals for _, equals, _ in pairs):
            raise ValueError("aliases are written as NAME=MODEL,NAME=MODEL")
        return {name.strip(): model.strip() for name, _, model in pairs}


class AccessSettings(Section):
    """Who may ask, and how much at a time."""

    keys_file: FilePath | None = None
    """API keys, as `speceyes keys` writes them. Read again whenever it changes."""
    api_key: Annotated[SecretStr, Field(min_length=16)] | None = None
    """One more key, which may ask questions. For containers: better kept in the environment than in a file."""
    ready_scope: Door = "none"
    """What a key must be good for to see `/ready`; `none`: no key is needed."""
    metrics_scope: Door = "admin"
    """The same for `/metrics`. Without any keys all is open."""
    cors_origins: Names = ()
    """Web pages that may call from a browser, such as https://chat.example.com; `*` is every page. None by default."""

    in_flight: Count = 64
    """Requests under way at a time."""
    queue: Annotated[int, Field(ge=0)] = 256
    """Requests that wait for a place; beyond them the answer is 429."""
    queue_timeout_s: Seconds = 30.0
    """Seconds that a request waits for a place at most."""
    in_flight_per_key: Count | None = None
    """Requests of one key under way at a time. None: no limit but `in_flight`. A key may have a limit of its own."""

    max_total_body_bytes: Count = 768 * 1024**2
    """Most bytes of all requests' bodies together; others wait."""
    body_timeout_s: Seconds = 120.0
    """Seconds in which a body must be there."""
    body_bytes_per_s: Count = 16 * 1024
    """A body that comes more slowly is given up after ten seconds."""

    @field_validator("api_key", mode="before")
    @classmethod
    def _nothing_is_no_key(cls, key: object) -> object:
        return key or None

    @field_validator("cors_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            scheme, _, rest = origin.partition("://")
            if origin != "*" and (scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest):
                raise ValueError(
                    f"{origin} is no origin: write https://HOST or https://HOST:PORT, and nothing after it"
                )
        return tuple(origin.lower() for origin in origins)


class FetchSettings(Section):
    """Whether and how pictures are fetched from URLs that requests name. Off by default."""

    enabled: bool = False
    """Whether they are fetched at all. Else clients send data URLs."""
    allow_hosts: Names = ()
    """Where it is not empty, only these: `example.com` is that host, `*.example.com` all below it."""
    deny_hosts: Names = ()
    """Never these, written alike."""
    ports: Ports = (80, 443)
    """TCP ports that may be dialled."""
    allow_networks: Networks = ()
    """Networks that may be dialled although they are private, such as 10.1.2.0/24 for a picture store of one's own."""
    deny_networks: Networks = ()
    """Networks that may not be dialled although they are public, such as those of this site."""
    max_bytes: Count = 32 * 1024**2
    """Most bytes of one picture."""
    max_total_bytes: Count = 64 * 1024**2
    """Most bytes of all pictures of a request."""
    connect_timeout_s: Seconds = 5.0
    """Seconds for one connection."""
    timeout_s: Seconds = 20.0
    """Seconds for one picture, from the look-up of its host to its last byte."""
    redirects: Annotated[int, Field(ge=0, le=10)] = 3
    """Most redirects that are followed; each is checked like a new URL."""


class StoreSettings(Section):
    """Where the gateway keeps a record of each request, and for how long."""

    enabled: bool = True
    """Whether records are kept at all."""
    url: SecretStr | None = None
    """`sqlite:///FILE` or `postgresql://USER:PASSWORD@HOST/DATABASE`. None: a SQLite file in the user's state folder,
    `~/.local/state/speceyes/requests.db`."""
    content: bool = False
    """Whether questions and answers are kept too, in plain text. Without it a record holds numbers, names and hashes,
    which is enough to calibrate on."""
    images: FilePath | None = None
    """Folder for the images of all requests, as files named by their hash. None: images are not kept."""
    max_age_days: Annotated[float, Field(gt=0)] | None = 30.0
    """Older records are deleted. In a file, 36500 is a century; None (in Python only) is no limit."""
    max_records: Count | None = 1_000_000
    """Of more records than these the oldest are deleted."""
    queue: Count = 2000
    """Records that may wait for the database; further ones are dropped and counted, so that no request waits."""


class ObserveSettings(Section):
    """What the gateway says about each request besides answering it. Metrics are always there, at `/metrics`."""

    log: bool = True
    """Whether each request is one line of JSON on standard error."""
    log_content: bool = False
    """Whether that line holds the question and the answer. Images are never in it."""
    traces: Text | None = None
    """Where OpenTelemetry spans go: an OTLP/HTTP collector, such as http://127.0.0.1:4318. None: no spans, unless the
    environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT). Needs the extra `telemetry`."""
    traces_share: Share = 1.0
    """Share of the requests that are traced, of those whose caller did not decide it."""


class TransparentSettings(Section):
    """Clients that bring their own tools and run the agent's loop themselves, and whether we speculate for them."""

    enabled: bool | None = None
    """None: with the nano pair, and where `calibration` is given. True: also with the threshold that the section `gate`
    sets by hand. False: all their requests pass to the agent's server."""
    calibration: FilePath | None = None
    """A calibration's file for such clients. One that was made for the gateway's own words serves too, but its
    guarantee does not: the words are the client's here."""
    screen: Text | None = None
    """Asks whether a tool would help; it is put behind the client's own words. None: as the agent's dialect has it."""
    reply: Text | None = None
    """What an accepted draft looks like to clients that read the agent's text; `{answer}` is the draft's. None: as the
    agent's dialect has it."""
    draft_system: bool | None = None
    """Whether the draft gets the client's system prompt. None: if the client sends tools; where it reads the agent's
    text, the prompt is about that."""
    ignore_fields: Names = ()
    """Fields of requests that are unknown here, and that a draft need not heed. A request with any other unknown field
    passes to the agent's server."""


class Settings(Section):
    """All settings."""

    draft: DraftSettings = DraftSettings()
    agent: AgentSettings = AgentSettings()
    gate: GateSettings = GateSettings()
    speculation: SpeculationSettings = SpeculationSettings()
    funnel: FunnelSettings = FunnelSettings()
    breaker: BreakerSettings = BreakerSettings()
    images: ImageSettings = ImageSettings()
    serve: ServeSettings = ServeSettings()
    access: AccessSettings = AccessSettings()
    fetch: FetchSettings = FetchSettings()
    store: StoreSettings = StoreSettings()
    observe: ObserveSettings = ObserveSettings()
    transparent: TransparentSettings = TransparentSettings()
    trust: TrustSettings = TrustSettings()
    sandbox: SandboxSettings = SandboxSettings()
