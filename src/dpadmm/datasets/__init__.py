"""What ships or is simulated, and readers for what does not ship.

A loader reads a table, an `Encoder` turns it into features by public facts alone, and the `Dataset` keeps
both, so that raw records can be encoded alike when predictions are wanted. Splitting over owners and clipping
rows to a norm are the business of shards (`dpadmm.problems.shards`).

    encoding.py   columns of a table as numbers or text; Numeric, Category, Encoder: a table becomes features
    dataset.py    Dataset, split; scaled: "max", the one statistic of the data that may enter, marked as such
    directory.py  finds the files of data sets that do not ship
    idx.py        reads idx and npz
    adult.py sklearn_sets.py synthetic.py files.py images.py    where records come from
    curves/       curves: bases, smoothing, the simulation and the published curves of paper 004's kind
    folder/       data folders: records that stay in their files
    registry.py   data sets by name, and `load`
"""

from __future__ import annotations

from dpadmm.datasets.adult import ADULT_ENCODER, adult_table, load_adult
from dpadmm.datasets.curves.encoder import CurveEncoder, load_curves_file
from dpadmm.datasets.dataset import SCALINGS, Dataset, Described, scaled, split
from dpadmm.datasets.encoding import Category, Column, Encoder, Numeric
from dpadmm.datasets.files import load_file, read_table
from dpadmm.datasets.folder.parquet import ParquetBlocks
from dpadmm.datasets.folder.reading import StoredDataset, is_folder, open_folder
from dpadmm.datasets.folder.writing import convert, write_folder
from dpadmm.datasets.idx import read_idx, read_npz
from dpadmm.datasets.images import load_femnist, load_mnist, load_mnist_writers
from dpadmm.datasets.registry import DATASETS, Loader, NamedDataset, load
from dpadmm.datasets.sklearn_sets import load_breast_cancer, load_digits
from dpadmm.datasets.synthetic import ground_truth, simulate

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
    "NamedDataset",
    "Numeric",
    "ParquetBlocks",
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
