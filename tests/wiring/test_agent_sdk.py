"""`speceyes.Agent`: the loop that a program gets in one line, against scripted servers and the real nano agent."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from speceyes import Agent, AgentAnswer, ToolBudget, tool
from speceyes.agents import DIALECTS, Budget, make_dialect
from speceyes.agents.loop import Generate, agent_loop
from speceyes.config.sandbox import SandboxSettings
from speceyes.engines.script import Hang, Outcome, Reply, Status
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import ConfigError, EngineRefused, ImageError, InputError, SandboxUnavailable
from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.events import TextStreamed, TurnEnded
from speceyes.imaging import Box, Coordinates, DecodedImage
from speceyes.sandbox import Availability, choose_provider
from speceyes.sandbox import Outcome as Ran
from speceyes.tools import RotateTool
from speceyes.types import Finish, Query, Sampling, ToolCall
from speceyes.wiring.agent import ToolRan
from speceyes.wiring.agent.pictures import read_pictures

PICTURE = Image.linear_gradient("L").resize((560, 280)).convert("RGB")
ANSWER = Reply("<think>I see it.</think>\n<answer>a van")


def call(name: str = "image_zoom_in_tool", **arguments: Any) -> Reply:
    body = json.dumps({"name": name, "arguments": arguments or {"bbox_2d": [10, 10, 200, 200], "label": "van"}})
    return Reply(f"<think>Closer.</think>\n<tool_call>\n{body}\n</tool_call>")


def said(request: dict[str, Any]) -> str:
    """All text of a request's last message."""
    content = request["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def pictures(request: dict[str, Any]) -> int:
    parts = [part for message in request["messages"] for part in message["content"] if isinstance(part, dict)]
    return sum(part["type"] == "image_url" for part in parts)


def no_retries(server: ScriptedServer, **options: Any) -> Agent:
    return Agent(server.url, "scripted", retries=0, **options)


class TestTheLoop:
    async def test_it_looks_calls_and_answers(self) -> None:
        async with ScriptedServer([call(), ANSWER]) as server, Agent(server.url, "scripted") as agent:
            answer = await agent.answer("What is it?", PICTURE)
            first, second = (request.json for request in server.completions)
        assert (answer.text, str(answer), answer.finish, answer.whole) == ("a van", "a van", Finish.ANSWERED, True)
        assert [turn.tool for turn in answer.turns] == ["image_zoom_in_tool", None]
        (crop,) = answer.crops
        assert crop.box == pytest.approx((10, 10, 200, 200))
        assert crop.label == "van"
        assert answer.usage.calls == 2
        assert [view.size for view in answer.views] == [(560, 280), (196, 196)]
        assert (pictures(first), pictures(second)) == (1, 2)

    async def test_it_is_found_under_the_package_s_own_name_and_says_what_it_is(self) -> None:
        agent = Agent("http://127.0.0.1:9", "some/model", "qwen3vl")
        assert repr(agent) == "Agent('http://127.0.0.1:9', 'some/model', 'qwen3vl')"

    async def test_a_program_s_own_tool_reaches_the_model_and_is_run(self) -> None:
        @tool
        async def look_up(plate: str) -> dict[str, str]:
            """Who owns a car.

            Args:
                plate: The number plate.
            """
            return {"owner": f"owner of {plate}"}

        replies = [call("look_up", plate="B-12"), ANSWER]
        async with ScriptedServer(replies) as server, no_retries(server, tools=[look_up]) as agent:
            answer = await agent.answer("Whose van is it?", PICTURE)
            first, second = (request.json for request in server.completions)
        assert [each["function"]["name"] for each in first["tools"]] == ["image_zoom_in_tool", "look_up"]
        assert '{"owner": "owner of B-12"}' in said(second)
        assert answer.turns[0].tool == "look_up"

    async def test_a_plain_function_is_enough(self) -> None:
        def add(a: int, b: int) -> int:
            return a + b

        async with ScriptedServer([call("add", a=2, b=3), ANSWER]) as server, no_retries(server, tools=[add]) as agent:
            assert (await agent.answer("How many?")).turns[0].observation == "5"

    async def test_a_tool_with_the_name_of_the_dialect_s_replaces_it(self) -> None:
        @tool(name="image_zoom_in_tool")
        def zoom(picture: Image.Image, bbox_2d: Box) -> Image.Image:
            """Zoom my way."""
            return picture.crop(tuple(round(edge) for edge in bbox_2d.as_tuple())).convert("L")  # type: ignore[arg-type]

        async with ScriptedServer([call(), ANSWER]) as server, no_retries(server, tools=[zoom]) as agent:
            answer = await agent.answer("What is it?", PICTURE)
            request = server.completions[0].json
        assert [each["function"]["description"] for each in request["tools"]] == ["Zoom my way."]
        assert answer.views[1].size == (196, 196)
        assert answer.crops == ()  # what a tool made is no part of the image

    async def test_a_tool_speaks_the_dialect_s_coordinates(self) -> None:
        agent = Agent("http://127.0.0.1:9", "m", "qwen3vl", tools=[RotateTool()])
        assert "from 0 to 1000" in json.dumps(agent.dialect.tools[-1])
        fixed = Agent("http://127.0.0.1:9", "m", "qwen3vl", tools=[RotateTool(coordinates=Coordinates.UNIT)])
        assert "from 0 to 1;" in json.dumps(fixed.dialect.tools[-1])

    async def test_a_tool_that_fails_or_is_slow_does_not_end_the_run(self) -> None:
        @tool
        def fail() -> None:
            raise RuntimeError("the index is empty")

        @tool(budget=ToolBudget(seconds=0.01))
        async def hang() -> None:
            await asyncio.Event().wait()

        replies = [call("fail", a=1), call("hang", a=1), ANSWER]
        async with ScriptedServer(replies) as server, no_retries(server, tools=[fail, hang]) as agent:
            answer = await agent.answer("What is it?", PICTURE)
        assert answer.text == "a van"
        assert answer.turns[0].error == "fail failed: RuntimeError: the index is empty"
        assert "was not done within 0.01 s" in str(answer.turns[1].error)

    async def test_the_tools_budget_holds_for_all(self) -> None:
        @tool
        def talk() -> str:
            return "x" * 5000

        budget = ToolBudget(characters=300)
        async with (
            ScriptedServer([call("talk", a=1), ANSWER]) as server,
            no_retries(server, tools=[talk], tool_budget=budget) as agent,
        ):
            answer = await agent.answer("What is it?", PICTURE)
        assert len(answer.turns[0].observation) == 300

    async def test_limits_end_a_run_with_an_answer(self) -> None:
        replies = [call(), Reply("<answer>a guess")]
        async with ScriptedServer(replies) as server, no_retries(server, budget=Budget(max_turns=1)) as agent:
            answer = await agent.answer("What is it?", PICTURE)
        assert (answer.text, answer.finish) == ("a guess", Finish.TURN_LIMIT)

    async def test_what_is_asked_of_the_sampling_reaches_the_server_and_the_answer(self) -> None:
        sampling = Sampling(temperature=0.5, seed=3, stop=(" van",))
        async with (
            ScriptedServer([ANSWER]) as server,
            no_retries(server, sampling=sampling, system="Be kind.") as agent,
        ):
            answer = await agent.answer("What is it?", PICTURE)
            request = server.completions[0].json
        assert (request["temperature"], request["seed"]) == (0.5, 3)
        assert "Be kind." in request["messages"][0]["content"]
        assert answer.text == "a"

    async def test_many_questions_at_once(self) -> None:
        def script(request: dict[str, Any], n: int) -> Outcome:
            number = said(request).split("number ")[1].split("?")[0] if "number" in said(request) else ""
            return Reply(f"<answer>{number}")

        async with ScriptedServer(script) as server, no_retries(server) as agent:
            questions = (agent.answer(f"What is number {n}?", PICTURE) for n in range(20))
            assert [answer.text for answer in await asyncio.gather(*questions)] == [str(n) for n in range(20)]

    @pytest.mark.parametrize("name", sorted(DIALECTS))
    async def test_every_dialect_runs(self, name: str) -> None:
        @tool(name="python")
        def python(code: str) -> str:
            """Run code."""
            return f"ran {len(code)}"

        needs_sandbox = getattr(DIALECTS[name], "needs_sandbox", False)
        tools = [python] if needs_sandbox else []
        dialect: Any = make_dialect(name)
        if needs_sandbox:
            arguments = {"code": "print(1)"}
        else:
            arguments = dialect.zoom_arguments(
                [10, 10, 200, 200] if dialect.coordinates == "resized" else [0, 0, 0.5, 0.5]
            )
            if dialect.coordinates == "per_mille":
                arguments = dialect.zoom_arguments([0, 0, 500, 500])
        used = "python" if needs_sandbox else next(iter(dialect.toolbox))
        turns = [dialect.write_call(dialect.write_body(used, arguments), used), dialect.write_answer("a van")]
        replies = [Reply(turn.text, tool_calls=turn.tool_calls) for turn in turns]
        async with ScriptedServer(replies) as server, no_retries(server, dialect=name, tools=tools) as agent:
            answer = await agent.answer("What is it?", PICTURE)
        assert answer.text == "a van"
        assert answer.turns[0].tool == used
        assert answer.turns[0].error is None


class Unsafe:
    """A provider that runs nothing: it shows which sandbox was asked, and for what."""

    name = "unsafe"
    not_covered = ()

    def __init__(self) -> None:
        self.code: list[str] = []
        self.open_sessions = 0

    async def available(self) -> Availability:
        return Availability(True)

    @asynccontextmanager
    async def open(self, images: Sequence[DecodedImage] = (), limits: object = None) -> AsyncIterator[Any]:
        self.open_sessions += 1
        try:
            yield self
        finally:
            self.open_sessions -= 1

    async def run(self, code: str, timeout_s: float | None = None) -> Ran:
        self.code.append(code)
        return Ran(stdout=f"step {len(self.code)}, {self.open_sessions} open")


class TestCode:
    SCRIPT = (
        Reply("<think>First <code>\n```python\nx = 1\n```\n</code>"),
        Reply("<code>\n```python\nprint(x)\n```\n</code>"),
        Reply("</think><answer>1"),
    )

    async def test_it_runs_in_the_sandbox_that_is_given_one_session_for_a_run(self) -> None:
        provider = Unsafe()
        async with (
            ScriptedServer(list(self.SCRIPT)) as server,
            no_retries(server, dialect="thyme", sandbox=provider) as agent,
        ):
            answer = await agent.answer("What is x?", PICTURE)
        assert answer.text == "1"
        assert provider.code[1:] == ["x = 1", "print(x)"]  # the first is the tool's own: it opens the images
        assert answer.turns[1].observation == "step 3, 1 open"
        assert provider.open_sessions == 0
        assert "not inside the assistant's turn" in answer.run.notes[0]

    async def test_a_program_may_refuse_code(self) -> None:
        with pytest.raises(ConfigError, match="needs a sandbox"):
            await Agent("http://127.0.0.1:9", "m", "thyme", sandbox="off").answer("What is x?", PICTURE)

    async def test_really_in_a_sandbox_where_this_machine_has_one(self) -> None:
        try:
            await choose_provider(SandboxSettings(provider="auto"))
        except SandboxUnavailable as missing:
            pytest.skip(str(missing))
        async with ScriptedServer(list(self.SCRIPT)) as server, no_retries(server, dialect="thyme") as agent:
            answer = await agent.answer("What is x?", PICTURE)
        assert answer.turns[1].observation == "1"


class TestStreaming:
    async def test_events_come_in_order_and_end_with_the_answer(self) -> None:
        async with ScriptedServer([call(), ANSWER]) as server, no_retries(server) as agent:
            events = [event async for event in agent.stream("What is it?", PICTURE)]
        *before, answer = events
        assert isinstance(answer, AgentAnswer)
        kinds = [type(event) for event in before if not isinstance(event, TextStreamed)]
        assert kinds == [ToolRan, TurnEnded, TurnEnded]
        ran = next(event for event in before if isinstance(event, ToolRan))
        assert ran.views[0].pixels.size == (196, 196)
        texts = [event for event in before if isinstance(event, TextStreamed)]
        assert "".join(event.text for event in texts if event.kind == "answer") == answer.text
        assert "".join(event.text for event in texts if event.kind == "thought") == "Closer.I see it."

    async def test_leaving_early_ends_the_run_at_the_server(self) -> None:
        async with ScriptedServer(Hang(Reply("<think>so much to say"), 3)) as server, no_retries(server) as agent:
            events = agent.stream("What is it?", PICTURE)
            async for _ in events:
                break
            await events.aclose()
            await server.wait_until(lambda: server.completions[0].closed_by_client)

    async def test_errors_come_out(self) -> None:
        async with ScriptedServer(Status(400, "no")) as server, no_retries(server) as agent:
            with pytest.raises(EngineRefused):
                _ = [event async for event in agent.stream("What is it?", PICTURE)]


class TestConversations:
    async def test_a_question_follows_an_answer(self) -> None:
        replies = [call(), ANSWER, call(bbox_2d=[0, 0, 90, 90]), Reply("<answer>white")]
        async with ScriptedServer(replies) as server, no_retries(server) as agent:
            first = await agent.answer("What is it?", PICTURE)
            second = await agent.answer("And its colour?", after=first)
            requests = [request.json["messages"] for request in server.completions]
        assert second.text == "white"
        assert second.crops[0].box == pytest.approx((0, 0, 90, 90))
        assert requests[2][: len(requests[1])] == requests[1]  # the server's prefix cache serves all of it
        roles = [message["role"] for message in requests[2]]
        assert roles == ["system", "user", "assistant", "user", "assistant", "user"]
        assert requests[2][-2]["content"].endswith("<answer>a van</answer>")
        assert said({"messages": requests[2]}).startswith("And its colour?")
        assert pictures({"messages": requests[2]}) == 2
        assert len(second.views) == 3

    async def test_it_is_about_the_images_of_its_conversation(self) -> None:
        async with ScriptedServer(ANSWER) as server, no_retries(server) as agent:
            first = await agent.answer("What is it?", PICTURE)
            with pytest.raises(InputError, match="leave `images` or `after` out"):
                await agent.answer("And this?", PICTURE, after=first)

    async def test_native_calls_stay_whole_in_the_history(self) -> None:
        zoom = ToolCall("c1", "image_zoom_in_tool", '{"bbox_2d": [0, 0, 500, 500], "img_idx": 0}')
        replies = [Reply("Closer.", tool_calls=[zoom]), ANSWER, Reply("<answer>white")]
        async with ScriptedServer(replies) as server, no_retries(server, dialect="native") as agent:
            first = await agent.answer("What is it?", PICTURE)
            assert (await agent.answer("And its colour?", after=first)).text == "white"
            messages = server.completions[2].json["messages"]
        assert [message["role"] for message in messages].count("tool") == 1
        assert messages[2]["tool_calls"][0]["id"] == "c1"


def png(picture: Image.Image) -> bytes:
    data = io.BytesIO()
    picture.save(data, "PNG")
    return data.getvalue()


class TestImages:
    @pytest.mark.parametrize("form", ["path", "text", "bytes", "pillow", "array", "grey", "decoded", "several"])
    async def test_images_come_in_every_form(self, form: str, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png(PICTURE))
        forms: dict[str, Any] = {
            "path": tmp_path / "a.png",
            "text": str(tmp_path / "a.png"),
            "bytes": png(PICTURE),
            "pillow": PICTURE.convert("RGBA"),
            "array": np.asarray(PICTURE),
            "grey": np.asarray(PICTURE.convert("L")),
            "decoded": DecodedImage.of_pixels(PICTURE),
            "several": [PICTURE, tmp_path / "a.png"],
        }
        async with ScriptedServer(ANSWER) as server, no_retries(server) as agent:
            answer = await agent.answer("What is it?", forms[form])
        assert len(answer.query.images) == (2 if form == "several" else 1)
        for image in answer.query.images:
            assert np.asarray(image.pixels).tobytes() == np.asarray(PICTURE).tobytes()

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("missing.png", "missing.png: there is no such file"),
            ("https://example.org/a.png", "image 1: addresses are not fetched here"),
            (b"no image", "image 1: not an image"),
            ([PICTURE, 3], "image 2: a int is no image"),
            (np.zeros((2, 2, 3)) - 1, "image 1: an array of float64 from -1 to -1 is no picture"),
        ],
    )
    async def test_what_is_no_image_is_named(self, given: Any, message: str) -> None:
        with pytest.raises(ImageError, match=message):
            await Agent("http://127.0.0.1:9", "m").answer("What is it?", given)


