"""A noise and its event, in one object.

A mechanism holds one noise multiplier per agent of the batch: the scale of the noise in units of the sensitivity. The
same number scales the noise and goes into the event, so the two cannot drift apart. Which norm the sensitivity must be
measured in is part of the mechanism, not of the caller's memory.

Mechanisms draw no randomness: what is released gets discrete noise in `release/perturb.py`. Gamma-norm noise has no
exact discrete form; it is drawn here in floating point, for simulations of 003 only.
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
    """

    noise_multiplier: FloatArray

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

    @staticmethod
    def deviation(dimension: int) -> float:
        """Standard deviation of a coordinate of the noise, in units of its scale."""
        return 1.0

    @classmethod
    def log_density(cls, noise: FloatArray) -> FloatArray:
        """(rows,) of noise of scale one, up to a constant: what an audit knows of the noise, and no run needs."""
        raise InputError(f"mechanism {cls.name!r} has no log_density, and an audit needs it.")

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

    @classmethod
    def log_density(cls, noise: FloatArray) -> FloatArray:
        return -np.abs(noise).sum(axis=1)


class SimulatedMechanism(Mechanism):
    """Noise that is drawn in floating point, for simulations only: real releases refuse it."""

    @abstractmethod
    def words_needed(self, dimension: int) -> int:
        """How many random words a row of noise takes."""

    @abstractmethod
    def unit(self, dimension: int, random_bits: WordArray) -> FloatArray:
        """(B, dimension) noise of scale one from that many words for each row; finite for every word."""


@dataclass(frozen=True, eq=False)
class GammaNorm(SimulatedMechanism):
    """Noise with density proportional to exp(-|x|_2 / scale): pure privacy for a 2-norm sensitivity, in simulations.

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
