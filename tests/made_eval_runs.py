"""Evaluation runs as files, made up: as many questions and systems as a test wants, and whatever fault it wants."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
from PIL import Image, ImageDraw

from speceyes.evals.runs.format import (
    CropLine,
    DatasetFacts,
    GateFacts,
    Header,
    Lap,
    ModelFacts,
    Result,
    Sample,
    Session,
    TurnLine,
    UsageLine,
    to_line,
)

SYSTEMS = ("agent", "draft", "speceyes", "specreason", "random", "oracle", "no-screen", "no-gate", "draft-screen")
SIZE = (640, 480)
THRESHOLD = 4.2
CATEGORIES = {
    "vstar": ("direct_attributes", "relative_position"),
    "hrbench": ("single", "cross"),
    "pope": ("adversarial", "popular", "random"),
    "nano": ("digit", "color"),
    "mcq": ("",),
}
Change = Callable[[Result], Result]


def header(kind: str, count: int, systems: Sequence[str], name: str = "", *, models: str = "large") -> Header:
    return Header(
        dataset=DatasetFacts(name or f"data/{kind}", kind, f"sha256:{kind}", count, count, 0),
        systems=tuple(systems),
        models={
            "agent": ModelFacts(f"{models}-agent", "sha256:aa", "http://127.0.0.1:1/v1"),
            "draft": ModelFacts(f"{models}-draft", "sha256:dd", None),
        },
        gate=GateFacts("separability", 64, "min", THRESHOLD, 0.5, "split", 0.02, 0.05),
        rule="pope" if kind == "pope" else "strict",
        concurrency=(4, 1, 2),
        batch=(1, 4),
        block=10,
        blocks=max(1, count // 10),
        seed=0,
        images=True,
        settings={"agent_pixels": 36864},
        sessions=(
            Session(
                "2026-01-01T10:00:00+00:00",
                f"speceyes eval data/{kind} --systems all -o run",
                {"python": "3.12.1", "speceyes": "0.1.0", "xllamacpp": "1.0"},
                {"system": "Linux", "processor": "A made-up processor", "cores": 2},
                "2026-01-01T10:09:00+00:00",
            ),
        ),
    )


def make_run(
    folder: Path,
    kind: str = "vstar",
    count: int = 40,
    systems: Sequence[str] = SYSTEMS,
    *,
    change: Change = lambda result: result,
    name: str = "",
    models: str = "large",
    seed: int = 0,
    pictures: bool = True,
    samples: Sequence[Sample] | None = None,
) -> Path:
    """Write a run's folder.

    Args:
        folder: Where to.
        kind: Whose format the questions have.
        count: Questions.
        systems: Who answers.
        change: Is given each result before it is written.
        name: Of the data set.
        models: The models' names begin so.
        seed: Of the answers.
        pictures: Whether there are thumbnails.
        samples: The questions, where they are to be special ones.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = list(samples) if samples is not None else [_sample(kind, number) for number in range(count)]
    made = header(kind, len(asked), systems, name, models=models)
    (folder / "run.json").write_bytes(msgspec.json.encode(made))
    if pictures:
        _draw(folder, asked)
    (folder / "samples.jsonl").write_bytes(b"".join(map(to_line, asked)))
    results = [change(_result(sample, place, system, seed)) for place, sample in enumerate(asked) for system in systems]
    (folder / "results.jsonl").write_bytes(b"".join(map(to_line, results)))
    (folder / "laps.jsonl").write_bytes(b"".join(map(to_line, _laps(made, results))))
    return folder


