"""What a coordinator and the owners of a small federation keep of a run."""

from __future__ import annotations

import csv
import json
from typing import Any

import numpy as np

from dpadmm.engine.output.checkpoint import load
from dpadmm.engine.output.model import Model
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.privacy.ledger.verify import verify

RING = {"algorithm": "private-r-admm", "topology": "ring:3"}


def outcome(folder: RunFolder) -> dict[str, Any]:
    """The result of a finished run."""
    return dict(json.loads((folder.path / "result.json").read_text()))


def history(folder: RunFolder) -> dict[str, list[float]]:
    """The columns of what was measured in every round."""
    with (folder.path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def coefficients(folder: RunFolder) -> np.ndarray:
    """The model of a finished run."""
    return Model.load(folder.path).coefficients


def everything(lived: Any) -> dict[str, int]:
    """How many entries each owner's ledger has."""
    return {
        name: len(list(lived.ledger(name).entries())) if lived.ledger_path(name).exists() else 0
        for name in lived.counts
    }


def all_once(lived: Any, rounds: int = 6) -> None:
    """Every owner has released every round once, and nothing else."""
    for name in lived.counts:
        assert lived.steps(name) == [str(round) for round in range(1, rounds + 1)]
        assert sum(lived.ledger(name).spent().values()) == rounds
        assert verify(lived.ledger(name)) == []
        assert lived.ledger(name).runs()["study"].finished


def load_round(folder: RunFolder) -> int:
    """The last round that the coordinator has written down."""
    path, agreement = folder.path / "checkpoint.npz", folder.agreement()
    if not path.exists() or agreement is None:
        return 0
    return load(path, agreement.digest, CoordinatorState.from_arrays)[0].round