class TestSettingUp:
    async def test_the_server_s_only_model_is_found(self) -> None:
        async with ScriptedServer(ANSWER, models=("the/one",)) as server, Agent(server.url) as agent:
            await asyncio.gather(agent.answer("a", PICTURE), agent.answer("b", PICTURE))
            assert {request.json["model"] for request in server.completions} == {"the/one"}

    async def test_of_several_models_one_must_be_named(self) -> None:
        async with ScriptedServer(ANSWER, models=("a", "b")) as server, Agent(server.url) as agent:
            with pytest.raises(ConfigError, match=r"has 2 models: a, b. Name one \(model=...\)"):
                await agent.answer("What is it?", PICTURE)

    async def test_the_key_is_sent(self) -> None:
        async with ScriptedServer(ANSWER, api_key="k") as server, no_retries(server, api_key="k") as agent:
            assert (await agent.answer("What is it?", PICTURE)).text == "a van"

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"url": "ftp://x"}, "ftp"),
            ({"dialect": "deepeye"}, "There is no dialect 'deepeye'"),
            ({"dialect": make_dialect("deepeyes"), "tools": [len]}, "it cannot take tools: give them to its class"),
            ({"tools": [tool(lambda: "", name="a")] * 2}, "two tools are called a"),
            ({"tools": ["zoom"]}, "'zoom' is no tool"),
            ({"zoom_contxt": 1}, "zoom_contxt"),
            ({"prompts": "nowhere.toml"}, "cannot read the prompts nowhere.toml"),
            ({"api_key": "a b"}, "API key"),
            ({"sandbox": "jail"}, "there is no sandbox 'jail'"),
        ],
        ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
    )
    def test_what_cannot_work_is_said_at_once(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            Agent(**{"url": "http://127.0.0.1:9", "model": "m", **options})

    def test_prompts_can_come_from_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "prompts.toml").write_text('system = "You look at vans."')
        agent = Agent("http://127.0.0.1:9", "m", prompts=tmp_path / "prompts.toml")
        assert agent.dialect.prompts.system == "You look at vans."

    def test_it_answers_without_an_event_loop(self) -> None:
        urls: list[str] = []
        started, stop = threading.Event(), threading.Event()

        async def serving() -> None:
            async with ScriptedServer(ANSWER) as server:
                urls.append(server.url)
                started.set()
                await asyncio.to_thread(stop.wait)

        thread = threading.Thread(target=asyncio.run, args=(serving(),))
        thread.start()
        try:
            assert started.wait(60)
            with Agent(urls[0], "scripted") as agent:
                assert [agent.answer_sync("What is it?", PICTURE).text for _ in range(2)] == ["a van"] * 2
        finally:
            stop.set()
            thread.join()

    async def test_it_answers_beside_a_running_loop(self) -> None:
        async with ScriptedServer(ANSWER) as server, Agent(server.url) as agent:
            # As in a notebook, where the loop runs already; here it must go on, for it serves.
            assert (await asyncio.to_thread(agent.answer_sync, "What is it?", PICTURE)).text == "a van"


