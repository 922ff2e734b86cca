"""Networks by name or by file."""

from __future__ import annotations

import importlib
import re
import warnings
from bisect import bisect_left
from pathlib import Path

import numpy as np

from dpadmm import _limits
from dpadmm._arrays import FloatArray, IntArray
from dpadmm._files import read_bytes
from dpadmm._plain import plain
from dpadmm.applications.power_flow.build import Case, CaseTable, build
from dpadmm.applications.power_flow.network import Network
from dpadmm.errors import InputError, unknown

NEEDED = ("baseMVA", "bus", "gen", "branch")
FIELDS = (*NEEDED, "gencost", "dcline", "version")
FIELD = re.compile(rf"\bmpc\.({'|'.join(FIELDS)})\b[ \t]*+(?:(\()|=(?!=)[ \t\n]*+)")
INDEXED = re.compile(r"\)[ \t]*+=(?!=)")  # as in mpc.bus(1, 2) = 3
NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[Ii]nf|NaN|nan)")
END = re.compile(r"[ \t]*(?:[;,\n]|\Z)")  # of a statement
OPENS, CLOSES = "%{", "%}"  # each alone on its line, around comments
CONTINUED = "\0"  # in place of "...": the newline after it ends no row


def read_matpower(path: str | Path) -> Network:
    """The network in a case file."""
    return build(read_case(path))


