"""One door to every data set: names, paths, and the one scaling that looks at the data."""

import numpy as np
import pytest
from scipy import sparse

from dpadmm.datasets import Dataset, scaled
from dpadmm.datasets.registry import DATASETS, NamedDataset, load
from dpadmm.errors import InputError


@pytest.mark.parametrize("name", DATASETS)
def test_every_name_loads_and_says_what_it_is(name, real):
    dataset = real(name)
    assert dataset.name == name
    assert dataset.public_preprocessing
    assert DATASETS[name].about
    assert dataset.about in DATASETS[name].about


@pytest.mark.parametrize("name", [name for name, source in DATASETS.items() if name != "adult" and not source.needs])
def test_maxima_are_general_and_marked(name):
    public, scaled_by_data = load(name), load(name, scaling="max")
    assert not scaled_by_data.public_preprocessing
    largest = abs(scaled_by_data.features).max(axis=0)
    assert np.isin(largest, (0.0, 1.0)).all()
    np.testing.assert_array_equal(scaled_by_data.targets, public.targets)


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_maxima_of_dense_and_sparse(wrap):
    features = wrap(np.array([[0.0, -4.0, 1.0], [0.0, 2.0, 0.5]]))
    dataset = scaled(Dataset("small", features, np.zeros(2), None, ("a", "b", "c")), "max")
    dense = dataset.features if isinstance(dataset.features, np.ndarray) else dataset.features.toarray()
    assert dense.tolist() == [[0.0, -1.0, 1.0], [0.0, 0.5, 0.5]]
    assert isinstance(dataset.features, type(features))


def test_a_directory_reaches_what_needs_files_and_nothing_else(monkeypatch):
    asked = []

    def loader(seed=0, directory=None):
        asked.append((seed, directory))
        return load("synthetic")

    monkeypatch.setitem(DATASETS, "with", NamedDataset(loader, "for tests", needs=("file",)))
    monkeypatch.setitem(DATASETS, "without", NamedDataset(loader, "for tests"))
    load("with", seed=1, directory="there")
    load("without", seed=2, directory="there")
    assert asked == [(1, "there"), (2, None)]


def test_what_does_not_ship_says_which_files_it_needs():
    needs = {name: source.needs for name, source in DATASETS.items() if source.needs}
    counts = {"mnist": 4, "mnist-writers": 5, "femnist": 2, "tecator": 1, "canadian-weather": 3}
    assert {name: len(files) for name, files in needs.items()} == counts
    assert set(needs["mnist"]) < set(needs["mnist-writers"])


def test_seed_reaches_what_is_simulated():
    assert not np.array_equal(load("synthetic", seed=1).features, load("synthetic", seed=2).features)


def test_a_path_is_a_source(tmp_path):
    path = tmp_path / "small.csv"
    path.write_text("a,y,o\n2,0,p\n4,1,q\n")
    dataset = load(str(path), target="y", owner="o", scaling="max")
    assert dataset.features.tolist() == [[0.5], [1.0]]
    assert dataset.owners.tolist() == ["p", "q"]
    assert not dataset.public_preprocessing
    assert load(path, target="y", owner="o").features.tolist() == [[2.0], [4.0]]


@pytest.mark.parametrize(
    ("source", "asked", "words"),
    [
        ("adlut", {}, ["unknown data set 'adlut'", "did you mean 'adult'", ".csv or .parquet"]),
        ("adult", {"scaling": "mx"}, ["unknown scaling 'mx'", "did you mean 'max'"]),
        ("adult", {"task": "regression"}, ["'adult' has classes"]),
        ("digits", {"target": "y"}, ["'digits' has its own target"]),
        ("some.csv", {}, ["which column of some.csv"]),
        ("some.csv", {"target": "y"}, ["no file some.csv"]),
        ("some.tsv", {"target": "y"}, ["some.tsv", ".csv or .parquet"]),
    ],
)
def test_what_is_wrong_is_named(source, asked, words):
    with pytest.raises(InputError) as caught:
        load(source, **asked)
    for word in words:
        assert word in str(caught.value)
