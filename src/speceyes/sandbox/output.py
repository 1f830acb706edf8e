"""What came out of a sandbox, made fit for a model and for this process: text that prints, pictures within limits."""

from __future__ import annotations

import asyncio
import signal
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from speceyes.errors import ImageError
from speceyes.imaging.decode import DecodeLimits, decode
from speceyes.sandbox.base import FileNote, Limits, Outcome, Picture

_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF")
"""PNG, JPEG, WebP. Each further decoder would be one more that a stranger's bytes can reach."""

ANEW = "The interpreter is a new one: variables and imports of earlier steps are gone, files in the folder are not."
ALL_ANEW = "The sandbox is a new one: variables, imports and files of earlier steps are gone."


def readable(data: bytes) -> str:
    """Bytes as text in which every character can be seen: others than newline and tab are spelled, as `\\x1b`."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    if text.isprintable():
        return text
    return "".join(char if char in "\n\t" or not _hidden(char) else ascii(char)[1:-1] for char in text)


def _hidden(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs")


def cut(text: str, most: int) -> str:
    """The beginning of a text."""
    return text if len(text) <= most else text[:most]


async def outcome(
    end: Mapping[str, Any], streams: Mapping[str, bytes], pictures: Sequence[tuple[str, bytes]], limits: Limits
) -> Outcome:
    """What became of a step.

    Args:
        end: The keeper's last message of the step.
        streams: What it passed on of `stdout` and `stderr`.
        pictures: The files that it sent.
        limits: Those of the session.
    """
    notes = []
    texts = {}
    for name, title in (("stdout", "output"), ("stderr", "error output")):
        whole = readable(streams[name])
        texts[name] = cut(whole, limits.output_chars)
        if len(whole) > limits.output_chars or int(end["said"][name]) > len(streams[name]):
            said = int(end["said"][name])
            notes.append(f"The {title} was cut after {limits.output_chars:,} characters, of {said:,} bytes.")
    kept = []
    for name, data in pictures:
        picture = await _picture(readable(name.encode()), data, limits)
        kept += [picture] if isinstance(picture, Picture) else []
        notes += [picture] if isinstance(picture, str) else []
    error = end["error"] if end["ended"] == "done" else _ending(end, limits)
    lost = end["ended"] != "done"
    notes += [readable(str(note).encode("utf-8", "backslashreplace")) for note in end["notes"]]
    if lost:
        notes.append(ALL_ANEW if end["ended"] == "files" else ANEW)
    return Outcome(
        texts["stdout"],
        texts["stderr"],
        None if error is None else cut(readable(error.encode("utf-8", "backslashreplace")), limits.output_chars),
        tuple(kept),
        tuple(
            FileNote(readable(str(name).encode("utf-8", "backslashreplace")), int(size)) for name, size in end["files"]
        ),
        tuple(notes),
        timed_out=end["ended"] == "timeout",
        state_lost=lost,
        seconds=float(end["seconds"]),
    )


async def _picture(name: str, data: bytes, limits: Limits) -> Picture | str:
    """A picture, or why it is none."""
    if not data.startswith(_MAGIC):
        return f"{name} is left out: its content is no PNG, JPEG or WebP."
    allowed = DecodeLimits(limits.picture_bytes, limits.picture_pixels)
    try:
        return Picture(name, await asyncio.to_thread(decode, data, allowed, name))
    except ImageError as error:
        return f"A picture is left out. {error}"


def _ending(end: Mapping[str, Any], limits: Limits) -> str:
    """Why a step did not run to its end."""
    seconds = f"{float(end['seconds']):.1f} s"
    match end["ended"], end["status"]:
        case "timeout", _:
            return f"The code was stopped after {seconds}: it took too long."
        case "memory", _:
            return too_much_memory(limits)
        case "files", _:
            return f"The code was stopped: it made more than {limits.files:,} files."
        case "damaged", _:
            return "The code was stopped: it wrote into the interpreter's own channel, or closed it."
        case _, status if status == -signal.SIGXCPU:
            return f"The interpreter was stopped: it used more than {limits.cpu_s} s of processor time."
        case _, status if isinstance(status, int) and status < 0:
            return f"The interpreter was killed by signal {-status} ({_signal(-status)})."
        case _, status:
            return f"The interpreter ended in the middle of the step, with exit code {status}."


def too_much_memory(limits: Limits) -> str:
    """Why a step was ended whose processes hold too much together."""
    most = limits.total_memory_bytes >> 20
    return f"The code was stopped: its processes together used more than {most:,} MiB of memory."


def _signal(number: int) -> str:
    meanings = {signal.SIGSEGV: ", as after recursion without an end", signal.SIGSYS: ", for a refused system call"}
    try:
        return signal.Signals(number).name + meanings.get(signal.Signals(number), "")
    except ValueError:
        return "unknown"
