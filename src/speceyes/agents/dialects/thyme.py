"""Thyme: Python code in the middle of a thought, on image files, its output inside the same turn of the assistant.

    <think>... <code>
    ```python
    ...
    print(processed_path)
    ```
    </code><sandbox_output>(a picture, or what was printed)</sandbox_output> ...</think>
    <answer>...</answer>

The prompt names the path and the size of each image; boxes are pixels of the original. Code stands inside the thought,
so calls in thoughts count.

The trained form of a result needs a server that goes on with an assistant's message that holds a picture
(`result_form = "assistant"`: the request ends in that message, with `continue_final_message`, as vLLM takes it). Chat
endpoints mostly refuse that, so by default the output comes in a user message, and the run's record says so.
"""

from __future__ import annotations

from typing import Any, Literal

from speceyes.agents.dialects.base import ALONE, Message, Occasion, Prompts
from speceyes.agents.dialects.coding import Coding
from speceyes.agents.dialects.tagged import raw_text
from speceyes.errors import ConfigError
from speceyes.imaging.resize import PixelLimits
from speceyes.tools.base import ToolResult
from speceyes.types import Completion

PROMPTS = Prompts(
    system="You answer questions about images, step by step. In the middle of your reasoning you may write Python code "
    "that works on the image files, such as cropping, enlarging, rotating or raising the contrast, or that calculates. "
    "Write it as\n<code>\n```python\n# your code\n```\n</code>\n"
    "It runs in a sandbox. At its end, print the path of the picture that it saved, or the result. What it gives comes "
    "back in <sandbox_output> and </sandbox_output>.",
    act="Write your reasoning, code included, in <think> and </think>, and then the answer in <answer> and </answer>.",
    screen="Would code that works on the image help here? Reply yes or no.",
    picture='Image {number}: path "/images/image_{number}.png", size {width}x{height}.',
    reminder="",
    closing="No more code can be run. Write the answer in <answer> and </answer> now.",
    retry="Mend the code, or write the answer in <answer> and </answer>.",
    repeated="That very code has been run already. Write the answer in <answer> and </answer> now.",
)


class Thyme(Coding):
    """Thyme (Qwen2.5-VL).

    Args:
        result_form: Where the output of code goes: in a message of the user, or inside the assistant's turn.
        options: Those of `Coding`.

    Raises:
        ConfigError: There is no such result form.
    """

    name = "thyme"
    models = "Thyme-7B (Qwen2.5-VL)"
    limits = PixelLimits(28, 3_136, 12_845_056)
    prompts = PROMPTS
    calls_in_thought = True
    result_tag = "sandbox_output"
    max_turns = 5
    max_tokens_per_turn = 2048

    def __init__(self, *, result_form: Literal["user", "assistant"] = "user", **options: Any) -> None:
        if result_form not in ("user", "assistant"):
            raise ConfigError(f"Dialect thyme: result_form is {result_form!r}; it should be user or assistant.")
        super().__init__(**options)
        self.result_form = result_form
        if result_form == "user":
            self.note = (
                "thyme: the output of code came in user messages, not inside the assistant's turn as the model was "
                "trained"
            )

    def observation_messages(self, result: ToolResult, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        return self._as_told(super().observation_messages(result, occasion), occasion)

    def notice_messages(self, text: str, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        return self._as_told(super().notice_messages(text, occasion), occasion)

    def write_call(self, body: str, tool: str = "") -> Completion:
        return Completion(f"<think>I look closer. <code>{body}</code>", "stop")

    def _in_tag(self, text: str) -> str:
        return f"<{self.result_tag}>{text}</{self.result_tag}>"

    def _as_told(self, told: tuple[Message, ...], occasion: Occasion) -> tuple[Message, ...]:
        """In the trained form what answers a call stands in the assistant's own turn."""
        completion = occasion.completion
        if self.result_form == "user" or completion is None or not self._read(completion).calls:
            return told
        return tuple({**message, "role": "assistant"} for message in told)

    def _raw(self, completion: Completion) -> str:
        return raw_text(completion, open_thought=True)
