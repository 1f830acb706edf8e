"""What commands write and where: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

STDOUT = "-"

JsonTarget = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output, and nothing else."),
]
"""The `--json` option that every command with a result has."""

_DIRECTION = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """A text made safe for a terminal: control characters, which a model may have read in a picture, are spelled."""

    def shown(char: str) -> str:
        hidden = unicodedata.category(char) in ("Cc", "Cs") or char in _DIRECTION
        return ascii(char)[1:-1] if hidden and char not in "\n\t" else char

    return "".join(map(shown, text.replace("\r\n", "\n")))


def console(target: str | None = None) -> Console:
    """For people: on standard output, or on standard error where that belongs to the JSON."""
    from rich.console import Console

    return Console(stderr=target == STDOUT, highlight=False, markup=False, emoji=False, soft_wrap=False)


def check_target(target: str | None) -> None:
    """Find out before the work whether its result can be written.

    Raises:
        ConfigError: It cannot.
    """
    if target is None or target == STDOUT:
        return
    path = Path(target)
    if path.is_dir():
        raise ConfigError(f"--json {target}: that is a folder; name a file")
    if not path.parent.is_dir():
        raise ConfigError(f"--json {target}: there is no folder {path.parent}")


def write_json(target: str | None, record: Mapping[str, Any]) -> None:
    """Write a result as strict JSON, in ASCII, so that no reader and no terminal can misread it.

    Raises:
        ConfigError: The file cannot be written.
    """
    if target is None:
        return
    text = json.dumps(record, indent=2, allow_nan=False) + "\n"
    if target == STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        Path(target).write_text(text, encoding="ascii")
    except OSError as error:
        raise ConfigError(f"--json {target}: cannot be written ({error.strerror or error})") from error


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error while something takes its time; silent where that is no terminal.

    Yields:
        A function that changes what it says.
    """
    if not sys.stderr.isatty():
        yield lambda text: None
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(what)) as status:
        yield lambda text: status.update(Text(text))