def _sample(kind: str, number: int) -> Sample:
    categories = CATEGORIES[kind]
    # The rows of one question of HR-Bench have one category.
    category = categories[(number // 4 if kind == "hrbench" else number) % len(categories)]
    options: tuple[str, ...] = () if kind == "pope" else ("red", "green", "blue", "yellow")
    question = "Is there a dog in the picture?" if kind == "pope" else f"Which color has sign {number}?"
    lines = [f"{letter}. {option}" for letter, option in zip("ABCD", options, strict=False)]
    gold = ("yes", "no")[number % 2] if kind == "pope" else "ABCD"[number % 4]
    group = f"q{number // 4}" if kind == "hrbench" else ""
    picture = number // 2
    return Sample(
        f"{category or 'row'}/{number}", "\n".join([question, *lines]), options, (2, 0, 3, 1) if options else (), gold,
        category, group, f"sha256:{picture}", f"images/{picture}.jpg", SIZE,
    )  # fmt: skip


def _result(sample: Sample, place: int, system: str, seed: int) -> Result:
    """What a system says. The world is the same for all: which questions are easy depends on the question alone."""
    world = random.Random(f"{seed} {sample.id}")
    easy = world.random() < 0.6
    draft_right, agent_right = world.random() < (0.97 if easy else 0.35), world.random() < 0.9
    score = world.gauss(6.0 if draft_right else 3.4, 1.1)
    help_probability = world.betavariate(1, 6) if easy else world.betavariate(5, 2)
    depth = 0 if easy and world.random() < 0.5 else world.choice([1, 1, 2, 3])
    agent_seconds = 0.3 + 0.22 * depth + world.random() * 0.1
    lot = world.random() < 0.5
    accepted = {
        "agent": False,
        "draft": True,
        "specreason": False,
        "random": lot,
        "oracle": draft_right,
        "no-screen": score >= THRESHOLD,
        "no-gate": help_probability <= 0.5,
    }.get(system, help_probability <= 0.5 and score >= THRESHOLD)
    right = draft_right if accepted else agent_right
    letters = ["yes", "no"] if not sample.options else list("ABCD"[: len(sample.options)])
    said = (sample.gold or letters[0]) if right else next(text for text in letters if text != sample.gold)
    screens = system not in ("agent", "draft", "specreason", "no-screen")
    drafts = system not in ("agent", "specreason") and (not screens or help_probability <= 0.5)
    phases = {"screen": 0.06} if screens else {}
    phases |= {"speculate": 0.05, "gate": 0.001} if drafts else {}
    phases |= {} if accepted else {"fall_back": agent_seconds}
    slow = 2.4 if system == "specreason" else 1.0
    left, top = 40 + 20 * (place % 9), 30 + 15 * (place % 7)
    crops = tuple(CropLine(0, (left, top, left + 90, top + 60), "the sign") for _ in range(1))
    turns = [
        TurnLine(
            "<think>It is small. Let me look.</think>", "image_zoom_in_tool", {"bbox_2d": [1, 2, 3, 4]}, None, crops
        )
        for _ in range(depth)
    ]
    reason = "accepted" if accepted else "tool_would_help" if help_probability > 0.5 else "below_threshold"
    return Result(
        system,
        sample.id,
        place // 10,
        said,
        said,
        "word" if not sample.options else "letter",
        right if sample.gold is not None else None,
        None,
        slow * sum(phases.values()),
        "draft" if accepted else "agent",
        None if system in ("agent", "draft", "specreason") else reason,
        score if drafts else None,
        None,
        THRESHOLD if drafts else None,
        help_probability if screens else None,
        0 if accepted else depth,
        None if accepted else "answered",
        phases,
        {"agent": UsageLine(900 * (depth + 1), 60), "draft": UsageLine(400, 2)},
        () if accepted else (*turns, TurnLine(f"<answer>{said}</answer>")),
        at=1.7e9 + place,
    )


def _laps(made: Header, results: Sequence[Result]) -> list[Lap]:
    laps = []
    for many in made.concurrency:
        for system in made.systems:
            for block in range(max(row.block for row in results) + 1):
                rows = [row for row in results if row.system == system and row.block == block]
                took = sum(row.seconds or 0.0 for row in rows) / many**0.6
                laps.append(
                    Lap(
                        system,
                        block,
                        many,
                        len(rows),
                        took,
                        sum(bool(row.right) for row in rows),
                        sum(row.error is not None for row in rows),
                    )
                )
    return laps


def _draw(folder: Path, samples: Sequence[Sample]) -> None:
    (folder / "images").mkdir(exist_ok=True)
    for image in {sample.image for sample in samples if sample.image}:
        rng = random.Random(image)
        picture = Image.new("RGB", SIZE, "#d8d4c6")
        draw = ImageDraw.Draw(picture)
        for _ in range(60):
            x, y, side = rng.randrange(600), rng.randrange(440), rng.randrange(10, 60)
            color = "#" + "".join(rng.choice("3579bd") * 2 for _ in range(3))
            rng.choice([draw.rectangle, draw.ellipse])((x, y, x + side, y + side), fill=color)
        picture.save(folder / image, quality=85)


def failed(result: Result, why: str = "EngineTimeout: no answer in 60 s") -> Result:
    """The same query, had its server failed."""
    return replace(
        result, text="", parsed=None, how="", right=False, error=why, seconds=None, route=None, reason=None, turns=(),
        phase_seconds={}, depth=None,
    )  # fmt: skip


def unparsed(result: Result, text: str = "It could be A or B.") -> Result:
    """An answer that no rule can read."""
    return replace(result, text=text, parsed=None, how="unparsed", right=False)
