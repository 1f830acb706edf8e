"""`speceyes score`: the gate's view of saved completions, whatever somebody saved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speceyes.cli.saved import read_completion
from speceyes.cli.score import NOT_A_COMPLETION, score_record
from speceyes.engines.script import Logprobs, Reply, chunks, token_reply, whole_reply
from speceyes.errors import InputError
from speceyes.gating import squash
from speceyes.types import Reason

TOP = [0.0, -3.0, -5.0]
"""Rivals -3 and -5 have the mean -4 and the spread 1: the score is 4, up to the formula's 1e-6."""
REQUEST = {"model": "small", "logprobs": True, "top_logprobs": 8, "stream_options": {"include_usage": True}}
REASONS = {None, NOT_A_COMPLETION, *(reason.value for reason in Reason)}


def saved(path: Path, content: object) -> Path:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def completion(**fields: Any) -> dict[str, Any]:
    return whole_reply(Reply(**fields), REQUEST)


SEVEN = completion(tokens=[token_reply("7", TOP)])


def record(run: Run, path: Path, *flags: object) -> dict[str, Any]:
    result = run("score", path, "--k", 3, "--json", "-", *flags)
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout, parse_constant=pytest.fail)
    assert list(found) == ["score", "squashed", "reason", "tokens"]
    return found


def test_a_known_answer_has_the_score_worked_out_by_hand(run: Run, tmp_path: Path) -> None:
    found = record(run, saved(tmp_path / "r.json", SEVEN))
    assert found["score"] == pytest.approx(4.0, abs=1e-5)
    assert found["squashed"] == pytest.approx(float(squash(4.0)), abs=1e-6)
    assert found["reason"] is None
    (token,) = found["tokens"]
    assert (token["token"], token["logprob"], token["score"]) == ("7", 0.0, found["score"])
    assert [rival["logprob"] for rival in token["top_logprobs"]] == TOP


def test_the_least_sure_token_decides_unless_another_aggregate_is_named(run: Run, tmp_path: Path) -> None:
    tokens = [token_reply("4", [0.0, -3.0, -5.0]), token_reply("2", [0.0, -1.0, -3.0])]
    path = saved(tmp_path / "r.json", completion(tokens=tokens))
    assert record(run, path)["score"] == pytest.approx(2.0, abs=1e-5)
    assert record(run, path, "--aggregate", "mean")["score"] == pytest.approx(3.0, abs=1e-5)
    assert record(run, path, "--score", "margin")["score"] == pytest.approx(1.0)


def test_a_stream_counts_as_its_whole(run: Run, tmp_path: Path) -> None:
    parts = list(chunks(Reply(tokens=[token_reply("4", TOP), token_reply("2", TOP)]), REQUEST))
    wire = "".join(f"data: {json.dumps(part)}\n\n" for part in parts) + "data: [DONE]\n\n"
    whole = record(run, saved(tmp_path / "whole.json", completion(tokens=[token_reply(t, TOP) for t in "42"])))
    assert record(run, saved(tmp_path / "list.json", parts)) == whole
    assert record(run, saved(tmp_path / "wire.txt", wire)) == whole
    assert whole["score"] is not None


def test_standard_input_is_a_file_too(run: Run) -> None:
    result = run("score", "-", "--k", 3, "--json", "-", stdin=json.dumps(SEVEN).encode())
    assert json.loads(result.stdout)["reason"] is None


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (completion(text="7", logprobs=Logprobs.NULL), Reason.LOGPROBS_MISSING),
        (completion(text="7", logprobs=Logprobs.MISSING), Reason.LOGPROBS_MISSING),
        (completion(text="7", logprobs=Logprobs.EMPTY), Reason.LOGPROBS_MISSING),
        (completion(text="7", logprobs=Logprobs.NO_TOP), Reason.LOGPROBS_MISSING),
        (completion(text="8", tokens=[token_reply("7", TOP)]), Reason.LOGPROBS_MISALIGNED),
        (completion(tokens=[token_reply("7", [0.0, -3.0])]), Reason.LOGPROBS_TOO_FEW),
        (completion(tokens=[token_reply("7", [0.0, -3.0, -9999.0])]), Reason.LOGPROBS_TOO_FEW),
        (completion(tokens=[token_reply("7", [0.0, -3.0, -3.0])]), Reason.SCORE_UNDEFINED),
        (completion(text=""), Reason.EMPTY_ANSWER),
        (completion(tokens=[token_reply("7", TOP)], finish_reason="length"), Reason.TRUNCATED_ANSWER),
    ],
)
def test_each_lack_of_confidence_has_its_reason(
    run: Run, tmp_path: Path, reply: dict[str, Any], reason: Reason
) -> None:
    found = record(run, saved(tmp_path / "r.json", reply))
    assert (found["score"], found["squashed"], found["reason"]) == (None, None, reason.value)