def small_signs(seeds: Sequence[int]) -> list[tuple[Image.Image, str, str]]:
    made = []
    for scene in map(make_scene, seeds):
        sign = next(sign for sign in scene.signs if sign.small)
        made.append((draw_scene(scene), f"What digit is on the {sign.color} sign?", str(sign.digit)))
    return made


class TestTheRealNanoAgent:
    @pytest.fixture(autouse=True)
    def _models(self, nano_agent_server: object) -> None:
        """It says it best if the models are missing."""

    async def test_it_zooms_and_reads(self) -> None:
        questions = small_signs((1, 2, 5, 9, 12, 13))
        async with Agent.nano() as agent:
            answers = await asyncio.gather(*(agent.answer(question, scene) for scene, question, _ in questions))
        assert all(answer.crops and answer.finish is Finish.ANSWERED for answer in answers)
        assert sum(answer.text == digit for answer, (_, _, digit) in zip(answers, questions, strict=True)) >= 4
        with pytest.raises(ConfigError, match="this agent is closed"):
            await Agent.answer(agent, *questions[0][1::-1])

    async def test_its_server_parses_native_calls_where_its_dialect_takes_them(self) -> None:
        ((scene, question, _),) = small_signs((1,))
        async with Agent.nano(dialect="deepeyes-native") as agent:
            connected = await agent._connected()
            steps = agent_loop(Query(question, await read_pictures([scene])), agent.dialect)
            step = next(steps)
            assert isinstance(step, Generate)
            said = await connected.complete(step.request)
        assert [call.name for call in said.tool_calls] == ["image_zoom_in_tool"]

    def test_it_serves_a_program_without_an_event_loop_and_runs_its_tool(self) -> None:
        seen: list[Box] = []

        @tool(name="image_zoom_in_tool")
        def zoom(picture: Image.Image, bbox_2d: Box, label: str = "") -> Image.Image:
            """Show a part of the image up close."""
            seen.append(bbox_2d)
            wider = bbox_2d.grow(0.15 * bbox_2d.width, 0.15 * bbox_2d.height).clamp(*picture.size)
            return picture.crop(tuple(round(edge) for edge in wider.as_tuple()))  # type: ignore[arg-type]

        questions = small_signs((1, 2, 5, 9))
        with Agent.nano(tools=[zoom]) as agent:
            answers = [agent.answer_sync(question, scene) for scene, question, _ in questions]
        assert len(seen) >= 4
        assert sum(answer.text == digit for answer, (_, _, digit) in zip(answers, questions, strict=True)) >= 2
