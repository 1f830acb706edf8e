"""`speceyes dialects`: the list, the check, and prompts that go out and come back."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from command_line import Run
from hypothesis import given
from hypothesis import strategies as st

from speceyes.agents import DIALECTS, make_dialect
from speceyes.agents.dialects import Malformed, Prompts, Qwen3VL
from speceyes.types import Completion
from speceyes.wiring.prompts import prompts_as_toml, read_prompts


def test_the_dialects_are_listed(run: Run) -> None:
    rows = {row["name"]: row for row in json.loads(run("dialects", "--json", "-").stdout)["dialects"]}
    assert list(rows) == list(DIALECTS)
    assert {name for name, row in rows.items() if row["needs_sandbox"]} == {"thyme", "deepeyesv2"}
    assert rows["minio3"] == {
        "name": "minio3",
        "models": "Mini-o3-7B (Qwen2.5-VL)",
        "calls": "JSON in <grounding>",
        "coordinates": "unit",
        "needs_sandbox": False,
        "stop": ["</grounding>", "</tool_call>", "</answer>"],
        "tools": ["zoom"],
        "max_turns": 12,
        "max_tokens_per_turn": 2048,
        "pixels": {"factor": 28, "least": 40_000, "most": 2_000_000},
    }
    said = run("dialects").stdout
    for part in ("qwen3vl-native", "per_mille", "Python in <code>", "needed"):
        assert part in said


def test_all_of_them_pass_the_check(run: Run) -> None:
    result = run("dialects", "check", "--json", "-")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["passed"]) == (0, True)
    assert [one["name"] for one in record["dialects"]] == list(DIALECTS)
    for one in record["dialects"]:
        assert one["passed"]
        assert {"name", "outcome", "detail"} == set(one["checks"][0])
        assert {check["outcome"] for check in one["checks"]} <= {"passed", "skipped"}


def test_one_by_name_for_people(run: Run) -> None:
    said = run("dialects", "check", "thyme").stdout
    assert said.startswith("thyme: ")
    assert "skipped: a crop of a crop: the stand-in keeps no variables; a sandbox does" in said
    assert "qwen3vl" not in said


def test_a_failed_check_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Qwen3VL):
        name = "broken"

        def parse(self, completion: Completion) -> Malformed:
            return Malformed("No.")

    monkeypatch.setitem(DIALECTS, "broken", Broken)
    result = run("dialects", "check", "broken", "--json", "-")
    record = json.loads(result.stdout)
    assert (result.exit_code, record["passed"]) == (1, False)
    assert any(check["outcome"] == "failed" for check in record["dialects"][0]["checks"])
    assert "failed: a right call" in run("dialects", "check", "broken").stdout


@pytest.mark.parametrize("command", ["check", "show"])
def test_an_unknown_name_is_exit_code_2(run: Run, command: str) -> None:
    result = run("dialects", command, "thime")
    assert result.exit_code == 2
    assert "there is no dialect 'thime'. Known: deepeyes, " in result.stderr


@pytest.mark.parametrize("name", DIALECTS)
def test_prompts_go_out_and_come_back(run: Run, tmp_path: Path, name: str) -> None:
    prompts = make_dialect(name).prompts
    file = tmp_path / "prompts.toml"
    file.write_text(run("dialects", "show", name).stdout)
    other = dataclasses.replace(prompts, **dict.fromkeys(Prompts.__dataclass_fields__, "?"))
    assert read_prompts(file, other) == prompts
    assert json.loads(run("dialects", "show", name, "--json", "-").stdout) == dataclasses.asdict(prompts)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_prompt_survives_the_file(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    prompts = dataclasses.replace(make_dialect("deepeyes").prompts, system=text, result=f"{text}\n{text}")
    file = tmp_path_factory.mktemp("prompts") / "prompts.toml"
    file.write_text(prompts_as_toml(prompts), encoding="utf-8", newline="")
    assert read_prompts(file, make_dialect("minio3").prompts) == prompts
