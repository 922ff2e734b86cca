"""The published files, where DPADMM_DATA has them: what the documentation says of them is counted here."""

import numpy as np
import pytest

from dpadmm.datasets import directory, read_idx, read_npz
from dpadmm.errors import InputError


def sizes(owners):
    names, counts = np.unique(owners, return_counts=True)
    return len(names), int(counts.min()), int(counts.max())


@pytest.mark.parametrize(
    ("name", "train", "test"), [("mnist", 60_000, 10_000), ("mnist-writers", 60_000, 10_000), ("femnist", 15_440, 4167)]
)
def test_shapes_and_range(real, name, train, test):
    dataset = real(name)
    for part, records in ((dataset, train), (dataset.held_out, test)):
        assert part.features.shape == (records, 784)
        assert part.features.dtype == np.float32
        assert (part.features.min(), part.features.max()) == (0.0, 1.0)
        # Paper is 0: a page is mostly blank, and corners nearly always are.
        assert np.median(part.features) == 0.0
        assert part.features[:, [0, 27, 756, 783]].mean() < 0.01
        assert set(part.targets) == set(range(len(dataset.classes)))


def test_digits_of_mnist(real):
    dataset = real("mnist")
    assert dataset.targets[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert np.bincount(dataset.targets).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(dataset.held_out.targets).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert dataset.features.mean() == pytest.approx(0.1307, abs=5e-5)  # the mean that everyone subtracts


def test_writers_of_mnist(real):
    dataset, plain = real("mnist-writers"), real("mnist")
    assert sizes(dataset.owners) == (539, 19, 131)
    np.testing.assert_array_equal(dataset.features[::997], plain.features[::997])


def test_labels_of_qmnist_are_those_of_mnist_and_no_writer_is_on_both_sides(real_files):
    files = real_files("mnist-writers")
    train = read_idx(files["qmnist-train-labels-idx2-int"])
    np.testing.assert_array_equal(train[:, 0], read_idx(files["train-labels-idx1-ubyte"]))
    name = "qmnist-test-labels-idx2-int"
    try:
        test = read_idx(directory.find("QMNIST", "mnist", {name: "QMNIST's labels of the test digits"})[name])[:10_000]
    except InputError as error:
        pytest.skip(str(error))
    np.testing.assert_array_equal(test[:, 0], read_idx(files["t10k-labels-idx1-ubyte"]))
    assert not set(train[:, 2]) & set(test[:, 2])


def test_writers_of_femnist(real, real_files):
    dataset = real("femnist")
    assert sizes(dataset.owners) == (114, 3, 164)
    assert sizes(dataset.held_out.owners) == (195, 1, 43)
    # Held out are later records of the same writers, and records of 81 who are not in training.
    assert set(dataset.owners) < set(dataset.held_out.owners)
    own = np.isin(dataset.held_out.owners, dataset.owners)
    arrays = read_npz(real_files("femnist")["femnist_114.npz"], ["X_test", "y_test", "w_test"])
    assert own.sum() == len(arrays["y_test"]) == 1765
    np.testing.assert_array_equal(np.sort(dataset.held_out.owners[own]), np.sort(arrays["w_test"]))


def test_letters_of_femnist_are_in_the_order_of_leaf(real):
    """Capitals whose shape stays in lower case are most like their own; O and S, near c and g, would not tell."""
    dataset = real("femnist")
    means = {name: dataset.features[dataset.targets == k].mean(axis=0) for k, name in enumerate(dataset.classes)}
    unit = {name: mean / np.linalg.norm(mean) for name, mean in means.items()}
    for capital in "CKPUVWXYZ":
        assert max("abcdefghijklmnopqrstuvwxyz", key=lambda name: unit[name] @ unit[capital]) == capital.lower()
    faintest = sorted(means, key=lambda name: means[name].sum())[:3]
    assert set(faintest) == {"1", "i", "l"}  # single strokes
