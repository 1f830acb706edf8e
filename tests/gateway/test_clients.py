"""The clients that people use, unchanged, against a real `speceyes serve` with the nano pair.

Answers are real models' answers, so the tests are about their form, and about routes where eight questions of all kinds
take both.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
from serve_process import Process, question, told

from speceyes.evals.datasets.samples import Sample
from speceyes.evals.datasets.scenes import draw_scene, make_scene

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import tool_loop

TOOL = tool_loop.TOOL


def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=300)


# OpenAI's


def test_openais_client_gets_answers_by_both_routes(nano: Process, samples: list[Sample]) -> None:
    """Real models: which route a question takes is theirs to decide; eight of all kinds take both."""
    asker = client(nano.url)
    routes = set()
    for sample in samples:
        answer = asker.chat.completions.create(**question(sample))
        assert answer.choices[0].message.content
        assert "<" not in answer.choices[0].message.content
        assert answer.usage is not None
        models = told(answer)["usage_by_model"]
        assert answer.usage.prompt_tokens == sum(one["prompt_tokens"] for one in models.values())
        routes.add(told(answer)["route"])
    assert routes == {"draft", "agent"}


@pytest.mark.parametrize("model", ["speceyes/draft", "speceyes/agent"])
def test_a_stream_says_the_same_as_the_whole(nano: Process, samples: list[Sample], model: str) -> None:
    asker = client(nano.url)
    whole = asker.chat.completions.create(**question(samples[0], model=model))
    chunks = list(
        asker.chat.completions.create(
            **question(samples[0], model=model, stream=True, stream_options={"include_usage": True})
        )
    )
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert [chunk.usage is not None for chunk in chunks].count(True) == 1
    last = [chunk for chunk in chunks if chunk.choices][-1]
    assert last.choices[0].finish_reason == whole.choices[0].finish_reason
    assert told(last)["route"] == told(whole)["route"]


def test_the_agents_run_is_in_the_trace(nano: Process, samples: list[Sample]) -> None:
    asker = client(nano.url)
    for sample in samples:
        extra = {"speceyes": {"trace": True, "reasoning": True}}
        answer = asker.chat.completions.create(**question(sample, model="speceyes/agent"), extra_body=extra)
        run = told(answer)["trace"]["run"]
        if run["depth"]:
            break
    assert run["depth"] >= 1, "none of eight questions made the agent zoom"
    assert run["turns"][0]["crops"][0]["size"] == [192, 192]
    assert answer.choices[0].message.model_extra["reasoning_content"]  # type: ignore[index]


async def test_openais_asynchronous_client_works(nano: Process, samples: list[Sample]) -> None:
    async with openai.AsyncOpenAI(base_url=nano.url, api_key="none", max_retries=0) as asker:
        text = ""
        async for chunk in await asker.chat.completions.create(**question(samples[1], stream=True)):
            text += chunk.choices[0].delta.content or ""
        assert text


def test_without_an_image_the_agents_server_answers(nano: Process) -> None:
    answer = client(nano.url).chat.completions.create(
        model="speceyes", messages=[{"role": "user", "content": "What digit is on the red sign?"}], max_tokens=8
    )
    assert told(answer)["reason"] == "no_image"
    assert answer.usage is not None
    assert 0 < answer.usage.completion_tokens <= 8


async def test_many_tasks_share_one_asynchronous_client(nano: Process, samples: list[Sample]) -> None:
    async with openai.AsyncOpenAI(base_url=nano.url, api_key="none", max_retries=0, timeout=300) as asker:
        alone = [await asker.chat.completions.create(**question(sample)) for sample in samples[:4]]
        together = await asyncio.gather(*(asker.chat.completions.create(**question(one)) for one in samples[:4]))
    for one, other in zip(alone, together, strict=True):
        assert one.choices[0].message.content == other.choices[0].message.content
        assert one.id != other.id


def test_a_stream_that_is_left_early_leaves_the_gateway_well(nano: Process, samples: list[Sample]) -> None:
    asker = client(nano.url)
    for _ in range(3):
        with asker.chat.completions.create(**question(samples[0], model="speceyes/agent", stream=True)) as stream:
            next(iter(stream))
    assert asker.chat.completions.create(**question(samples[0])).choices[0].message.content


@pytest.mark.parametrize("stream", [False, True])
def test_with_tools_an_accepted_draft_is_a_final_message(nano: Process, samples: list[Sample], stream: bool) -> None:
    """Transparent mode: the client's loop ends where there is no tool call. The routes are the models' to choose."""
    asker, ended = client(nano.url), 0
    for sample in samples:
        fields = {"tools": [TOOL], "max_tokens": 200, "stream": stream}
        raw = asker.chat.completions.with_raw_response.create(**question(sample, **fields))
        if raw.headers["x-speceyes-route"] != "draft":
            raw.http_response.close() if stream else None
            continue
        reply = raw.parse()
        ended += 1
        if stream:
            chunks = [chunk for chunk in reply if chunk.choices]
            assert not any(chunk.choices[0].delta.tool_calls for chunk in chunks)
            assert chunks[-1].choices[0].finish_reason == "stop"
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        else:
            assert (reply.choices[0].finish_reason, reply.choices[0].message.tool_calls) == ("stop", None)
            assert reply.choices[0].message.content
    assert ended, "none of eight questions was answered by the draft"


def test_a_tool_loop_ends_after_one_turn_on_easy_questions_and_zooms_on_hard_ones(
    nano: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    asker, turns = client(nano.url), {"large": list[int](), "small": list[int]()}
    for scene in map(make_scene, (1, 2, 5)):
        image = draw_scene(scene)
        for kind, counted in turns.items():
            sign = next(sign for sign in scene.signs if sign.small == (kind == "small"))
            answer, count = tool_loop.ask(asker, image, f"What digit is on the {sign.color} sign?")
            assert answer
            counted.append(count)
    assert 1 in turns["large"]
    assert max(turns["small"]) >= 2
    assert "zoom to" in capsys.readouterr().out


def test_errors_are_of_the_clients_own_classes(nano: Process, samples: list[Sample]) -> None:
    asker = client(nano.url)
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        asker.chat.completions.create(**question(samples[0], model="gpt-4o"))
    with pytest.raises(openai.BadRequestError, match="response_format"):
        asker.chat.completions.create(**question(samples[0], response_format={"type": "json_object"}))


# curl


def curl(*arguments: str) -> str:
    done = subprocess.run(["curl", "-sS", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("stream", [False, True])
def test_curl(nano: Process, samples: list[Sample], tmp_path: Path, stream: bool) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps(question(samples[0], stream=stream)))
    url = f"{nano.url}/chat/completions"
    said = curl("-N", url, "-H", "content-type: application/json", "--data-binary", f"@{body}")
    if stream:
        assert said.startswith("data: {")
        assert said.endswith("data: [DONE]\n\n")
    else:
        assert json.loads(said)["choices"][0]["message"]["content"]


def test_curl_without_a_content_type_and_with_a_large_body(
    nano: Process, samples: list[Sample], tmp_path: Path
) -> None:
    """curl sends `Expect: 100-continue` above a megabyte, and form data where nothing is said."""
    body = tmp_path / "body.json"
    body.write_text(json.dumps(question(samples[0], model="speceyes/draft", metadata={"padding": "x" * 2_000_000})))
    said = curl(f"{nano.url}/chat/completions", "--data-binary", f"@{body}", "-H", "Expect: 100-continue")
    assert json.loads(said)["choices"][0]["message"]["content"]


def test_curl_lists_the_models(nano: Process) -> None:
    names = [model["id"] for model in json.loads(curl(f"{nano.url}/models"))["data"]]
    assert names[:3] == ["speceyes", "speceyes/agent", "speceyes/draft"]


# Inspect

TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentImage, ContentText
from inspect_ai.scorer import includes

@task
def signs():
    rows = __ROWS__
    content = lambda row: [ContentImage(image=row["image"]), ContentText(text=row["question"])]
    samples = [Sample(input=[ChatMessageUser(content=content(row))], target=row["answer"]) for row in rows]
    return Task(dataset=samples, scorer=includes())
"""


