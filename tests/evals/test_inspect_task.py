"""Our data sets in inspect, with its own command, against a real `speceyes serve` with the nano pair."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import ChatMessageUser, ModelName, ModelOutput
from inspect_ai.scorer import SampleScore, Score, Target
from inspect_ai.solver import TaskState
from PIL import Image

from speceyes.errors import ConfigError, DatasetError
from speceyes.evals import inspect_task
from speceyes.evals.datasets.formats import Format, write_benchmark
from speceyes.evals.datasets.readers import open_dataset
from speceyes.evals.scoring import Rule, score_answer
from speceyes.imaging.decode import DecodedImage, decode

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from serve_process import Process, started

ROOT = Path(__file__).parents[2]
SET = "nano:6:5@test"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = started(tmp_path_factory.mktemp("serve"))
    yield process
    code, _, err = process.stop()
    assert code == 0, err


def inspect(folder: Path, url: str, *flags: str, name: str = "speceyes") -> dict[str, Any]:
    """The log that `inspect eval` leaves. It is told the task by its path below the working directory, as it needs."""
    program = str(Path(sys.executable).with_name("inspect"))
    how = ["--display", "none", "--log-format", "json", "--log-dir", str(folder), "--max-retries", "0"]
    done = subprocess.run(
        [program, "eval", "src/speceyes/evals/inspect_task.py", "--model", f"openai-api/gateway/{name}", *how, *flags],
        cwd=ROOT,
        env=os.environ | {"GATEWAY_BASE_URL": url, "GATEWAY_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.json")
    log: dict[str, Any] = json.loads(file.read_text())
    assert log["status"] == "success", log.get("error")
    return log


def test_inspect_evaluates_our_questions_and_marks_them_as_we_do(gateway: Process, tmp_path: Path) -> None:
    log = inspect(tmp_path, gateway.url, "-T", f"set={SET}")
    dataset = open_dataset(SET)
    assert log["eval"]["metadata"] == {"kind": "nano", "digest": dataset.digest, "shuffle_seed": None}
    found = {sample["id"]: sample for sample in log["samples"]}
    assert list(found) == [item.id for item in dataset.items]
    rights, unparsed = [], 0
    for item in dataset.items:
        sample = found[item.id]
        asked = sample["messages"][0]["content"]
        assert [part["type"] for part in asked] == ["image", "text"]
        assert asked[1]["text"] == item.prompt
        text = sample["output"]["choices"][0]["message"]["content"]
        mark, score = score_answer(text, item), sample["scores"]["stated_choice"]
        assert score["value"] == ("C" if mark.right else "N" if mark.unparsed else "I")
        assert score.get("answer") == mark.parsed
        assert score["metadata"] == {"how": mark.how, "form": mark.form, "unparsed": mark.unparsed}
        assert sample["metadata"]["category"] == item.category
        rights.append(bool(mark.right))
        unparsed += mark.unparsed
    metrics = {
        name: metric["value"] for result in log["results"]["scores"] for name, metric in result["metrics"].items()
    }
    assert metrics["accuracy"] == pytest.approx(sum(rights) / len(rights))
    assert 0 <= metrics["stderr"] < 1
    assert metrics["unparsed"] == pytest.approx(unparsed / len(rights))
    for category in {item.category for item in dataset.items}:
        inside = [right for right, item in zip(rights, dataset.items, strict=True) if item.category == category]
        assert metrics[category] == pytest.approx(sum(inside) / len(inside))


def test_a_benchmarks_files_are_asked_with_their_own_bytes(gateway: Process, tmp_path: Path) -> None:
    write_benchmark(tmp_path / "bench", Format.VSTAR, count=2, seed=1)
    flags = ["-T", f"set={tmp_path / 'bench'}", "-T", "shuffle_seed=3", "-T", "rule=lmms"]
    log = inspect(tmp_path / "logs", gateway.url, *flags, name="speceyes/draft")
    dataset = open_dataset(str(tmp_path / "bench"), shuffle_seed=3)
    assert (log["eval"]["metadata"]["shuffle_seed"], log["eval"]["metadata"]["digest"]) == (3, dataset.digest)
    for item, sample in zip(dataset.items, log["samples"], strict=True):
        assert (sample["id"], sample["target"]) == (item.id, item.gold)
        assert sample["metadata"]["order"] == list(item.order)
        sent = sample["attachments"][sample["messages"][0]["content"][0]["image"].removeprefix("attachment://")]
        assert base64.b64decode(sent.partition(",")[2]) == item.image().source
        text = sample["output"]["choices"][0]["message"]["content"]
        assert sample["scores"]["stated_choice"].get("answer") == score_answer(text, item, Rule.LMMS).parsed


def marked(text: str, gold: str, options: list[str], rule: str = "strict") -> Score:
    state = TaskState(
        model=ModelName("mockllm/model"),
        sample_id="one",
        epoch=1,
        input="?",
        messages=[ChatMessageUser(content="?")],
        output=ModelOutput.from_content("model", text),
        metadata={"options": options},
    )
    score = asyncio.run(inspect_task.stated_choice(rule)(state, Target(gold)))
    assert score is not None
    return score


@pytest.mark.parametrize(
    ("text", "value", "answer", "how"),
    [
        ("(B)", "C", "B", "letter"),
        ("The answer is b.", "C", "B", "cue"),
        ("red", "I", "A", "option_text"),
        ("Hard to say.", "N", None, "unparsed"),
        ("", "N", None, "unparsed"),
        ("A or B", "N", None, "unparsed"),
    ],
)
def test_what_is_stated_decides_and_what_is_not_stands_apart(
    text: str, value: str, answer: str | None, how: str
) -> None:
    score = marked(text, "B", ["red", "blue"])
    assert (score.value, score.answer, (score.metadata or {})["how"]) == (value, answer, how)
    assert score.reason == ("invalid_response_format" if value == "N" else None)


def test_another_rule_reads_otherwise() -> None:
    text, options = "Based on the sign, the answer is C.", ["blue", "green", "red", "white"]
    assert marked(text, "C", options).value == "C"
    assert marked(text, "C", options, "lmms").answer == "B"


def test_a_question_without_a_known_answer_is_not_scored() -> None:
    score = marked("A", "", ["red", "blue"])
    assert isinstance(score.value, float)
    assert math.isnan(score.value)
    assert score.answer == "A"


def test_the_share_of_unparsed_answers() -> None:
    texts = ["A", "B", "Hard to say.", "B"]
    scores = [SampleScore(score=marked(text, "B", ["red", "blue"])) for text in texts]
    share: Any = inspect_task.unparsed()
    assert share(scores) == 0.25
    assert share([]) == 0.0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"set": "nano:2:0", "rule": "kind"}, ConfigError),
        ({"set": "nano:2:0", "rule": "pope"}, ConfigError),
        ({"set": "nowhere"}, DatasetError),
    ],
)
def test_what_cannot_be_asked_is_refused_before_a_model_is(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        inspect_task.sets(**arguments)


def test_a_picture_that_decoders_read_in_different_ways_is_sent_upright_as_png() -> None:
    picture, buffer = Image.new("RGB", (8, 4), (200, 30, 30)), io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture.save(buffer, "JPEG", exif=exif)
    for image, size in ((decode(buffer.getvalue()), (4, 8)), (DecodedImage.of_pixels(picture), (8, 4))):
        url = inspect_task.data_url(image)
        assert url.startswith("data:image/png;base64,")
        assert Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size == size


def test_the_task_is_announced_to_inspect() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["inspect_ai"] == {"speceyes": inspect_task.__name__}
