"""What a sandbox is: a provider that opens sessions, and a session that runs a model's code step by step.

    async with provider.open(query.images) as session:
        outcome = await session.run("from PIL import Image\\nprint(Image.open(image_path).size)")
        outcome = await session.run("...")      # variables of the first step are still there

Code that a model wrote is a stranger's code: whoever draws words into a picture may have told the model what to write.
So it never runs in this process, and where nothing isolates it, it does not run at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields
from typing import Protocol

from speceyes.errors import ConfigError
from speceyes.imaging.decode import DecodedImage

_MIB = 1024**2

IMAGE_FOLDER = "/images"
"""Where a session's pictures lie, read-only."""


def image_path(index: int) -> str:
    """The path inside a session of the image with this index, from 0: a PNG of all its pixels, upright."""
    return f"{IMAGE_FOLDER}/image_{index + 1}.png"


@dataclass(frozen=True, slots=True)
class Limits:
    """What the code of one session may use.

    Attributes:
        wall_s: Seconds of one step, by the clock on the wall. Then all that runs in the session is killed.
        cpu_s: Processor seconds of one process, over all steps. Then that process is killed.
        memory_bytes: Address space of one process. More is a MemoryError inside.
        total_memory_bytes: Resident memory of all processes together. Beyond it the session is killed.
        processes: Processes and threads at a time.
        open_files: Open files of one process.
        file_bytes: Size of one file.
        files_bytes: Size of all files together.
        files: Number of files and folders.
        code_chars: Length of one step's code.
        output_chars: Characters kept of each of standard output, standard error and the traceback.
        pictures: Pictures that come back from one step.
        picture_bytes: Size of the file of one picture.
        picture_pixels: Width x height of one picture.
        listed_files: Other new files of a step that are named.

    Raises:
        ConfigError: A limit is not positive.
    """

    wall_s: float = 20.0
    cpu_s: int = 120
    memory_bytes: int = 2048 * _MIB
    total_memory_bytes: int = 4096 * _MIB
    processes: int = 64
    open_files: int = 256
    file_bytes: int = 64 * _MIB
    files_bytes: int = 256 * _MIB
    files: int = 5000
    code_chars: int = 100_000
    output_chars: int = 10_000
    pictures: int = 8
    picture_bytes: int = 16 * _MIB
    picture_pixels: int = 40_000_000
    listed_files: int = 20

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ConfigError(f"sandbox limits: {field.name} is {getattr(self, field.name)}; it must be positive")


@dataclass(frozen=True, slots=True)
class Availability:
    """Whether a provider can isolate code on this machine, as found by trying it.

    Attributes:
        available: Whether it can.
        reason: Why not, and what to do; or what was found.
    """

    available: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture that came back. It has been decoded within limits.

    Attributes:
        name: Of its file, or `figure 1` for one that was only shown.
        image: The picture.
    """

    name: str
    image: DecodedImage


@dataclass(frozen=True, slots=True)
class FileNote:
    """A new file that is no picture: its name in the session's folder, and its size. Its content stays inside."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one step.

    All text is printable: control characters but newline and tab are spelled, and bytes that are no UTF-8 too.

    Attributes:
        stdout: What the code printed, cut at a limit.
        stderr: The same of standard error.
        error: None, or why the code did not run to its end: a traceback, a time-out, a crash.
        pictures: What was shown or saved, in that order.
        files: Other new files.
        notes: What was cut, left out or lost, in sentences that a model can read.
        timed_out: Whether the step was killed for its time.
        state_lost: Whether the interpreter is a new one, without the variables of earlier steps.
        seconds: How long the step took.
    """

    stdout: str = ""
    stderr: str = ""
    error: str | None = None
    pictures: tuple[Picture, ...] = ()
    files: tuple[FileNote, ...] = ()
    notes: tuple[str, ...] = ()
    timed_out: bool = False
    state_lost: bool = False
    seconds: float = 0.0


class Session(Protocol):
    """A sandbox with one interpreter that lives on between steps."""

    async def run(self, code: str, timeout_s: float | None = None) -> Outcome:
        """Run one step. Steps of one session run one after another.

        Args:
            code: Python. `image_path` is the path of the first image, `image_paths` the list of all.
            timeout_s: Seconds, at most the limits' `wall_s`, which it is by default.

        Raises:
            SandboxError: A new sandbox was needed and did not come up. Whatever the code does is an `Outcome`.
        """
        ...

    async def remains(self) -> tuple[str, ...]:
        """After the session is closed: what is still there of it (processes, containers, folders). Normally nothing."""
        ...


class Provider(Protocol):
    """A way to isolate code."""

    @property
    def name(self) -> str: ...

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What this provider does not protect from, a sentence each."""
        ...

    async def available(self) -> Availability:
        """Find out, by opening a sandbox, whether this machine has what it needs. Asked once, then remembered."""
        ...

    def open(
        self, images: Sequence[DecodedImage] = (), limits: Limits | None = None
    ) -> AbstractAsyncContextManager[Session]:
        """A session with these images. On leaving it, cancelled or not, every process and file of it is gone.

        Raises:
            SandboxUnavailable: Nothing isolates code here.
            SandboxError: The sandbox did not come up.
        """
        ...
