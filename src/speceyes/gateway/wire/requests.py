"""The body of a chat request, decoded once into typed structs, and what of it is for us.

Clients differ in what they send along, so what OpenAI's description has is known by name, null counts as not given, and
what other servers add inside messages is let be. At the top a name that nobody knows is an error: it may be a
misspelled one that matters.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from speceyes.gateway.wire.errors import ApiError, bad_request

Positive = Annotated[int, Meta(ge=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
NonNegative = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]


class ImageUrl(Struct):
    """`{"url": ..., "detail": ...}`"""

    url: str
    detail: str | None = None


class Part(Struct):
    """One part of a message's content, in the form of chat completions or of OpenAI's Responses."""

    type: str
    text: str | None = None
    image_url: ImageUrl | str | None = None
    refusal: str | None = None
    file_id: str | None = None


class Function(Struct):
    """What a tool call in the history called."""

    name: str = ""
    arguments: Any = ""


class HistoryCall(Struct):
    """A tool call in the history."""

    function: Function | None = None


class Message(Struct):
    """One message."""

    role: str
    content: str | list[Part | str] | None = None
    name: str | None = None
    tool_calls: list[HistoryCall] | None = None


class StreamOptions(Struct, forbid_unknown_fields=True):
    """What to put into a stream beside the text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class Options(Struct, forbid_unknown_fields=True):
    """The field `speceyes` of a request: what to tell beside the answer.

    Attributes:
        trace: All that happened: screening, draft with its tokens, verdict, turns and crops.
        reasoning: The agent's thoughts as `reasoning_content`. None: as the server is set.
        progress: In a stream, a chunk for each phase and turn that is over.
        deadline_s: Seconds after which the request is to fail rather than go on. It can only shorten the server's own.
        mode: Who runs the agent's loop: `managed`, the gateway; `transparent`, the client. None: the client if it sends
            tools.
        dialect: For clients that run the loop and read the agent's text themselves: its dialect.
    """

    trace: bool = False
    reasoning: bool | None = None
    progress: bool = False
    deadline_s: Annotated[float, Meta(gt=0)] | None = None
    mode: Literal["managed", "transparent"] | None = None
    dialect: str | None = None


class ChatBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A chat request. `fields.FIELDS` says what becomes of each field."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    speceyes: Options | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = None
    seed: int | None = None
    stop: Text | Annotated[list[Text], Meta(max_length=16)] | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Meta(gt=0)] | None = None
    top_k: int | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    logit_bias: dict[str, float] | None = None
    reasoning_effort: str | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: NonNegative | None = None
    response_format: Any = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: Any = None
    function_call: Any = None
    user: str | None = None
    safety_identifier: str | None = None
    metadata: dict[str, str] | None = None
    store: bool | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    modalities: Any = None
    audio: Any = None
    prediction: Any = None
    verbosity: str | None = None
    web_search_options: Any = None

    @property
    def options(self) -> Options:
        """The field `speceyes`, or what stands for it."""
        return self.speceyes or Options()

    @property
    def include_usage(self) -> bool:
        """Whether a stream is to end with the token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())


class _Tolerant(ChatBody, forbid_unknown_fields=False, kw_only=True):
    """For requests that are passed on as they are: the server that they go to knows its own fields."""


_STRICT, _TOLERANT = msgspec.json.Decoder(ChatBody), msgspec.json.Decoder(_Tolerant)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_PLACE = re.compile(r"^(.*?)(?: - at `\$\.?(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


def read_body(raw: bytes | bytearray) -> ChatBody:
    """A request's body; fields that nobody knows are an error.

    Raises:
        ApiError: 400 with the path of the field that is wrong.
    """
    return _read(raw, _STRICT)


def read_tolerantly(raw: bytes | bytearray) -> ChatBody:
    """As `read_body`, but fields that nobody knows are left to the server that the request is passed to."""
    return _read(raw, _TOLERANT)


def read_fields(raw: bytes | bytearray) -> dict[str, msgspec.Raw]:
    """The body's fields by name, each as the JSON that it came in: to pass it on with a field replaced."""
    return _FIELDS.decode(raw)


def _read(raw: bytes | bytearray, decoder: msgspec.json.Decoder[Any]) -> ChatBody:
    if not raw.strip():
        raise bad_request("The request has no body; send a chat request as JSON.")
    try:
        body: ChatBody = decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise _explained(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"The body is not JSON: {error}", code="invalid_json") from None
    return body


def _explained(said: str) -> ApiError:
    """msgspec's message with the place at the front, as OpenAI's `param` has it."""
    found = _PLACE.match(said)
    what, path = (found.group(1), found.group(2) or "") if found else (said, "")
    if unknown := _UNKNOWN.fullmatch(what):
        path = f"{path}.{unknown.group(1)}" if path else unknown.group(1)
        return bad_request(f"{path}: there is no such field. It may be misspelled; nothing is ignored here.", path)
    return bad_request(f"{path}: {what}" if path else what, path or None)
