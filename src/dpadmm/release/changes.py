"""Step 3 of the release path for corrected steps: how far records' contributions have moved between two points.

Near the point where a round began a smooth loss changes little. That bound is enforced here, whatever the loss does.
"""

from __future__ import annotations

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._records import Table
from dpadmm.release.sums import Query, Total, add_up

_NUMBERS_AT_ONCE = 2**22  # of contributions that lie in memory together
_MARGIN = 2.0**-30  # more than rounding can do to the length of fewer than 2^20 numbers


def change(query: Query, table: Table, point: FloatArray, anchor: FloatArray, longest: int | None) -> Total:
    """How far the sum over each agent's records has moved between two points.

    Args:
        query: Says what a record contributes.
        table: The records of each agent.
        point: (n, D) where each agent is.
        anchor: (n, D) where it was.
        longest: No record's contribution counts as having moved farther, in cells and in the 2-norm; None for no bound
            but that of the query, twice its norm.

    Guarantee:
        The sum of integer vectors, each a function of one record and the two points and no longer than `longest`.
    """
    if longest is None:
        return query.total(table, point).plus(query.total(table, anchor).times(-1))
    owner = np.repeat(np.arange(table.agents), table.counts)
    high, low = (np.zeros(point.shape, dtype=np.int64) for _ in range(2))
    block = max(1, _NUMBERS_AT_ONCE // point.shape[1])
    for first in range(0, owner.size, block):
        of = owner[first : first + block]
        records = table.each(first, first + of.size)
        moved = query.total(records, point[of]).plus(query.total(records, anchor[of]).times(-1))
        add_up(cut(moved, longest), of, high, low)
    return Total(high, low)


def cut(total: Total, longest: int) -> FloatArray:
    """Each row as whole numbers in doubles, shrunk and truncated where its 2-norm may exceed `longest`.

    A row's numbers are below 2^52. Lengths are computed within one part in 2^32, and `_MARGIN` is more than that: so a
    row that is kept is not too long, and one that is shrunk is not either.
    """
    numbers = total.high * 2.0**26 + total.low
    lengths = np.sqrt(np.square(numbers).sum(axis=1, keepdims=True))
    allowed = longest * (1.0 - _MARGIN)
    factors = np.where(lengths > allowed, allowed / np.maximum(lengths, 1.0), 1.0)
    return np.asarray(np.trunc(numbers * factors))
