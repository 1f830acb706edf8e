"""What is shown of a turn while it is written: the same however it is cut, and never taken back."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.agents.dialects.reader import LEAD, TurnReader
from speceyes.types import Completion, Delta

DIALECT = DeepEyes()
LONG = "The small sign on the left, half behind the tree, says that parking is free on Sundays and holidays."
CALL = '<tool_call>\n{"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [1, 2, 90, 80], "label": "sign"}}\n'
assert len(LONG) > LEAD

TAGS = "<think> </think> <answer> </answer> <tool_call> </tool_call> <tool_response> <|im_end|> <ANSWER> </Answer>"
SHARDS = ["<", "</", "<|", "<ans", "|>", ">", "\\boxed{C}", "\\boxed{", "}", "7", "red", "猫"]
words = st.sampled_from(
    [*TAGS.split(), *SHARDS, "a < b", "\0", " ", "\n", "\ud83d", LONG, LONG[: LEAD - 1], LONG[:LEAD], " " * LEAD, CALL]
)
turns = st.lists(words, max_size=12).map("".join)
cuts = st.lists(st.integers(0, 400), max_size=30)
finishes = st.sampled_from(["stop", "length"])


def chunked(text: str, at: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in at)})
    return [text[a:b] for a, b in pairwise(edges)]


def read(*deltas: Delta | str) -> tuple[dict[str, str], TurnReader]:
    """All that is shown of a turn, by kind, and the reader."""
    reader = DIALECT.reader()
    pieces = [piece for d in deltas for piece in reader.feed(Delta(d) if isinstance(d, str) else d)]
    pieces += reader.close()
    total = {kind: "".join(piece.text for piece in pieces if piece.kind == kind) for kind in ("thought", "answer")}
    return total, reader


def final_text(text: str, finish: str) -> str | None:
    return getattr(DIALECT.parse(Completion(text, finish)), "text", None)


@given(turns, cuts)
@example(f"<answer>{LONG}</answer>", list(range(120)))
@example("<think>a <b </think><answer>" + LONG, list(range(150)))
def test_how_a_turn_is_cut_changes_nothing(text: str, at: list[int]) -> None:
    whole, reader = read(text)
    total, other = read(*chunked(text, at))
    assert total == whole
    assert (other.answer, other.whole) == (reader.answer, reader.whole)


@given(turns, cuts, finishes)
def test_what_is_shown_of_an_answer_is_the_begin_of_the_final_one_whatever_comes(
    text: str, at: list[int], finish: str
) -> None:
    total, _ = read(*chunked(text, at))
    if total["answer"]:
        assert final_text(text, finish) == total["answer"]
        assert DIALECT.closing_answer(Completion(text, finish)).text == total["answer"]


@given(turns, cuts, st.text(max_size=20))
def test_a_thought_that_the_server_separates_changes_no_answer(text: str, at: list[int], thought: str) -> None:
    alone, _ = read(text)
    pieces = chunked(text, at)
    total, _ = read(Delta(reasoning=thought), *pieces)
    assert total["answer"] == alone["answer"]
    assert total["thought"] == thought + alone["thought"]


@given(st.lists(st.sampled_from(["<think>", "</think>", "<answer>", "7", LONG, "\n"]), max_size=6).map("".join), cuts)
def test_no_character_of_a_call_is_shown(before: str, at: list[int]) -> None:
    secret = "image_zoom_in_tool"
    text = f"{before}{CALL}</tool_call>{CALL}"
    total, _ = read(*chunked(text, at))
    assert secret not in total["thought"] + total["answer"]


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        (f"<think>Hm.</think>\n<answer>{LONG}</answer>", "Hm.", LONG),
        (f"<answer>\n {LONG} \n</answer>", "", LONG),
        (f"<answer>{LONG}", "", LONG),
        (f"<answer>{LONG}<|im_end|>", "", LONG),
        (f"<answer>{LONG} 1 < 2 <b>!</answer>", "", f"{LONG} 1 < 2 <b>!"),
        ("<think>Hm.</think><answer>7</answer>", "Hm.", ""),
        (f"<think>Hm.</think>{CALL}", "Hm.", ""),
        (f"<think>Hm. {CALL}</tool_call> So.</think>", "Hm.  So.", ""),
        (f"The template opened it.</think><answer>{LONG}</answer>", "The template opened it.", LONG),
        (LONG, "", ""),
        (f"So: <answer>{LONG}</answer>", "", ""),
        (f"<answer>\\boxed{{C}} {LONG}</answer>", "", ""),
        (f"<think>I should write <answer>{LONG}</answer>.</think><answer>7</answer>", f"I should write {LONG}.", ""),
    ],
)
def test_what_is_shown_before_the_end(text: str, thought: str, answer: str) -> None:
    total, _ = read(*text)
    assert total == {"thought": thought, "answer": answer}


def test_a_long_answer_is_shown_as_it_is_made() -> None:
    reader = DIALECT.reader()
    shown = ["".join(piece.text for piece in reader.feed(Delta(character))) for character in f"<answer>{LONG}"]
    assert shown[: len("<answer>") + LEAD - 1] == [""] * (len("<answer>") + LEAD - 1)
    assert shown[len("<answer>") + LEAD - 1] == LONG[:LEAD].rstrip()
    assert all(len(piece) <= 2 for piece in shown[len("<answer>") + LEAD :])
    assert "".join(shown) == LONG


@pytest.mark.parametrize("behind", ["</answer> wait <answer>C</answer>", " \\boxed{C}", "</think>", f"</answer>{CALL}"])
def test_nothing_takes_a_long_answer_back(behind: str) -> None:
    text = f"<answer>{LONG}{behind}"
    assert (final_text(text, "stop") or "").startswith(LONG)
    assert "C</" not in (final_text(text, "stop") or "")


def test_a_long_answer_that_runs_out_of_tokens_is_not_whole() -> None:
    action = DIALECT.parse(Completion(f"<answer>{LONG}", "length"))
    assert (getattr(action, "text", None), getattr(action, "whole", None)) == (LONG, False)
    action = DIALECT.parse(Completion(f"<answer>{LONG}</answer>", "length"))
    assert getattr(action, "whole", None) is True
