"""What a demo's pictures show of single queries: which ones, in which words, and with which images."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from PIL import Image

from speceyes.evals.datasets.questions import LETTERS
from speceyes.evals.datasets.samples import Sample
from speceyes.evals.datasets.scenes import SIDE, draw_scene
from speceyes.evals.race import Course, Result, by_id
from speceyes.evals.systems import SystemName
from speceyes.gating import Calibration
from speceyes.types import Answer, Crop, Reason, Route

REASONS: Mapping[Reason, str] = {
    Reason.ACCEPTED: "No tool needed, and the draft is sure",
    Reason.ACCEPTED_CLOSER: "The draft looked closer, and is sure",
    Reason.TOOL_WOULD_HELP: "A closer look would help",
    Reason.SCREEN_UNREADABLE: "Screening said neither yes nor no",
    Reason.SCREEN_FAILED: "Screening got no answer",
    Reason.DRAFT_FAILED: "The draft's server failed",
    Reason.BELOW_THRESHOLD: "The draft is not sure enough",
    Reason.INFEASIBLE: "The gate has no proven threshold",
    Reason.EMPTY_ANSWER: "The draft said nothing",
    Reason.TRUNCATED_ANSWER: "The draft ran out of tokens",
    Reason.REPETITIVE_ANSWER: "The draft repeats itself",
    Reason.LOOK_FAILED: "The draft named nothing to look at",
    Reason.LOGPROBS_MISSING: "The draft came without log-probs",
    Reason.LOGPROBS_TOO_FEW: "Too few log-probs to judge the draft",
    Reason.LOGPROBS_MISALIGNED: "Log-probs do not match the draft",
    Reason.SCORE_UNDEFINED: "The draft's score is undefined",
    Reason.SPECULATION_OFF: "Speculation was off",
    Reason.AGENT_FIRST: "The agent was done first",
    Reason.NO_IMAGE: "There was no image",
    Reason.LATER_TURN: "The agent's loop was under way",
    Reason.NEEDS_AGENT: "Only the agent can give what was asked for",
    Reason.OBSERVED: "Only observed: the agent answers",
    Reason.NOT_ROLLED_OUT: "Outside the rollout",
    Reason.FORCED_DRAFT: "The draft was asked for",
    Reason.FORCED_AGENT: "The agent was asked for",
    Reason.AGENT_DOWN: "The agent was down, and the draft very sure",
}
"""Why a query went where it went, in plain words."""

SYSTEMS: Mapping[SystemName, str] = {
    SystemName.AGENT: "Agent alone",
    SystemName.DRAFT: "Draft alone",
    SystemName.SPECEYES: "SpecEyes",
}


@dataclass(frozen=True, slots=True)
class Meter:
    """A measured value and its limit, on a scale from `ends[0]` to `ends[1]`."""

    label: str
    value: float
    limit: float
    ends: tuple[float, float]
    passed: bool

    @property
    def value_share(self) -> float:
        """Where the value stands on the scale, 0 to 1."""
        return self._share(self.value)

    @property
    def limit_share(self) -> float:
        """Where the limit stands on the scale, 0 to 1."""
        return self._share(self.limit)

    def _share(self, value: float) -> float:
        low, high = self.ends
        return min(1.0, max(0.0, (value - low) / (high - low)))


@dataclass(frozen=True, slots=True)
class Tile:
    """One query of SpecEyes as the pictures show it.

    Attributes:
        sample: What was asked.
        answer: SpecEyes' answer with its trace.
        right: Whether it is right.
        draft_said: The draft's answer when it was asked alone.
        seconds: Time of the query's own work.
        meters: Phase I's and phase III's decision, as far as they were taken.
    """

    sample: Sample
    answer: Answer
    right: bool
    draft_said: str
    seconds: float | None
    meters: tuple[Meter, ...]

    @property
    def route(self) -> Route:
        return self.answer.route

    @property
    def why(self) -> str:
        return REASONS[self.answer.reason]

    @property
    def crops(self) -> tuple[Crop, ...]:
        """What the agent, or the draft that answers, looked at more closely, in its order."""
        run, draft = self.answer.trace.run, self.answer.trace.answering
        if draft is not None:
            return draft.crops
        return tuple(crop for turn in run.turns for crop in turn.crops) if run else ()

    def scene(self, side: int) -> Image.Image:
        """The whole scene, `side` x `side`."""
        return draw_scene(self.sample.scene).resize((side, side), Image.Resampling.LANCZOS)

    def crop(self, crop: Crop, side: int) -> Image.Image:
        """A crop, its longer side `side` long."""
        part = draw_scene(self.sample.scene).crop(tuple(round(edge) for edge in crop.box))  # type: ignore[arg-type]
        scale = side / max(part.size)
        size = (max(1, round(part.width * scale)), max(1, round(part.height * scale)))
        return part.resize(size, Image.Resampling.LANCZOS)

    def said(self, text: str) -> str:
        """An answer as a person reads it: a letter together with its option."""
        if text in LETTERS[: len(self.sample.options)] and text:
            return f"{text}. {self.sample.options[LETTERS.index(text)]}"
        return text.strip() or "nothing"


def share_of_scene(crop: Crop) -> tuple[float, float, float, float]:
    """A crop's (left, top, right, bottom) as shares of the scene's side."""
    left, top, right, bottom = crop.box
    return left / SIDE, top / SIDE, right / SIDE, bottom / SIDE


def choose_tiles(courses: Mapping[SystemName, Course], calibration: Calibration, count: int = 12) -> list[Tile]:
    """Some of SpecEyes' queries: both routes, every reason, every kind of question in turn, right or wrong alike.

    Args:
        courses: The race.
        calibration: The gate's, for its limits.
        count: How many at most.
    """
    drafts = by_id(courses[SystemName.DRAFT])
    answered = [result for result in courses[SystemName.SPECEYES].results if result.reply.answer is not None]
    varied = _mixed(answered, lambda r: _answer(r).route, lambda r: _answer(r).reason, lambda r: r.sample.kind)
    chosen = {result.sample.id for result in varied[:count]}
    shown = [result for result in answered if result.sample.id in chosen]
    ends = _score_ends(shown)
    return [_tile(result, drafts[result.sample.id], calibration, ends) for result in shown]


def _mixed(results: Sequence[Result], *keys: Callable[[Result], str]) -> list[Result]:
    """The groups that the first key makes take turns, each in the order that the further keys make in it."""
    if not keys:
        return list(results)
    groups: defaultdict[str, list[Result]] = defaultdict(list)
    for result in results:
        groups[keys[0](result)].append(result)
    turns = [_mixed(group, *keys[1:]) for group in groups.values()]
    return [group[i] for i in range(max(map(len, turns), default=0)) for group in turns if i < len(group)]


def _score_ends(results: Sequence[Result]) -> tuple[float, float]:
    verdicts = [_answer(result).trace.verdict for result in results]
    values = [value for verdict in verdicts if verdict for value in (verdict.score, verdict.threshold) if value]
    low, high = min([0.0, *values]), max([0.0, *values])
    return low * 1.1, high * 1.1 or (0.0 if low < 0 else 1.0)


def _tile(result: Result, draft: Result, calibration: Calibration, ends: tuple[float, float]) -> Tile:
    answer = _answer(result)
    meters = []
    screening, verdict = answer.trace.screening, answer.trace.verdict
    if screening and (chance := screening.help_probability) is not None:
        limit = calibration.screen_threshold
        meters.append(Meter("tool helps", chance, limit, (0.0, 1.0), chance <= limit))
    if verdict and verdict.score is not None and verdict.threshold is not None:
        meters.append(Meter(calibration.score, verdict.score, verdict.threshold, ends, verdict.accepted))
    return Tile(result.sample, answer, result.right, draft.reply.text, result.reply.seconds, tuple(meters))


def _answer(result: Result) -> Answer:
    assert result.reply.answer is not None
    return result.reply.answer
