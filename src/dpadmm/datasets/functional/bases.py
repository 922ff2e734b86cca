"""Orthonormal bases by name: "cosine:10" is ten functions of the cosine basis.

They are chosen before anything is seen of the curves, so coefficients in them cost no privacy.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.polynomial import legendre
from scipy import interpolate

from dpadmm.datasets.functional.base import Basis, gauss_legendre
from dpadmm.errors import InputError, unknown

__all__ = ["BASES", "BSpline", "Basis", "Cosine", "Fourier", "Legendre", "Rotated", "parse"]


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


@dataclass(frozen=True, eq=False)
class Rotated(Basis):
    """Functions that are columns of `rotation` (p, K) in another basis of p: principal components, for example."""

    name: ClassVar[str] = "rotated"
    about: ClassVar[str] = "combinations of the functions of another basis"

    size: int = field(init=False)
    basis: Basis
    rotation: np.ndarray

    def __post_init__(self) -> None:
        rotation = np.array(self.rotation, dtype=np.float64)
        if rotation.ndim != 2 or rotation.shape[0] != self.basis.size or rotation.shape[1] < 1:
            raise InputError(
                f"a rotation of shape {rotation.shape}; a row for each of the {self.basis.size} functions of "
                f"{self.basis.text} and a column for each new one are needed."
            )
        if not np.allclose(rotation.T @ rotation, np.eye(rotation.shape[1]), rtol=0.0, atol=1e-8):
            raise InputError("the columns of the rotation are not orthonormal; take those of a QR decomposition.")
        rotation.setflags(write=False)
        object.__setattr__(self, "rotation", rotation)
        object.__setattr__(self, "size", rotation.shape[1])

    @property
    def text(self) -> str:
        """For people: the numbers of a rotation are not in it, so `parse` does not read it."""
        return f"{self.size} of {self.basis.text}"

    def _values(self, t: np.ndarray) -> np.ndarray:
        return self.basis.values(t) @ self.rotation

    def roughness(self) -> np.ndarray:
        return self.rotation.T @ self.basis.roughness() @ self.rotation

    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        return self.basis.quadrature()


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
