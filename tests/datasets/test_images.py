"""Images end to end, from tiny files made by hand; test_real_images.py has the published ones."""

import numpy as np
import pyarrow as pa
import pytest

from dpadmm.datasets import load_femnist, load_mnist, load_mnist_writers, read_idx
from dpadmm.datasets.registry import load
from dpadmm.errors import InputError

CHARACTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("name", ["mnist", "mnist-writers", "femnist"])
def test_tiny_files_make_a_data_set(tiny, monkeypatch, name):
    dataset = load(name, directory=tiny)
    held_out = dataset.held_out
    assert (dataset.name, held_out.name) == (name, f"{name} (held out)")
    assert (dataset.features.shape, held_out.features.shape) == ((3, 784), (2, 784))
    assert dataset.features.dtype == held_out.features.dtype == np.float32
    assert dataset.targets.dtype == np.int64
    assert dataset.feature_names[12 * 28 + 7] == "pixel 12,7"
    assert dataset.public_preprocessing
    assert held_out.public_preprocessing
    monkeypatch.setenv("DPADMM_DATA", str(tiny / ("femnist" if name == "femnist" else "mnist")))
    np.testing.assert_array_equal(load(name).features, dataset.features)


def test_mnist_is_ink_over_255(tiny):
    dataset = load_mnist(tiny)
    raw = read_idx(tiny / "mnist" / "train-images-idx3-ubyte.gz").reshape(3, -1)
    assert dataset.features[0, :3].tolist() == [0.0, np.float32(0.2), 1.0]
    np.testing.assert_allclose(dataset.features, raw / 255.0, rtol=1e-7)
    assert (dataset.targets.tolist(), dataset.held_out.targets.tolist()) == ([7, 0, 9], [1, 1])
    assert dataset.classes == tuple("0123456789")
    assert dataset.owners is None
    table = pa.table(dict(zip(dataset.feature_names, raw.T, strict=True)))
    np.testing.assert_allclose(dataset.encoder.transform(table), dataset.features, rtol=1e-7)


def test_writers_own_their_digits(tiny):
    dataset = load_mnist_writers(tiny)
    assert dataset.owners.tolist() == ["12", "2154", "12"]
    assert dataset.held_out.owners is None
    assert "QMNIST" in dataset.about


def test_femnist_is_turned_from_paper_to_ink(tiny):
    dataset = load_femnist(tiny)
    assert dataset.features[0, :3].tolist() == [1.0, np.float32(0.8), 0.0]
    assert "".join(dataset.classes) == CHARACTERS
    assert [dataset.classes[k] for k in dataset.targets] == ["A", "a", "z"]
    assert (dataset.owners.tolist(), dataset.held_out.owners.tolist()) == (["a", "b", "a"], ["c", "b"])


@pytest.mark.parametrize("name", ["mnist", "femnist"])
def test_maxima_keep_single_precision_and_reach_what_is_held_out(tiny, name):
    public, dataset = load(name, directory=tiny), load(name, directory=tiny, scaling="max")
    assert dataset.features.dtype == dataset.held_out.features.dtype == np.float32
    assert dataset.features.max(axis=0).min() == 1.0
    divisors = public.features.max(axis=0)
    np.testing.assert_array_equal(dataset.held_out.features, public.held_out.features / divisors)


def _bytes(shape, kind="u1", value=0):
    return np.full(shape, value, dtype=kind)


@pytest.mark.parametrize(
    ("file", "array", "words"),
    [
        ("train-images-idx3-ubyte", _bytes((3, 28, 27)), r"train-images.* \(3, 28, 27\); .*28 x 28 pixels"),
        ("t10k-images-idx3-ubyte", _bytes((2, 28, 28), "f4"), "t10k-images.* float32"),
        ("train-images-idx3-ubyte", _bytes((4, 28, 28)), r"train-labels.* \(3,\), but .*train-images.* has 4 images"),
        ("t10k-labels-idx1-ubyte", _bytes((2, 1)), r"t10k-labels.* \(2, 1\)"),
        ("t10k-labels-idx1-ubyte", _bytes(2, value=10), "target in row 1 is 10; classes are 0 to 9"),
        ("train-labels-idx1-ubyte", np.array([7, 1, 9], "u1"), "row 2 is about a 0, but MNIST has a 1 there .1 rows"),
        ("qmnist-train-labels-idx2-int", _bytes((4, 8), "i4"), "each of 3 digits"),
        ("qmnist-train-labels-idx2-int", _bytes((3, 2), "i4"), "a row of integers"),
        ("qmnist-train-labels-idx2-int", _bytes((3, 8), "f8"), "a row of integers"),
        ("qmnist-train-labels-idx2-int", _bytes(3, "i4"), "a row of integers"),
    ],
)
def test_mnist_files_that_do_not_fit_together(tiny, idx, file, array, words):
    (tiny / "mnist" / file).write_bytes(idx(array))  # goes before the one with .gz
    with pytest.raises(InputError, match=words):
        load_mnist_writers(tiny)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": _bytes((2, 783))}, r"test195\.npz: X is uint8 of shape \(2, 783\)"),
        ({"X": _bytes((2, 784), "f4")}, "X is float32"),
        ({"X": _bytes((0, 784)), "y": _bytes(0), "w": _bytes(0)}, r"X is uint8 of shape \(0, 784\)"),
        ({"y": _bytes(3)}, r"y is uint8 of shape \(3,\); one for each of 2"),
        ({"y": _bytes(2, "f8")}, "y is float64"),
        ({"y": _bytes(2, value=62)}, "row 1 is 62; classes are 0 to 61"),
        ({"w": _bytes((2, 2))}, r"w is uint8 of shape \(2, 2\)"),
        ({"w": _bytes(2, "f4")}, "w is float32"),
    ],
)
def test_femnist_arrays_that_do_not_fit_together(tiny, arrays, words):
    sound = {"X": _bytes((2, 784)), "y": _bytes(2), "w": _bytes(2)}
    np.savez(tiny / "femnist" / "femnist_test195.npz", **(sound | arrays))
    with pytest.raises(InputError, match=words):
        load_femnist(tiny)
