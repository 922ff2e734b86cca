"""What a run has measured: history.csv by run and round, and on a graph nodes.csv by node as well."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyarrow import ArrowException, csv, float64, int64

from dpadmm import _limits
from dpadmm._files import read_bytes
from dpadmm._tables import csv_bytes
from dpadmm.errors import InputError

_NODE_PLACES = ("run", "round", "node")


@dataclass(frozen=True, eq=False)
class Table:
    """What was measured: each metric as (rounds, runs), nan where it was not."""

    rounds: NDArray[np.int64]
    columns: Mapping[str, NDArray[np.float64]]
    runs: int


@dataclass(frozen=True, eq=False)
class Nodes:
    """How far nodes are from their mean in one run: (rounds, nodes)."""

    run: int
    rounds: NDArray[np.int64]
    nodes: list[int]
    disagreement: NDArray[np.float64]


def read_history(path: Path) -> Table | None:
    """All runs of a history.csv; None before the first row."""
    found = _columns(path, ("run", "round"))
    if found is None:
        return None
    runs, column = np.unique(found.pop("run"), return_inverse=True)
    rounds, row = np.unique(found.pop("round"), return_inverse=True)
    _check_grid(path, rounds.size, runs.size, row.size)
    table = {}
    for name, values in found.items():
        table[name] = np.full((rounds.size, runs.size), np.nan)
        table[name][row, column] = values
    return Table(rounds, table, runs.size)


def read_nodes(path: Path) -> Nodes | None:
    """The first run of a nodes.csv; None before the first row."""
    found = _columns(path, _NODE_PLACES)
    if found is None:
        return None
    _check_named(path, found)
    return _nodes_of(path, found, int(found["run"].min()))


def disagreement(folder: Path, run: int) -> Nodes:
    """One run's nodes, from the nodes.csv of a folder; an `InputError` where the table is not whole."""
    path = folder / "nodes.csv"
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; 'dpadmm train' on a graph writes it into its folder.")
    columns = _columns(path, _NODE_PLACES, growing=False) or {}
    _check_named(path, columns)
    runs = columns["run"]
    if run not in runs:
        raise InputError(f"{str(path)!r}: there is no run {run}; there are {runs.min()} to {runs.max()}.")
    found = _nodes_of(path, columns, run)
    values = found.disagreement
    if (runs == run).sum() != values.size or not np.all((values >= 0.0) & (values < np.inf)):
        raise InputError(
            f"{str(path)!r}: run {run} does not have one number, not negative, for each of its {len(found.nodes):,} "
            f"nodes in each of its {found.rounds.size:,} rounds; let 'dpadmm train' write it anew."
        )
    return found


def _check_named(path: Path, columns: Mapping[str, Any]) -> None:
    if "disagreement" not in columns:
        raise InputError(
            f"{str(path)!r} cannot be read: the columns {','.join(_NODE_PLACES)},disagreement with at least one row "
            f"are needed."
        )


def _nodes_of(path: Path, columns: Mapping[str, NDArray[Any]], run: int) -> Nodes:
    chosen = columns["run"] == run
    rounds, row = np.unique(columns["round"][chosen], return_inverse=True)
    nodes, column = np.unique(columns["node"][chosen], return_inverse=True)
    _check_grid(path, rounds.size, nodes.size, row.size)
    values = np.full((rounds.size, nodes.size), np.nan)
    values[row, column] = columns["disagreement"][chosen]
    return Nodes(run, rounds, nodes.tolist(), values)


def _check_grid(path: Path, rounds: int, others: int, rows: int) -> None:
    """A table has a place for every round of every run or node; a file of few rows must not ask for many places."""
    if rounds * others > _limits.GAPS * rows:
        raise InputError(
            f"{str(path)!r} has {rows:,} rows for {rounds:,} rounds of {others:,} runs or nodes; most of it is missing."
        )


def _columns(path: Path, places: tuple[str, ...], growing: bool = True) -> dict[str, NDArray[Any]] | None:
    """A table's columns; None where it has no rows yet.

    Of a table that is growing, a last line without its end is still being written, and is left for the next look.
    """
    if not path.exists():
        return None
    whole = read_bytes(path, "table", _limits.TABLE)
    lines = whole[: whole.rfind(b"\n") + 1] if growing else whole.removesuffix(b"\n") + b"\n"
    header = lines.partition(b"\n")[0].decode(errors="replace").strip().split(",", _limits.METRICS)
    if lines.count(b"\n") < 2:
        return None
    if "\ufffd" in lines.partition(b"\n")[0].decode(errors="replace"):  # names that Arrow could not tell
        raise InputError(f"{str(path)!r} must begin with the columns {', '.join(places)}, in UTF-8.")
    if header[: len(places)] != list(places) or len(set(header)) < len(header) or len(header) > _limits.METRICS:
        raise InputError(f"{str(path)!r} must begin with the columns {', '.join(places)}.")
    types = {name: int64() if name in places else float64() for name in header}
    try:
        table = csv_bytes(
            lines, repr(str(path)), _limits.METRICS, convert_options=csv.ConvertOptions(column_types=types)
        )
    except ArrowException as error:
        place = re.search(r"column #(\d+)", str(error))
        if place is None:
            raise InputError(f"{str(path)!r} cannot be read: {error}.") from None
        raise _not_numbers(path, header[int(place[1])], places) from None
    if table.column_names != header:  # quotation marks, or what is not UTF-8
        raise InputError(f"{str(path)!r} must begin with the columns {', '.join(places)}.")
    for name in places:
        if table[name].null_count:
            raise _not_numbers(path, name, places)
    return {name: table[name].to_numpy().astype(np.int64 if name in places else np.float64) for name in header}


def _not_numbers(path: Path, name: str, places: tuple[str, ...]) -> InputError:
    whole = ", all of them whole" if name in places else ""
    return InputError(f"{str(path)!r}: column {name!r} must hold numbers in every row{whole}.")
