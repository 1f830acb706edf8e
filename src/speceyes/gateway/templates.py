"""How clients that read the agent's text themselves expect a final answer, and how they write a question.

One line a dialect in `TEMPLATES`. What is an answer and what is a call, the dialect's own parser decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speceyes.agents import Dialect
from speceyes.agents.dialects import Final
from speceyes.errors import ConfigError
from speceyes.gateway.conversation import Message, text_of
from speceyes.types import Completion

PLACE = "{answer}"
_SAMPLES = ("7", "a red van, left of the door", "(B)")


@dataclass(frozen=True, slots=True)
class Template:
    """What a text dialect looks like from outside.

    Attributes:
        reply: A final answer, with `{answer}` in the place of the draft's.
        tags: A line of the question that holds one of them tells the agent how to write: it and what follows is not for
            the draft.
    """

    reply: str
    tags: tuple[str, ...]


_SEEN = "<think>This can be seen without a closer look.</think><answer>{answer}</answer>"

TEMPLATES: Mapping[str, Template] = {
    "deepeyes": Template(_SEEN, ("<think>", "<tool_call>", "<answer>")),
    "deepeyesv2": Template(_SEEN, ("<think>", "<code>", "<tool_call>", "<answer>")),
    "thyme": Template(_SEEN, ("<think>", "<code>", "<sandbox_output>", "<answer>")),
    "qwen3vl": Template(_SEEN, ("<think>", "<tool_call>", "<answer>")),
    "minio3": Template(_SEEN, ("<think>", "<grounding>", "<answer>")),
    "pixelreasoner": Template(
        r"This can be seen without a closer look. \boxed{{answer}}", ("<tool_call>", "crop_image_normalized", r"\boxed")
    ),
}
"""By the dialect's name."""


class TextForm:
    """One dialect's text, written and read.

    Args:
        dialect: The dialect.
        reply: Another final answer than the template's, with `{answer}` in it.

    Raises:
        ConfigError: The dialect has no template, or would not find the answer in such a reply.
    """

    def __init__(self, dialect: Dialect, reply: str | None = None) -> None:
        if dialect.name not in TEMPLATES:
            raise ConfigError(
                f"there is no template for answers in the dialect {dialect.name!r}: {', '.join(TEMPLATES)}"
            )
        template = TEMPLATES[dialect.name]
        self.name = dialect.name
        self._dialect, self._reply, self._tags = dialect, reply or template.reply, template.tags
        if self._reply.count(PLACE) != 1:
            raise ConfigError(f"transparent.reply: {self._reply!r} must hold {PLACE} once")
        for sample in _SAMPLES:
            if self.write(sample) is None:
                raise ConfigError(
                    f"transparent.reply: a client that speaks {dialect.name} finds no answer in {self._reply!r}, or "
                    f"another one than {PLACE}. Usual is {template.reply!r}"
                )

    def write(self, answer: str) -> str | None:
        """The final turn that a client reads this answer from. None: it would read something else."""
        text = self._reply.replace(PLACE, answer)
        found = self._parse(text)
        return text if found is not None and found.text == answer else None

    def answers(self, message: Message) -> bool:
        """Whether an assistant message is an answer in the dialect's form."""
        return not message.get("tool_calls") and self._parse(text_of(message)) is not None

    def answer(self, text: str) -> str:
        """The answer alone, from a turn that is one."""
        found = self._parse(text)
        return text if found is None else found.text

    def before_instructions(self, text: str) -> tuple[str, bool]:
        """A text up to the lines that tell the agent how to write, and whether there are any."""
        lines = text.splitlines(keepends=True)
        for i, line in enumerate(lines):
            if any(tag in line for tag in self._tags):
                return "".join(lines[:i]).rstrip(), True
        return text, False

    def _parse(self, text: str) -> Final | None:
        found = self._dialect.parse(Completion(text, "stop"))
        return found if isinstance(found, Final) and found.tagged else None
