"""Handwriting in 28 x 28 pixels: MNIST, MNIST by writer, and FEMNIST. None ships; `directory.find` finds the files.

A feature is the ink in a pixel, 0 (paper) to 1, in float32. That a pixel is a byte is public, so nothing about the
records enters by dividing by 255.
"""

from __future__ import annotations

import string
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.directory import find
from dpadmm.datasets.encoding import Encoder, Numeric
from dpadmm.datasets.idx import read_idx, read_npz
from dpadmm.errors import InputError

MNIST_ABOUT = "28x28 handwritten digits, MNIST (LeCun, Cortes & Burges 1998); needs files that do not ship"
WRITERS_ABOUT = (
    "MNIST (LeCun, Cortes & Burges 1998) with an owner for each writer as identified by QMNIST "
    "(Yadav & Bottou 2019, BSD 3-clause); needs files that do not ship"
)
FEMNIST_ABOUT = (
    "28x28 handwritten characters by 114 writers, FEMNIST of LEAF (Caldas et al. 2018), from NIST Special Database 19; "
    "needs files that do not ship"
)

MNIST_FILES = {
    "train-images-idx3-ubyte": "the training digits as pixels",
    "train-labels-idx1-ubyte": "which digit each of them is",
    "t10k-images-idx3-ubyte": "the test digits as pixels",
    "t10k-labels-idx1-ubyte": "which digit each of those is",
}
_QMNIST = "qmnist-train-labels-idx2-int"
WRITERS_FILES = MNIST_FILES | {_QMNIST: "QMNIST's labels, which say who wrote each training digit"}
FEMNIST_FILES = {
    "femnist_114.npz": "arrays X_train, y_train, w_train: pixels with 255 for paper, class 0 to 61, writer",
    "femnist_test195.npz": "arrays X, y, w: the same of the test records",
}

# Rows are clipped to these norms where the user names none. 28 would hold for any image, and noise follows the bound;
# these are round numbers near the middle of the published images.
MNIST_NORM, FEMNIST_NORM = 10.0, 5.0

_SIDE = 28
_PIXELS = tuple(f"pixel {row},{column}" for row in range(_SIDE) for column in range(_SIDE))
_DIGITS = tuple(string.digits)
_CHARACTERS = tuple(string.digits + string.ascii_uppercase + string.ascii_lowercase)  # LEAF's order
_WRITER = 2  # the column of QMNIST's labels; column 0 is the digit


def load_mnist(directory: str | Path | None = None) -> Dataset:
    """60,000 digits and, held out, 10,000 more by other people."""
    return _mnist("mnist", MNIST_ABOUT, find("mnist", "mnist", MNIST_FILES, directory))


def load_mnist_writers(directory: str | Path | None = None) -> Dataset:
    """MNIST's digits, each owned by whoever wrote it: 539 people with 19 to 131 digits."""
    return _mnist("mnist-writers", WRITERS_ABOUT, find("mnist-writers", "mnist", WRITERS_FILES, directory))


def load_femnist(directory: str | Path | None = None) -> Dataset:
    """15,440 characters, each owned by one of 114 writers; held out, 4,167 by these and 81 others."""
    paths = find("femnist", "femnist", FEMNIST_FILES, directory)
    held_out = _femnist("femnist (held out)", paths["femnist_test195.npz"], ("X", "y", "w"), None)
    return _femnist("femnist", paths["femnist_114.npz"], ("X_train", "y_train", "w_train"), held_out)


def _mnist(name: str, about: str, paths: dict[str, Path]) -> Dataset:
    # Raw digits, in a table of bytes, can be encoded alike when predictions are wanted.
    encoder = Encoder(tuple(Numeric(pixel, 0.0, 255.0) for pixel in _PIXELS))
    features, digits = _digits(paths, "t10k")
    held_out = Dataset(
        f"{name} (held out)", features, digits, _DIGITS, _PIXELS, encoder=encoder, about=about, norm_bound=MNIST_NORM
    )
    features, digits = _digits(paths, "train")
    writers = _writers(paths[_QMNIST], digits) if _QMNIST in paths else None
    return replace(held_out, name=name, features=features, targets=digits, owners=writers, held_out=held_out)


def _digits(paths: dict[str, Path], part: str) -> tuple[np.ndarray, np.ndarray]:
    images, labels = paths[f"{part}-images-idx3-ubyte"], paths[f"{part}-labels-idx1-ubyte"]
    pixels, digits = read_idx(images), read_idx(labels)
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (_SIDE, _SIDE):
        raise InputError(f"{images} holds {_kind(pixels)}; MNIST's images are uint8, {_SIDE} x {_SIDE} pixels each.")
    if digits.shape != pixels.shape[:1]:
        raise InputError(f"{labels} holds {_kind(digits)}, but {images} has {len(pixels)} images.")
    return _ink(pixels.reshape(len(pixels), -1)), digits


def _writers(path: Path, digits: np.ndarray) -> np.ndarray:
    labels = read_idx(path)
    if labels.ndim != 2 or labels.shape[1] <= _WRITER or len(labels) != len(digits) or labels.dtype.kind not in "iu":
        raise InputError(f"{path} holds {_kind(labels)}; a row of integers for each of {len(digits)} digits is needed.")
    differ = np.flatnonzero(labels[:, 0] != digits)
    if differ.size:
        row = differ[0]
        raise InputError(
            f"{path}, row {row + 1} is about a {labels[row, 0]}, but MNIST has a {digits[row]} there "
            f"({differ.size} rows differ): the two files do not belong together."
        )
    return labels[:, _WRITER].astype(str)


def _femnist(name: str, path: Path, arrays: tuple[str, str, str], held_out: Dataset | None) -> Dataset:
    read = read_npz(path, arrays)
    pixels, classes, writers = (read[array] for array in arrays)
    if pixels.dtype != np.uint8 or pixels.shape[1:] != (len(_PIXELS),) or len(pixels) == 0:
        raise InputError(f"{path}: {arrays[0]} is {_kind(pixels)}; uint8 of shape (images, {len(_PIXELS)}) is needed.")
    for array, values, kinds in ((arrays[1], classes, "iu"), (arrays[2], writers, "iuU")):
        if values.shape != pixels.shape[:1] or values.dtype.kind not in kinds:
            raise InputError(f"{path}: {array} is {_kind(values)}; one for each of {len(pixels)} images is needed.")
    # 255 is paper in these files; a feature is ink.
    features, owners = _ink(255 - pixels), writers.astype(str)
    return Dataset(
        name, features, classes, _CHARACTERS, _PIXELS, owners,
        about=FEMNIST_ABOUT, held_out=held_out, norm_bound=FEMNIST_NORM,
    )  # fmt: skip


def _ink(pixels: np.ndarray) -> np.ndarray:
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype} of shape {array.shape}"