def read_case(path: str | Path) -> Case:
    """The tables in a case file."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {path}.")
    # Names in comments come in all encodings; nothing that is read lies outside ASCII.
    text = read_bytes(path, "case file", _limits.CASE).decode(errors="replace")
    return _Reader(str(path), text.replace("\r\n", "\n").replace("\r", "\n")).case(path.stem)


class _Reader:
    """The text of one file without its comments, and where in it the fields are given.

    Nothing is computed, only numbers are read. Each pattern passes over the text once, whatever is in it.
    """

    def __init__(self, source: str, text: str) -> None:
        self.source = source
        self.text = re.sub(r"\.\.\..*", CONTINUED, re.sub(r"%.*", "", _without_blocks(text)))
        self.newlines = [match.start() for match in re.finditer("\n", self.text)]
        self.starts: dict[str, int] = {}  # where the value of each field begins
        indexed = [match.start() for match in INDEXED.finditer(self.text)]
        for match in FIELD.finditer(self.text):
            field, index = match.groups()
            if index is not None and not self.assigned(match.end(), indexed):
                continue
            if index is not None or field in self.starts:
                raise self.error(
                    match.start(),
                    f"mpc.{field} is changed after it was given. The file is read, not run: run it in MATLAB or Octave "
                    "and save the result with savecase.",
                )
            self.starts[field] = match.end()

    def assigned(self, position: int, indexed: list[int]) -> bool:
        """Whether a bracket that is opened here is closed on the same line, with = behind it."""
        place = bisect_left(indexed, position)
        return place < len(indexed) and self.line(indexed[place]) == self.line(position)

    def case(self, name: str) -> Case:
        missing = [f"mpc.{field}" for field in NEEDED if field not in self.starts]
        if missing:
            raise InputError(f"{self.source} has no {' and no '.join(missing)}; is it a MATPOWER case of version 2?")
        version = self.starts.get("version")
        if version is not None and not re.match(r"['\"]2['\"]", self.text[version:]):
            raise self.error(version, "the version of the case format is not '2'; save it again with a newer MATPOWER.")
        base = self.starts["baseMVA"]
        number = NUMBER.match(self.text, base)
        if number is None or not self.ended(number.end()):
            raise self.error(base, "mpc.baseMVA is not a number.")
        if "dcline" in self.starts and self.matrix("dcline")[0].size:
            raise self.error(self.starts["dcline"], "direct-current lines are not in the model; remove mpc.dcline.")
        gencost = self.table("gencost") if "gencost" in self.starts else None
        return Case(name, float(number[0]), self.table("bus"), self.table("gen"), self.table("branch"), gencost)

    def table(self, field: str) -> CaseTable:
        return CaseTable(self.source, field, *self.matrix(field))

    def matrix(self, field: str) -> tuple[FloatArray, IntArray]:
        """The numbers between the brackets, and the line of each row."""
        start = self.starts[field]
        end = self.text.find("]", start)
        if not self.text.startswith("[", start):
            raise self.error(start, f"mpc.{field} is not a matrix [...] of numbers.")
        if end < 0 or "=" in self.text[start:end]:
            raise self.error(start, f"the bracket that opens mpc.{field} is not closed.")
        if not self.ended(end + 1):
            raise self.error(end, f"something follows the matrix mpc.{field}; it must be written out in numbers.")
        rows: list[list[float]] = []
        lines: list[int] = []
        position = start + 1
        for row in re.split(rf"(;|(?<!{CONTINUED})\n)", self.text[start + 1 : end]):
            words = list(re.finditer(r"[^\s,;\0]+", row))
            wrong = next((word for word in words if not is_number(word[0])), None)
            if wrong is not None:
                raise self.error(position + wrong.start(), f"{plain(wrong[0], 40)!r} in mpc.{field} is not a number.")
            if words:
                at = position + words[0].start()
                if rows and len(words) != len(rows[0]):
                    raise self.error(at, f"{len(words)} numbers in a row of mpc.{field}; its first has {len(rows[0])}.")
                rows.append([float(word[0]) for word in words])
                lines.append(self.line(at))
            position += len(row)
        return np.array(rows, dtype=np.float64).reshape(len(rows), -1 if rows else 0), np.array(lines, dtype=np.int64)

    def ended(self, position: int) -> bool:
        """Whether a statement ends here."""
        return END.match(self.text, position) is not None

    def line(self, position: int) -> int:
        return bisect_left(self.newlines, position) + 1

    def error(self, position: int, message: str) -> InputError:
        return InputError(f"{self.source}, line {self.line(position)}: {message}")


def is_number(word: str) -> bool:
    """Whether a word is a number as case files write them, and no longer than one."""
    return len(word) <= _limits.NUMBER and NUMBER.fullmatch(word) is not None


def _without_blocks(text: str) -> str:
    """The same lines, empty where they are comments between %{ and %}; a block that is not closed is none."""
    lines = text.split("\n")
    marks = [(number, line.strip(" \t")) for number, line in enumerate(lines) if line.strip(" \t") in (OPENS, CLOSES)]
    begun = None
    for number, mark in marks:
        if mark == OPENS and begun is None:
            begun = number
        elif mark == CLOSES and begun is not None:
            lines[begun : number + 1] = [""] * (number + 1 - begun)
            begun = None
    return "\n".join(lines)


NAMES = ("case14", "case118", "case300")  # of pypower, which ships the IEEE cases


def load(case: str | Path) -> Network:
    """A network of pypower by its name, or any other from a MATPOWER case file (.m)."""
    if str(case) in NAMES:
        return _from_pypower(str(case))
    path = Path(case)
    if path.suffix.lower() == ".m":
        return read_matpower(path)
    if path.exists():
        raise InputError(f"cannot read {path}: the name of a MATPOWER case file ends in .m.")
    error = unknown("case", str(case), NAMES)
    raise InputError(f"{error} Other networks are read from MATPOWER case files (.m).")


def _from_pypower(name: str) -> Network:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old code on a new NumPy; only numbers are taken from it
            tables = getattr(importlib.import_module(f"pypower.{name}"), name)()
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pypower":
            raise
        raise InputError(
            f"{name!r} is read from the package pypower, which is not installed; run "
            "pip install 'dpadmm[power]', or give the path of a MATPOWER case file (.m)."
        ) from None

    def table(field: str) -> CaseTable:
        values = np.asarray(tables[field], dtype=np.float64)
        return CaseTable(f"pypower's {name}", field, values, np.arange(1, len(values) + 1), counted="row")

    return build(Case(name, float(tables["baseMVA"]), table("bus"), table("gen"), table("branch"), table("gencost")))
