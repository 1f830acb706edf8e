"""Scenes as a table of the kind that VLMEvalKit reads: `questions.tsv`, tab-separated.

Columns: `index, image, question, A, B, C, D, answer, category`. Each scene is asked about twice: one row has the
picture in base64, and the other names that row's index in its place. Questions have two to four options, or none: those
are answered by yes or no.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence

from speceyes.evals.datasets.formats.making import Making
from speceyes.evals.datasets.formats.rows import table_line
from speceyes.evals.datasets.questions import Kind, SceneQuestion
from speceyes.evals.datasets.samples import Size, Wish, ask, make_sample

TABLE = "questions.tsv"
COLUMNS = ("index", "image", "question", "A", "B", "C", "D", "answer", "category")
QUESTIONS = 2
"""Of each scene."""

_PLAN = (
    Wish(Kind.DIGIT, Size.SMALL, options=True),
    Wish(Kind.SHAPE, Size.LARGE, options=True),
    Wish(Kind.POSITION, options=True),
    Wish(Kind.DIGIT, Size.LARGE, options=True),
)
_SECOND = Wish(Kind.EXISTENCE)


def write_mcq(making: Making) -> list[int]:
    """Write scenes with two questions each. Returns the scenes' seeds."""
    used: list[int] = []

    def lines() -> Iterator[bytes]:
        yield table_line(COLUMNS)
        for i in range(making.count):
            sample = make_sample(making.seeds, _PLAN[i % len(_PLAN)], f"{i:04d}")
            second = ask(random.Random(f"mcq-{sample.scene.seed}"), sample.scene, _SECOND)
            image = base64.b64encode(making.picture(sample.scene)).decode("ascii")
            yield table_line(_row(QUESTIONS * i, image, sample.asked))
            if second is not None:
                yield table_line(_row(QUESTIONS * i + 1, str(QUESTIONS * i), second))
            used.append(sample.scene.seed)
            making.advance()

    making.folder.write_parts(TABLE, lines())
    return used


def _row(index: int, image: str, asked: SceneQuestion) -> Sequence[str | int]:
    options = [*asked.options, "", "", "", ""][:4]
    return index, image, asked.text, *options, asked.gold, asked.kind.value
