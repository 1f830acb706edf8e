"""Questions as a reader finds them: each is checked, put into the order that is to be shown, and kept.

What is wrong with a row is a `Fault`: file and row, what is wrong, what to do. Opening a data set raises the first one.
A check keeps them all. A row that cannot be mended is taken out by its id in `leave-out.txt`; that is written down in
the data set, so nobody takes the rest for the whole.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from speceyes.errors import DatasetError
from speceyes.evals.datasets.readers.items import Item, file_hash
from speceyes.evals.datasets.readers.pictures import Picture
from speceyes.gating.agreement import LETTERS
from speceyes.imaging.decode import DEFAULT_LIMITS, DecodeLimits, load

LEAVE_OUT: Final = "leave-out.txt"
"""Ids of questions to leave out, one a line, in the data set's folder; `FILE.leave-out.txt` beside a single file."""
LEAVE_IT: Final = f"write its id into {LEAVE_OUT}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong in a data set's files.

    Attributes:
        where: File, and row where it is about one.
        what: What is wrong, without a full stop.
        remedy: What to do, as a sentence.
    """

    where: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}. {self.remedy}" if self.where else f"{self.what} {self.remedy}".strip()


@dataclass(frozen=True, slots=True)
class Found:
    """A question as it stands in a file.

    Attributes:
        where: File and row.
        id: Its name.
        question: The question alone.
        picture: The picture, or what is wrong with it.
        options: In the file's order.
        gold: The right option's letter in that order, or the right word; None where the file does not say.
        category: As in the file.
        group: As `Item.group`.
        fault: What else the reader saw to be wrong with it.
    """

    where: str
    id: str
    question: str
    picture: Picture | Fault
    options: tuple[str, ...] = ()
    gold: str | None = None
    category: str = ""
    group: str = ""
    fault: Fault | None = None


@dataclass(slots=True)
class Collector:
    """Takes what a reader finds.

    Attributes:
        root: The data set's folder; files are named from here.
        limits: What pictures may be.
        shuffle_seed: What orders of options are drawn from.
        shuffle_all: Shuffle also where the right option's place differs in the files.
        keep_faults: Keep faults and go on, instead of raising the first.
        leave_out: Ids of questions that are not wanted.
        items: The good questions so far.
        faults: What was wrong so far.
        files: Hash by name of each file that was read.
        left_out: Those of `leave_out` that were met.
        shuffled: Whether any item's options were put into another order.
    """

    root: Path
    limits: DecodeLimits = DEFAULT_LIMITS
    shuffle_seed: int = 0
    shuffle_all: bool = False
    keep_faults: bool = False
    leave_out: frozenset[str] = frozenset()
    items: list[Item] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    shuffled: bool = False
    _places: dict[str, str] = field(default_factory=dict)

    def fault(self, fault: Fault) -> None:
        """Take note of a fault.

        Raises:
            DatasetError: With the fault's words, unless faults are kept.
        """
        if not self.keep_faults:
            raise DatasetError(str(fault))
        self.faults.append(fault)

    def note_file(self, path: Path, digest: str | None = None) -> str:
        """Record a file's hash; it is computed where it is not given. Returns it.

        Raises:
            DatasetError: The file cannot be read.
        """
        name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else str(path)
        if digest is not None or name not in self.files:
            self.files[name] = digest or file_hash(path)
        return self.files[name]

    def picture_file(self, where: str, *places: Path) -> Picture | Fault:
        """The picture at the first of several paths that is a file."""
        path = next((place for place in places if place.is_file()), None)
        if path is None:
            return Fault(where, f"its image is missing: there is no {places[0]}", "Put the file there.")
        return Picture(self.note_file(path), partial(load, path, self.limits))

    def add(self, found: Found, *, gold_first: bool = False) -> None:
        """Check a question, and keep it.

        Args:
            found: The question.
            gold_first: The file form names the right option first for every question, so that it must be shuffled.

        Raises:
            DatasetError: Something is wrong with it, unless faults are kept.
        """
        if found.id in self.leave_out:
            self.left_out.append(found.id)
            return
        if found.id in self._places:
            before = self._places[found.id]
            self.fault(Fault(found.where, f"the id {found.id!r} was there before ({before})", "Take one of them out."))
            return
        self._places[found.id] = found.where
        problems = list(_problems(found))
        for problem in problems:
            self.fault(problem)
        if problems or isinstance(found.picture, Fault):
            return
        if self.shuffle_all and found.group:
            raise DatasetError(
                f"{found.where}: its options stand in the file in several turns already, which a shuffle would undo. "
                "Open it without shuffling."
            )
        order: tuple[int, ...] = ()
        if (gold_first or self.shuffle_all) and len(found.options) > 1:
            order = drawn_order(len(found.options), self.shuffle_seed, found.id)
            self.shuffled = True
        self.items.append(_item(found, found.picture, order))


def drawn_order(count: int, seed: int, name: str) -> tuple[int, ...]:
    """In which order a question's options are shown: it depends on the seed and the question's id alone."""
    order = list(range(count))
    random.Random(f"options-{seed}-{name}").shuffle(order)
    return tuple(order)


def _problems(found: Found) -> Iterator[Fault]:
    mend = f"Mend it, or {LEAVE_IT}."
    if isinstance(found.picture, Fault):
        yield found.picture
    if found.fault is not None:
        yield found.fault
        return
    if not found.question.strip():
        yield Fault(found.where, "its question is empty", mend)
    options = [option.strip() for option in found.options]
    if len(options) > len(LETTERS):
        yield Fault(found.where, f"it has {len(options)} options, and there are {len(LETTERS)} letters", mend)
    elif not all(options):
        yield Fault(found.where, f"its option {LETTERS[options.index('')]} is empty while a later one is not", mend)
    elif doubled := sorted({option for option in options if options.count(option) > 1}):
        yield Fault(found.where, f"its option {doubled[0]!r} stands there twice", mend)
    letters = LETTERS[: len(options)]
    if options and found.gold is not None and (found.gold not in letters or len(found.gold) != 1):
        span = f"A to {letters[-1]}" if len(letters) > 1 else "A"
        yield Fault(found.where, f"its answer {found.gold!r} is no option; they are {span}", mend)


def _item(found: Found, picture: Picture, order: tuple[int, ...]) -> Item:
    options, gold = found.options, found.gold
    if order:
        options = tuple(options[place] for place in order)
        gold = LETTERS[order.index(LETTERS.index(gold))] if gold is not None else None
    return Item(
        found.id,
        found.question,
        picture.load,
        options,
        gold,
        found.category,
        picture.name,
        group=found.group,
        order=order,
        source=found.where,
    )
