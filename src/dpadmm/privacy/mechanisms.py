"""A noise and its event, in one object.

A mechanism holds one noise multiplier per agent of the batch: the scale of the noise in units of the sensitivity. The
same number scales the noise and goes into the event, so the two cannot drift apart. Which norm the sensitivity must be
measured in is part of the mechanism, not of the caller's memory.

Mechanisms draw no randomness. They are given 64-bit words (see `randomness`) and turn a fixed number of them into each
number, row by row, by inverting the distribution function. A word gives a sign and 63 bits of magnitude, so the noise
is symmetric to the bit and its tail is resolved to 2^-64.

Floating-point noise is the ideal noise only up to rounding, and the last bits of a plain sum tell neighbours apart
(claims E1). So real releases are made `on_lattice`: value and noise are rounded to multiples of one power of two, and
added exactly. The result is the ideal mechanism's output, rounded; what rounding the value first can add to the
sensitivity is paid for by a slightly larger scale. What remains is the accuracy of `ndtri` and `log` within a lattice
cell. Simulations use the plain sum.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

import numpy as np
from scipy.special import ndtri

from dpadmm._arrays import FloatArray, IntArray, WordArray
from dpadmm.errors import InputError, unknown
from dpadmm.privacy.events import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, PureDpEvent

_MAGNITUDE = np.uint64(2**63 - 1)


@dataclass(frozen=True, eq=False)
class Mechanism(ABC):
    """Additive noise for a batch of B agents.

    Args:
        noise_multiplier: (B,) scale of the noise divided by the sensitivity. Zero means no noise, and costs infinity.
        lattice: whether value and noise are put on one power-of-two lattice, as every real release must be.
        far: whether values may lie very many scales away: then the lattice is as coarse as its own cost allows.
    """

    noise_multiplier: FloatArray
    lattice: bool = False
    far: bool = False

    name: ClassVar[str]
    norm: ClassVar[Literal[1, 2]]

    def __post_init__(self) -> None:
        multiplier = np.asarray(self.noise_multiplier, dtype=np.float64)
        if multiplier.ndim != 1:
            raise InputError(f"the {self.name} mechanism needs one noise multiplier per agent, got {multiplier!r}")
        if not np.all(np.isfinite(multiplier) & (multiplier >= 0.0)):
            bad = multiplier[~(np.isfinite(multiplier) & (multiplier >= 0.0))][0]
            raise InputError(f"the {self.name} mechanism's noise multiplier must be finite and >= 0, got {bad}")
        object.__setattr__(self, "noise_multiplier", multiplier)

    @staticmethod
    @abstractmethod
    def event(noise_multiplier: float) -> DpEvent:
        """What one release at this (positive) noise multiplier costs."""

    @abstractmethod
    def words_needed(self, dimension: int) -> int:
        """How many words each row of `draw` consumes."""

    @abstractmethod
    def unit(self, dimension: int, random_bits: WordArray) -> FloatArray:
        """(B, dimension) noise of scale one; finite for every word."""

    @staticmethod
    def deviation(dimension: int) -> float:
        """Standard deviation of a coordinate of the noise, in units of its scale."""
        return 1.0

    @classmethod
    def log_density(cls, noise: FloatArray) -> FloatArray:
        """(rows,) of noise of scale one, up to a constant: what an audit knows of the noise, and no run needs."""
        raise InputError(f"mechanism {cls.name!r} has no log_density, and an audit needs it.")

    def draw(self, scale: FloatArray, dimension: int, random_bits: WordArray) -> FloatArray:
        """(B, dimension) noise; row b has scale `scale[b]`."""
        return self.unit(dimension, random_bits) * scale[:, None]

    def add(self, value: FloatArray, sensitivity: FloatArray, random_bits: WordArray) -> FloatArray:
        """`value` plus noise of scale noise_multiplier * sensitivity.

        A row whose scale is zero comes back bit for bit as it was given (even -0.0 and nan), so a private method with
        zero noise is its non-private twin exactly.
        """
        dimension = value.shape[1]
        scale = self.scale(sensitivity, dimension)
        noise = self.draw(scale, dimension, random_bits)
        noisy = _on_lattice(value, noise, scale, self._bits(dimension)) if self.lattice else value + noise
        return noisy if scale.all() else np.where(scale[:, None] == 0.0, value, noisy)

    def scale(self, sensitivity: FloatArray, dimension: int) -> FloatArray:
        """(B,) scale of the noise: noise_multiplier * sensitivity, where a lattice adds its rounding to the latter.

        Rounding moves each coordinate of two neighbours apart by at most one spacing g, so the sensitivity grows by
        g sqrt(d) (1-norm: g d). With g <= scale / 2^bits this scale is at least multiplier * (sensitivity + that).
        """
        plain = self.noise_multiplier * sensitivity
        if not self.lattice:
            return plain
        growth = np.ldexp(self._together(dimension), -self._bits(dimension))
        if growth.max(initial=0.0) > 0.5:
            raise InputError(
                f"noise multiplier {self.noise_multiplier.max():g} in {dimension} dimensions: the noise is too large "
                f"for a lattice of 2^-32 of its own scale; use fewer releases or a larger budget"
            )
        return plain / (1.0 - growth)

    def _together(self, dimension: int) -> FloatArray:
        """How much noise a step of one spacing in every coordinate asks for, in units of the spacing."""
        return self.noise_multiplier * (dimension if self.norm == 1 else np.sqrt(dimension))

    def _bits(self, dimension: int) -> IntArray:
        """(B,) -log2 of the lattice's spacing, in units of the scale.

        A value is cut at 2^(52 - bits) scales. Noise that is loud beside what it covers is far above that; a whisper
        is not, and takes as few bits as cost it a sixteenth of its scale.
        """
        if not self.far:
            return np.full(self.noise_multiplier.shape, _BITS)
        least = np.ceil(np.log2(np.maximum(self._together(dimension), 1.0))) + 4.0
        return np.clip(least, 8.0, _BITS).astype(np.int64)

    def on_lattice(self, far: bool = False) -> Self:
        """The same mechanism for real releases."""
        return replace(self, lattice=True, far=far)

    def events(self) -> tuple[DpEvent, ...]:
        """What one release costs each agent. Agents with the same noise share one event object."""
        multipliers = self.noise_multiplier.tolist()
        known = {z: self.event(z) if z > 0.0 else NonPrivateDpEvent() for z in set(multipliers)}
        return tuple(known[z] for z in multipliers)

    def take(self, rows: IntArray) -> Self:
        """The same mechanism for some rows of the batch."""
        return replace(self, noise_multiplier=self.noise_multiplier[rows])


@dataclass(frozen=True, eq=False)
class Gaussian(Mechanism):
    """Independent normal noise; scale is the standard deviation, sensitivity in the 2-norm."""

    name = "gaussian"
    norm = 2

    @staticmethod
    def event(noise_multiplier: float) -> DpEvent:
        return GaussianDpEvent(noise_multiplier)

    def words_needed(self, dimension: int) -> int:
        return dimension

    def unit(self, dimension: int, random_bits: WordArray) -> FloatArray:
        return normal(random_bits)

    @classmethod
    def log_density(cls, noise: FloatArray) -> FloatArray:
        return -0.5 * np.square(noise).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Laplace(Mechanism):
    """Independent Laplace noise; scale is b in exp(-|x|/b), sensitivity in the 1-norm."""

    name = "laplace"
    norm = 1

    @staticmethod
    def deviation(dimension: int) -> float:
        return math.sqrt(2.0)

    @staticmethod
    def event(noise_multiplier: float) -> DpEvent:
        return LaplaceDpEvent(noise_multiplier)

    def words_needed(self, dimension: int) -> int:
        return dimension

    def unit(self, dimension: int, random_bits: WordArray) -> FloatArray:
        return np.copysign(exponential(random_bits), random_bits.view(np.int64))

    @classmethod
    def log_density(cls, noise: FloatArray) -> FloatArray:
        return -np.abs(noise).sum(axis=1)


@dataclass(frozen=True, eq=False)
class GammaNorm(Mechanism):
    """Noise with density proportional to exp(-|x|_2 / scale): pure privacy for a 2-norm sensitivity.

    Its norm is Gamma(dimension, scale), a sum of `dimension` exponentials; its direction is uniform on the sphere.
    """

    name = "gamma-norm"
    norm = 2

    @staticmethod
    def deviation(dimension: int) -> float:
        return math.sqrt(dimension + 1.0)  # E|x|^2 = d (d + 1) scale^2

    @staticmethod
    def event(noise_multiplier: float) -> DpEvent:
        return PureDpEvent(1.0 / noise_multiplier)

    def words_needed(self, dimension: int) -> int:
        return 2 * dimension

    def unit(self, dimension: int, random_bits: WordArray) -> FloatArray:
        radius = exponential(random_bits[:, :dimension]).sum(axis=1)
        direction = normal(random_bits[:, dimension:])
        length = np.sqrt(np.square(direction).sum(axis=1))
        # A direction of exact zeros (probability 2^-54 in one dimension, less in more) must not become nan.
        stretch: FloatArray = np.divide(radius, length, out=np.zeros_like(length), where=length > 0.0)
        return direction * stretch[:, None]

    @classmethod
    def log_density(cls, noise: FloatArray) -> FloatArray:
        return -np.sqrt(np.square(noise).sum(axis=1))


_BITS = 32
"""-log2 of the lattice spacing in units of the noise scale, at most."""

_FARTHEST = 2.0**52
"""Lattice points on either side of zero: sums of a value and noise stay exact in a double."""


def _on_lattice(value: FloatArray, noise: FloatArray, scale: FloatArray, bits: IntArray) -> FloatArray:
    """value + noise, both first rounded to multiples of 2^(floor(log2 scale) - bits), row by row.

    A value beyond 2^(52 - bits) noise scales is cut there: a fixed map that brings no two values farther apart.
    """
    _, exponent = np.frexp(scale)  # scale = f 2^exponent with f in [1/2, 1): exact, where a logarithm would round
    spacing = np.ldexp(1.0, exponent - 1 - bits)[:, None]
    with np.errstate(over="ignore"):  # an infinite quotient is cut like any other
        points = np.clip(np.rint(value / spacing), -_FARTHEST, _FARTHEST)
    return (points + np.rint(noise / spacing)) * spacing


MECHANISMS: dict[str, type[Mechanism]] = {mechanism.name: mechanism for mechanism in (Gaussian, Laplace, GammaNorm)}
"""The mechanisms by name."""


def mechanism_class(given: str | type[Mechanism]) -> type[Mechanism]:
    """The class of a registry name; a class of one's own, which a recipe by value may hold, is itself."""
    if isinstance(given, type) and issubclass(given, Mechanism):
        return given
    if given not in MECHANISMS:
        raise unknown("mechanism", str(given), MECHANISMS)
    return MECHANISMS[given]


def normal(random_bits: WordArray) -> FloatArray:
    """Standard normals: the top bit is the sign, the other 63 pick a quantile (k + 1/2) / 2^64 of the lower half."""
    lower = ndtri(((random_bits & _MAGNITUDE).astype(np.float64) + 0.5) * 2.0**-64)
    return np.copysign(lower, random_bits.view(np.int64))


def exponential(random_bits: WordArray) -> FloatArray:
    """Standard exponentials from the lower 63 bits, -ln of a uniform (k + 1/2) / 2^63."""
    uniform = ((random_bits & _MAGNITUDE).astype(np.float64) + 0.5) * 2.0**-63
    return np.abs(np.log(uniform))  # abs, because -ln 1 is -0.0
