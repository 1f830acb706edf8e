"""A function's docstring, as far as a model needs it: what the function does, and what each argument means."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_ARGUMENTS = re.compile(r"^(Args|Arguments|Parameters):\s*$")
_SECTION = re.compile(r"^(?:(?:[A-Z][a-z]+ ?)+:\s*$|:\w)")
_GOOGLE = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SPHINX = re.compile(r"^:param\s+(?:[\w.\[\], |]+\s)?(\w+):\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Words:
    """`summary`: what stands before the first section, as one line. `arguments`: what is said of each."""

    summary: str = ""
    arguments: Mapping[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Words:
    """The words of a docstring with a section `Args:`, or with `:param name:` lines."""
    lines = inspect.cleandoc(text or "").splitlines()
    ends = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    return Words(" ".join(" ".join(lines[:ends]).split()), {**_google(lines), **_sphinx(lines)})


def _google(lines: list[str]) -> dict[str, str]:
    begin = next((at for at, line in enumerate(lines) if _ARGUMENTS.match(line)), None)
    found: dict[str, str] = {}
    depth, name = 0, ""
    for line in lines[begin + 1 :] if begin is not None else ():
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent == 0:
            break
        depth = depth or indent
        if line.strip() and indent <= depth and (named := _GOOGLE.match(line.strip())):
            name, said = named.groups()
            found[name] = said
        elif line.strip() and name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _sphinx(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name = ""
    for line in lines:
        if named := _SPHINX.match(line):
            name, said = named.groups()
            found[name] = said
        elif line[:1].isspace() and name:
            found[name] = f"{found[name]} {line.strip()}".strip()
        else:
            name = ""
    return found