def test_inspect_evaluates_with_its_own_command(nano: Process, samples: list[Sample], tmp_path: Path) -> None:
    """`inspect eval ... --model openai-api/gateway/MODEL`; the service's name says which variables it reads."""
    rows = [row(sample) for sample in samples[:3]]
    (tmp_path / "signs.py").write_text(TASK.replace("__ROWS__", repr(rows)))
    program = str(Path(sys.executable).with_name("inspect"))
    flags = ["--model", "openai-api/gateway/speceyes", "--display", "none", "--log-format", "json", "--seed", "1"]
    done = subprocess.run(
        [program, "eval", "signs.py", "--log-dir", "logs", "--max-retries", "0", *flags],
        cwd=tmp_path,
        env=os.environ | {"GATEWAY_BASE_URL": nano.url, "GATEWAY_API_KEY": "none"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = (tmp_path / "logs").glob("*.json")
    log = json.loads(file.read_text())
    assert (log["status"], len(log["samples"])) == ("success", 3)
    for sample in log["samples"]:
        assert sample["output"]["choices"][0]["message"]["content"]
        assert sample["output"]["choices"][0]["stop_reason"] == "stop"
    assert log["stats"]["model_usage"]["openai-api/gateway/speceyes"]["input_tokens"] > 0


def row(sample: Sample) -> dict[str, Any]:
    image, text = question(sample)["messages"][0]["content"]
    return {"image": image["image_url"]["url"], "question": text["text"], "answer": sample.asked.answer}
