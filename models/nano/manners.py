"""The two dialects that the agent speaks, as the chat template renders what the product sends.

The words are the product's own: `speceyes.agents.dialects.deepeyes` and `.thyme`. A test compares them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from grid import look_box, round_box
from text import IMAGE, Branch, Piece, helps, reply

from speceyes.agents.dialects import deepeyes, thyme
from speceyes.engines.nano import NANO_ZOOM_CONTEXT
from speceyes.evals.datasets.questions import SceneQuestion
from speceyes.evals.datasets.scenes import SIDE, Scene, Sign

TOOL = {
    "type": "function",
    "function": {
        "name": "image_zoom_in_tool",
        "description": "Show a part of the image up close.",
        "parameters": {
            "type": "object",
            "properties": {
                "bbox_2d": {
                    "type": "array",
                    "items": {"type": "number"},
                    "description": "x1, y1, x2, y2 in pixels",
                },
                "label": {"type": "string", "description": "what is there"},
            },
            "required": ["bbox_2d"],
        },
    },
}
TOOLS_HEAD = "# Tools\n\nThese functions can be called:\n<tools>\n"
TOOLS_TAIL = (
    "\n</tools>\n\nA call is a JSON object in <tool_call></tool_call> tags:\n"
    '<tool_call>\n{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)


class Manner(Protocol):
    """How the agent speaks: all that differs between its dialects."""

    def trunk(self) -> str:
        """The prefix that screening and the agent's run share, up to the first look."""
        ...

    def asked(self, question: SceneQuestion, then: str) -> str:
        """The question, and what is to be done with it."""
        ...

    @property
    def act(self) -> str:
        """What opens a run."""
        ...

    @property
    def screen(self) -> str:
        """What asks for screening."""
        ...

    def thought(self, text: str) -> str:
        """A thought that a call follows."""
        ...

    def call(self, sign: Sign) -> str:
        """What comes after the thought to see a sign up close; between stars what decides."""
        ...

    def observation(self, view: int) -> Piece:
        """What the call gives, up to the next turn."""
        ...


@dataclass(frozen=True)
class Zooming:
    """DeepEyes: a zoom call as JSON, boxes in pixels of the first look."""

    act: str = deepeyes.PROMPTS.act
    screen: str = deepeyes.PROMPTS.screen

    def trunk(self) -> str:
        tools = TOOLS_HEAD + json.dumps(TOOL) + TOOLS_TAIL
        return f"<|im_start|>system\n{deepeyes.PROMPTS.system}\n\n{tools}<|im_end|>\n<|im_start|>user\n{IMAGE}"

    def asked(self, question: SceneQuestion, then: str) -> str:
        return f"{question.prompt}\n\n{then}"

    def thought(self, text: str) -> str:
        return f"<think>{text}</think>\n"

    def call(self, sign: Sign) -> str:
        arguments = {"bbox_2d": look_box(sign), "label": f"{sign.color} sign"}
        call = {"name": TOOL["function"]["name"], "arguments": arguments}
        return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"

    def observation(self, view: int) -> Piece:
        told = f"<tool_response>\n{IMAGE}\n{deepeyes.PROMPTS.reminder}\n</tool_response>"
        return Piece(f"\n<|im_start|>user\n{told}<|im_end|>\n<|im_start|>assistant\n", view=view)


@dataclass(frozen=True)
class Coding:
    """Thyme: Python code inside the thought, boxes in pixels of the image file."""

    act: str = thyme.PROMPTS.act
    screen: str = thyme.PROMPTS.screen

    def trunk(self) -> str:
        return f"<|im_start|>system\n{thyme.PROMPTS.system}<|im_end|>\n<|im_start|>user\n{IMAGE}"

    def asked(self, question: SceneQuestion, then: str) -> str:
        picture = thyme.PROMPTS.picture.format(number=1, width=SIDE, height=SIDE)
        return f"{question.prompt}\n\n{picture}\n\n{then}"

    def thought(self, text: str) -> str:
        return f"<think>{text}\n"

    def call(self, sign: Sign) -> str:
        box = ", ".join(f"*{edge}*" for edge in round_box(sign, SIDE, NANO_ZOOM_CONTEXT))
        return (
            "<code>\n```python\nfrom PIL import Image\n"
            'image = Image.open("/images/image_1.png")\n'
            f'image.crop(({box})).save("part.png")\nprint("part.png")\n```\n</code>'
        )

    def observation(self, view: int) -> Piece:
        told = f"<sandbox_output>part.png\n{IMAGE}</sandbox_output>"
        return Piece(f"\n<|im_start|>user\n{told}<|im_end|>\n<|im_start|>assistant\n", view=view)


ZOOMING, CODING = Zooming(), Coding()


def screening(manner: Manner, question: SceneQuestion, scene: Scene) -> Branch:
    """Whether a tool would help."""
    return reply(manner.asked(question, manner.screen), helps(question, scene))
