"""The DeepEyes dialect: thoughts, one zoom call a turn as JSON in `<tool_call>`, results in a user message.

    <think>...</think>
    <tool_call>
    {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [x1, y1, x2, y2], "label": "..."}}
    </tool_call>

Boxes are pixels of the resized image that the model saw, of the whole image even after a zoom.
"""

from __future__ import annotations

from speceyes.agents.dialects.base import Prompts
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


class DeepEyes(Zooming):
    """DeepEyes-7B and models that were trained to speak as it does. Its options are those of `Zooming`."""

    name = "deepeyes"
    models = "DeepEyes-7B (Qwen2.5-VL), the nano agent"
    limits = QWEN2_5_VL
    coordinates = Coordinates.RESIZED
    prompts = PROMPTS
    stop = ("</tool_call>", "</answer>")
    max_turns = 6
    max_tokens_per_turn = 1024
