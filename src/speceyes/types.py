"""The vocabulary: what travels between the phases. Plain frozen data, no behaviour beyond arithmetic.

Query --screen--> Screening --speculate--> Draft --gate--> Verdict --fall back--> AgentRun
                                 \\________________ all of it ________________/ -> Answer(Trace)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from speceyes.reasons import Reason as Reason
from speceyes.reasons import Route as Route

if TYPE_CHECKING:
    from speceyes.imaging.decode import DecodedImage


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several model calls. `None` means that the server did not say; it is never 0 for unknown.

    `calls` counts requests as the server does: an attempt that failed and was repeated is one too.
    """

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cached_tokens: int | None = None
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.prompt_tokens, other.prompt_tokens),
            _sum(self.completion_tokens, other.completion_tokens),
            self.cached_tokens if other.cached_tokens is None else other.cached_tokens + (self.cached_tokens or 0),
            self.calls + other.calls,
        )


def _sum(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token and what the server said about its rivals.

    Attributes:
        text: The token's text, possibly empty (end of turn, part of a UTF-8 character).
        logprob: Natural log-probability of the sampled token, or None where the server gave none.
        top_logprobs: The K largest log-probs at this position, best first, as the server sent them
            (sentinels and non-finite values included: the gate removes them). Shape (K,).
        top_tokens: The texts that belong to `top_logprobs`. Shape (K,).
    """

    text: str
    logprob: float | None = None
    top_logprobs: tuple[float, ...] = ()
    top_tokens: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A native tool call as the API returns it; `arguments` is the JSON text that the model wrote."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One chat completion to ask for. `messages` are in the OpenAI wire form."""

    messages: tuple[Mapping[str, Any], ...]
    max_tokens: int
    temperature: float = 0.0
    top_logprobs: int = 0
    stop: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    seed: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the request body (`tool_choice`, `id_slot`, `allowed_token_ids`, ...)."""
    max_attempts: int | None = None
    """Attempts that this call may take, the first one included. None: as many as its client makes. Not sent."""
    affinity: object | None = field(default=None, compare=False, repr=False)
    """Calls that name the same object go on from each other's prompt: a server with slots works on them in one, and
    keeps it for them as long as the object lives. Not sent."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What a server answered to a `ChatRequest`.

    Attributes:
        text: The visible content.
        finish_reason: `stop`, `length`, `tool_calls`, or whatever else the server says.
        tokens: All generated tokens with their log-probs, in order; empty if none were asked for or sent.
        usage: Tokens of this call.
        seconds: Wall time from sending the request to the last byte.
        first_token_s: Wall time to the first generated token, if there was one.
        reasoning: Text that the server separated out as reasoning.
        tool_calls: Native tool calls, if the server parses them.
        model: The model name that the server reported.
        overloads: Attempts that the server refused as too much (429, 503) before this one.
    """

    text: str
    finish_reason: str
    tokens: tuple[Token, ...] = ()
    usage: Usage = Usage(calls=1)
    seconds: float = 0.0
    first_token_s: float | None = None
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    model: str = ""
    overloads: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply as it arrives: visible text, or reasoning where the server separates it."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """What a caller asks of the sampling and of the answer's form.

    The draft and the screening are greedy whatever stands here, since the gate scores the most probable tokens; only
    the seed reaches them too.

    Attributes:
        temperature: Of the agent's turns.
        top_p: Of the agent's turns. None: the server's default.
        seed: Of all calls.
        stop: Strings at which the final answer is cut, themselves left out. They do not stop the agent's loop.
        max_answer_tokens: Length of the visible answer; thoughts and tool calls do not count. The draft is asked for
            at most so many, and one that is cut by it is not accepted; the agent's answer is cut to it.
        extra: Further fields of the agent's requests (`presence_penalty`, ...).
    """

    temperature: float = 0.0
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    max_answer_tokens: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Query:
    """One question about one or several images.

    Attributes:
        question: The user's text, answer options included.
        images: Decoded images, in the order the user gave them.
        system: The user's own system prompt; it reaches both models.
        id: A name for traces and records.
        sampling: How the agent samples, and where the answer ends.
        priority: Of those that wait, the query with the lowest is next. Equal ones are served so that all wait little.
    """

    question: str
    images: tuple[DecodedImage, ...]
    system: str | None = None
    id: str = ""
    sampling: Sampling = Sampling()
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Screening:
    """Phase I: the agent's own estimate of whether a tool would help.

    `p_yes` and `p_no` are the summed probabilities of all spellings of the two words; `help_probability` is
    `p_yes / (p_yes + p_no)`, or None where the reply carries neither word.
    """

    p_yes: float
    p_no: float
    usage: Usage = Usage()
    seconds: float = 0.0

    @property
    def help_probability(self) -> float | None:
        total = self.p_yes + self.p_no
        return self.p_yes / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class Crop:
    """A part of an original image that a model was shown up close.

    Attributes:
        image: Index of the original image in the query.
        box: (left, top, right, bottom) in pixels of the original image, orientation applied.
        size: (width, height) of the picture that the model saw.
        label: What the model said it was looking for.
    """

    image: int
    box: tuple[float, float, float, float]
    size: tuple[int, int]
    label: str = ""


@dataclass(frozen=True, slots=True)
class Draft:
    """Phase II: the draft model's answer from the images alone, or, at a depth above 0, from parts that it asked for.

    `tokens` are the answer's tokens only: no end-of-turn token, no reasoning. `fault` is set where they could not
    be had, and then the gate has no confidence.

    Attributes:
        depth: How many parts of the images the draft model has seen up close.
        crops: Which. The last one is what this draft adds to the one before it.
        asked: The messages up to the last picture, for whoever lets the model look once more.
    """

    text: str
    tokens: tuple[Token, ...]
    fault: Reason | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    depth: int = 0
    crops: tuple[Crop, ...] = ()
    asked: tuple[Mapping[str, Any], ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Phase III: the gate's decision. `score` is None where there is no confidence.

    `glance` is the refusal at first look, where a draft that has looked closer was accepted after all.
    """

    reason: Reason
    score: float | None = None
    squashed: float | None = None
    threshold: float | None = None
    glance: Verdict | None = None

    @property
    def accepted(self) -> bool:
        """Whether the draft is the answer."""
        return self.reason.route is Route.DRAFT


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the agent: what it wrote, which tool ran, what came back.

    `repairs` are the mends without which its call could not have been read, `error` why no tool's result came back.
    """

    index: int
    text: str
    tool: str | None = None
    observation: str = ""
    crops: tuple[Crop, ...] = ()
    error: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    tool_seconds: float = 0.0
    repairs: tuple[str, ...] = ()


class Finish(StrEnum):
    """How an agent run ended."""

    ANSWERED = "answered"
    UNTAGGED = "untagged"
    """The last turn neither called a tool nor used the dialect's answer form; its plain text is the answer."""
    TURN_LIMIT = "turn_limit"
    """The turns were used up; the answer comes from the closing turn without tools (it may be empty)."""
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    CONTEXT_LIMIT = "context_limit"
    """The server refused the history as too large; the closing turn had to do without the last observations."""


@dataclass(frozen=True, slots=True)
class AgentRun:
    """Phase IV: a full run of the agent in its tool loop. Its depth is the number of tool calls."""

    text: str
    turns: tuple[Turn, ...]
    finish: Finish
    usage: Usage = Usage()
    seconds: float = 0.0
    whole: bool = True
    """False where a token limit cut the answer."""
    notes: tuple[str, ...] = ()
    """What went differently from how the model was trained; the trace repeats it."""

    @property
    def depth(self) -> int:
        return sum(turn.tool is not None for turn in self.turns)


@dataclass(frozen=True, slots=True)
class ImageSizes:
    """(width, height) of one image in pixels: as it came, upright, and as each model was shown it.

    The tokens are what it costs each model by its family's rule; servers do not say. None where a model was not shown
    it.
    """

    original: tuple[int, int]
    agent: tuple[int, int] | None = None
    draft: tuple[int, int] | None = None
    agent_tokens: int | None = None
    draft_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything that happened to one query, for people and for the record."""

    reason: Reason
    screening: Screening | None = None
    draft: Draft | None = None
    """From the first look. None also where screening spared it."""
    verdict: Verdict | None = None
    """Of the draft that was accepted, or else of the first refusal."""
    run: AgentRun | None = None
    seconds: float = 0.0
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """Tokens by model name, refused drafts and screening included."""
    notes: tuple[str, ...] = ()
    """What went differently from normal: errors that were survived, fallback forms that were used."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """Requests sent by model name: retries, and calls that failed, included."""
    images: tuple[ImageSizes, ...] = ()
    plan: str = ""
    """In which order the phases ran: the value of a `scheduling.Plan`. Empty where who answers was forced."""
    plan_why: str = ""
    """Why in this one; empty where it was not chosen for the query."""
    closer: tuple[Draft, ...] = ()
    """What the draft model said after looks of its own, one after another. An accepted one is the last."""

    @property
    def answering(self) -> Draft | None:
        """The draft that is the answer, where one is."""
        if self.reason.route is not Route.DRAFT:
            return None
        return self.closer[-1] if self.reason is Reason.ACCEPTED_CLOSER else self.draft


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer to a query, in the form that the question asked for, and how it came about.

    `finish` is "length" where a token limit cut the text, else "stop".
    """

    text: str
    trace: Trace
    query_id: str = ""
    finish: Literal["stop", "length"] = "stop"

    @property
    def reason(self) -> Reason:
        return self.trace.reason

    @property
    def route(self) -> Route:
        return self.trace.reason.route

    @property
    def score(self) -> float | None:
        return self.trace.verdict.score if self.trace.verdict else None
