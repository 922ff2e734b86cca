"""What ships or is simulated, and readers for what does not ship.

A loader reads a table, an `Encoder` turns it into features by public facts alone, and the `Dataset` keeps
both, so that raw records can be encoded alike when predictions are wanted. Splitting over owners and clipping
rows to a norm are the business of shards (`dpadmm.problems.shards`).

    encoding.py   Numeric, Category, Encoder: a table becomes features
    dataset.py    Dataset, split
    scaling.py    "max", the one statistic of the data that may enter, marked as such
    directory.py  finds the files of data sets that do not ship
    idx.py        reads idx and npz
    adult.py toolkit.py synthetic.py files.py images.py    where records come from
    functional/   curves: bases, smoothing, the simulation and the published curves of paper 004's kind
    stored.py     a folder of records that stay in their files; parquet.py reads, writing.py writes such
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dpadmm.datasets import adult, images, synthetic, toolkit
from dpadmm.datasets.adult import ADULT_ENCODER, adult_table, load_adult
from dpadmm.datasets.dataset import Dataset, Described, split
from dpadmm.datasets.encoding import Category, Column, Encoder, Numeric
from dpadmm.datasets.files import TASKS, load_file, read_table
from dpadmm.datasets.functional import readers, simulation
from dpadmm.datasets.functional.encoder import CurveEncoder, load_curves_file
from dpadmm.datasets.idx import read_idx, read_npz
from dpadmm.datasets.images import load_femnist, load_mnist, load_mnist_writers
from dpadmm.datasets.parquet import ParquetBlocks
from dpadmm.datasets.scaling import SCALINGS, scaled
from dpadmm.datasets.stored import StoredDataset, is_folder, open_folder
from dpadmm.datasets.synthetic import ground_truth, simulate
from dpadmm.datasets.toolkit import load_breast_cancer, load_digits
from dpadmm.datasets.writing import convert, write_folder
from dpadmm.errors import InputError, unknown

__all__ = [
    "ADULT_ENCODER",
    "DATASETS",
    "SCALINGS",
    "Category",
    "Column",
    "CurveEncoder",
    "Dataset",
    "Described",
    "Encoder",
    "Loader",
    "Numeric",
    "ParquetBlocks",
    "Source",
    "StoredDataset",
    "adult_table",
    "convert",
    "ground_truth",
    "is_folder",
    "load",
    "load_adult",
    "load_breast_cancer",
    "load_curves_file",
    "load_digits",
    "load_femnist",
    "load_file",
    "load_mnist",
    "load_mnist_writers",
    "open_folder",
    "read_idx",
    "read_npz",
    "read_table",
    "scaled",
    "simulate",
    "split",
    "write_folder",
]


class Loader(Protocol):
    """Loads a data set; the seed matters to simulated ones, the directory to those that do not ship."""

    def __call__(self, seed: int = 0, directory: str | Path | None = None) -> Dataset: ...


@dataclass(frozen=True)
class Source:
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
class CurveSource(Source):
    """A data set of curves."""

    curves: CurveLoader = field(kw_only=True)


def _curves(load: CurveLoader, about: str, needs: tuple[str, ...] = ()) -> CurveSource:
    """By default at the median, in a basis of the data set's own choice."""
    return CurveSource(lambda seed=0, directory=None: load(seed, directory, 0.5), about, needs, curves=load)


DATASETS: dict[str, Source] = {
    "adult": Source(lambda seed=0, directory=None: load_adult(), adult.ABOUT),
    "breast-cancer": Source(lambda seed=0, directory=None: load_breast_cancer(), toolkit.BREAST_CANCER_ABOUT),
    "digits": Source(lambda seed=0, directory=None: load_digits(), toolkit.DIGITS_ABOUT),
    "synthetic": Source(
        lambda seed=0, directory=None: simulate("classification", 10_000, 20, seed), f"two classes, {synthetic.ABOUT}"
    ),
    "synthetic-multiclass": Source(
        lambda seed=0, directory=None: simulate("multiclass", 10_000, 20, seed, classes=5),
        f"five classes, {synthetic.ABOUT}",
    ),
    "synthetic-regression": Source(
        lambda seed=0, directory=None: simulate("regression", 10_000, 20, seed), f"a linear model, {synthetic.ABOUT}"
    ),
    "mnist": Source(
        lambda seed=0, directory=None: load_mnist(directory), images.MNIST_ABOUT, tuple(images.MNIST_FILES)
    ),
    "mnist-writers": Source(
        lambda seed=0, directory=None: load_mnist_writers(directory), images.WRITERS_ABOUT, tuple(images.WRITERS_FILES)
    ),
    "femnist": Source(
        lambda seed=0, directory=None: load_femnist(directory), images.FEMNIST_ABOUT, tuple(images.FEMNIST_FILES)
    ),
    "functional-sim": _curves(
        lambda seed, directory, level, **written: simulation.load_simulation(seed, level, **written),
        simulation.ABOUT,
    ),
    "tecator": _curves(
        lambda seed, directory, level, **written: readers.load_tecator(directory, **written),
        readers.TECATOR_ABOUT,
        tuple(readers.TECATOR_FILES),
    ),
    "canadian-weather": _curves(
        lambda seed, directory, level, **written: readers.load_weather(directory, **written),
        readers.WEATHER_ABOUT,
        tuple(readers.WEATHER_FILES),
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
) -> Dataset:
    """The data set of that name, or of the .csv or .parquet file at that path.

    `target`, `owner`, `columns` and `task` are questions about a file; a named data set answers them itself.
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
        if target is not None or owner is not None or columns is not None:
            raise InputError(f"the data set {name!r} has its own target and columns; those are for files.")
        known, written = DATASETS[name], _written(basis, smoothing)
        if isinstance(known, CurveSource) and curve is None:
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
            if columns is not None:
                raise InputError(f"the columns of {name} are found by the name of its curve; declare none.")
            dataset = load_curves_file(source, target, owner, curve, **_written(basis, smoothing))
        elif basis is not None or smoothing is not None:
            raise InputError(
                f"a basis is for curves: which columns of {name} are one? give the beginning of their names."
            )
        else:
            dataset = load_file(source, target, owner, columns, task)
    else:
        hint = unknown("data set", name, DATASETS)
        raise InputError(f"{hint} A path to a .csv or .parquet file, or to a data folder, will do as well.")
    return scaled(dataset, scaling)


def _written(basis: str | None, smoothing: float | None) -> dict[str, Any]:
    """How curves are to be written, as far as it was said."""
    given = {"basis": basis, "smoothing": smoothing}
    return {name: value for name, value in given.items() if value is not None}
