"""What sums over records need of them: types only, so that the release path knows no table (`problems/shards.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dpadmm._arrays import FloatArray, IntArray


class Rows(Protocol):
    """Records as the queries need them."""

    @property
    def agents(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def sparse(self) -> bool: ...

    @property
    def cell(self) -> float: ...

    @property
    def row_bound(self) -> float: ...

    def reduce(self, kernel: Callable[..., None], given: tuple[Any, ...], x: Any, shape: tuple[int, ...]) -> FloatArray:
        """The sums of a kernel over each agent's records, in doubles."""

    def walk(
        self, kernel: Callable[..., None], given: tuple[Any, ...], x: Any, shape: tuple[int, ...], add: Any, chunk: int
    ) -> None:
        """Runs a kernel over chunks of records and hands its sums on: add(sums of chunks, whose each chunk is)."""


class Table(Rows, Protocol):
    """Records, each of which can be summed over by itself."""

    @property
    def counts(self) -> IntArray: ...

    def each(self, first: int, last: int) -> Rows:
        """Records first, ..., last - 1, counted over all agents in their order, as agents with one record each."""
