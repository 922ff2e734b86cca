"""A trained model as a file: its coefficients with their names, and how to encode raw records."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._files import read_json
from dpadmm._registry import build
from dpadmm.datasets import read_table
from dpadmm.datasets.dataset import Encodes
from dpadmm.engine.result import Result
from dpadmm.errors import InputError
from dpadmm.problems.losses import LOSSES, Loss
from dpadmm.problems.shards import gather
from dpadmm.spec import parts, resolve
from dpadmm.spec.columns import understood


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model, read back from its run's folder."""

    description: dict[str, Any]
    coefficients: NDArray[np.float64]
    levels: tuple[float, ...]  # of a quantile regression

    @classmethod
    def load(cls, folder: Path) -> Model:
        """The model of a finished run, which somebody else may have sent: its parts are what they should be.

        Raises:
            InputError: They are not.
        """
        path = folder / "model.json"
        try:
            found = read_json(path, "model")
            coefficients = np.asarray(found["coefficients"], dtype=np.float64)
            levels = tuple(map(float, found["tau"]))
        except (ValueError, KeyError, TypeError, OverflowError):
            raise InputError(f"{str(folder)!r} is not the folder of a finished run: no readable model.json.") from None
        classes = found.get("classes")
        known = {"norm_bound", "encoder", "algorithm", "guarantee"} <= found.keys()
        parts = isinstance(found.get("encoder"), dict | None) and isinstance(found.get("basis"), str | None)
        texts = classes is None or (isinstance(classes, list) and all(type(label) is str for label in classes))
        whole = coefficients.ndim == 1 and bool(np.isfinite(coefficients).all())
        switches = all(type(found.get(name)) is bool for name in ("intercept", "private", "simulated"))
        if not (known and parts and texts and whole and switches and type(found.get("loss")) is str) or (
            classes and len(classes) < 2
        ):
            raise InputError(f"model {str(path)!r} does not say what a model says; was it changed?")
        return cls(found, coefficients, levels)

    @property
    def loss(self) -> Loss:
        """The loss that the model was trained for; one by import path is imported."""
        return build("loss", LOSSES, parts.given("loss", self.description["loss"]))

    def predict(self, path: Path) -> tuple[list[Any], NDArray[np.float64]]:
        """What the model says of each record of a file: labels (or values), and the raw scores."""
        given = self.description
        if given.get("encoder") is None:
            raise InputError("this model was trained on curves that were not read from columns; it predicts in Python.")
        encoder: Encodes = understood(given["encoder"], "the model")
        features = encoder.transform(read_table(path, text=encoder.text_columns))
        owner = np.zeros(len(features), dtype=np.int64)
        # The same clipping and intercept as in training.
        table = gather(
            features, owner, owner, norm_bound=given["norm_bound"], intercept=given["intercept"], names=["new"]
        ).real_rows
        loss, classes = self.loss, len(given["classes"] or ())
        dimension = loss.dimension(table.shape[1], classes)
        fits = dimension == self.coefficients.size and loss.levels == self.levels
        if not fits or (loss.task == "regression") != (not classes):
            raise InputError(
                f"the model's {self.coefficients.size:,} coefficients, {classes} classes and {len(self.levels)} levels "
                f"do not go with its loss {given['loss']!r} and {table.shape[1]:,} columns; was it changed?"
            )
        predicted = loss.predict(table, self.coefficients)
        labels = [given["classes"][k] for k in predicted] if given["classes"] else predicted.tolist()
        return labels, table @ self.coefficients.reshape(table.shape[1], -1)


def described_model(result: Result) -> dict[str, Any]:
    run, data = result.experiment.run, result.dataset
    encoder = None if data.basis is not None else _plain(data.feature_names)
    if data.encoder is not None:
        encoder = data.encoder.to_dict()
    return {
        "algorithm": str(run.algorithm),
        "loss": resolve.loss_text(run),
        "tau": list(result.plan.setting.problem.loss.levels),
        "classes": list(data.classes) if data.classes else None,
        "features": [*data.feature_names, *(["(intercept)"] if run.intercept else [])],
        "norm_bound": run.clip,
        "intercept": bool(run.intercept),
        "private": result.private,
        "fully_accounted": result.fully_accounted,
        "simulated": result.simulated,
        "guarantee": str(result.guarantee) if result.guarantee else "none: the recipe is not private",
        "coefficients": result.models[0].tolist(),
        "encoder": encoder,
        "basis": None if data.basis is None else data.basis.text,
    }


def _plain(names: tuple[str, ...]) -> dict[str, Any]:
    """Columns that are used as they are."""
    return {"columns": [{"name": name} for name in names]}
