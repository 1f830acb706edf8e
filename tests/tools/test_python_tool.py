"""The Python tool: a session for each agent run, pictures in and out, and nothing left when the run is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from PIL import Image
from tool_samples import LIMITS, RED, context, painted

from speceyes.agents.dialects.deepeyesv2 import DeepEyesV2
from speceyes.agents.dialects.thyme import Thyme
from speceyes.engines.client import ChatClient
from speceyes.engines.script import Outcome as Served
from speceyes.engines.script import Reply
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import SandboxError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.looks import look
from speceyes.imaging.resize import PixelLimits
from speceyes.phases.fall_back import AgentModel, fall_back
from speceyes.sandbox import Bubblewrap, Limits, Session
from speceyes.sandbox import Outcome as StepOutcome
from speceyes.tools import PythonTool, Tool, ToolResult, ZoomTool, run_tool
from speceyes.tools.base import tools_of_one_run
from speceyes.tools.python import QUIET, as_result
from speceyes.types import Finish, Query

PATIENT = replace(Limits(), wall_s=300.0)
SMALL = PixelLimits(32, 4 * 32**2, 300**2)


class Watched(Bubblewrap):
    """Bubblewrap that remembers its sessions."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Session] = []
        self.open_now = 0
        self.opened = asyncio.Event()

    @asynccontextmanager
    async def open(self, images: Sequence[DecodedImage] = (), limits: Limits | None = None) -> AsyncIterator[Session]:
        async with super().open(images, limits) as session:
            self.sessions.append(session)
            self.open_now += 1
            self.opened.set()
            try:
                yield session
            finally:
                self.open_now -= 1


@pytest.fixture
async def provider() -> Watched:
    found = await (provider := Watched()).available()
    if not found.available:
        pytest.fail(f"these tests need the package `bubblewrap`: {found.reason}", pytrace=False)
    return provider


@pytest.fixture
def tool(provider: Watched) -> PythonTool:
    return PythonTool(provider, PATIENT)


async def test_variables_live_on_within_a_run_and_not_beyond(tool: PythonTool, provider: Watched) -> None:
    here = context(painted((64, 48)))
    async with tool.session() as one:
        assert (await one.run({"code": "number = 6"}, here)).text == QUIET
        assert (await one.run({"code": "number * 7"}, here)).text == "42"
    async with tool.session() as other:
        assert "NameError" in ((await other.run({"code": "number"}, here)).error or "")
    assert len(provider.sessions) == 2
    assert provider.open_now == 0
    assert [await session.remains() for session in provider.sessions] == [(), ()]


async def test_the_images_are_there_with_all_their_pixels_by_path_and_by_variable(tool: PythonTool) -> None:
    images = [painted((900, 700), (800, 600, 900, 700)), painted((50, 40))]
    code = """
    from PIL import Image
    print(image_1.size, image_2.size, image_paths, image_path)
    print(Image.open("image_1.png").size, Image.open("image_2.png").size)
    print(image_1.getpixel((850, 650)))
    """.replace("\n    ", "\n")
    result = await tool.run({"code": code}, context(*images, limits=SMALL))
    assert result.text.splitlines() == [
        "(900, 700) (50, 40) ['/images/image_1.png', '/images/image_2.png'] /images/image_1.png",
        "(900, 700) (50, 40)",
        "(255, 0, 0)",
    ]


async def test_a_picture_that_the_code_makes_is_a_view_that_can_be_zoomed_into(tool: PythonTool) -> None:
    here = context(painted((900, 700), (800, 600, 900, 700)), limits=SMALL)
    result = await tool.run({"code": "image_1.crop((700, 500, 900, 700)).save('corner.png')"}, here)
    (view,) = result.views
    assert result.text == ""
    assert view.made is not None
    assert view.made.size == (200, 200)
    assert here.limits.accepts(view.size)
    here.views.append(view)
    width, height = view.size
    asked = {"bbox_2d": [width / 2, height / 2, width, height], "img_idx": 1}
    (closer,) = (await ZoomTool().run(asked, here)).views
    assert closer.pixels.getpixel((closer.size[0] // 2, closer.size[1] // 2)) == RED


async def test_an_upright_image_is_what_the_code_sees(tool: PythonTool) -> None:
    import io

    from speceyes.imaging.decode import decode

    data = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 20)).save(data, "JPEG", exif=exif)
    result = await tool.run({"code": "print(image_1.size, image_1.format)"}, context(decode(data.getvalue())))
    assert result.text == "(20, 60) PNG"


