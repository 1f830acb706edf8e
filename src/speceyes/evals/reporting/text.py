"""Text that models, data sets and people wrote, made safe to show: in HTML, in Markdown and in LaTeX."""

from __future__ import annotations

import html
import unicodedata
from typing import Final

LONGEST: Final = 1500
"""Characters of one text of a model that a page shows."""

_DIRECTION: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "×": r"$\times$",
    "−": "--",
    "–": "--",
    "±": r"$\pm$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "\u00a0": "~",
}
_MARKDOWN: Final = frozenset("\\`*_{}[]<>#|~$&!")


def visible(text: str) -> str:
    """The text with control characters, lone surrogates and changes of direction spelled: no page may act on them."""

    def shown(char: str) -> str:
        hidden = unicodedata.category(char) in ("Cc", "Cs") or char in _DIRECTION
        return ascii(char)[1:-1] if hidden and char not in "\n\t" else char

    return "".join(map(shown, text.replace("\r\n", "\n")))


def html_text(text: str) -> str:
    """Any text as HTML text, fit for an attribute too. Markup in it stays text."""
    return html.escape(visible(text), quote=True)


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text, or its beginning and how much is left out."""
    if len(text) <= longest:
        return text
    return f"{text[:longest].rstrip()} ... ({len(text) - longest:,} more characters)"


def latex_text(text: str) -> str:
    """Any text as LaTeX text on one line. What the basic fonts cannot show becomes a question mark."""
    plain = " ".join(visible(text).split())
    return "".join(_LATEX.get(char, char if " " <= char <= "~" else _ascii(char)) for char in plain)


def markdown_text(text: str) -> str:
    """Any text on one line of Markdown, fit for a table's cell. Markup in it stays text."""
    return "".join(f"\\{char}" if char in _MARKDOWN else char for char in " ".join(visible(text).split()))


def _ascii(char: str) -> str:
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode("ascii")
    return "".join(_LATEX.get(part, part) for part in plain) or "?"
