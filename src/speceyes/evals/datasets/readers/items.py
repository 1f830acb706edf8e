"""What every data set is once it has been read: a list of questions, whose pictures are loaded when they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from speceyes.errors import DatasetError
from speceyes.evals.datasets.questions import LETTERS
from speceyes.gating import fingerprint
from speceyes.imaging.decode import DecodedImage


@dataclass(frozen=True, slots=True)
class Item:
    """One question of a data set.

    Attributes:
        id: Its name; no two items of a data set share one.
        question: The question alone, without options.
        image: Loads the picture. Raises ImageError.
        options: Answer options in the order shown; empty for an open question.
        gold: The right option's letter, or the right word; None where it is not known.
        category: What kind of question it is; empty where the data set has no kinds.
        image_name: Identifies the picture: a hash of its file, or the seed that it is drawn from.
        prompt: The question as a model reads it. Empty: the question with "A. x" lines below it.
    """

    id: str
    question: str
    image: Callable[[], DecodedImage]
    options: tuple[str, ...] = ()
    gold: str | None = None
    category: str = ""
    image_name: str = ""
    prompt: str = ""

    def __post_init__(self) -> None:
        if len(self.options) > len(LETTERS):
            raise DatasetError(f"{self.id} has {len(self.options)} options; at most {len(LETTERS)} have a letter.")
        if not self.prompt:
            lines = [f"{letter}. {option}" for letter, option in zip(LETTERS, self.options, strict=False)]
            object.__setattr__(self, "prompt", "\n".join([self.question, *lines]))


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions, and where they come from.

    Attributes:
        name: As it was asked for.
        kind: Whose format it is.
        items: The questions, in a fixed order.

    Raises:
        DatasetError: It has no item, or two of one name.
    """

    name: str
    kind: str
    items: Sequence[Item]

    def __post_init__(self) -> None:
        if not self.items:
            raise DatasetError(f"{self.name} holds no question in the {self.kind} format.")
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                raise DatasetError(f"{self.name} holds {item.id} twice.")
            seen.add(item.id)

    @property
    def digest(self) -> str:
        """Hash of all questions, options, right answers and pictures, in their order."""
        return fingerprint(
            *(
                text
                for item in self.items
                for text in (item.id, item.prompt, *item.options, item.gold or "", item.category, item.image_name)
            )
        )


def file_hash(path: Path) -> str:
    """`sha256:...` of a file.

    Raises:
        DatasetError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}.") from error
