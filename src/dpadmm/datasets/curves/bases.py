"""Orthonormal bases by name: "cosine:10" is ten functions of the cosine basis.

They are chosen before anything is seen of the curves, so coefficients in them cost no privacy.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.polynomial import legendre
from scipy import interpolate

from dpadmm.errors import InputError, unknown

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


__all__ = ["BASES", "BSpline", "Basis", "Cosine", "Fourier", "Legendre", "parse"]


@dataclass(frozen=True)
class Cosine(Basis):
    """1, then sqrt(2) cos(k pi t) for k = 1, 2, ..."""

    name: ClassVar[str] = "cosine"
    about: ClassVar[str] = "1 and cosines of 1, 2, 3, ... half waves; for curves with free ends"

    def _values(self, t: np.ndarray) -> np.ndarray:
        values = np.sqrt(2.0) * np.cos(np.pi * np.outer(t, np.arange(self.size)))
        values[:, 0] = 1.0
        return values

    def roughness(self) -> np.ndarray:
        return np.diag((np.pi * np.arange(self.size)) ** 4)


@dataclass(frozen=True)
class Fourier(Basis):
    """1, then sqrt(2) sin(2 pi k t) and sqrt(2) cos(2 pi k t) for k = 1, 2, ...; an even size ends with a sine."""

    name: ClassVar[str] = "fourier"
    about: ClassVar[str] = "1, sines and cosines of 1, 2, 3, ... whole waves; for curves that come round"

    @property
    def _waves(self) -> np.ndarray:
        return (np.arange(self.size) + 1) // 2

    def _values(self, t: np.ndarray) -> np.ndarray:
        angles = 2 * np.pi * np.outer(t, self._waves)
        sine = np.arange(self.size) % 2 == 1
        values = np.sqrt(2.0) * np.where(sine, np.sin(angles), np.cos(angles))
        values[:, 0] = 1.0
        return values

    def roughness(self) -> np.ndarray:
        return np.diag((2 * np.pi * self._waves) ** 4)


@dataclass(frozen=True)
class Legendre(Basis):
    """sqrt(2 k + 1) P_k(2 t - 1) for k = 0, 1, ...: polynomials of degree k."""

    name: ClassVar[str] = "legendre"
    about: ClassVar[str] = "polynomials of degree 0, 1, 2, ...; for few components of smooth curves"

    @property
    def _lengths(self) -> np.ndarray:
        return np.sqrt(2 * np.arange(self.size) + 1.0)

    def _values(self, t: np.ndarray) -> np.ndarray:
        return legendre.legvander(2 * t - 1, self.size - 1) * self._lengths

    def roughness(self) -> np.ndarray:
        nodes, weights = gauss_legendre(self.size)  # exact: the products are polynomials of degree 2 size - 6
        bends = 4 * legendre.legval(2 * nodes - 1, legendre.legder(np.diag(self._lengths), 2))
        return (bends * weights) @ bends.T


@dataclass(frozen=True)
class BSpline(Basis):
    """Cubic B-splines on equal steps, made orthonormal by the inverse root of their Gram matrix.

    Of all orthonormal functions that span the same splines these are nearest to the B-splines themselves, so each is
    still large only around a place of its own.
    """

    name: ClassVar[str] = "bspline"
    about: ClassVar[str] = "cubic splines on equal steps; for curves with detail anywhere"
    smallest: ClassVar[int] = 4

    def _values(self, t: np.ndarray) -> np.ndarray:
        return np.asarray(_orthonormal_spline(self.size)(t))

    def roughness(self) -> np.ndarray:
        nodes, weights = self.quadrature()
        bends = _orthonormal_spline(self.size).derivative(2)(nodes)
        return (bends * weights[:, None]).T @ bends

    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        # Between two knots a product is a polynomial of degree 6: four nodes are exact.
        return gauss_legendre(4, pieces=self.size - 3)


@functools.lru_cache(maxsize=16)
def _orthonormal_spline(size: int) -> interpolate.BSpline:
    knots = np.concatenate([np.zeros(3), np.linspace(0.0, 1.0, size - 2), np.ones(3)])
    nodes, weights = gauss_legendre(4, pieces=size - 3)
    plain = interpolate.BSpline(knots, np.eye(size), 3)(nodes)
    lengths, directions = np.linalg.eigh((plain * weights[:, None]).T @ plain)
    return interpolate.BSpline(knots, (directions / np.sqrt(lengths)) @ directions.T, 3)


BASES: dict[str, type[Basis]] = {kind.name: kind for kind in (Cosine, Fourier, BSpline, Legendre)}
"""The bases by name."""


def parse(text: str | Basis) -> Basis:
    """The basis that "cosine:10" names; one that is a basis already stays as it is."""
    if isinstance(text, Basis):
        return text
    name, _, number = text.partition(":")
    if name not in BASES:
        raise unknown("basis", name, BASES)
    try:
        size = int(number)
    except ValueError:
        raise InputError(
            f"basis {text!r}: after the name comes how many functions, a whole number, as in '{name}:10'."
        ) from None
    return BASES[name](size)
