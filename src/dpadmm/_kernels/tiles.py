"""A matrix product that keeps its sums in registers, for a few columns: no loop that Numba compiles does."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

SUMS_AT_ONCE, COLUMNS_AT_ONCE = 10, 8  # of a tile: ten vectors of doubles
_FEATURES, _SLOPES, _TOTAL = _ARRAYS = 0, 4, 6  # places of the arguments of `add_tile`

_BUILD: Any = cgutils  # which has no types


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


add_tile: Any = intrinsic(_tile)
