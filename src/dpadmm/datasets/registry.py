"""Data sets known by name, and the way to load one or a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dpadmm.datasets import adult, images, sklearn_sets, synthetic
from dpadmm.datasets.adult import load_adult
from dpadmm.datasets.curves import published, simulation
from dpadmm.datasets.curves.encoder import load_curves_file
from dpadmm.datasets.dataset import SCALINGS, Dataset, scaled
from dpadmm.datasets.encoding import Column
from dpadmm.datasets.files import TASKS, load_file
from dpadmm.datasets.images import load_femnist, load_mnist, load_mnist_writers
from dpadmm.datasets.sklearn_sets import load_breast_cancer, load_digits
from dpadmm.datasets.synthetic import simulate
from dpadmm.errors import InputError, unknown


class Loader(Protocol):
    """Loads a data set; the seed matters to simulated ones, the directory to those that do not ship."""

    def __call__(self, seed: int = 0, directory: str | Path | None = None) -> Dataset: ...


@dataclass(frozen=True)
class NamedDataset:
    """A data set that is known by name: how to load it, and a line on what it is, its origin and licence.

    needs: the names of the files it is read from, when they do not ship.
    """

    load: Loader
    about: str
    needs: tuple[str, ...] = ()


class CurveLoader(Protocol):
    """Loads curves as their coefficients in a basis; the level matters to simulated ones, whose errors have their
    quantile of that level at zero."""

    def __call__(self, seed: int, directory: str | Path | None, level: float | None, **written: Any) -> Dataset: ...


@dataclass(frozen=True)
class NamedCurves(NamedDataset):
    """A data set of curves."""

    curves: CurveLoader = field(kw_only=True)


def _curves(load: CurveLoader, about: str, needs: tuple[str, ...] = ()) -> NamedCurves:
    """By default at the median, in a basis of the data set's own choice."""
    return NamedCurves(lambda seed=0, directory=None: load(seed, directory, 0.5), about, needs, curves=load)


DATASETS: dict[str, NamedDataset] = {
    "adult": NamedDataset(lambda seed=0, directory=None: load_adult(), adult.ABOUT),
    "breast-cancer": NamedDataset(
        lambda seed=0, directory=None: load_breast_cancer(), sklearn_sets.BREAST_CANCER_ABOUT
    ),
    "digits": NamedDataset(lambda seed=0, directory=None: load_digits(), sklearn_sets.DIGITS_ABOUT),
    "synthetic": NamedDataset(
        lambda seed=0, directory=None: simulate("classification", 10_000, 20, seed), f"two classes, {synthetic.ABOUT}"
    ),
    "synthetic-multiclass": NamedDataset(
        lambda seed=0, directory=None: simulate("multiclass", 10_000, 20, seed, classes=5),
        f"five classes, {synthetic.ABOUT}",
    ),
    "synthetic-regression": NamedDataset(
        lambda seed=0, directory=None: simulate("regression", 10_000, 20, seed), f"a linear model, {synthetic.ABOUT}"
    ),
    "mnist": NamedDataset(
        lambda seed=0, directory=None: load_mnist(directory), images.MNIST_ABOUT, tuple(images.MNIST_FILES)
    ),
    "mnist-writers": NamedDataset(
        lambda seed=0, directory=None: load_mnist_writers(directory), images.WRITERS_ABOUT, tuple(images.WRITERS_FILES)
    ),
    "femnist": NamedDataset(
        lambda seed=0, directory=None: load_femnist(directory), images.FEMNIST_ABOUT, tuple(images.FEMNIST_FILES)
    ),
    "functional-sim": _curves(
        lambda seed, directory, level, **written: simulation.load_simulation(seed, level, **written),
        simulation.ABOUT,
    ),
    "tecator": _curves(
        lambda seed, directory, level, **written: published.load_tecator(directory, **written),
        published.TECATOR_ABOUT,
        tuple(published.TECATOR_FILES),
    ),
    "canadian-weather": _curves(
        lambda seed, directory, level, **written: published.load_weather(directory, **written),
        published.WEATHER_ABOUT,
        tuple(published.WEATHER_FILES),
    ),
}
"""Data sets known by name."""


def load(
    source: str | Path,
    *,
    target: str | None = None,
    owner: str | None = None,
    columns: Sequence[Column] | None = None,
    scaling: str = "public",
    task: str = "classification",
    seed: int = 0,
    directory: str | Path | None = None,
    curve: str | None = None,
    basis: str | None = None,
    smoothing: float | None = None,
    level: float | None = 0.5,
    classes: Sequence[str] | None = None,
) -> Dataset:
    """The data set of that name, or of the .csv or .parquet file at that path.

    `target`, `owner`, `columns`, `classes` and `task` are questions about a file; a named data set answers them itself.
    `directory` holds the files of named data sets that do not ship; without it, DPADMM_DATA names one.
    `curve` is the beginning of the names of a file's columns that are one curve; `basis` and `smoothing` say how curves
    become features. `level` is the quantile that simulated curves' errors have at zero; with None they stay as drawn.
    """
    # Early, so that a wrong word does not wait for a large file.
    for kind, word, choices in (("scaling", scaling, SCALINGS), ("task", task, TASKS)):
        if word not in choices:
            raise unknown(kind, word, choices)
    name = str(source)
    if name in DATASETS:
        if target is not None or owner is not None or columns is not None or classes is not None:
            raise InputError(f"the data set {name!r} has its own target, classes and columns; those are for files.")
        known, written = DATASETS[name], _written(basis, smoothing)
        if isinstance(known, NamedCurves) and curve is None:
            dataset = known.curves(seed, directory, level, **written)
        elif curve is not None or written:
            raise InputError(f"the data set {name!r} takes no curve, and a basis only if its records are curves.")
        else:
            # Only a loader that needs files is told where they are.
            dataset = known.load(seed, directory) if known.needs else known.load(seed)
        if task == "regression" and dataset.classes is not None:
            raise InputError(f"the data set {name!r} has classes; it is not for a regression.")
    elif Path(source).suffix:
        if target is None:
            raise InputError(f"which column of {name} is to be predicted? name it as the target.")
        if curve is not None:
            if classes is not None:
                raise InputError("curves are predicted a number for; they have no classes. Leave them out.")
            if columns is not None:
                raise InputError(f"the columns of {name} are found by the name of its curve; declare none.")
            dataset = load_curves_file(source, target, owner, curve, **_written(basis, smoothing))
        elif basis is not None or smoothing is not None:
            raise InputError(
                f"a basis is for curves: which columns of {name} are one? give the beginning of their names."
            )
        else:
            dataset = load_file(source, target, owner, columns, task, classes)
    else:
        hint = unknown("data set", name, DATASETS)
        raise InputError(f"{hint} A path to a .csv or .parquet file, or to a data folder, will do as well.")
    return scaled(dataset, scaling)


def _written(basis: str | None, smoothing: float | None) -> dict[str, Any]:
    """How curves are to be written, as far as it was said."""
    given = {"basis": basis, "smoothing": smoothing}
    return {name: value for name, value in given.items() if value is not None}
