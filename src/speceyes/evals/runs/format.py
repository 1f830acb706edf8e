"""What the files of an evaluation run hold: one dataclass for each kind of line, to and from JSON.

    run.json        `Header`: what was run, with what, on what
    samples.jsonl   `Sample`: one line a question
    results.jsonl   `Result`: one line for each system and question
    laps.jsonl      `Lap`: one line for each system, block of questions and concurrency
    gate.jsonl      `Judged`: what phases I to III said before the systems ran; only where that was needed
    summary.json    `summarise` of all that
    images/         thumbnails, where they were wanted

The files are strict JSON in UTF-8. None is "not known", never 0 and never false. Fields may be added within a format;
one that goes or changes its meaning makes another format, and a reader refuses a format that it does not know.

While a run is under way, lines are only appended. Where a block was run again, the last line for a system and a
question counts, and what a crash left of a last line is no line. A finished run holds each once, in the order of the
questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from speceyes.errors import DatasetError

FORMAT: Final = 1
"""Version of the files' layout."""

Line = TypeVar("Line")

Number = str | int | float | bool | None
"""A plain value."""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """Which questions were asked.

    Attributes:
        name: As it was named on the command line.
        kind: `nano`, `vstar`, `hrbench`, `pope` or `mcq`.
        digest: Hash of all its questions, options, right answers and pictures.
        items: How many questions it has.
        asked: How many of them were asked: a limit may leave some out.
        shuffle_seed: By which options were put into another order than the file's. None: they were not.
        form: Which of the kind's file forms it was read from.
        files: `sha256:...` of each file that was read.
    """

    name: str
    kind: str
    digest: str
    items: int
    asked: int
    shuffle_seed: int | None = None
    form: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One of the two models.

    Attributes:
        name: As its server calls it.
        fingerprint: What a calibration is bound to.
        url: Where it was served; None for llama.cpp inside the process.
    """

    name: str
    fingerprint: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class GateFacts:
    """The gate that was used.

    Attributes:
        score: Name of the score.
        k: Log-probs of a token that it looks at.
        aggregate: How an answer's tokens make one score.
        threshold: Least score that passes, on the raw score. None: nothing passes.
        screen_threshold: Greatest help probability that phase I lets through.
        method: How the threshold was found; `manual` where a person set it.
        alpha: Loss against the agent that the calibration promises to keep under. None: no promise.
        delta: Chance that the promise is wrong.
    """

    score: str
    k: int
    aggregate: str
    threshold: float | None
    screen_threshold: float
    method: str
    alpha: float | None = None
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One stretch of running, from a start to an end, an interruption or a crash.

    Attributes:
        began: UTC, ISO 8601.
        command: The command line, without keys.
        versions: Of Python and the packages that have a say.
        machine: System, processor, cores.
        ended: None: it goes on, or it was interrupted.
    """

    began: str
    command: str
    versions: Mapping[str, str]
    machine: Mapping[str, Number]
    ended: str | None = None


@dataclass(frozen=True, slots=True)
class Header:
    """The content of `run.json`.

    Attributes:
        dataset: The questions.
        systems: Who was compared, in the order wanted.
        models: Under `draft` and `agent`.
        gate: The gate of SpecEyes and of the baselines that have one.
        rule: By which answers were marked; a value of `evals.scoring.Rule`.
        concurrency: Questions under way at a time. The first is the run's own; for the others there are only laps.
        batch: Sizes at which screening and drafting alone were timed.
        block: About how many questions a block has.
        blocks: How many blocks the questions were cut into.
        seed: Of what is drawn by lot: the random gate, and the resamples of the statistics.
        images: Whether `images/` holds thumbnails.
        settings: What else decides the answers, under short names: prompts (as fingerprints), sizes of picture, limits.
        sessions: When it ran, first to last. The first one's command and machine are the run's.
        format: Version of the layout.
    """

    dataset: DatasetFacts
    systems: tuple[str, ...]
    models: Mapping[str, ModelFacts]
    gate: GateFacts
    rule: str
    concurrency: tuple[int, ...]
    batch: tuple[int, ...]
    block: int
    blocks: int
    seed: int
    images: bool
    settings: Mapping[str, Number] = field(default_factory=dict)
    sessions: tuple[Session, ...] = ()
    format: int = FORMAT

    @property
    def began(self) -> str | None:
        """When the run was first started."""
        return self.sessions[0].began if self.sessions else None

    @property
    def ended(self) -> str | None:
        """When it was done; None where it is not."""
        return self.sessions[-1].ended if self.sessions else None

    @property
    def command(self) -> str:
        """How it was first started."""
        return self.sessions[0].command if self.sessions else ""

    @property
    def versions(self) -> Mapping[str, str]:
        """Of the first session."""
        return self.sessions[0].versions if self.sessions else {}

    @property
    def machine(self) -> Mapping[str, Number]:
        """Of the first session."""
        return self.sessions[0].machine if self.sessions else {}


