"""The package that docs/own_parts.md writes: blocks that begin with the path of a file are its modules."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = re.compile(r"# (\w+(?:/\w+)*)\.py\n")


def module(code: str) -> str | None:
    """The name of the module that a block is, if it is one."""
    found = FILE.match(code)
    return found.group(1).replace("/", ".") if found else None


@contextmanager
def installed(blocks: list[str], place: Path) -> Iterator[None]:
    """The modules among these blocks, in a folder that Python imports from; they are forgotten afterwards."""
    files = {found: code for code in blocks if (found := module(code))}
    for name, code in files.items():
        path = (place / name.replace(".", "/")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    before = list(sys.path)
    sys.path.insert(0, str(place))
    try:
        yield
    finally:
        sys.path[:] = before
        packages = {name.partition(".")[0] for name in files}
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            del sys.modules[name]