async def test_an_error_comes_first_and_with_what_was_printed(tool: PythonTool) -> None:
    result = await tool.run({"code": "print('so far')\n1 / 0"}, context(painted((64, 48))))
    assert result.error is not None
    assert result.error.startswith("Traceback")
    assert result.error.endswith("so far")


async def test_a_thread_that_ends_the_interpreter_between_two_steps_is_told_at_the_next(provider: Watched) -> None:
    here = context(painted((64, 48)))
    async with PythonTool(provider, PATIENT).session() as run:
        late = "import os, threading; threading.Timer(0.2, lambda: os._exit(3)).start()"
        assert (await run.run({"code": late}, here)).error is None
        await asyncio.sleep(1.5)
        told = (await run.run({"code": "print(image_1.size)"}, here)).error or ""
        assert "exit code 3" in told
        assert "was not run" in told
        assert (await run.run({"code": "print(image_1.size)"}, here)).text == "(64, 48)"


async def test_a_new_sandbox_after_a_step_that_was_cancelled_has_the_images(provider: Watched) -> None:
    here = context(painted((64, 48)))
    async with PythonTool(provider, PATIENT).session() as run:
        await run.run({"code": "print('open')"}, here)
        endless = asyncio.create_task(run.run({"code": "while True: pass"}, here))
        await asyncio.sleep(0.5)
        endless.cancel()
        await asyncio.wait([endless])
        assert (await run.run({"code": "print(image_1.size)"}, here)).text == "(64, 48)"


@pytest.mark.parametrize("milliseconds", [1, 5, 20, 60, 150])
async def test_a_start_that_is_cancelled_leaves_no_half_open_channel(provider: Watched, milliseconds: int) -> None:
    async with provider.open((), PATIENT) as session:
        await session._end()  # type: ignore[attr-defined]
        starting = asyncio.create_task(session.run("print('first')"))
        await asyncio.sleep(milliseconds / 1000)
        starting.cancel()
        await asyncio.wait([starting])
        outcome = await session.run("print('second')")
        assert (outcome.stdout.strip(), outcome.error) == ("second", None)


async def test_the_models_code_is_compiled_as_it_stands(tool: PythonTool) -> None:
    """Not with the imports from `__future__` of the file that runs it."""
    here = context(painted((64, 48)))
    async with tool.session() as run:
        said = await run.run({"code": "def f(x: int): ...\nprint(f.__annotations__['x'] is int)"}, here)
    assert said.text == "True"


async def test_after_a_time_out_the_model_is_told_and_the_images_are_opened_again(provider: Watched) -> None:
    here = context(painted((64, 48)))
    async with PythonTool(provider, replace(PATIENT, wall_s=20.0)).session() as run:
        await run.run({"code": "number = 1"}, here)
        lost = await run.run({"code": "import os; os._exit(1)"}, here)
        assert "variables and imports of earlier steps are gone" in (lost.error or "")
        assert (await run.run({"code": "print(image_1.size)"}, here)).text == "(64, 48)"
        assert "NameError" in ((await run.run({"code": "number"}, here)).error or "")
    assert len(provider.sessions) == 1


@pytest.mark.parametrize("arguments", [{}, {"code": 5}, {"code": "  "}, {"script": "1"}])
async def test_a_call_without_code_starts_nothing(tool: PythonTool, arguments: dict[str, object]) -> None:
    result = await tool.run(arguments, context(painted((64, 48))))
    assert result == ToolResult(error="python needs code: Python code as a text.")


async def test_a_setup_of_ones_own_stands_in_for_the_usual_one(provider: Watched) -> None:
    tool = PythonTool(provider, PATIENT, setup="answer = 42")
    result = await tool.run({"code": "print(answer, 'image_1' in globals())"}, context(painted((64, 48))))
    assert result.text == "42 False"


