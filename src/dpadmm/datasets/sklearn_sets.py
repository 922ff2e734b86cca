"""The small data sets that come with scikit-learn, encoded by what their descriptions publish."""

from __future__ import annotations

from typing import Any

from dpadmm.datasets.dataset import Dataset
from dpadmm.datasets.encoding import Encoder, Numeric

BREAST_CANCER_ABOUT = "Wisconsin diagnostic breast cancer (Wolberg et al. 1993, doi:10.24432/C5DW2B, CC BY 4.0)"
DIGITS_ABOUT = "8x8 handwritten digits (Alpaydin & Kaynak 1998, doi:10.24432/C50P49, CC BY 4.0)"

# The maxima that the description of the data set prints, rounded up: (mean, standard error, worst). That table is
# long published, so using it reveals nothing new; of a private data set it would be a statistic, and not free.
_BREAST_CANCER_BOUNDS = {
    "radius": (30.0, 3.0, 40.0),
    "texture": (40.0, 5.0, 50.0),
    "perimeter": (200.0, 25.0, 300.0),
    "area": (3000.0, 600.0, 5000.0),
    "smoothness": (0.2, 0.05, 0.25),
    "compactness": (0.4, 0.2, 1.5),
    "concavity": (0.5, 0.5, 1.5),
    "concave points": (0.25, 0.1, 0.3),
    "symmetry": (0.4, 0.1, 0.7),
    "fractal dimension": (0.1, 0.03, 0.25),
}


def load_breast_cancer() -> Dataset:
    """569 tumours by 30 measures: the mean, the standard error and the worst of ten."""
    from sklearn import datasets

    names = ("mean {}", "{} error", "worst {}")
    columns = tuple(
        Numeric(name.format(measure), 0.0, bounds[which])
        for which, name in enumerate(names)
        for measure, bounds in _BREAST_CANCER_BOUNDS.items()
    )
    return _encoded("breast-cancer", datasets.load_breast_cancer(), Encoder(columns), BREAST_CANCER_ABOUT)


def load_digits() -> Dataset:
    """1,797 digits by 64 pixels; a pixel counts the ink of a 4x4 block, so it is 0 to 16."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    columns = tuple(Numeric(name, 0.0, 16.0) for name in bunch.feature_names)
    return _encoded("digits", bunch, Encoder(columns), DIGITS_ABOUT)


def _encoded(name: str, bunch: Any, encoder: Encoder, about: str) -> Dataset:
    import pyarrow as pa

    table = pa.table(dict(zip(bunch.feature_names, bunch.data.T, strict=True)))
    return Dataset(
        name=name,
        features=encoder.transform(table),
        targets=bunch.target,
        classes=tuple(str(label) for label in bunch.target_names),
        feature_names=encoder.feature_names,
        encoder=encoder,
        about=about,
    )
