"""Qwen3-VL with the zoom tool of Qwen-Agent: boxes in thousandths of a picture, pictures named by their index.

    <tool_call>
    {"name": "image_zoom_in_tool", "arguments": {"bbox_2d": [x1, y1, x2, y2], "label": "...", "img_idx": 0}}
    </tool_call>

`img_idx` counts all pictures of the conversation from 0, crops included. The model is told to send all three fields; a
call without `img_idx` is understood as long as there is one picture only, and one without `label` always.

There are two dialects. `qwen3vl` reads the calls in the model's text, and works on every server. `qwen3vl-native` takes
them from the API's `tool_calls`, for servers that parse them.
"""

from __future__ import annotations

from dataclasses import replace

from speceyes.agents.dialects.base import Prompts
from speceyes.agents.dialects.native import NativeCalls
from speceyes.agents.dialects.zooming import Zooming
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import QWEN3_VL

PROMPTS = Prompts(
    system="You answer questions about images. With a tool you can look at a part of any picture up close.",
    act="Think first. Where something is too small to make out, call the tool on it. "
    "When you know the answer, write it in <answer> tags.",
    screen="Would a closer look with the tool help here? Reply yes or no.",
    reminder="This is picture {index}. Think about what it shows. Look closer again, or answer in <answer> tags.",
    closing="There are no further looks. Write the answer in <answer> tags now.",
    retry="Mend the call, or answer in <answer> tags.",
    repeated="You have seen that very part already. Write the answer in <answer> tags now.",
)
NATIVE_PROMPTS = replace(PROMPTS, result="The picture follows.")


class _Qwen3VL(Zooming):
    limits = QWEN3_VL
    coordinates = Coordinates.PER_MILLE
    indexed = ("bbox_2d", "label", "img_idx")
    forgiven = ("label", "img_idx")
    max_turns = 20
    max_tokens_per_turn = 2048


class Qwen3VL(_Qwen3VL):
    """Qwen3-VL, its calls read in its text. Its options are those of `Zooming`."""

    name = "qwen3vl"
    models = "Qwen3-VL"
    prompts = PROMPTS
    stop = ("</tool_call>", "</answer>")


class Qwen3VLNative(NativeCalls, _Qwen3VL):
    """Qwen3-VL on a server that parses its calls. Its options are those of `NativeCalls`."""

    name = "qwen3vl-native"
    models = "Qwen3-VL on a server that parses its calls"
    prompts = NATIVE_PROMPTS
