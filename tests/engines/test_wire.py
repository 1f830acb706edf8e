"""The request's body and the address of the API."""

from typing import Any

import pytest

from speceyes.engines.client import ChatClient
from speceyes.engines.wire import api_base, is_loopback, request_body
from speceyes.errors import ConfigError
from speceyes.types import ChatRequest

MESSAGES = ({"role": "user", "content": "What is it?"},)


def ask(**fields: Any) -> ChatRequest:
    return ChatRequest(**{"messages": MESSAGES, "max_tokens": 16, **fields})


def test_the_smallest_body() -> None:
    assert request_body(ask(), "m") == {
        "model": "m",
        "messages": [MESSAGES[0]],
        "max_tokens": 16,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_full_body() -> None:
    tool = {"type": "function", "function": {"name": "zoom"}}
    body = request_body(
        ask(
            temperature=0.5,
            top_logprobs=64,
            stop=("</answer>",),
            tools=(tool,),
            seed=0,
            extra={"tool_choice": "auto", "max_tokens": 5, "stream": False},
        ),
        "m",
    )
    assert (body["logprobs"], body["top_logprobs"]) == (True, 65)
    assert (body["stop"], body["tools"], body["seed"]) == (["</answer>"], [tool], 0)
    assert (body["tool_choice"], body["max_tokens"]) == ("auto", 5)
    assert body["stream"] is True  # without a stream, a cancel does not reach every server


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://h:8000", "http://h:8000/v1"),
        ("https://h/openai/", "https://h/openai/v1"),
        ("https://h/v1beta/openai", "https://h/v1beta/openai"),
        ("https://h/api/v3/", "https://h/api/v3"),
        (" http://h/v1/chat/completions ", "http://h/v1"),
        ("http://[::1]:5/v1?x=1", "http://[::1]:5/v1"),
    ],
)
def test_base_of_the_api(url: str, base: str) -> None:
    assert api_base(url) == base


@pytest.mark.parametrize("url", ["localhost:8000", "", "h", "ftp://h", "http://", "http://h:port"])
def test_urls_that_cannot_be(url: str) -> None:
    with pytest.raises(ConfigError):
        ChatClient(url, "m")


def test_loopback_hosts() -> None:
    assert all(map(is_loopback, ["localhost", "a.localhost", "127.0.0.1", "127.8.8.8", "::1"]))
    assert not any(map(is_loopback, ["example.org", "10.0.0.1", "localhost.example.org", "128.0.0.1"]))


def test_one_token_with_tools_and_logprobs_is_not_streamed_because_llama_cpp_refuses_the_three_together() -> None:
    tools = ({"type": "function", "function": {"name": "look"}},)
    screening = request_body(ChatRequest((), 1, top_logprobs=19, tools=tools), "m")
    assert screening["stream"] is False
    assert "stream_options" not in screening
    assert request_body(ChatRequest((), 2, top_logprobs=19, tools=tools), "m")["stream"] is True
    assert request_body(ChatRequest((), 1, top_logprobs=19), "m")["stream"] is True
    assert request_body(ChatRequest((), 1, tools=tools), "m")["stream"] is True
