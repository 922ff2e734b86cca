"""Records for a dry run, made of nothing but the description of the columns, a seed and the owner's name.

A dry run's noise can be computed by whoever knows the seed, so no record of the owner's may be near it: none is opened.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from dpadmm.datasets.encoding import Encoder, Numeric
from dpadmm.spec.columns import Schema

if TYPE_CHECKING:
    import pyarrow


def made_up(schema: Schema, count: int, seed: int, owner: str, person: str | None = None) -> pyarrow.Table:
    """Records that fit the columns; the target depends on the features, so that something can be learned.

    Args:
        schema: The columns.
        count: How many records.
        seed: Of the dry run; the dependence of the target is the same for all owners with this seed.
        owner: Whose they would be; other owners get others.
        person: A column that says whose record it is, two of each person; None for no such column.
    """
    import pyarrow as pa

    own = int.from_bytes(hashlib.sha256(owner.encode()).digest()[:8])
    draw = np.random.default_rng([seed, own])
    encoder = schema.encoder
    cells: dict[str, Any] = {}
    if isinstance(encoder, Encoder):
        for column in encoder.columns:
            if not isinstance(column, Numeric):
                cells[column.name] = draw.choice(np.array(column.values), count)
            elif column.low is None or column.high is None:
                cells[column.name] = draw.normal(size=count)
            else:
                cells[column.name] = draw.uniform(column.low, column.high, count)
    else:
        names = [str(name) for name in encoder.columns]
        steps = draw.normal(size=(count, len(names))) / np.sqrt(len(names))
        cells.update(zip(names, np.cumsum(steps, axis=1).T, strict=True))
    features, _ = encoder.rows(pa.table(cells))
    weights = np.random.default_rng(seed).normal(size=features.shape[1])
    score = (features - features.mean(axis=0)) @ weights + 0.1 * draw.normal(size=count)
    if schema.classes:
        place = np.argsort(np.argsort(score)) * len(schema.classes) // count
        cells[schema.target] = np.array(schema.classes)[place]
    else:
        cells[schema.target] = score
    if person is not None and person not in cells:
        cells[person] = np.array([f"person {number // 2}" for number in range(count)])
    return pa.table(cells)
