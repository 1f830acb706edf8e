"""Opening a data set, and checking all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from speceyes.errors import DatasetError, ImageError
from speceyes.evals.datasets.formats.names import Format
from speceyes.evals.datasets.readers.collecting import LEAVE_OUT, Collector, Fault
from speceyes.evals.datasets.readers.forms import FORMS, find_files, named_form
from speceyes.evals.datasets.readers.generated import PREFIX, read_generated
from speceyes.evals.datasets.readers.items import Dataset, Item
from speceyes.imaging.decode import DEFAULT_LIMITS, DecodeLimits


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    Attributes:
        dataset: The good questions; None where there is none.
        faults: What is wrong, in the files' order; damaged pictures last.
        remarks: What is unusual and no fault.
        pictures: How many different pictures were looked at.
    """

    dataset: Dataset | None
    faults: tuple[Fault, ...]
    remarks: tuple[str, ...]
    pictures: int


def open_dataset(
    name: str,
    limits: DecodeLimits = DEFAULT_LIMITS,
    *,
    shuffle_seed: int = 0,
    shuffle_all: bool = False,
) -> Dataset:
    """The data set of a name. Its files are read once, to check and hash them; pictures are decoded when needed.

    Args:
        name: A folder, a file, `FORM:PATH`, or `nano:N:SEED`.
        limits: What pictures may be.
        shuffle_seed: What the order of options is drawn from where the files name the right one first (`vstar`).
        shuffle_all: Draw it in the other forms too. Generated scenes keep theirs, which comes from their seed.

    Raises:
        DatasetError: There is nothing of this name, no known form, or something is wrong in a file: the message names
            file and row, and what to do.
        InputError: A generated set's count or seed is out of range.
        ConfigError: It is in Parquet, and pyarrow is not installed.
    """
    if name.startswith(PREFIX):
        return Dataset(name, "nano", read_generated(name))
    form, collector = _collect(name, limits, shuffle_seed, shuffle_all, keep_faults=False)
    return _dataset(name, form, collector)


def check_dataset(
    name: str,
    limits: DecodeLimits = DEFAULT_LIMITS,
    *,
    begin: Callable[[int], None] = lambda count: None,
    advance: Callable[[], None] = lambda: None,
) -> Checked:
    """Read everything, look at every picture, and list what is wrong.

    Args:
        name: As in `open_dataset`.
        limits: What pictures may be.
        begin: Is told how many pictures there are before they are looked at.
        advance: Is called after each picture.

    Raises:
        DatasetError: There is nothing of this name, or no known form.
        InputError: As `open_dataset`.
        ConfigError: As `open_dataset`.
    """
    if name.startswith(PREFIX):
        dataset: Dataset | None = open_dataset(name)
        faults: list[Fault] = []
    else:
        form, collector = _collect(name, limits, 0, False, keep_faults=True)
        faults = collector.faults
        dataset = _dataset(name, form, collector) if collector.items else None
        if dataset is None and not faults:
            faults = [Fault(name, f"it holds no question in the {form.value} form", "Name another folder.")]
    items = dataset.items if dataset else ()
    pictures: dict[str, Item] = {}
    for item in items:  # the first that shows a picture stands for all: Parquet is read forwards
        pictures.setdefault(item.image_name, item)
    begin(len(pictures))
    for item in pictures.values():
        if (fault := _look(item)) is not None:
            faults.append(fault)
        advance()
    return Checked(dataset, tuple(faults), tuple(_remarks(dataset)) if dataset else (), len(pictures))


def _collect(
    name: str, limits: DecodeLimits, shuffle_seed: int, shuffle_all: bool, *, keep_faults: bool
) -> tuple[Format, Collector]:
    wanted, path = named_form(name)
    form, files = find_files(path, wanted)
    root, leave_out = (path, path / LEAVE_OUT) if path.is_dir() else (path.parent, Path(f"{path}.{LEAVE_OUT}"))
    collector = Collector(root, limits, shuffle_seed, shuffle_all, keep_faults, _ids_in(leave_out))
    if leave_out.is_file():
        collector.note_file(leave_out)
    try:
        FORMS[form].read(files, collector)
    except DatasetError as error:
        if not keep_faults:
            raise
        collector.faults.append(Fault("", str(error), ""))
    if unknown := sorted(collector.leave_out - set(collector.left_out)):
        collector.fault(Fault(str(leave_out), f"it names {unknown[0]!r}, which is no question's id", "Take it out."))
    return form, collector


def _dataset(name: str, form: Format, collector: Collector) -> Dataset:
    return Dataset(
        name,
        form.kind,
        tuple(collector.items),
        collector.shuffle_seed if collector.shuffled else None,
        form.value,
        dict(sorted(collector.files.items())),
        tuple(collector.left_out),
    )


def _ids_in(path: Path) -> frozenset[str]:
    """The ids in a list, one a line; lines that begin with # are remarks."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path} cannot be read: {error}.") from error
    return frozenset(text for line in lines if (text := line.strip()) and not text.startswith("#"))


def _look(item: Item) -> Fault | None:
    remedy = "Put a whole picture there, or take the question out."
    try:
        image = item.image()
        _ = image.pixels  # an ordinary JPEG is unpacked only now
    except ImageError as error:
        return Fault(item.source or item.id, f"its picture is damaged ({str(error).rstrip('.')})", remedy)
    except Exception as error:  # Pillow's decoders meet damaged files with every kind of exception
        return Fault(item.source or item.id, f"its picture is damaged ({error})", remedy)
    return None


def _remarks(dataset: Dataset) -> list[str]:
    """What is worth knowing before figures are believed."""
    remarks = []
    sizes = Counter(Counter(item.group for item in dataset.items if item.group).values())
    if set(sizes) - {4}:
        said = ", ".join(f"{count} of {size}" for size, count in sorted(sizes.items()))
        remarks.append(f"Not every question stands there in four turns: {said}.")
    if unknown := sum(item.gold is None for item in dataset.items):
        remarks.append(f"{unknown} questions have no answer, so nothing said to them can be right.")
    golds = Counter(item.gold for item in dataset.items if len(item.options) > 1)
    if golds and max(golds.values()) == sum(golds.values()) > 3:
        remarks.append(f"The right option is always {next(iter(golds))}: open it with its options shuffled.")
    if dataset.left_out:
        remarks.append(f"{len(dataset.left_out)} questions are left out: {', '.join(dataset.left_out[:5])}.")
    return remarks
