"""Tokens of an answer out of what servers send: null, NaN, sentinels, bytes, reasoning, markers."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.engines.logprobs import answer_tokens, parse_entries, visible_answer
from speceyes.engines.scripted import token_reply
from speceyes.types import Completion, Reason, Token


def tokens_of(*texts: str) -> tuple[Token, ...]:
    return tuple(Token(text, -0.1, (-0.1, -3.0, -4.0), (text, "x", "y")) for text in texts)


def spelled(tokens: tuple[Token, ...]) -> list[str]:
    return [token.text for token in tokens]


@pytest.mark.parametrize("nothing", [None, [], {}, "text", 0])
def test_no_list_of_entries_is_no_token(nothing: object) -> None:
    assert parse_entries(nothing) == ()


def test_best_first_doubles_removed_cut_to_k() -> None:
    # vLLM's form: the sampled token first, though it is the fourth best.
    entry = token_reply("d", [("d", -4.0), ("a", -1.0), ("b", -2.0), ("c", -3.0), ("d", -4.0), ("e", -5.0)])
    (token,) = parse_entries([entry], 4)
    assert token.top_tokens == ("a", "b", "c", "d")
    assert token.top_logprobs == (-1.0, -2.0, -3.0, -4.0)
    assert token.logprob == -4.0
    (token,) = parse_entries([entry])
    assert token.top_tokens == ("a", "b", "c", "d", "e")


def test_unlike_tokens_with_the_same_unprintable_text_are_kept() -> None:
    entry = token_reply("a", [("a", -1.0), ("", -9999.0), ("", -9999.0), ("\ufffd", -7.0), ("\ufffd", -7.0)])
    (token,) = parse_entries([entry])
    assert len(token.top_logprobs) == 5


def test_ids_decide_where_there_are_any() -> None:
    rivals = [{"id": 7, "token": "a", "logprob": -1.0}, {"id": 8, "token": "a", "logprob": -1.0}]
    (token,) = parse_entries([{"token": "a", "logprob": -1.0, "top_logprobs": [*rivals, rivals[0]]}])
    assert token.top_logprobs == (-1.0, -1.0)


def test_values_that_are_no_log_probs_stay_for_the_gate_behind_those_that_are() -> None:
    text = """[{"token": "a", "logprob": null, "top_logprobs": [
        {"token": "n", "logprob": NaN}, {"token": "u", "logprob": null}, {"token": "i", "logprob": -Infinity},
        {"token": "s", "logprob": -9999.0}, {"token": "t", "logprob": "-Infinity"}, {"token": "w"},
        {"token": "x", "logprob": "much"}, {"token": "y", "logprob": true}, {"token": "p", "logprob": 0.5},
        {"token": "a", "logprob": -0.5}, "not an entry"]}]"""
    (token,) = parse_entries(json.loads(text))
    assert token.logprob is None
    assert token.top_tokens[:3] == ("p", "a", "s")
    assert token.top_logprobs[:3] == (0.5, -0.5, -9999.0)
    assert not any(math.isfinite(value) for value in token.top_logprobs[3:])
    assert len(token.top_logprobs) == 10


@pytest.mark.parametrize("rest", [{}, {"top_logprobs": None}, {"top_logprobs": []}, {"top_logprobs": "no"}])
def test_an_entry_without_rivals_is_a_token_without_rivals(rest: dict[str, Any]) -> None:
    (token,) = parse_entries([{"token": "a", "logprob": -0.5, **rest}], 3)
    assert token == Token("a", -0.5)


def test_an_entry_that_is_no_object_keeps_its_place() -> None:
    assert spelled(parse_entries([None, token_reply("a")])) == ["", "a"]


def test_bytes_spell_what_texts_cannot() -> None:
    parts = [
        token_reply("\\xe2\\x82", bytes=[0xE2, 0x82]),
        token_reply("\\xac", bytes=[0xAC]),
        token_reply("5", bytes=None),
    ]
    assert spelled(parse_entries(parts)) == ["", "€", "5"]


# Which tokens are the answer


def test_white_space_and_end_of_turn_do_not_count() -> None:
    tokens = tokens_of("\n", " A", " cat", "\n", "<|im_end|>", "")
    chosen, fault = answer_tokens(Completion("A cat\n", "stop", tokens))
    assert (spelled(chosen), fault) == ([" A", " cat"], None)


def test_markers_in_the_text_are_not_the_answer() -> None:
    completion = Completion("B<|im_end|>\n", "stop", tokens_of("B", "<|im_end|>", "\n"))
    assert visible_answer(completion) == "B"
    assert spelled(answer_tokens(completion)[0]) == ["B"]


def test_parts_of_a_character_count_wherever_they_stand() -> None:
    # vLLM's form: "" for the first parts, the character with the last one; "" for the end of the turn.
    chosen, fault = answer_tokens(Completion("é€!", "stop", tokens_of("", "é", "", "", "€", "!", "")))
    assert (spelled(chosen), fault) == (["", "é", "", "", "€", "!"], None)


def test_an_invisible_marker_before_plain_text_does_not_count() -> None:
    assert spelled(answer_tokens(Completion("B", "stop", tokens_of("", "B", "")))[0]) == ["B"]


REASONING = "The sign is far away, so B or C. B"


@pytest.mark.parametrize(
    ("text", "reasoning", "texts"),
    [
        pytest.param("B", REASONING, ["<think>", REASONING, "</think>", "\n\n", "B", ""], id="all entries"),
        pytest.param("B", REASONING, [REASONING, "", "B", ""], id="invisible markers"),
        pytest.param("B", REASONING, ["B", ""], id="only the answer's entries"),
        pytest.param("B", "", ["<think>", REASONING, "</think>", "B"], id="reasoning dropped on the way"),
        pytest.param(f"<think>{REASONING}</think>\nB", "", ["<think>", REASONING, "</think>\n", "B"], id="inline"),
        pytest.param(f"{REASONING}</think>B", "", [REASONING, "</", "think", ">", "B"], id="opened by template"),
        pytest.param(f"<think>{REASONING}</think>\nB", "", ["B", ""], id="inline, only the answer's entries"),
        pytest.param("<think></think>B", "", ["<think>", "</think>", "B"], id="no thought"),
    ],
)
def test_reasoning_does_not_count(text: str, reasoning: str, texts: list[str]) -> None:
    completion = Completion(text, "stop", tokens_of(*texts), reasoning=reasoning)
    chosen, fault = answer_tokens(completion)
    assert (spelled(chosen), fault) == (["B"], None)


@pytest.mark.parametrize(
    ("text", "reasoning", "texts"),
    [
        pytest.param("B", REASONING, [REASONING], id="only the reasoning's entries, which end like the answer"),
        pytest.param("B", REASONING, ["some other thought", "B"], id="other reasoning than that which was sent"),
        pytest.param("B", "", ["A", "B"], id="a token too many"),
        pytest.param("A cat", "", ["A"], id="a chunk without entries"),
        pytest.param("A cat", "", ["A", "A"], id="the first list repeated"),
        pytest.param("A cat", "", ["A", " cat", "A", " cat"], id="all entries twice"),
        pytest.param("A cat", "", [" cat", "A"], id="wrong order"),
        pytest.param("A cat", "", ["token_id:5", "token_id:9"], id="ids for texts"),
        pytest.param("A cat", "", ["A", " cat", " and", " dog"], id="text cut, entries not"),
    ],
)
def test_tokens_that_do_not_spell_the_text_are_a_fault(text: str, reasoning: str, texts: list[str]) -> None:
    completion = Completion(text, "stop", tokens_of(*texts), reasoning=reasoning)
    assert answer_tokens(completion) == ((), Reason.LOGPROBS_MISALIGNED)


def test_the_stop_string_is_in_the_tokens_but_not_in_the_text() -> None:
    completion = Completion("<answer>B", "stop", tokens_of("<answer>", "B", "</", "answer", ">\n"))
    assert answer_tokens(completion)[1] is Reason.LOGPROBS_MISALIGNED
    chosen, fault = answer_tokens(completion, stop=("</tool_call>", "</answer>"))
    assert (spelled(chosen), fault) == (["<answer>", "B"], None)


@pytest.mark.parametrize("text", ["", " \n", "<|im_end|>", "<think>so B", "<think>B</think>", "</think>\n"])
def test_blank_text_is_an_empty_answer(text: str) -> None:
    assert answer_tokens(Completion(text, "stop", tokens_of(text))) == ((), Reason.EMPTY_ANSWER)


def test_a_tool_call_without_text_is_an_empty_answer() -> None:
    assert answer_tokens(Completion("", "tool_calls", tokens_of("{", "}"))) == ((), Reason.EMPTY_ANSWER)


@pytest.mark.parametrize("text", ["A cat", "", "<think>so B"])
def test_an_answer_cut_off_is_never_whole(text: str) -> None:
    chosen, fault = answer_tokens(Completion(text, "length", tokens_of(text)))
    assert fault is Reason.TRUNCATED_ANSWER
    assert spelled(chosen) == (["A cat"] if text == "A cat" else [])


def test_text_without_tokens_is_missing_log_probs() -> None:
    assert answer_tokens(Completion("B", "stop")) == ((), Reason.LOGPROBS_MISSING)


def test_one_token_without_rivals_is_missing_log_probs() -> None:
    tokens = (*tokens_of("A"), Token(" cat", -0.1))
    assert answer_tokens(Completion("A cat", "stop", tokens)) == (tokens, Reason.LOGPROBS_MISSING)
    # but not where that token is no part of the answer
    tokens = (*tokens_of("A cat"), Token("<|im_end|>", -0.1))
    assert answer_tokens(Completion("A cat", "stop", tokens)) == (tokens[:1], None)


@st.composite
def split_texts(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """A text, and its UTF-8 bytes cut anywhere."""
    text = draw(st.text(st.characters(codec="utf-8", exclude_characters="<>"), min_size=1, max_size=20))
    raw = text.encode()
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(raw) - 1)), max_size=len(raw))))
    pieces = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    return text, [piece for piece in pieces if piece]


@settings(max_examples=200, deadline=None)
@given(split_texts(), st.booleans(), st.sampled_from(["", "<think>why</think>", "<think>\n</think>\n"]))
def test_any_split_of_a_text_is_found_again(split: tuple[str, list[bytes]], strip: bool, thought: str) -> None:
    text, pieces = split
    entries = [token_reply("?", k=3, bytes=list(piece)) for piece in pieces]
    tokens = (*tokens_of(*filter(None, [thought])), *parse_entries(entries), *tokens_of("<|im_end|>"))
    chosen, fault = answer_tokens(Completion(text.strip() if strip else text, "stop", tokens))
    if not text.strip():
        assert (chosen, fault) == ((), Reason.EMPTY_ANSWER)
        return
    assert fault is None
    assert "".join(spelled(chosen)).strip() == text.strip()
    # No token could be spared: each end holds a part of the answer.
    visible = [token for token in chosen if token.text]
    assert visible[0].text.strip()
    assert visible[-1].text.strip()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text(max_size=4), max_size=6),
    st.text(max_size=10),
    st.sampled_from(["stop", "length", ""]),
    st.text(max_size=6),
)
def test_whatever_comes_the_tokens_spell_the_answer_or_there_is_a_fault(
    texts: list[str], text: str, finish: str, reasoning: str
) -> None:
    completion = Completion(text, finish, tokens_of(*texts), reasoning=reasoning)
    chosen, fault = answer_tokens(completion)
    if fault is None:
        assert "".join(spelled(chosen)).strip() == visible_answer(completion) != ""
