"""Simulated problems whose truth is known: records in the unit ball, targets drawn from a given model."""

from __future__ import annotations

import numpy as np

from dpadmm.datasets.dataset import Dataset
from dpadmm.errors import InputError, unknown
from dpadmm.privacy.randomness import generator

KINDS = ("classification", "multiclass", "regression")
ABOUT = "simulated; no data of anyone"

_MARGIN = 4.0  # the spread of a class score: most labels are clear, some are not
_NOISE = 0.1  # of a regression target, whose signal has spread 1


def simulate(
    kind: str = "classification", records: int = 1000, features: int = 10, seed: int = 0, classes: int = 3
) -> Dataset:
    """Records uniform in the unit ball, targets by `ground_truth`; `classes` matters to "multiclass" only.

    A label is drawn with the logistic (softmax) probabilities of the scores; a regression target is the score
    and a little noise.
    """
    truth = ground_truth(kind, features, seed, classes)
    if records < 1:
        raise InputError(f"records={records}; at least one is needed.")
    draw = generator(seed, "records")
    X = draw.standard_normal((records, features))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X *= draw.random((records, 1)) ** (1.0 / features)
    scores = X @ truth
    if kind == "regression":
        labels, targets = None, scores + _NOISE * draw.standard_normal(records)
    elif kind == "classification":
        labels, targets = 2, scores + draw.logistic(size=records) > 0
    else:  # the largest of scores with Gumbel noise is a softmax draw
        labels, targets = classes, np.argmax(scores + draw.gumbel(size=scores.shape), axis=1)
    return Dataset(
        name="synthetic" if kind == "classification" else f"synthetic-{kind}",
        features=X,
        targets=targets,
        classes=None if labels is None else tuple(str(label) for label in range(labels)),
        feature_names=tuple(f"x{column}" for column in range(features)),
        about=ABOUT,
    )


def ground_truth(kind: str, features: int, seed: int, classes: int = 3) -> np.ndarray:
    """The weights behind the targets: (features,), or (features, classes) for "multiclass"."""
    if kind not in KINDS:
        raise unknown("kind of problem", kind, KINDS)
    if features < 1:
        raise InputError(f"features={features}; at least one is needed.")
    if kind == "multiclass" and classes < 2:
        raise InputError(f"classes={classes}; at least two are needed.")
    shape = (features, classes) if kind == "multiclass" else (features,)
    weights = generator(seed, "truth").standard_normal(shape)
    weights /= np.linalg.norm(weights, axis=0)
    # A coordinate of a record is about 1 / sqrt(features), so a score spreads by the last factor.
    spread = 1.0 if kind == "regression" else _MARGIN
    return np.asarray(weights * np.sqrt(features) * spread)
