"""Every example runs, as a user would run it: in a process of its own, with real models, in an empty folder."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from speceyes.config.sandbox import SandboxSettings
from speceyes.engines.embedded import EmbeddedServer
from speceyes.errors import SandboxUnavailable
from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.sandbox import choose_provider
from speceyes.types import Reason, Route

sys.path.insert(0, str(Path(__file__).parent / "gateway"))

from serve_process import started

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
TIMEOUT_S = 240
SERVED = "http://127.0.0.1:8040/v1"


def run(folder: Path, *command: str | Path) -> str:
    """What a Python command prints. It must end well, within the time."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SPECEYES_")}
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def scene(tmp_path: Path) -> tuple[Path, str]:
    """A picture and a question about it."""
    made = make_scene(seed=7)
    draw_scene(made).save(tmp_path / "scene.png")
    return tmp_path / "scene.png", f"What digit is on the {made.signs[0].color} sign?"


def test_each_example_is_tested_here() -> None:
    tests = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in tests] == []


@pytest.mark.usefixtures("nano_draft_server", "nano_agent_server")  # they say it best if the models are missing
class TestExamples:
    def test_ask_one_about_a_scene_of_its_own(self, tmp_path: Path) -> None:
        said = run(tmp_path, EXAMPLES / "ask_one.py")
        question, came_from, *_ = said.splitlines()
        assert re.fullmatch(r"What digit is on the \w+ sign\? \d", question)
        route, reason = re.match(r"from the (\w+): (\w+), ", came_from).groups()
        assert Reason(reason).route is Route(route)

    def test_ask_one_about_a_file(self, tmp_path: Path, scene: tuple[Path, str]) -> None:
        image, question = scene
        assert run(tmp_path, EXAMPLES / "ask_one.py", image, question).startswith(question)

    def test_many_questions(self, tmp_path: Path) -> None:
        said = run(tmp_path, EXAMPLES / "many_questions.py", "8")
        answered, right = map(int, re.search(r"(\d) of 8 questions answered, (\d) of them right", said).groups())
        assert answered == 8
        assert right >= 5
        counts = re.findall(r"^ +(\d+)  (draft|agent)  (\w+)$", said, re.MULTILINE)
        assert sum(int(count) for count, _, _ in counts) == 8

    def test_own_gate(self, tmp_path: Path) -> None:
        said = run(tmp_path, EXAMPLES / "own_gate.py", "4")
        scores = dict(re.findall(r"^(\w+)((?: +-?\d+\.\d+)+)$", said, re.MULTILINE))
        assert {"separability", "margin", "entropy"} <= scores.keys()
        assert all(len(values.split()) == 4 for values in scores.values())
        reasons = re.findall(r"^question \d: '.*' from the (?:draft|agent) \((\w+)\)$", said, re.MULTILINE)
        assert len(reasons) == 4
        assert set(reasons) <= {Reason.ACCEPTED, Reason.TOOL_WOULD_HELP, Reason.BELOW_THRESHOLD}

    def test_your_servers(
        self,
        tmp_path: Path,
        scene: tuple[Path, str],
        nano_draft_server: EmbeddedServer,
        nano_agent_server: EmbeddedServer,
    ) -> None:
        servers = []
        for role, server in (("draft", nano_draft_server), ("agent", nano_agent_server)):
            servers += [f"--{role}-url", server.url, f"--{role}-model", server.model, f"--{role}-sizes", "nano"]
        said = run(tmp_path, EXAMPLES / "your_servers.py", *scene, *servers)
        answer, came_from, *usage = said.splitlines()
        assert answer in set("0123456789")
        assert came_from.startswith("from the ")
        assert any(line.startswith(f"{nano_agent_server.model}: ") for line in usage)

    def test_tool_loop(self, tmp_path: Path) -> None:
        """The client's own loop ends after one turn on easy questions, and zooms on hard ones."""
        said = run(tmp_path, EXAMPLES / "tool_loop.py")
        found = re.findall(
            r"^A (\w+) sign, which shows (\d): .*\n((?: +zoom .*\n)*) +(\S*) after (\d)", said, re.MULTILINE
        )
        assert [kind for kind, *_ in found] == ["large", "small"] * 3
        at_once = {kind: sum(k == kind and turns == "1" for k, *_, turns in found) for kind in ("large", "small")}
        assert at_once["large"] >= 2
        assert at_once["small"] <= 1
        assert all(bool(zooms) == (turns != "1") for _, _, zooms, _, turns in found)
        assert sum(digit == answer for _, digit, _, answer, _ in found) >= 4

    def test_deepeyes_on_vllm_with_the_nano_agent(self, tmp_path: Path) -> None:
        question, thoughts, *rest = run(tmp_path, EXAMPLES / "deepeyes_on_vllm.py").splitlines()
        assert re.fullmatch(r"What digit is on the \w+ sign\?", question)
        assert thoughts.endswith("I look closer at it.")
        assert re.fullmatch(r"\[looks at (\d+, ){3}\d+ of the original\]", rest[0])
        assert re.fullmatch(r"\d \(answered after \d turns, \d+ tokens\)", rest[-1])

    def test_deepeyes_on_vllm_with_a_server(
        self, tmp_path: Path, scene: tuple[Path, str], nano_agent_server: EmbeddedServer
    ) -> None:
        said = run(tmp_path, EXAMPLES / "deepeyes_on_vllm.py", nano_agent_server.url, *scene)
        assert re.search(r"\(\w+ after \d turns, \d+ tokens\)$", said)

    def test_own_tool(self, tmp_path: Path) -> None:
        said = run(tmp_path, EXAMPLES / "own_tool.py")
        assert said.startswith("for a larger model: look_up\ntools: image_zoom_in_tool\n")
        asked = re.findall(r"\(it is (\d)\)\n((?: +looks for the .* at \[.*\]\n)+) +(\S*) \((\w+)\)", said)
        assert [finish for *_, finish in asked] == ["answered"] * 3
        assert sum(digit == answer for digit, _, answer, _ in asked) >= 2

    def test_the_readme_s_own(self, tmp_path: Path) -> None:
        """Its scenes are made by its command, its questions are about them, and its program runs."""
        text = (ROOT / "README.md").read_text()
        assert SERVED in text
        (make,) = re.findall(r"^    speceyes (data make scenes .*)$", text, re.MULTILINE)
        run(tmp_path, "-c", "from speceyes.cli.main import main; main()", *make.split())
        asked = set(re.findall(r'speceyes ask (scenes/\S+) "(.*?)"', text))
        assert asked
        for image, question in asked:
            assert (tmp_path / image).is_file()
            assert json.loads((tmp_path / image).with_suffix(".json").read_text())["question"] == question
        client, program = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert re.search(r"\b(draft|agent) \w+ ", run(tmp_path, "-c", program))
        gateway = started(tmp_path)
        try:
            assert re.search(r" (draft|agent) \w+", run(tmp_path, "-c", client.replace(SERVED, gateway.url)))
        finally:
            gateway.stop()


class TestScriptedExamples:
    """A scripted server plays models that do not come with SpecEyes."""

    def test_own_dialect(self, tmp_path: Path) -> None:
        said = run(tmp_path, EXAMPLES / "own_dialect.py").splitlines()
        assert said[0] == "'I see a van. LOOK 500 250 750 500': [(800.0, 200.0, 1200.0, 400.0)]"
        assert said[1].startswith("'LOOK there': Write LOOK and four numbers")
        assert said[-1] == "red answered"

    def test_thyme_in_a_sandbox(self, tmp_path: Path) -> None:
        """The code really runs, where this machine can isolate it; else the example says what is missing."""
        try:
            provider = asyncio.run(choose_provider(SandboxSettings(provider="auto")))
        except SandboxUnavailable as missing:
            pytest.skip(str(missing))
        assert provider is not None
        said = run(tmp_path, EXAMPLES / "thyme_in_a_sandbox.py").splitlines()
        assert said[0].startswith("turn 0: python ran ['image.crop((")
        assert said[0].endswith("which printed ['part.png']")
        assert said[1] == "9 after pictures of 192 x 192 192 x 192"
