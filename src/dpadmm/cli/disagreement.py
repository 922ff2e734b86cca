"""How far every node was from the network's mean, round by round: nodes.csv, as `dpadmm train` on a graph writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm.errors import InputError

COLUMNS = ("run", "round", "node", "disagreement")


@dataclass(frozen=True, eq=False)
class Disagreement:
    """One run: `values` has a row per round and a column per node."""

    run: int
    rounds: NDArray[np.int64]
    nodes: list[Any]
    values: NDArray[np.float64]


def load(folder: Path, run: int) -> Disagreement:
    path = folder / "nodes.csv"
    found = _columns(path)
    runs = np.unique(found["run"])
    if run not in runs:
        raise InputError(f"{str(path)!r}: there is no run {run}; there are {int(runs.min())} to {int(runs.max())}.")
    chosen = found["run"] == run
    rounds, row = np.unique(found["round"][chosen], return_inverse=True)
    nodes, column = np.unique(found["node"][chosen], return_inverse=True)
    values = np.full((len(rounds), len(nodes)), np.nan)
    values[row, column] = found["disagreement"][chosen]
    if chosen.sum() != values.size or not np.all((values >= 0.0) & (values < np.inf)):
        raise InputError(
            f"{str(path)!r}: run {run} does not have one number, not negative, for each of its {len(nodes):,} nodes in "
            f"each of its {len(rounds):,} rounds; let 'dpadmm train' write it anew."
        )
    return Disagreement(run, rounds, nodes.tolist(), values)


def _columns(path: Path) -> dict[str, NDArray[Any]]:
    from pyarrow import ArrowException
    from pyarrow.csv import read_csv

    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}; 'dpadmm train' on a graph writes it into its folder.")
    try:
        table = read_csv(path)
    except (ArrowException, OSError) as error:
        raise InputError(f"{str(path)!r} cannot be read: {error}.") from None
    if not set(COLUMNS) <= set(table.column_names) or not table.num_rows:
        raise InputError(f"{str(path)!r}: the columns {','.join(COLUMNS)} with at least one row are needed.")
    found = {name: table[name].to_numpy() for name in COLUMNS}
    for name, kinds in (("run", "iu"), ("round", "iu"), ("disagreement", "iuf")):
        if found[name].dtype.kind not in kinds:
            raise InputError(f"{str(path)!r}: column {name!r} must hold numbers in every row.")
    return found