@pytest.mark.parametrize(
    "content",
    [
        *("null", "7", '"text"', "[]", "{}", "[1, 2]", '{"choices": []}', '{"choices": [{}]}', '{"choices": {"a": 1}}'),
        '{"error": {"message": "no", "code": 400}}',
        '{"choices": [{"text": "an old completion"}]}',
        "[" * 100_000 + "]" * 100_000,
        "9" * 5000,
        '{"choices": [{"delta": {"content": "broken off"}}]}',
    ],
    ids=lambda content: content[:30],
)
def test_json_that_is_no_completion_has_a_reason_of_its_own(run: Run, tmp_path: Path, content: str) -> None:
    assert record(run, saved(tmp_path / "r.json", content)) == {
        "score": None,
        "squashed": None,
        "reason": NOT_A_COMPLETION,
        "tokens": [],
    }


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged_completions(draw: st.DrawFn) -> object:
    """A completion or a chunk with something else in the place of one of its parts."""
    content = json.loads(json.dumps(draw(st.sampled_from([SEVEN, *chunks(Reply(text="7"), REQUEST)]))))
    here: Any = content
    while True:
        keys = list(here) if isinstance(here, dict) else list(range(len(here)))
        if not keys:
            return content
        key = draw(st.sampled_from(keys))
        if not isinstance(here[key], dict | list) or not here[key] or draw(st.integers(0, 4)) == 0:
            here[key] = draw(json_values)
            return content
        here = here[key]


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(json_values | damaged_completions() | st.lists(damaged_completions(), max_size=3))
def test_any_json_gives_a_record_in_strict_json(content: object) -> None:
    found = score_record(
        read_completion(json.dumps(content).encode(), "it"), score="separability", k=3, aggregate="min"
    )
    json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    assert found["reason"] in REASONS
    assert (found["score"] is None) == (found["squashed"] is None) == (found["reason"] is not None)


@settings(max_examples=100)
@given(st.binary(max_size=40))
def test_any_bytes_are_a_completion_or_none_or_a_clear_error(data: bytes) -> None:
    said = ""
    try:
        read_completion(data, "it")
    except InputError as error:
        said = str(error)
    assert not said or said.startswith("it is not JSON: ")


def test_infinities_and_other_encodings_are_read(run: Run, tmp_path: Path) -> None:
    reply = completion(tokens=[token_reply("7", [0.0, -3.0, -5.0, float("-inf"), float("nan")])])
    path = tmp_path / "r.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(reply).encode())
    assert record(run, path)["score"] == pytest.approx(4.0, abs=1e-5)


def test_for_people_there_is_a_table_and_a_sentence(run: Run, tmp_path: Path) -> None:
    result = run("score", saved(tmp_path / "r.json", SEVEN), "--k", 3)
    assert '"7"' in result.stdout
    assert "score 4.0000, squashed 0.9168" in result.stdout
    result = run("score", saved(tmp_path / "r.json", {}), "--k", 3)
    assert "no chat completion" in result.stdout
    assert result.exit_code == 0
    result = run("score", saved(tmp_path / "r.json", SEVEN), "--k", 64)
    assert "fewer usable log-probs" in result.stdout


def test_json_goes_to_a_file_beside_the_table(run: Run, tmp_path: Path) -> None:
    result = run("score", saved(tmp_path / "r.json", SEVEN), "--k", 3, "--json", tmp_path / "out.json")
    assert "score 4.0000" in result.stdout
    assert json.loads((tmp_path / "out.json").read_text())["reason"] is None


@pytest.mark.parametrize(
    ("content", "flags", "said"),
    [
        ("{", [], "r.json is not JSON: Expecting property name"),
        ("", [], "r.json is not JSON"),
        ("data: {\n\n", [], "r.json is not JSON"),
        ("{}", ["--aggregate", "median"], "cannot be aggregated by 'median'"),
        ("{}", ["--score", "luck"], "There is no score 'luck'"),
        ("{}", ["--k", "0"], "--k"),
        ("{}", ["--json", "no/where.json"], "there is no folder no"),
        (None, [], "No such file or directory"),
    ],
)
def test_what_cannot_be_read_or_asked_ends_with_code_2(
    run: Run, tmp_path: Path, content: str | None, flags: list[str], said: str
) -> None:
    if content is not None:
        saved(tmp_path / "r.json", content)
    result = run("score", "r.json", *flags)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
