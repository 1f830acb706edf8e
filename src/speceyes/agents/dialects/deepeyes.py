"""The DeepEyes dialect: thoughts, one zoom call a turn as JSON in `<tool_call>`, results in a user message.

    <think>...</think>
    <tool_call>
    {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [x1, y1, x2, y2], "label": "..."}}
    </tool_call>

Boxes are pixels of the resized image that the model saw, of the whole image even after a zoom.

There are two dialects. `deepeyes` reads the calls in the model's text, and works on every server. `deepeyes-native`
takes them from the API's `tool_calls`, for servers that parse them (vLLM's `hermes` parser, llama.cpp).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from speceyes.agents.dialects.base import Prompts
from speceyes.agents.dialects.native import NativeCalls
from speceyes.agents.dialects.zooming import Zooming
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import QWEN2_5_VL

PROMPTS = Prompts(
    system="You answer questions about images. A tool can show you a part of an image up close.",
    act="Think in <think> tags. Call the tool for what is too small to read. Then answer in <answer> tags.",
    screen="Would a closer look with the tool help here? Reply yes or no.",
    reminder="Here is the closer look. Think, then call the tool again or answer in <answer> tags.",
    closing="The tool is no longer at hand. Give the answer in <answer> tags now.",
)
# In a tool message the words come right behind the picture.
NATIVE_PROMPTS = replace(PROMPTS, reminder=f"\n{PROMPTS.reminder}")


class DeepEyes(Zooming):
    """DeepEyes-7B and models that were trained to speak as it does. Its options are those of `Zooming`."""

    name = "deepeyes"
    models = "DeepEyes-7B (Qwen2.5-VL), the nano agent"
    limits = QWEN2_5_VL
    coordinates = Coordinates.RESIZED
    prompts = PROMPTS
    stop: tuple[str, ...] = ("</tool_call>", "</answer>")
    max_turns = 6
    max_tokens_per_turn = 1024


class DeepEyesNative(NativeCalls, DeepEyes):
    """Such a model on a server that parses its calls.

    Pictures go into the tool message, around which the model's chat template puts `<tool_response>`, as it was trained;
    `result_form = "user"` is for servers that refuse them there.

    Args:
        result_form: Where a tool's pictures go.
        options: Those of `Zooming`.

    Raises:
        ConfigError: There is no such result form.
    """

    name = "deepeyes-native"
    models = "DeepEyes-7B and the nano agent on a server that parses their calls"
    prompts = NATIVE_PROMPTS
    stop = ()

    def __init__(self, *, result_form: Literal["user", "tool"] = "tool", **options: Any) -> None:
        super().__init__(result_form=result_form, **options)
