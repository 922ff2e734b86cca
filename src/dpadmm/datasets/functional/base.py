"""What a basis is: functions on [0, 1] that are orthonormal, and the quadrature that says whether they are.

The integral of a product of two of them is 1 for equal ones, else 0. So the length of a vector of coefficients is
that of the function, and a bound on one is a bound on both.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import legendre

from dpadmm.errors import InputError

LARGEST = 200


@dataclass(frozen=True)
class Basis(ABC):
    """`size` functions orthonormal in L2[0, 1]."""

    name: ClassVar[str]
    about: ClassVar[str]
    smallest: ClassVar[int] = 1

    size: int

    def __post_init__(self) -> None:
        if not isinstance(self.size, Integral) or not self.smallest <= self.size <= LARGEST:
            raise InputError(
                f"a {self.name} basis of {self.size!r} functions; a whole number from {self.smallest} to {LARGEST} "
                f"is needed, as in '{self.name}:10'."
            )
        object.__setattr__(self, "size", int(self.size))

    @property
    def text(self) -> str:
        """How `parse` reads it."""
        return f"{self.name}:{self.size}"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """A name for the coefficient of each function."""
        return tuple(f"{self.name} {number}" for number in range(1, self.size + 1))

    def values(self, t: Any) -> np.ndarray:
        """(len(t), size): every function at every t of a list of numbers in [0, 1]."""
        t = np.asarray(t, dtype=np.float64)
        if t.ndim != 1 or not ((t >= 0) & (t <= 1)).all():
            raise InputError("t must be a list of numbers in [0, 1]; rescale time by the interval of the curves first.")
        return self._values(t)

    @abstractmethod
    def _values(self, t: np.ndarray) -> np.ndarray: ...

    @abstractmethod
    def roughness(self) -> np.ndarray:
        """(size, size): the integrals of products of two second derivatives."""

    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights that integrate products of two of the functions to rounding."""
        return gauss_legendre(2 * self.size + 20)

    def gram(self) -> np.ndarray:
        """(size, size): the integrals of products, by quadrature; the identity, if all is well."""
        nodes, weights = self.quadrature()
        at_nodes = self.values(nodes)
        return (at_nodes * weights[:, None]).T @ at_nodes


@functools.lru_cache(maxsize=64)
def gauss_legendre(nodes: int, pieces: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on [0, 1], cut into equal pieces with so many nodes each."""
    places, weights = legendre.leggauss(nodes)
    within = (places + 1) / 2
    everywhere = ((np.arange(pieces)[:, None] + within) / pieces).ravel()
    heights = np.tile(weights / (2 * pieces), pieces)
    everywhere.setflags(write=False)  # they are cached, hence shared
    heights.setflags(write=False)
    return everywhere, heights
