"""scikit-learn's data sets under the bounds that their descriptions publish."""

import re

import numpy as np
import pytest
from sklearn import datasets

from dpadmm.datasets import Numeric, load_breast_cancer, load_digits


@pytest.mark.parametrize(
    ("load", "shape", "classes"), [(load_breast_cancer, (569, 30), 2), (load_digits, (1797, 64), 10)]
)
def test_shapes_and_range(load, shape, classes):
    dataset = load()
    assert dataset.features.shape == shape
    assert len(dataset.classes) == classes
    assert dataset.public_preprocessing
    assert dataset.features.min() >= 0.0
    assert dataset.features.max() <= 1.0


def test_features_are_the_published_ones_divided_by_the_bounds():
    cancer, digits = load_breast_cancer(), load_digits()
    highs = [column.high for column in cancer.encoder.columns if isinstance(column, Numeric)]
    np.testing.assert_array_equal(cancer.features, datasets.load_breast_cancer().data / highs)
    np.testing.assert_array_equal(digits.features, datasets.load_digits().data / 16.0)


def test_breast_cancer_bounds_cover_the_published_table():
    bunch = datasets.load_breast_cancer()
    published = re.findall(r"^(?:.*\((?:mean|standard error|worst)\)): +([\d.]+) +([\d.]+)$", bunch.DESCR, re.M)
    columns = load_breast_cancer().encoder.columns
    assert len(published) == len(columns) == 30
    for column, (_, high) in zip(columns, published, strict=True):
        assert isinstance(column, Numeric)
        assert column.low == 0.0
        assert float(high) <= column.high <= 2.5 * float(high)


def test_class_names_are_those_of_the_toolkit():
    assert load_breast_cancer().classes == ("malignant", "benign")
    assert load_digits().classes == tuple("0123456789")