async def test_a_sandbox_that_does_not_come_up_is_told_to_the_model() -> None:
    class Broken(Bubblewrap):
        @asynccontextmanager
        async def open(
            self, images: Sequence[DecodedImage] = (), limits: Limits | None = None
        ) -> AsyncIterator[Session]:
            raise SandboxError("no more memory")
            yield

    result = await PythonTool(Broken()).run({"code": "1"}, context(painted((64, 48))))
    assert result.error == "The code was not run: no more memory. Try again, or answer without it."


async def test_notes_and_files_are_told_in_brackets() -> None:
    from speceyes.sandbox import FileNote

    outcome = StepOutcome(stdout="x\n", stderr="careful\n", notes=("It was cut.",), files=(FileNote("a.csv", 1200),))
    result = await as_result(outcome, LIMITS)
    assert result.text == "x\nError output:\ncareful\n(It was cut.)\n(New files: a.csv (1,200 bytes).)"


async def test_its_budget_lets_a_step_end_by_its_own_limits(provider: Watched) -> None:
    tool = PythonTool(provider, replace(PATIENT, wall_s=1.0))
    result = await run_tool(tool, {"code": "while True: pass"}, context(painted((64, 48))))
    assert "it took too long" in (result.error or "")


async def test_only_tools_with_sessions_get_one(tool: PythonTool) -> None:
    zoom = ZoomTool()
    toolbox: dict[str, Tool] = {"python": tool, "zoom": zoom}
    async with tools_of_one_run(toolbox) as tools:
        assert tools["zoom"] is zoom
        assert tools["python"] is not tool
        assert tools["python"].name == "python"
        assert tools["python"].schema == tool.schema


# In an agent run


def code_turn(code: str) -> Reply:
    return Reply(f"<think>I look.\n<code>\n```python\n{code}\n```\n")


@asynccontextmanager
async def agent_of(dialect: Thyme | DeepEyesV2, *turns: Served) -> AsyncIterator[AgentModel]:
    def script(request: dict[str, object], number: int) -> Served:
        return turns[min(number, len(turns) - 1)]

    async with ScriptedServer(script) as server, ChatClient(server.url, "scripted") as client:
        yield AgentModel(client, dialect)


QUERY = Query("What colour is the corner?", (painted((900, 700), (800, 600, 900, 700)),))


@pytest.mark.parametrize("kind", [Thyme, DeepEyesV2])
async def test_an_agent_works_with_code_from_turn_to_turn(kind: type[Thyme | DeepEyesV2], provider: Watched) -> None:
    dialect = kind(toolbox=[PythonTool(provider, PATIENT)])
    turns = (
        code_turn("from PIL import Image\ncorner = Image.open('image_1.png').crop((700, 500, 900, 700))"),
        code_turn("corner.save('corner.png')\nprint(corner.getpixel((150, 150)))"),
        Reply("<think>It is red.</think><answer>red</answer>"),
    )
    async with agent_of(dialect, *turns) as agent:
        views = await look(QUERY.images, dialect.limits)
        shown: list[int] = []
        run = await fall_back(QUERY, views, agent, show=lambda call, result: shown.append(len(result.views)))
    assert (run.text, run.finish) == ("red", Finish.ANSWERED)
    assert [turn.error for turn in run.turns] == [None, None, None]
    assert "(255, 0, 0)" in str(run.turns[1].observation)
    assert shown == [0, 1]
    assert len(provider.sessions) == 1
    assert provider.open_now == 0
    assert await provider.sessions[0].remains() == ()


async def test_a_run_that_is_cancelled_leaves_no_sandbox(provider: Watched) -> None:
    dialect = Thyme(toolbox=[PythonTool(provider, PATIENT)])
    async with agent_of(dialect, code_turn("import time\ntime.sleep(999)")) as agent:
        views = await look(QUERY.images, dialect.limits)
        task = asyncio.create_task(fall_back(QUERY, views, agent))
        await provider.opened.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert provider.open_now == 0
    assert await provider.sessions[0].remains() == ()
