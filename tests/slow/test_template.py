"""The models are trained on the very text that the chat template makes of what the product sends."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from itertools import groupby

import pytest
import text
from hugging_face import HuggingFaceModel
from manners import CODING, ZOOMING, Manner, screening
from runs import agent_run
from text import Branch

from speceyes.agents.dialects import DeepEyes, Dialect, Thyme
from speceyes.agents.loop import Generate, agent_loop
from speceyes.config import Settings
from speceyes.config.sandbox import SandboxSettings
from speceyes.engines.client import OnDelta
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.datasets.scenes import COLORS
from speceyes.evals.matching import is_right
from speceyes.imaging.view import View
from speceyes.phases import DraftModel, speculate, speculate_closer
from speceyes.sandbox import choose_provider
from speceyes.tools.python import PythonTool
from speceyes.types import AgentRun, ChatRequest, Completion, Finish, Query
from speceyes.wiring.funnel import looks_of

pytestmark = pytest.mark.slow

END = "<|im_end|>"


def turns(branch: Branch) -> list[tuple[bool, str]]:
    """The branch by who writes: pieces in a row that the model learns to write are one turn."""
    parts = groupby(branch, key=lambda piece: piece.learn)
    return [(learn, "".join(piece.text for piece in pieces)) for learn, pieces in parts]


def trained(trunk: str, branch: Branch, turn: int) -> str:
    """The text before the model's turn of this number."""
    parts = turns(branch)
    at = [i for i, (learn, _) in enumerate(parts) if learn][turn]
    return trunk + "".join(said for _, said in parts[:at])


class Keeping:
    """An engine that keeps the requests and says what it is told to."""

    model = "keeping"

    def __init__(self, *replies: str) -> None:
        self.requests: list[ChatRequest] = []
        self._replies = replies

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        self.requests.append(request)
        return Completion(self._replies[len(self.requests) - 1], "stop")


async def test_the_draft(hf_draft: HuggingFaceModel, samples: list[Sample], first_looks: list[View]) -> None:
    for sample, view in zip(samples, first_looks, strict=True):
        engine = Keeping("7")
        await speculate(Query(sample.question, (sample.image,)), [view], DraftModel(engine, NANO_LIMITS))
        expected = trained(text.draft_trunk(), text.draft_answer(sample.asked), 0)
        assert hf_draft.prompt(engine.requests[0].messages) == expected


async def test_the_draft_that_looks_closer(
    hf_draft: HuggingFaceModel, samples: list[Sample], first_looks: list[View]
) -> None:
    for sample, view in zip(samples, first_looks, strict=True):
        branch = text.closer_answer(sample.asked, sample.scene, *[1] * len(sample.boxes))
        *looks, answer = [said.removesuffix(END) for learn, said in turns(branch) if learn]
        if not looks:  # nothing of what is asked about is there
            continue
        engine = Keeping(*itertools.chain.from_iterable((look, answer) for look in looks))
        settings = Settings.model_validate({"speculation": {"max_depth": 2}})
        model = DraftModel(engine, NANO_LIMITS, **looks_of(settings))
        query, draft = Query(sample.question, (sample.image,)), None
        for depth, look in enumerate(looks, 1):
            draft = await speculate_closer(query, [view], model, draft)
            assert (draft.depth, draft.text, len(draft.crops)) == (depth, answer, depth), look
        sent = [hf_draft.prompt(request.messages) for request in (*engine.requests[::2], engine.requests[-1])]
        assert sent == [trained(text.draft_trunk(), branch, turn) for turn in range(len(looks) + 1)]


@pytest.fixture(params=["zooming", "coding"])
async def spoken(request: pytest.FixtureRequest) -> tuple[Dialect, Manner]:
    """A dialect of the product, and how the agent was taught to speak it."""
    if request.param == "zooming":
        return DeepEyes(limits=NANO_LIMITS, zoom_context=NANO_ZOOM_CONTEXT, zoom_notes=False), ZOOMING
    provider = await choose_provider(SandboxSettings(provider="auto"))
    assert provider is not None
    return Thyme(limits=NANO_LIMITS, toolbox=[PythonTool(provider)]), CODING


async def test_screening(
    hf_agent: HuggingFaceModel, spoken: tuple[Dialect, Manner], samples: list[Sample], first_looks: list[View]
) -> None:
    dialect, manner = spoken
    for sample, view in zip(samples, first_looks, strict=True):
        query = Query(sample.question, (sample.image,))
        messages = dialect.opening_messages(query, [view], screening=True)
        expected = trained(manner.trunk(), screening(manner, sample.asked, sample.scene), 0)
        assert hf_agent.prompt(messages, dialect.tools) == expected


async def drive(
    dialect: Dialect, sample: Sample, view: View, replies: Sequence[str]
) -> tuple[list[ChatRequest], AgentRun]:
    """A run of the product's loop and tools in which the agent says this."""
    steps = agent_loop(Query(sample.question, (sample.image,)), dialect, views=[view])
    requests: list[ChatRequest] = []
    step = next(steps)
    try:
        while True:
            if isinstance(step, Generate):
                requests.append(step.request)
                step = steps.send(Completion(replies[len(requests) - 1], "stop"))
            else:
                step = steps.send(await dialect.toolbox[step.call.name].run(step.call.arguments, step.context))
    except StopIteration as finished:
        return requests, finished.value


@pytest.mark.parametrize("kept", [False, True], ids=["stop string removed", "stop string kept"])
async def test_whole_agent_runs(
    hf_agent: HuggingFaceModel,
    spoken: tuple[Dialect, Manner],
    samples: list[Sample],
    first_looks: list[View],
    kept: bool,
) -> None:
    """The loop, told what the model was taught to write, asks for each turn with the text that came before it."""
    dialect, manner = spoken
    depths = set()
    for sample, view in zip(samples, first_looks, strict=True):
        branch = agent_run(manner, sample.asked, sample.scene, dict.fromkeys(COLORS, 1))
        replies = [said.removesuffix(END) for learn, said in turns(branch) if learn]
        if not kept:
            for stop in dialect.stop:
                replies = [reply.removesuffix(stop) for reply in replies]
        requests, run = await drive(dialect, sample, view, replies)
        sent = [hf_agent.prompt(request.messages, request.tools) for request in requests]
        assert sent == [trained(manner.trunk(), branch, turn) for turn in range(len(replies))]
        assert run.finish is Finish.ANSWERED
        assert is_right(run.text, sample.gold, sample.options)
        depths.add(run.depth)
    assert depths == {0, 1, 2}