@dataclass(frozen=True, slots=True)
class Sample:
    """One question.

    Attributes:
        id: Its name in the data set.
        question: What the models were asked, options included.
        options: The options in the order shown; empty for an open question.
        order: Position in the file of each option shown, where they were shuffled; else empty.
        gold: The right option's letter or the right word; None where it is not known.
        category: What kind of question it is.
        group: What its turns share, such as HR-Bench's four rotations; empty where it stands alone.
        image_name: Identifies the picture; questions about one picture share it.
        image: The thumbnail, a path relative to the run's folder; None where none is kept.
        size: (width, height) of the picture, upright. None where it could not be loaded.
    """

    id: str
    question: str
    options: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    gold: str | None = None
    category: str = ""
    group: str = ""
    image_name: str = ""
    image: str | None = None
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class CropLine:
    """What a tool showed.

    Attributes:
        image: Which of the query's images, from 0.
        box: (left, top, right, bottom) in pixels of the original.
        label: What the agent said it was looking for.
    """

    image: int
    box: tuple[float, float, float, float]
    label: str = ""


@dataclass(frozen=True, slots=True)
class TurnLine:
    """One turn of the agent, or one step of SpecReason.

    Attributes:
        text: What was written.
        tool: The tool that was called; None for none.
        arguments: What it was called with.
        error: Why no tool's result came back.
        crops: What it showed.
        by: Which model wrote it: `agent` or `draft`.
        rating: SpecReason: the agent's mark for a proposed step, 0 to 9; None where it was not rated, or not readably.
        kept: SpecReason: False for a proposal that the agent's own step replaced.
    """

    text: str
    tool: str | None = None
    arguments: Mapping[str, object] | None = None
    error: str | None = None
    crops: tuple[CropLine, ...] = ()
    by: str = "agent"
    rating: int | None = None
    kept: bool = True


@dataclass(frozen=True, slots=True)
class UsageLine:
    """Tokens of one model's calls, refused drafts and screening included. None: its server did not say."""

    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What one system answered to one question.

    Attributes:
        system: Who.
        id: The sample's.
        block: In which block of questions it was asked.
        text: The answer; empty where there is none.
        parsed: What the rule read from it: a letter or a word. None: nothing could be read.
        how: Which part of the rule found it: `Mark.how` of the scoring, `error` for a failed query.
        right: None where the right answer is not known; False for a failed query and an unparsed answer.
        error: Why there is no answer; None where there is one.
        seconds: Wall time of the query's own work, waiting for its turn left out. None where it failed.
        route: `draft` or `agent`: whose answer it is.
        reason: One of `Reason`.
        score: The gate's score of the draft; None where there is none.
        squashed: The same on the published scale, 0 to 1.
        threshold: What the score was held against.
        help_probability: Phase I: that a tool would help.
        depth: Tool calls that were made; None where the query failed.
        finish: How the agent's run ended (`Finish`); None where none ran.
        phase_seconds: Wall time of the phases that ran: screen, speculate, gate, fall_back.
        usage: By role, `draft` and `agent`; a model that was not asked is left out.
        turns: The agent's, or SpecReason's steps.
        notes: What went differently from normal, and was survived.
        at: When it was done: seconds since 1970, UTC.
    """

    system: str
    id: str
    block: int
    text: str = ""
    parsed: str | None = None
    how: str = ""
    right: bool | None = None
    error: str | None = None
    seconds: float | None = None
    route: str | None = None
    reason: str | None = None
    score: float | None = None
    squashed: float | None = None
    threshold: float | None = None
    help_probability: float | None = None
    depth: int | None = None
    finish: str | None = None
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    usage: Mapping[str, UsageLine] = field(default_factory=dict)
    turns: tuple[TurnLine, ...] = ()
    notes: tuple[str, ...] = ()
    at: float = 0.0

    @property
    def accepted(self) -> bool:
        """Whether the draft's answer stood."""
        return self.route == "draft"

    @property
    def unparsed(self) -> bool:
        """An answer that the rule could not read."""
        return self.error is None and self.parsed is None


@dataclass(frozen=True, slots=True)
class Lap:
    """One system on one block of questions.

    Attributes:
        system: Who; `stateless` for screening and drafting alone.
        block: Which block.
        concurrency: Questions under way at a time.
        queries: Questions in the block.
        seconds: Wall time for all of them, pictures loaded before.
        right: Right answers; None where the right answers are not known, and for `stateless`.
        errors: Queries that failed. The time of a block with errors is not that of the work.
    """

    system: str
    block: int
    concurrency: int
    queries: int
    seconds: float
    right: int | None = None
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Judged:
    """What phases I to III said to one question, before the systems ran.

    Attributes:
        id: The sample's.
        reason: The gate's, or why phase I stopped it.
        help_probability: Phase I.
        score: Phase III, also where phase I stopped the query.
        let_through: Whether phase I let it through.
        accepted: Whether phase III then accepted the draft.
        error: Why it could not be found out.
    """

    id: str
    reason: str | None = None
    help_probability: float | None = None
    score: float | None = None
    let_through: bool = False
    accepted: bool = False
    error: str | None = None


def to_line(record: object) -> bytes:
    """A record as one line. It holds no line end but its own."""
    return msgspec.json.encode(record) + b"\n"


def from_line(data: bytes, kind: type[Line], where: str) -> Line:
    """The record that a line holds.

    Raises:
        DatasetError: It is not one. The message names `where`.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DatasetError(f"{where} is damaged: {error}. Restore the file.") from error
