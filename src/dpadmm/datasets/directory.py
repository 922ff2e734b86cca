"""Where files lie that do not ship: a directory given by the caller, or else by the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dpadmm import _limits
from dpadmm._archives import unpacked
from dpadmm._files import read_bytes
from dpadmm.errors import InputError

VARIABLE = "DPADMM_DATA"


def find(dataset: str, folder: str, files: Mapping[str, str], directory: str | Path | None = None) -> dict[str, Path]:
    """The path of every file, by name; `files` says of each what it is, for the message when one is missing.

    A file lies in the directory or in its `folder`, as published or with .gz after its name.
    """
    root = directory or os.environ.get(VARIABLE)
    places = [] if not root else [Path(root) / folder, Path(root)]
    try:
        found = {name: _first_file(places, name) for name in files}
    except OSError as error:
        raise InputError(f"cannot look for the files of {dataset!r} in {root}: {error.strerror}.") from None
    here = {name: path for name, path in found.items() if path is not None}
    if len(here) == len(files):
        return here
    missing = ", ".join(f"{name} ({what})" for name, what in files.items() if name not in here)
    looked = f"looked in {places[0]} and {places[1]}, with and without .gz" if places else "no directory was named"
    if places and not places[1].is_dir():
        looked = f"there is no directory {places[1]}"
    raise InputError(
        f"the data set {dataset!r} does not ship and lacks {missing}; {looked}. "
        f"Name the directory by --data-dir (in Python: directory=) or by the environment variable {VARIABLE}."
    )


def contents(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is compressed: by what it holds, since downloads often misname it."""
    return unpacked(read_bytes(path, "data file", _limits.DATA), str(path))


def _first_file(places: list[Path], name: str) -> Path | None:
    paths = (place / f"{name}{ending}" for place in places for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)
