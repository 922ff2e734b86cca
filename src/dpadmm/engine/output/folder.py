"""A run's folder: the resolved spec, the history, the model and the result, enough to predict and to report.

spec.toml      what was run, every field that differs from the recipe's own
plan.json      what was known before the first round: shape, noise, what every round costs whom
status.json    how far the run is, and which process it is (`live`)
history.csv    metrics by run and round
nodes.csv      on a graph: how far each node is from the nodes' mean, by run and round
model.json     coefficients with their names, and how to encode raw records
result.json    the summary that the command line prints
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._registry import build
from dpadmm.datasets import CurveEncoder, Encoder, read_table
from dpadmm.datasets.dataset import Encodes
from dpadmm.engine.output.status import write_json
from dpadmm.engine.result import Result
from dpadmm.errors import InputError
from dpadmm.problems.losses import LOSSES
from dpadmm.problems.shards import gather
from dpadmm.spec import resolve, toml
from dpadmm.spec.declare import Experiment
from dpadmm.spec.toml import read


@dataclass(frozen=True)
class Folder:
    """Where a run writes."""

    path: Path

    @classmethod
    def open(cls, path: Path, experiment: Experiment, resume: bool) -> Folder:
        """A new run's folder, or an interrupted one's; never one with somebody else's results in it."""
        spec = path / "spec.toml"
        if path.exists() and not path.is_dir():
            raise InputError(f"--out {str(path)!r} is a file; name a folder.")
        if (path / "result.json").exists():
            raise InputError(f"{str(path)!r} holds a finished run; choose another folder.")
        if resume:
            if not spec.exists():
                raise InputError(f"{str(path)!r} holds no interrupted run to resume.")
            if read(spec) != experiment:
                raise InputError(
                    f"the run in {str(path)!r} has another spec; resume it with the spec it was started by."
                )
        elif path.exists() and any(path.iterdir()):
            raise InputError(f"{str(path)!r} is not empty; choose another folder, or resume the run in it.")
        try:
            path.mkdir(parents=True, exist_ok=True)
            spec.write_text(toml.dumps(experiment))
        except OSError as error:
            raise InputError(f"cannot write to {str(path)!r}: {error.strerror}.") from None
        return cls(path)

    def checkpoint(self, first_run: int) -> Path:
        return self.path / f"checkpoint-{first_run}.npz"

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Writes what is known before the first round."""
        write_json(self.path / "plan.json", facts)

    def finish(self, result: Result) -> None:
        """Writes what a finished run leaves; result.json comes last and marks the run as finished."""
        result.history.write(self.path / "history.csv")
        if result.history.nodes:
            result.history.write_nodes(self.path / "nodes.csv")
        write_json(self.path / "model.json", _model(result))
        write_json(self.path / "result.json", result.summary())
        for kept in self.path.glob("checkpoint-*.npz"):
            kept.unlink()


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model, read back from its run's folder."""

    description: dict[str, Any]
    coefficients: NDArray[np.float64]

    @classmethod
    def load(cls, folder: Path) -> Model:
        path = folder / "model.json"
        try:
            description = json.loads(path.read_text())
            return cls(description, np.asarray(description["coefficients"], dtype=np.float64))
        except (OSError, ValueError, KeyError):
            raise InputError(f"{str(folder)!r} is not the folder of a finished run: no readable model.json.") from None

    @property
    def levels(self) -> tuple[float, ...]:
        """Of a quantile regression."""
        return build("loss", LOSSES, self.description["loss"]).levels

    def predict(self, path: Path) -> tuple[list[Any], NDArray[np.float64]]:
        """What the model says of each record of a file: labels (or values), and the raw scores."""
        given = self.description
        if given["encoder"] is None:
            raise InputError("this model was trained on curves that were not read from columns; it predicts in Python.")
        encoder: Encodes = (CurveEncoder if "curve" in given["encoder"] else Encoder).from_dict(given["encoder"])
        features = encoder.transform(read_table(path, text=encoder.text_columns))
        owner = np.zeros(len(features), dtype=np.int64)
        # The same clipping and intercept as in training.
        table = gather(
            features, owner, owner, norm_bound=given["norm_bound"], intercept=given["intercept"], names=["new"]
        ).features
        loss = build("loss", LOSSES, given["loss"])
        predicted = loss.predict(table, self.coefficients)
        labels = [given["classes"][k] for k in predicted] if given["classes"] else predicted.tolist()
        return labels, table @ self.coefficients.reshape(table.shape[1], -1)


def _model(result: Result) -> dict[str, Any]:
    run, data = result.experiment.run, result.dataset
    encoder = None if data.basis is not None else _plain(data.feature_names)
    if data.encoder is not None:
        encoder = data.encoder.to_dict()
    return {
        "algorithm": run.algorithm,
        "loss": resolve.loss_text(run),
        "classes": list(data.classes) if data.classes else None,
        "features": [*data.feature_names, *(["(intercept)"] if run.intercept else [])],
        "norm_bound": run.clip,
        "intercept": bool(run.intercept),
        "private": result.private,
        "simulated": result.simulated,
        "guarantee": str(result.guarantee) if result.guarantee else "none: the recipe is not private",
        "coefficients": result.models[0].tolist(),
        "encoder": encoder,
        "basis": None if data.basis is None else data.basis.text,
    }


def _plain(names: tuple[str, ...]) -> dict[str, Any]:
    """Columns that are used as they are."""
    return {"columns": [{"name": name} for name in names]}
