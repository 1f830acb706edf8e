"""What every data set is once it has been read: a list of questions, whose pictures are loaded when they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from speceyes.errors import DatasetError
from speceyes.gating import fingerprint
from speceyes.gating.agreement import LETTERS
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
        group: Items that are turns of one question share it, as HR-Bench's four rotations do; else empty.
        order: Where we shuffled: the place in the file, from 0, of each option shown. Empty: as in the file.
        source: The file and row that it was read from, for messages; empty for generated scenes.
    """

    id: str
    question: str
    image: Callable[[], DecodedImage]
    options: tuple[str, ...] = ()
    gold: str | None = None
    category: str = ""
    image_name: str = ""
    prompt: str = ""
    group: str = ""
    order: tuple[int, ...] = ()
    source: str = ""

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
        kind: Whose questions they are: `nano`, `vstar`, `hrbench`, `pope`, or `mcq` for any other table.
        items: The questions, in a fixed order.
        shuffle_seed: What the order of options was drawn from; None where all stand as in the files.
        form: In which of the file forms they were found, such as `vstar-jsonl`; empty for generated scenes.
        files: `sha256:...` of each file that was read, by its name below the folder.
        left_out: Ids of questions that the files hold and `leave-out.txt` takes out.

    Raises:
        DatasetError: It has no item, or two of one name.
    """

    name: str
    kind: str
    items: Sequence[Item]
    shuffle_seed: int | None = None
    form: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.items:
            raise DatasetError(f"{self.name} holds no question in the {self.form or self.kind} format.")
        seen: set[str] = set()
        for item in self.items:
            if item.id in seen:
                raise DatasetError(f"{self.name} holds {item.id} twice.")
            seen.add(item.id)

    @property
    def digest(self) -> str:
        """Hash of all questions, options in the order shown, right answers, groups and pictures, in their order."""
        return fingerprint(*(text for item in self.items for text in _content(item)))


def _content(item: Item) -> tuple[str, ...]:
    texts = (item.id, item.prompt, *item.options, item.gold or "", item.category, item.image_name)
    return (*texts, item.group) if item.group else texts


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
