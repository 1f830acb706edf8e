"""A draft and an agent from the public fake that know the scenes: they are right and wrong where we want them to be.

The draft is sure and right about what a first look shows and unsure and wrong about the rest; the agent screens
without error, looks at each sign that the question names, and is right. Real sockets, real loop, real crops.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from speceyes.agents.dialects.deepeyes import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.nano import NANO_LIMITS
from speceyes.engines.scripted import Outcome, Reply, ScriptedServer, token_reply
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.datasets.scenes import SIDE
from speceyes.gating import Calibration
from speceyes.imaging.resize import render
from speceyes.phases import AgentModel, DraftModel

SURE = [-0.01, -6.0, -6.5, -7.0, -7.5, -6.2, -6.8, -7.2]
UNSURE = [-1.6, -1.7, -1.9, -2.0, -2.2, -2.4, -2.5, -2.6]
EASY = (100, 100, 400, 400)
"""Where the draft looks if no sign needs it."""
K = 8
CALIBRATION = Calibration.manual(6.0, k=K)


class Knowing:
    """Recognises a sample by its first look."""

    def __init__(self, samples: Sequence[Sample]) -> None:
        self._by_look = {render(sample.image, None, NANO_LIMITS).data_url: sample for sample in samples}

    def sample(self, request: dict[str, Any]) -> Sample:
        """The sample that a request is about."""
        parts = [part for message in request["messages"] for part in message["content"] if isinstance(part, dict)]
        return self._by_look[next(part["image_url"]["url"] for part in parts if part["type"] == "image_url")]

    def draft(self, request: dict[str, Any], turn: int) -> Outcome:
        """Right and sure, or wrong and unsure; after a look at the sign right and sure, too.

        It names the part with the sign of a question about one, and none where several are asked about.
        """
        sample = self.sample(request)
        looked = sum(message["role"] == "assistant" for message in request["messages"])
        if "top_logprobs" not in request:
            if len(sample.boxes) > 1 or looked >= 1:
                return Reply("There is nothing to be seen up close.")
            scale = NANO_LIMITS.max_pixels**0.5 / SIDE
            return Reply(json.dumps({"bbox_2d": [round(edge * scale) for edge in (sample.boxes or [EASY])[0]]}))
        if looked:
            return Reply(tokens=[token_reply(sample.gold, SURE)])
        if sample.tool_helps:
            wrong = next(word for word in (("A", "B") if sample.options else ("circle", "star")) if word != sample.gold)
            return Reply(tokens=[token_reply(wrong, UNSURE)])
        return Reply(tokens=[token_reply(sample.gold, SURE)])

    def agent(self, request: dict[str, Any], turn: int) -> Outcome:
        """One token where it is screened, else the next turn of its run."""
        sample = self.sample(request)
        if request["max_tokens"] == 1:
            word, other = ("yes", "no") if sample.tool_helps else ("no", "yes")
            return Reply(tokens=[token_reply(word, [(word, -0.02), (other, -4.0)])])
        looked = sum(message["role"] == "assistant" for message in request["messages"])
        if looked < len(sample.boxes):
            scale = NANO_LIMITS.max_pixels**0.5 / SIDE
            box = [round(edge * scale) for edge in sample.boxes[looked]]
            call = {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": box, "label": "sign"}}
            return Reply(f"<think>I look closer.</think>\n<tool_call>\n{json.dumps(call)}\n</tool_call>")
        return Reply(f"<think>I see it.</think>\n<answer>{sample.gold}</answer>")


@asynccontextmanager
async def scripted_pair(knowing: Knowing, **draft_options: Any) -> AsyncIterator[tuple[DraftModel, AgentModel]]:
    """Both models as clients see them."""
    async with (
        ScriptedServer(knowing.draft) as draft_server,
        ScriptedServer(knowing.agent) as agent_server,
        ChatClient(draft_server.url, "scripted-draft", retries=0) as draft,
        ChatClient(agent_server.url, "scripted-agent", retries=0) as agent,
    ):
        dialect = DeepEyes(limits=NANO_LIMITS, zoom_context=1.0, zoom_notes=False)
        yield DraftModel(draft, NANO_LIMITS, logprobs=K, **draft_options), AgentModel(agent, dialect)
