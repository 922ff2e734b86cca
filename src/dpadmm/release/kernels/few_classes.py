"""Dense rows times a few columns, and back.

A matrix product of so few columns spends its time on bringing rows into the order it wants. These loops take a number
of a row from memory once for as many classes as registers hold. One row's scores are computed by the same code wherever
the row lies.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from dpadmm._kernels.compiled import compiled

CLASSES_AT_ONCE = 5
SUMS_AT_ONCE, COLUMNS_AT_ONCE = 10, 8  # of a tile: ten vectors of doubles
_FEATURES, _SLOPES, _TOTAL = _ARRAYS = 0, 4, 6  # places of the arguments of `_add_tile`

_BUILD: Any = cgutils  # which has no types


@compiled()
def scores_of(features: Any, start: int, stop: int, model: Any, scores: Any) -> None:
    """scores[r, k] = <row start + r, class k of the model>, in the precision of the model."""
    classes, width = model.shape
    zero = model.dtype.type(0.0)
    for row in range(start, stop):
        k = 0
        while k + CLASSES_AT_ONCE <= classes:
            a, b, c, d, e = zero, zero, zero, zero, zero
            for j in range(width):
                number = features[row, j]
                a += number * model[k, j]
                b += number * model[k + 1, j]
                c += number * model[k + 2, j]
                d += number * model[k + 3, j]
                e += number * model[k + 4, j]
            for place, score in enumerate((a, b, c, d, e)):
                scores[row - start, k + place] = score
            k += CLASSES_AT_ONCE
        for last in range(k, classes):
            a = zero
            for j in range(width):
                a += features[row, j] * model[last, j]
            scores[row - start, last] = a


@compiled()
def add_rows(features: Any, start: int, stop: int, slopes: Any, rest: Any, total: Any) -> None:
    """total[k] += sum over the rows of slopes[r, k] * row start + r.

    Slopes and total are filled up to whole tiles; `rest` (rows, COLUMNS_AT_ONCE) takes the columns that fill no tile.
    """
    width = features.shape[1]
    whole = width - width % COLUMNS_AT_ONCE
    if whole < width:
        rest[:] = 0.0
        for r in range(stop - start):
            rest[r, : width - whole] = features[start + r, whole:]
    for k in range(0, total.shape[0], SUMS_AT_ONCE):
        for column in range(0, whole, COLUMNS_AT_ONCE):
            _add_tile(features, start, stop - start, column, slopes, k, total, column)
        if whole < width:
            _add_tile(rest, 0, stop - start, 0, slopes, k, total, whole)


def _tile(_: Any, features: Any, row: Any, count: Any, at: Any, slopes: Any, k: Any, total: Any, to: Any) -> Any:
    """total[k + i, to + j] += sum over r < count of slopes[r, k + i] * features[row + r, at + j], for all of a tile.

    Its sums are vectors that stay in registers. Written as loops, they would be read and written at each row.
    """
    if any(array.layout != "C" for array in (features, slopes, total)):
        raise TypingError("vectors are read from rows whose numbers lie together")

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        arrays = {place: context.make_array(signature.args[place])(context, builder, given[place]) for place in _ARRAYS}

        def pointer(place: int, *index: Any, several: bool = True) -> Any:
            found = _BUILD.get_item_pointer(context, builder, signature.args[place], arrays[place], index)
            vector = ir.VectorType(context.get_data_type(signature.args[place].dtype), COLUMNS_AT_ONCE)
            return builder.bitcast(found, vector.as_pointer()) if several else found

        _, row, count, at, _, k, _, to = given
        doubles = ir.VectorType(ir.DoubleType(), COLUMNS_AT_ONCE)
        first, blank = ir.IntType(32)(0), doubles(ir.Undefined)
        everywhere = ir.VectorType(ir.IntType(32), COLUMNS_AT_ONCE)([0] * COLUMNS_AT_ONCE)
        classes = [builder.add(k, k.type(i)) for i in range(SUMS_AT_ONCE)]
        sums = [_BUILD.alloca_once(builder, doubles) for _ in classes]
        for own, each in zip(sums, classes, strict=True):
            builder.store(builder.load(pointer(_TOTAL, each, to), align=8), own)
        with _BUILD.for_range(builder, count) as loop:
            numbers = builder.load(pointer(_FEATURES, builder.add(row, loop.index), at), align=4)
            if numbers.type != doubles:
                numbers = builder.fpext(numbers, doubles)
            for own, each in zip(sums, classes, strict=True):
                slope = builder.load(pointer(_SLOPES, loop.index, each, several=False))
                slope = builder.shuffle_vector(builder.insert_element(blank, slope, first), blank, everywhere)
                product = builder.fmul(slope, numbers, flags=("contract",))
                builder.store(builder.fadd(builder.load(own), product, flags=("contract",)), own)
        for own, each in zip(sums, classes, strict=True):
            builder.store(builder.load(own), pointer(_TOTAL, each, to), align=8)
        return context.get_dummy_value()

    return types.void(features, row, count, at, slopes, k, total, to), generate


_add_tile: Any = intrinsic(_tile)
