"""Data sets whose files do not ship: the real ones where DPADMM_DATA has them, and tiny ones made by hand."""

import functools
import gzip

import numpy as np
import pytest

from dpadmm.datasets import directory, images
from dpadmm.datasets.curves import published
from dpadmm.datasets.registry import DATASETS, load
from dpadmm.errors import InputError

FILES = {
    "mnist": ("mnist", images.MNIST_FILES),
    "mnist-writers": ("mnist", images.WRITERS_FILES),
    "femnist": ("femnist", images.FEMNIST_FILES),
    "tecator": ("functional", published.TECATOR_FILES),
    "canadian-weather": ("functional", published.WEATHER_FILES),
}
CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}


@pytest.fixture(scope="session")
def real_files():
    """real_files(name): the paths of its files, or a skip that lists those that are missing."""

    def find(name):
        try:
            return directory.find(name, *FILES[name])
        except InputError as error:
            pytest.skip(str(error))

    return find


@pytest.fixture(scope="session")
def real(real_files):
    """real(name): the data set, read once; only missing files skip, anything else fails."""
    once = functools.cache(load)

    def get(name):
        if DATASETS[name].needs:
            real_files(name)
        return once(name)

    return get


@pytest.fixture(scope="session")
def idx():
    """idx(array): the bytes of an idx file, written independently of the reader."""

    def write(array):
        array = np.asarray(array)
        lengths = b"".join(length.to_bytes(4, "big") for length in array.shape)
        code = CODES[array.dtype.str[1:]]
        return bytes((0, 0, code, array.ndim)) + lengths + array.astype(array.dtype.newbyteorder(">")).tobytes()

    return write


@pytest.fixture
def tiny(tmp_path, monkeypatch, idx):
    """A directory of three training digits by two writers, two test digits, and as few characters."""
    monkeypatch.delenv("DPADMM_DATA", raising=False)
    draw = np.random.default_rng(5)
    pixels = draw.integers(0, 256, (5, 28, 28)).astype(np.uint8)
    pixels[0, 0, :3] = 0, 51, 255
    labels = np.array([7, 0, 9, 1, 1], dtype=np.uint8)
    extended = np.array([[7, 0, 12, 0], [0, 4, 2154, 1], [9, 0, 12, 2]], dtype=np.int32)
    mnist, femnist = tmp_path / "mnist", tmp_path / "femnist"
    mnist.mkdir()
    femnist.mkdir()
    (mnist / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(pixels[:3])))
    (mnist / "train-labels-idx1-ubyte").write_bytes(idx(labels[:3]))
    (mnist / "t10k-images-idx3-ubyte").write_bytes(idx(pixels[3:]))
    (mnist / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels[3:])))
    (mnist / "qmnist-train-labels-idx2-int.gz").write_bytes(gzip.compress(idx(extended)))
    flat, classes, writers = (
        pixels.reshape(5, -1),
        np.array([10, 36, 61, 0, 9], dtype=np.uint8),
        np.array(list("abacb")),
    )
    np.savez(femnist / "femnist_114.npz", X_train=flat[:3], y_train=classes[:3], w_train=writers[:3], X_test=flat[3:])
    np.savez(femnist / "femnist_test195.npz", X=flat[3:], y=classes[3:], w=writers[3:])
    return tmp_path
