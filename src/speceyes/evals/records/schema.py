"""What a record holds: every column, its type and its meaning. `docs/records.md` lists the same.

One row is one query: what was asked, what each phase made of it, and what that cost. Nothing in it depends on a
threshold, a score or a plan, so all of those can be computed from it afterwards.

What begins with `closer_` are lists with one entry for each time that the draft model was to look closer by itself.
They are empty where it was not to.

Null means "not known": a phase that failed or did not run, a token count that the server did not give, a right answer
that nobody knows. It never stands for 0 or for false.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

SCHEMA_VERSION: Final = 1
"""Rises when a column changes its meaning or goes. A column that is added leaves it as it is."""

Row = dict[str, Any]
"""One record: a value under each column's name."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        name: Its name, in Parquet and in the journal.
        type: `string`, `bool`, `int32`, `float` (32 bits), `double` (64 bits), or `list<...>` of one of them.
        meaning: What stands in it, with its unit.
    """

    name: str
    type: str
    meaning: str


def _costs(phase: str, what: str) -> tuple[Column, ...]:
    return (
        Column(f"{phase}_seconds", "double", f"Wall time of {what}, in seconds, retries included."),
        Column(f"{phase}_prompt_tokens", "int32", "Tokens read, over all its calls."),
        Column(f"{phase}_completion_tokens", "int32", "Tokens written, over all its calls."),
        Column(f"{phase}_cached_tokens", "int32", "Of the tokens read, those that the server had in its prompt cache."),
        Column(f"{phase}_calls", "int32", "Requests, those that were repeated included."),
        Column(f"{phase}_error", "string", f"Why {what} failed: the error's class and message."),
    )


COLUMNS: Final = (
    Column("index", "int32", "Place in the data set, from 0."),
    Column("id", "string", "Name of the query; no two rows of a run share one."),
    Column("category", "string", "What kind of question it is; empty where the data set has no kinds."),
    Column("question", "string", "The text that both models were asked, answer options included."),
    Column("options", "list<string>", "The answer options in the order shown; empty for an open question."),
    Column("gold", "string", "The right option's letter, or the right word; null where it is not known."),
    Column("image_sha256", "list<string>", "Of each image, the hash of its file, in hexadecimal."),
    Column("image_width", "list<int32>", "Of each image, pixels across, upright."),
    Column("image_height", "list<int32>", "Of each image, pixels down, upright."),
    Column("image_bytes", "list<int32>", "Of each image, the size of its file."),
    Column("image_error", "string", "Why an image could not be shown to the models; then no phase ran."),
    Column("look_seconds", "double", "Wall time to resize and encode the images for both models, in seconds."),
    Column("p_yes", "double", "Phase I: probability of `yes`, a tool would help, over all spellings of the word."),
    Column("p_no", "double", "Phase I: the same for `no`. Help probability is p_yes / (p_yes + p_no)."),
    *_costs("screen", "phase I"),
    Column("draft_text", "string", "Phase II: the draft's answer as a user would see it."),
    Column(
        "draft_fault", "string", "What is wrong with its tokens (one of the reasons in `Reason`); null for nothing."
    ),
    Column("tokens", "list<string>", "Text of each token of the answer: no end of turn, no reasoning."),
    Column("logprobs", "list<float>", "Of each token, its own natural log-probability; null where none was sent."),
    Column("top_logprobs", "list<list<float>>", "Of each token, the K largest log-probs as sent, best first."),
    Column("top_tokens", "list<list<string>>", "The texts that belong to `top_logprobs`."),
    *_costs("draft", "phase II"),
    Column(
        "closer_text", "list<string>", "Phase II after each closer look, in their order: the answer, empty for none."
    ),
    Column(
        "closer_fault", "list<string>", "As `draft_fault`; `look_failed` where no part could be shown, then the last."
    ),
    Column("closer_tokens", "list<list<string>>", "As `tokens`, and so the next three."),
    Column("closer_logprobs", "list<list<float>>", "Of each token, its own natural log-probability."),
    Column("closer_top_logprobs", "list<list<list<float>>>", "Of each token, the K largest log-probs, best first."),
    Column("closer_top_tokens", "list<list<list<string>>>", "The texts that belong to `closer_top_logprobs`."),
    Column("closer_image", "list<int32>", "Of which image a part was shown, from 0; null where none was."),
    Column(
        "closer_box", "list<list<double>>", "Which part: left, top, right, bottom in pixels of that image, upright."
    ),
    Column("closer_seconds", "list<double>", "Wall time of the look and the answer after it, in seconds."),
    Column("closer_prompt_tokens", "list<int32>", "Tokens read, over all its calls."),
    Column("closer_completion_tokens", "list<int32>", "Tokens written, over all its calls."),
    Column("closer_cached_tokens", "list<int32>", "Of the tokens read, those that the server had in its prompt cache."),
    Column("closer_calls", "list<int32>", "Requests, those that were repeated included."),
    Column(
        "closer_error", "string", "Why the next look failed: the error's class and message. It is not in the lists."
    ),
    Column("agent_text", "string", "Phase IV: the agent's answer at the end of its whole loop."),
    Column("agent_finish", "string", "How its run ended (one of `Finish`): `answered`, `turn_limit`, ..."),
    Column("agent_depth", "int32", "Tool calls of the run."),
    Column("agent_turns", "int32", "Turns of the run."),
    *_costs("agent", "phase IV"),
    Column("draft_right", "bool", "Whether the draft states the gold choice; null without gold or draft."),
    Column("agent_right", "bool", "Whether the agent states the gold choice; null without gold or run."),
    Column("agrees", "bool", "Whether draft and agent give the same answer; null where one of them is missing."),
    Column("closer_right", "list<bool>", "As `draft_right`, after each closer look."),
    Column("closer_agrees", "list<bool>", "As `agrees`, after each closer look."),
    Column("recorded_at", "double", "When the row was complete: seconds since 1970-01-01 00:00 UTC."),
)
"""In the order of the file."""

NAMES: Final = tuple(column.name for column in COLUMNS)
ERRORS: Final = ("image_error", "screen_error", "draft_error", "closer_error", "agent_error")
"""A row is *failed* where one of these is not null. With `closer_error` alone, its three phases count all the same."""


def is_failed(row: Row) -> bool:
    """Whether something went wrong in this row that may go right when it is tried again."""
    return any(row[name] is not None for name in ERRORS)
