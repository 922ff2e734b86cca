"""A document as one HTML file that needs nothing else: style, script and numbers are inside it.

The browser is told to load nothing and to run only this script and this style, which it knows by their hashes. Names,
warnings and specs come from people: they travel as JSON, and the script puts them in as text.
"""

from __future__ import annotations

import base64
import hashlib
import html as markup
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template

from dpadmm._files import atomic_write, opened
from dpadmm.errors import InputError
from dpadmm.report.document import Document

# In the order in which they build on each other.
_SCRIPTS = (
    *("elements", "numbers", "looks", "lines", "curves", "bars", "network"),
    *("tables", "tooltip", "pointing", "card", "words", "page", "live", "start"),
)
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}  # so that no text can end the script element


def html(document: Document, live: bool = False) -> str:
    """The page. A live one listens to `events` beside it: `document` brings a whole new document, `end` is the last."""
    style, script = _asset("page.css"), "\n".join(_asset(f"{name}.js") for name in _SCRIPTS)
    title = markup.escape(document.title).encode("ascii", "xmlcharrefreplace").decode()
    return Template(_asset("page.html")).substitute(
        live=" data-live" if live else "",
        policy=_policy(style, script, live),
        title=title,
        style=style,
        report=json.dumps(document.to_json(), separators=(",", ":"), allow_nan=False).translate(_ESCAPES),
        script=script,
    )


@cache
def _asset(name: str) -> str:
    return files("dpadmm.report").joinpath("assets", name).read_text(encoding="utf-8")


def _policy(style: str, script: str, live: bool) -> str:
    """Nothing is loaded, and no text becomes HTML: the browser refuses even where the script would be wrong."""
    rules = {
        "default-src": "'none'",
        "style-src": _hash(style),
        "script-src": _hash(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    if live:
        rules["connect-src"] = "'self'"
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


MARK = b'<meta name="generator" content="dpadmm">'
_HEAD = 100_000  # bytes in which the mark must be


def check(path: Path, force: bool = False) -> None:
    """Before the work: whether the file may be written."""
    if path.is_dir():
        raise InputError(f"-o {str(path)!r} is a folder; name a file, such as report.html.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"-o {str(path)!r}: there is no folder {str(path.absolute().parent)!r}.")
    if path.exists() and not force:
        with opened(path, "-o") as file:
            if MARK not in file.read(_HEAD):
                raise InputError(f"-o {str(path)!r} is not a report of dpadmm; --force writes over it all the same.")


def write(document: Document, path: Path) -> int:
    """The page's size in bytes."""
    page = html(document).encode()
    try:
        atomic_write(path, page)
    except OSError as error:
        raise InputError(f"-o {str(path)!r} cannot be written: {error.strerror}.") from None
    return len(page)
