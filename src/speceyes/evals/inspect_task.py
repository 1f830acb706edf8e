"""Our data sets as a task of `inspect_ai`, marked by our rules.

    inspect eval speceyes/sets -T set=nano:20:0@test --model openai-api/gateway/speceyes

inspect_ai stands in the extra `inspect`, and nothing in the package imports this module: inspect finds it as an entry
point, or by this file's path.
"""

from __future__ import annotations

import base64
import io
from functools import lru_cache

import anyio.to_thread
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ContentImage, ContentText
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    NOANSWER,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    grouped,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import Generate, Solver, TaskState, generate, solver

from speceyes.evals.datasets.readers import Dataset, Item, open_dataset
from speceyes.evals.scoring import Mark, Rule, find_rule, score_answer
from speceyes.imaging.decode import DecodedImage


@task
def sets(set: str, rule: str = "strict", shuffle_seed: int = 0, shuffle_all: bool = False) -> Task:
    """The questions of a data set, each with its picture; the scores' metadata say which rule found what.

    Args:
        set: A data set's name, as `open_dataset` takes it.
        rule: How answers are read: `strict`, `lmms`, `vlmevalkit` or `pope`.
        shuffle_seed: What the order of options is drawn from where the files name the right one first.
        shuffle_all: Draw it in the other forms too.

    Raises:
        DatasetError: As `open_dataset`.
        InputError: As `open_dataset`.
        ConfigError: There is no such rule, or it does not cover one of the questions.
    """
    dataset = _opened(set, shuffle_seed, shuffle_all)
    find_rule(rule, dataset.items)
    return Task(
        dataset=MemoryDataset([_sample(item) for item in dataset.items], name=dataset.name),
        setup=show_picture(set, shuffle_seed, shuffle_all),
        solver=generate(),
        scorer=stated_choice(rule, dataset.kind),
        metadata={"kind": dataset.kind, "digest": dataset.digest, "shuffle_seed": dataset.shuffle_seed},
    )


@solver
def show_picture(set: str, shuffle_seed: int = 0, shuffle_all: bool = False) -> Solver:
    """Put a sample's picture before its question. It is decoded only now, so a large data set needs little memory."""
    items = {item.id: item for item in _opened(set, shuffle_seed, shuffle_all).items}

    async def show(state: TaskState, generate: Generate) -> TaskState:
        item = items[str(state.sample_id)]
        url = await anyio.to_thread.run_sync(lambda: data_url(item.image()))
        state.user_prompt.content = [ContentImage(image=url), ContentText(text=item.prompt)]
        return state

    return show


@metric
def unparsed() -> Metric:
    """Share of the answers in which the rule found no choice. With several epochs, that of the first."""

    def share(scores: list[SampleScore]) -> float:
        found = [bool((one.score.metadata or {}).get("unparsed")) for one in scores]
        return sum(found) / len(found) if found else 0.0

    return share


@scorer(metrics=[accuracy(), stderr(), unparsed(), grouped(accuracy(), "category", all=False)])
def stated_choice(rule: str = "strict", kind: str = "vstar") -> Scorer:
    """Mark the choice that an answer states.

    The value is C or I; N, which counts as wrong, where the rule found nothing; and none where nobody knows the right
    answer. The metadata hold the mark's `how`, `form` and `unparsed`.

    Args:
        rule: One of `Rule`.
        kind: Whose questions they are; only `lmms` asks.
    """

    async def score(state: TaskState, target: Target) -> Score:
        text, key = state.output.completion, (target.text or None, tuple(state.metadata["options"]))
        return _score(score_answer(text, key, Rule(rule), kind=kind), text)

    return score


def _score(mark: Mark, text: str) -> Score:
    metadata = {"how": mark.how, "form": mark.form, "unparsed": mark.unparsed}
    if mark.right is None:
        return Score.unscored(
            answer=mark.parsed, explanation=text, metadata=metadata, reason="the right answer is not known"
        )
    if mark.unparsed:
        return Score(value=NOANSWER, explanation=text, metadata=metadata, reason="invalid_response_format")
    value = CORRECT if mark.right else INCORRECT
    return Score(value=value, answer=mark.parsed, explanation=text, metadata=metadata)


def _sample(item: Item) -> Sample:
    return Sample(
        id=item.id,
        input=item.prompt,
        target=item.gold or "",
        metadata={
            "category": item.category or "no category",
            "group": item.group,
            "options": list(item.options),
            "order": list(item.order),
            "image_name": item.image_name,
        },
    )


def data_url(image: DecodedImage) -> str:
    """A picture as inspect's providers take it: its file where every decoder reads that alike, else a PNG of it."""
    if image.plain and image.source:
        data, mime = image.source, f"image/{image.format.lower()}"
    else:
        buffer = io.BytesIO()
        image.pixels.save(buffer, "PNG")
        data, mime = buffer.getvalue(), "image/png"
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"


@lru_cache(maxsize=4)
def _opened(name: str, shuffle_seed: int, shuffle_all: bool) -> Dataset:
    """Once for the samples and the solver: opening reads and hashes all files."""
    return open_dataset(name, shuffle_seed=shuffle_seed, shuffle_all=shuffle_all)
