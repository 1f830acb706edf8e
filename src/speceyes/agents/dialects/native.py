"""Native tool calls: the server parses the model's calls, and results are messages of the role `tool`.

    assistant: {"content": "...", "tool_calls": [{"id": "1", "function": {"name": "image_zoom_in_tool", ...}}]}
    tool:      {"tool_call_id": "1", "content": "The picture follows."}
    user:      the picture

The picture goes into a user message, since some servers refuse pictures in tool messages; `result_form = "tool"` puts
it into the tool message itself. What else differs from a dialect in tags:

- A call that a server left in the text, as `<tool_call>` with JSON, is read there, and answered in a user message.
- A call that cannot be read, or whose arguments are not strict JSON, goes back as text: servers refuse a history with
  broken arguments, and the model would never learn what was wrong.
- Of several calls the history keeps the one that was run, since each call in it needs a result.
- What the server separated as reasoning does not go back beside a call; templates of most families leave it out.
- `<|begin_of_box|>...<|end_of_box|>`, as GLM writes its answers, is read as `\\boxed{...}`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from speceyes.agents.dialects.base import (
    ALONE,
    Call,
    Message,
    Occasion,
    Prompts,
    image_part,
    text_part,
)
from speceyes.agents.dialects.tagged import raw_text
from speceyes.agents.dialects.zooming import Zooming
from speceyes.errors import ConfigError
from speceyes.imaging.geometry import Coordinates
from speceyes.imaging.resize import QWEN2_5_VL
from speceyes.tools.base import ToolResult
from speceyes.types import Completion, ToolCall

PROMPTS = Prompts(
    system="You answer questions about images. A tool lets you look at a part of any picture up close.",
    act="Think first. Where something is too small to make out, call the tool on it. "
    "When you know the answer, write it in <answer> tags.",
    screen="Would a closer look with the tool help here? Reply yes or no.",
    reminder="This is picture {index}. Think about what it shows. Look closer again, or answer in <answer> tags.",
    closing="There are no further looks. Write the answer in <answer> tags now.",
    retry="Mend the call, or answer in <answer> tags.",
    repeated="You have seen that very part already. Write the answer in <answer> tags now.",
    result="The picture follows.",
)

_BOX = re.compile(r"<\|begin_of_box\|>(.*?)(?:<\|end_of_box\|>|\Z)", re.DOTALL)


class NativeCalls(Zooming):
    """What the dialects with native calls share.

    Args:
        result_form: Where a tool's pictures go: in a user message behind the tool message, or in the tool message.
        extra: Further fields of each request. None: none, so that the server decides as for all clients.
        options: Those of `Zooming`.

    Raises:
        ConfigError: There is no such result form.
    """

    syntax: ClassVar[str] = "native tool calls"
    native_calls: ClassVar[bool] = True
    stop = ()
    result_tag = None

    def __init__(
        self,
        *,
        result_form: Literal["user", "tool"] = "user",
        extra: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if result_form not in ("user", "tool"):
            raise ConfigError(f"Dialect {self.name}: result_form is {result_form!r}; it should be user or tool.")
        super().__init__(extra={} if extra is None else extra, **options)
        self.result_form = result_form

    def assistant_messages(self, completion: Completion) -> tuple[Message, ...]:
        """The turn with the call that counts; as text where there is none that can go back as a call."""
        called = self._called(completion)
        if called is None:
            return super().assistant_messages(completion)
        call, arguments = called
        function = {"name": call.name, "arguments": arguments}
        said = raw_text(Completion(completion.text, completion.finish_reason))
        return (
            {
                "role": "assistant",
                "content": said.rstrip(),  # the template writes the line break before the call itself
                "tool_calls": [{"id": call.id, "type": "function", "function": function}],
            },
        )

    def observation_messages(self, result: ToolResult, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        called = occasion.completion and self._called(occasion.completion)
        if not called:
            return super().observation_messages(result, occasion)
        failed = result.error is not None
        said = f"{result.error}\n{self.prompts.retry}" if failed else result.text
        pictures = [*map(image_part, result.views)]
        if not pictures:
            return (_answer(called[0], said or occasion.fill(self.prompts.reminder)),)
        words = "\n".join(filter(None, (said, occasion.fill(self.prompts.result))))
        behind = [*pictures, text_part(self.prompts.retry if failed else occasion.fill(self.prompts.reminder))]
        if self.result_form == "tool":
            return (_answer(called[0], [*([text_part(words)] if words else []), *behind]),)
        # servers refuse an empty tool message
        return (_answer(called[0], words or PROMPTS.result), {"role": "user", "content": behind})

    def notice_messages(self, text: str, occasion: Occasion = ALONE) -> tuple[Message, ...]:
        called = occasion.completion and self._called(occasion.completion)
        return (_answer(called[0], text),) if called else super().notice_messages(text, occasion)

    def write_body(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return json.dumps(arguments, ensure_ascii=False)

    def write_call(self, body: str, tool: str = "") -> Completion:
        name = tool or next(iter(self.toolbox))
        return Completion("I look closer.", "tool_calls", tool_calls=(ToolCall("call_1", name, body),))

    def _raw(self, completion: Completion) -> str:
        return _BOX.sub(r"\\boxed{\1}", raw_text(completion))

    def _called(self, completion: Completion) -> tuple[ToolCall, str] | None:
        """The native call that counts, and its arguments as strict JSON; None where no such call does."""
        if not completion.tool_calls or "<tool_call>" in completion.text:
            return None
        action = self.parse(completion)
        if not isinstance(action, Call):
            return None
        first = completion.tool_calls[0]
        try:
            arguments = json.dumps(action.arguments, ensure_ascii=False, allow_nan=False)
        except ValueError:
            return None
        return first, arguments if action.repairs else first.arguments


class Native(NativeCalls):
    """Any model that its server lets call tools natively. Its options are those of `NativeCalls`.

    Boxes are thousandths of the picture, as GLM-4.5V and most current models name them; so no matter what size the
    server shows the picture at, a box means the same part.
    """

    name = "native"
    models = "any other model with tool calls, such as GLM-4.5V"
    limits = QWEN2_5_VL
    coordinates = Coordinates.PER_MILLE
    prompts = PROMPTS
    indexed = ("bbox_2d",)


def _answer(call: ToolCall, content: str | list[dict[str, Any]]) -> Message:
    return {"role": "tool", "tool_call_id": call.id, "content": content}
