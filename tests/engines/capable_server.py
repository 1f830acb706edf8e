"""A script for `ScriptedServer` that passes every check of a probe; subclasses lack one thing each."""

from __future__ import annotations

from typing import Any

from speceyes.engines.client import ChatClient
from speceyes.engines.findings import Feature
from speceyes.engines.probe import Probe, probe
from speceyes.engines.scripted import Outcome, Reply, ScriptedServer, token_reply

Request = dict[str, Any]
Answer = Outcome
WORDS = ("one", " two", " three", " four", " five", " six", " seven", " eight")
IMAGE_TOKENS, TOOL_TOKENS, CHAT_TOKENS = 100, 60, 5


def parts(request: Request, kind: str, role: str = "") -> list[Any]:
    """The content parts of one kind in all messages, or in those of one role."""
    return [
        part
        for message in request["messages"]
        if (not role or message["role"] == role) and isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == kind
    ]


def prompt_tokens(request: Request) -> int:
    texts = [m["content"] for m in request["messages"] if isinstance(m["content"], str)]
    texts += [part["text"] for part in parts(request, "text")]
    return (
        CHAT_TOKENS
        + sum(len(text.split()) for text in texts)
        + IMAGE_TOKENS * len(parts(request, "image_url"))
        + TOOL_TOKENS * len(request.get("tools", []))
    )


def usage(prompt: int, cached: int | None = 0) -> dict[str, Any]:
    details = {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": prompt, "completion_tokens": 1} | details


def entry(word: str, request: Request, *, processed: bool = False, **fields: Any) -> Request:
    """One token with K rivals, of which every other one has a number in place of a name of its own."""
    heat = (request.get("temperature") or 1.0) if processed else 1.0
    k = int(request.get("top_logprobs") or 0)
    return token_reply(word, [(word, -0.2 / heat)] + [(f"~{n}", -3.0 - n / heat) for n in range(1, k)], **fields)


class Capable:
    """A server that can do everything. Its subclasses lack something."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def __call__(self, request: Request, turn: int) -> Answer:
        words = list(WORDS[: request["max_tokens"]])
        text = "".join(words)
        for stop in request.get("stop", []):
            text = self.stopped(text, stop, request)
        return Reply(
            text=text,
            tokens=[self.token(word, request) for word in words],
            usage=usage(self.prompt(request), self.cached(request)),
        )

    def stopped(self, text: str, stop: str, request: Request) -> str:
        return text.partition(stop)[0] + (stop if request.get("include_stop_str_in_output") else "")

    def token(self, word: str, request: Request) -> Request:
        return entry(word, request)

    def prompt(self, request: Request) -> int:
        return prompt_tokens(request)

    def cached(self, request: Request) -> int | None:
        """All up to the picture, if the picture has been seen."""
        urls = [part["image_url"]["url"] for part in parts(request, "image_url")]
        known = bool(urls) and urls[0] in self.seen
        self.seen.update(urls)
        return IMAGE_TOKENS + CHAT_TOKENS if known else 0


async def probed(script: Any, **server_options: Any) -> Probe:
    async with (
        ScriptedServer(script, **server_options) as server,
        ChatClient(server.url, "scripted", retries=0) as client,
    ):
        return await probe(client)


def outcomes(result: Probe) -> dict[Feature, str]:
    return {finding.feature: finding.outcome.value for finding in result.findings}


ALL_WELL = {
    Feature.MODELS: "yes",
    Feature.CHAT: "yes",
    Feature.LOGPROBS: "yes",
    Feature.LOGPROB_COUNT: "yes",
    Feature.RAW_LOGPROBS: "yes",
    Feature.SAMPLED_FIRST: "unknown",
    Feature.SENTINELS: "no",
    Feature.TOKEN_IDENTITY: "yes",
    Feature.IMAGES: "yes",
    Feature.TWO_IMAGES: "yes",
    Feature.TOOL_IMAGES: "yes",
    Feature.PREFIX_CACHE: "yes",
    Feature.SLOTS: "unknown",
    Feature.STOP: "yes",
    Feature.STOP_INCLUDED: "yes",
    Feature.CANCEL: "unknown",
    Feature.TOOLS_RENDERED: "yes",
}
"""Of a server that samples the likeliest token each time and has no metrics."""

NO_IMAGES = dict.fromkeys((Feature.IMAGES, Feature.TWO_IMAGES, Feature.TOOL_IMAGES, Feature.PREFIX_CACHE), "no")
"""What becomes of a server that takes no images."""
