"""Text from others, made harmless: for terminals and logs, and for programs that take text for formulas.

A terminal obeys control characters: they can clear it, write over what is above, or reach the clipboard. Marks of
direction show words in another order than they have. Neither is ever printed (`cli/console.py`) or logged.
"""

from __future__ import annotations

from typing import Any

from dpadmm import _limits

_CUT = "..."
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # with which spreadsheets begin a formula


def plain(text: object, most: int = _limits.REASON) -> str:
    """A text from somebody else as it may be logged and shown: one line, short, without control characters.

    Args:
        text: Anything; of what is no text, the type is named.
        most: The most characters.

    Returns:
        Printable characters; each of the others is a blank.
    """
    words = text if type(text) is str else type(text).__name__
    return printable(words[:most])


def printable(text: str, most: int = _limits.LINE, kept: str = "") -> str:
    """A text whose characters can be printed, but for those in `kept`; what is too long is cut, and says so."""
    if len(text) > most:
        text = text[: most - len(_CUT)] + _CUT
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter in kept else " " for letter in text)


def cell(value: Any) -> Any:
    """A value as a cell of CSV: a text that a spreadsheet would compute begins with an apostrophe instead."""
    if not isinstance(value, str) or not value.startswith(_FORMULAS) or _is_number(value):
        return value
    return f"'{value}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.strip() == text
