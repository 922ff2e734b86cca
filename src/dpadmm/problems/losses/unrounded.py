"""The sums of queries as the records have them, in doubles: for metrics and minimisers, and never released."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._kernels.class_scores import Shape
from dpadmm._records import Rows
from dpadmm.release.sums import (
    MarginGradient,
    Query,
    SeveralMargins,
    SoftmaxGradient,
    check_shape,
    margin_kernel,
    softmax_kernel,
)


def lattice_sum(query: Query, table: Rows, x: FloatArray) -> FloatArray:
    """The sum on the lattice on which it is released, without noise.

    Args:
        query: What a record contributes.
        table: The records of each agent.
        x: (n, D) the models of the agents.

    Returns:
        (n, D) in the units of the records.
    """
    bounds = query.bounds(table.width, table.row_bound)
    units: FloatArray = np.asarray(query.units(table.width, table.row_bound))
    return query.total(table, x).rounded(bounds.shift) * units


def unrounded_sum(query: Query, table: Rows, x: FloatArray) -> FloatArray:
    """The same sum with slopes that are not rounded, and not on the lattice.

    Args:
        query: What a record contributes.
        table: The records of each agent.
        x: (n, D) the models of the agents.

    Returns:
        (n, D) in the units of the records.
    """
    if isinstance(query, MarginGradient):
        return _sum(table, margin_kernel(table), (query.tag, 0.0, 0.0, False), x, table.width)
    if isinstance(query, SoftmaxGradient):
        shape = Shape(query.classes, query.cap)
        return _sum(table, softmax_kernel(table), (shape, 0.0), x, table.width * query.classes)
    if isinstance(query, SeveralMargins):
        found = [unrounded_sum(each, table, part) for each, part in zip(query.each, query.parts(x), strict=True)]
        return np.stack(found, axis=2).reshape(x.shape)
    units: FloatArray = np.asarray(query.units(table.width, table.row_bound))
    total, shift = query.total(table, x), query.bounds(table.width, table.row_bound).shift
    return (np.ldexp(total.high, 26 - shift) + np.ldexp(total.low, -shift)) * units


def _sum(table: Rows, kernel: Callable[..., None], given: tuple[Any, ...], x: FloatArray, count: int) -> FloatArray:
    check_shape(table, x, count)
    return table.cell * table.reduce(kernel, given, x * table.cell, (count,))
