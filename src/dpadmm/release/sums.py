"""Step 3 of the release path: exact sums over records of integer vectors of a bounded length.

A `Query` says which vector a record contributes and enforces its bounds; `Total` is the sum. Slopes and rows are
integers (`kernels/`), their products add up exactly in doubles over a chunk of records, and chunks in 64-bit integers.
So a sum does not depend on order, threads, chunks, batches or workers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm._kernels.class_scores import Shape
from dpadmm._kernels.compiled import compiled
from dpadmm._records import Rows
from dpadmm.release import rows
from dpadmm.release.kernels import margins, moments, slopes, softmax

CHUNK = 2048  # records: products of slopes and rows are at most 2^42, and a double counts to 2^53
CHUNK_OF_SQUARES = 512  # records: squares of rows are at most 2^44
COARSE_BITS = 30  # of the bound of a contribution, in units of the lattice that noise is added on
_WORD = 26  # bits of a low word
_DIAGONAL, _BESIDE = 12, 17  # their ratio stands for the square root of 2 by which products of two columns count
_LARGEST_FACTOR = 2**28  # of a column beside its square


@dataclass(frozen=True, eq=False)
class Total:
    """Integers, one row per agent, as high * 2^26 + low; the low words may hold more than 26 bits."""

    high: IntArray
    low: IntArray

    def plus(self, other: Total) -> Total:
        return Total(self.high + other.high, self.low + other.low)

    def times(self, factors: IntArray | int) -> Total:
        """Each number, each agent's or (given a row) each column's, times a public integer; modulo 2^64."""
        many = np.asarray(factors, dtype=np.int64)
        if many.ndim == 1:
            many = many[:, None]
        carry, low = self.low >> _WORD, self.low & (2**_WORD - 1)
        return Total((self.high + carry) * many, low * many)

    def rounded(self, shift: IntArray | int) -> IntArray:
        """The nearest multiples of 2^shift, divided by it; one shift for all, or one for each agent in a column."""
        low = self.low + (np.left_shift(1, shift) >> 1)
        high, low = self.high + (low >> _WORD), low & (2**_WORD - 1)
        left, right = np.maximum(_WORD - np.asarray(shift), 0), np.maximum(np.asarray(shift) - _WORD, 0)
        return ((high << left) >> right) + np.where(right > 0, 0, low >> np.minimum(shift, _WORD))


@compiled(fast=False)
def add_up(parts: Any, owner: Any, high: Any, low: Any) -> None:
    """Adds chunk c, integers in doubles, to row owner[c] of both words."""
    for c in range(owner.size):
        for j in range(high.shape[1]):
            number = np.int64(parts[c, j])
            high[owner[c], j] += number >> _WORD
            low[owner[c], j] += number & (2**_WORD - 1)


@dataclass(frozen=True)
class Bounds:
    """What the lemma needs of a query; all of it is public."""

    norm: int  # no record's contribution is longer, in cells, in the 2-norm,
    norm1: int  # and in the 1-norm
    apart: int  # no two records' contributions lie farther apart in the 2-norm
    worth: float  # of a cell
    dimension: int  # how many numbers a sum has

    @property
    def shift(self) -> int:
        """The sum is rounded to multiples of 2^shift cells before noise."""
        return max(0, self.norm.bit_length() - 1 - COARSE_BITS)

    @property
    def coarse(self) -> float:
        """What one unit of the rounded sum is worth."""
        return math.ldexp(self.worth, self.shift)

    def sensitivity(self, replaced: bool, norm: int, records: int = 1) -> float:
        """How far the rounded sum moves, in its units, when this many records are replaced, or their contributions
        become zero: in the 2-norm or the 1-norm. Rounding moves each number of two neighbours apart by at most one."""
        if norm == 1:
            each, rounding = (2 if replaced else 1) * self.norm1, float(self.dimension)
        else:
            each, rounding = self.apart if replaced else self.norm, math.sqrt(self.dimension)
        return (math.ldexp(records * each, -self.shift) + (rounding if self.shift else 0.0)) * (1.0 + 2.0**-40)


class Query(ABC):
    """The vector that a record contributes to a sum."""

    @abstractmethod
    def bounds(self, width: int, row_bound: float) -> Bounds:
        """Of the contributions of rows of that many columns, no longer than the bound."""

    @abstractmethod
    def total(self, table: Rows, x: FloatArray) -> Total:
        """The sums over each agent's records, at each agent's row of `x`."""

    def units(self, width: int, row_bound: float) -> FloatArray | float:
        """What one unit of the rounded sum is worth, in each number where they differ."""
        return self.bounds(width, row_bound).coarse


@dataclass(frozen=True)
class MarginGradient(Query):
    """slope(<row, x>, target) * row: the gradient of a loss of the margin."""

    tag: Any
    slope_bound: float
    unit_bound: float | None = None  # the slope that is LARGEST units, where that is not the bound
    one_sided: bool = False  # whether a record's slopes at all models are kept on the side of that at the model zero

    @property
    def scale(self) -> float:
        """Units of a slope of one."""
        return slopes.LARGEST / (self.unit_bound or self.slope_bound)

    @property
    def most(self) -> int:
        """The largest slope, in units."""
        return min(int(slopes.LARGEST), math.ceil(self.slope_bound * self.scale))

    def bounds(self, width: int, row_bound: float) -> Bounds:
        norm = self.most * rows.SIDE
        return Bounds(norm, _in_norm1(norm, width), 2 * norm, rows.cell(row_bound) / self.scale, width)

    def total(self, table: Rows, x: FloatArray) -> Total:
        return exact(
            table, margin_kernel(table), (self.tag, self.scale, float(self.most), self.one_sided), x, table.width
        )


@dataclass(frozen=True)
class SoftmaxGradient(Query):
    """row slopesᵀ, a slope for each class; scaled to a little less than LARGEST, so that rounding is seldom undone."""

    classes: int
    cap: float

    @property
    def _scale(self) -> float:
        return (slopes.LARGEST - self.classes) / (math.sqrt(2.0) * self.cap)

    def bounds(self, width: int, row_bound: float) -> Bounds:
        norm, count = int(slopes.LARGEST) * rows.SIDE, width * self.classes
        norm1 = min(_in_norm1(norm, count), _in_norm1(norm, 2 * width))
        return Bounds(norm, norm1, 2 * norm, rows.cell(row_bound) / self._scale, count)

    def total(self, table: Rows, x: FloatArray) -> Total:
        # Scores in single precision are as good: a slope is rounded to 20 bits.
        with np.errstate(over="ignore"):
            scored = (x * table.cell).astype(np.float32)
        shape = Shape(self.classes, self.cap)
        return exact(table, softmax_kernel(table), (shape, self._scale), scored, table.width * self.classes)


@dataclass(frozen=True)
class SeveralMargins(Query):
    """Gradients of several losses of the same rows, a model of width x losses, in units of the largest slope bound."""

    each: tuple[MarginGradient, ...]

    def bounds(self, width: int, row_bound: float) -> Bounds:
        own = [query.bounds(width, row_bound) for query in self._alike]
        norm = math.isqrt(sum(each.norm**2 for each in own)) + 1
        return Bounds(norm, sum(each.norm1 for each in own), 2 * norm, own[0].worth, width * len(own))

    @property
    def _alike(self) -> tuple[MarginGradient, ...]:
        largest = max(query.slope_bound for query in self.each)
        return tuple(MarginGradient(query.tag, query.slope_bound, largest) for query in self.each)

    def total(self, table: Rows, x: FloatArray) -> Total:
        found = [query.total(table, part) for query, part in zip(self._alike, self.parts(x), strict=True)]
        words = np.stack([(each.high, each.low) for each in found], axis=3)
        return Total(*words.reshape(2, *x.shape))

    def parts(self, x: FloatArray) -> list[FloatArray]:
        """The models of the single losses."""
        count = len(self.each)
        return [np.ascontiguousarray(x[:, number::count]) for number in range(count)]


@dataclass(frozen=True)
class Products(Query):
    """(12 r_i², 17 r_i r_j): products of all pairs of columns, about as long as the matrix row rowᵀ."""

    def bounds(self, width: int, row_bound: float) -> Bounds:
        squared = 145 * rows.LARGEST_SQUARE**2
        norm, count = math.isqrt(squared) + 1, width * (width + 1) // 2
        worth = rows.cell(row_bound) ** 2 / _DIAGONAL
        return Bounds(norm, _in_norm1(norm, count), math.isqrt(2 * squared) + 1, worth, count)

    def units(self, width: int, row_bound: float) -> FloatArray:
        row, column = np.triu_indices(width)
        beside = math.sqrt(2.0) * _DIAGONAL / _BESIDE
        return self.bounds(width, row_bound).coarse * np.where(row == column, 1.0, beside)

    def total(self, table: Rows, x: FloatArray) -> Total:
        count = table.width * (table.width + 1) // 2
        found = exact(table, moments.products, (), x, count, CHUNK_OF_SQUARES)
        row, column = np.triu_indices(table.width)
        weights = np.where(row == column, _DIAGONAL, _BESIDE)[None, :]
        return found.times(weights)


@dataclass(frozen=True)
class ColumnMoments(Query):
    """(factor * row, row squared), with a public integer as factor."""

    scale: float  # what a column counts beside its square

    def _factor(self, cell: float) -> int:
        return min(max(1, round(self.scale / cell)), _LARGEST_FACTOR)

    def units(self, width: int, row_bound: float) -> FloatArray:
        cell = rows.cell(row_bound)
        first = self.scale / (self._factor(cell) * cell)
        return self.bounds(width, row_bound).coarse * np.repeat([first, 1.0], width)

    def bounds(self, width: int, row_bound: float) -> Bounds:
        cell = rows.cell(row_bound)
        factor, squared = self._factor(cell), rows.LARGEST_SQUARE
        # Replacing a by b: at most 2 (f² (R² - t) + R⁴ - t²) with t = <a, b>, largest at t = -f²/2 or -R².
        inner = max(-(factor**2 // 2), -squared)
        apart = 2 * factor**2 * (squared - inner) + 2 * (squared**2 - inner**2) + factor**2
        norm = math.isqrt(factor**2 * squared + squared**2) + 1
        norm1 = _in_norm1(factor * rows.SIDE, width) + squared
        return Bounds(norm, norm1, math.isqrt(apart) + 1, cell**2, 2 * width)

    def total(self, table: Rows, x: FloatArray) -> Total:
        found = exact(table, moments.columns, (), x, 2 * table.width, CHUNK_OF_SQUARES)
        return found.times(np.repeat([self._factor(table.cell), 1], table.width)[None, :])


@dataclass(frozen=True)
class RowsAndProducts(Query):
    """(factor * row, 12 r_i², 17 r_i r_j), with a public integer as factor: a mean and the products around it."""

    scale: float  # what a column counts beside the products

    def _factor(self, cell: float) -> int:
        return min(max(1, round(_DIAGONAL * self.scale / cell)), _LARGEST_FACTOR)

    def units(self, width: int, row_bound: float) -> FloatArray:
        cell = rows.cell(row_bound)
        first = _DIAGONAL * self.scale / (self._factor(cell) * cell)
        own = Products().units(width, row_bound) / Products().bounds(width, row_bound).coarse
        return self.bounds(width, row_bound).coarse * np.concatenate([np.full(width, first), own])

    def bounds(self, width: int, row_bound: float) -> Bounds:
        cell, squared = rows.cell(row_bound), rows.LARGEST_SQUARE
        factor, products = self._factor(cell), Products().bounds(width, row_bound)
        # The weights 12 and 17 make the products of a matrix at most sqrt(145) of its Frobenius norm long. So replacing
        # a by b moves all by at most the root of 2 f² (R² - t) + 290 (R⁴ - t²), t = <a, b>: largest at t = -f²/290, or
        # -R² if that is larger. Where the former is rounded, it is off by 290 at most.
        inner = max(-(factor**2 // 290), -squared)
        apart = 2 * factor**2 * (squared - inner) + 290 * (squared**2 - inner**2) + 290
        norm = math.isqrt(factor**2 * squared + 145 * squared**2) + 1
        norm1 = _in_norm1(factor * rows.SIDE, width) + products.norm1
        return Bounds(norm, norm1, math.isqrt(apart) + 1, products.worth, width + products.dimension)

    def total(self, table: Rows, x: FloatArray) -> Total:
        row, column = np.triu_indices(table.width)
        found = exact(table, moments.rows_and_products, (), x, table.width + row.size, CHUNK_OF_SQUARES)
        own = np.where(row == column, _DIAGONAL, _BESIDE)
        return found.times(np.concatenate([np.full(table.width, self._factor(table.cell)), own])[None, :])


def exact(
    table: Rows, kernel: Callable[..., None], given: tuple[Any, ...], x: Any, count: int, chunk: int = CHUNK
) -> Total:
    """The sums of a kernel whose numbers are integers, over each agent's records."""
    check_shape(table, x, count)
    scored = x if x.dtype == np.float32 else x * table.cell
    high, low = np.zeros((table.agents, count), dtype=np.int64), np.zeros((table.agents, count), dtype=np.int64)
    table.walk(kernel, given, scored, (count,), lambda parts, owner: add_up(parts, owner, high, low), chunk)
    return Total(high, low)


def check_shape(table: Rows, x: Any, count: int) -> None:
    """Compiled loops do not look where they read: beyond a model may lie what depends on other records."""
    if x.shape != (table.agents, count):
        raise ValueError(f"models of shape {x.shape} for {table.agents} agents and {count} coefficients.")


def margin_kernel(table: Rows) -> Callable[..., None]:
    if table.sparse:
        return margins.sparse_gradient
    return margins.short_gradient if table.width <= margins.WIDEST else margins.gradient


def softmax_kernel(table: Rows) -> Callable[..., None]:
    return softmax.sparse_gradient if table.sparse else softmax.gradient


def _in_norm1(norm: int, count: int) -> int:
    """The 1-norm of so many numbers whose 2-norm is at most this."""
    return math.isqrt(norm**2 * count) + 1
