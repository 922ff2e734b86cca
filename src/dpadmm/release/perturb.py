"""Step 4 of the release path: integers get integer noise, and leave as real numbers.

A sum of integer vectors (`sums`) is rounded to its lattice; any other value is put on a lattice of its own. Scales are
a little larger than the noise multiplier says, which pays for discrete noise (docs/theory/release.md, lemmas 1, 2).
"""

from __future__ import annotations

import math

import numpy as np

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.privacy.mechanisms import Gaussian, Laplace, Mechanism
from dpadmm.release.noise import LARGEST_SCALE, SMALLEST_SCALE, discrete_gaussian, discrete_laplace
from dpadmm.release.random_bits import Stream

SMOOTHING = 64.0  # w² with w = 8 cells: what a discrete Gaussian loses against a continuous one
SPACING = 0.5  # what a discrete Laplace number loses
_BITS = 30  # a value's lattice has about 2^30 points to a noise scale
_FARTHEST = 2.0**61  # lattice points on either side of zero


def noise_scales(mechanism: Mechanism, sensitivity: FloatArray | float) -> IntArray:
    """The scales of discrete noise for a sensitivity in lattice points; 0 where the multiplier is zero.

    Raises:
        InputError: The noise is too small or too large for the lattice. That depends on public numbers only.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        plain = mechanism.noise_multiplier * sensitivity * (1.0 + 2.0**-50)
        smoothed = np.sqrt(plain**2 + SMOOTHING) * (1.0 + 2.0**-50)
    if isinstance(mechanism, Gaussian):
        scales = np.where(mechanism.noise_multiplier > 0.0, np.ceil(smoothed), 0.0)
    elif isinstance(mechanism, Laplace):
        scales = np.where(mechanism.noise_multiplier > 0.0, np.ceil(plain + SPACING), 0.0)
    else:
        raise InputError(
            f"{mechanism.name!r} noise has no exact discrete form, so it is for simulations only; use 'gaussian' or "
            f"'laplace'."
        )
    # A sensitivity that is zero or no number is refused: only a multiplier of zero means that there is no noise.
    wrong = (mechanism.noise_multiplier > 0.0) & ~((scales >= SMALLEST_SCALE) & (scales < LARGEST_SCALE))
    if wrong.any():
        multiplier = np.broadcast_to(mechanism.noise_multiplier, scales.shape)[wrong][0]
        raise InputError(
            f"noise multiplier {multiplier:g}: its noise would have {scales[wrong][0]:g} lattice points, and exact "
            f"noise has between {SMALLEST_SCALE} and {LARGEST_SCALE}; use another budget or number of rounds."
        )
    return scales.astype(np.int64)


def add_noise(counts: IntArray, mechanism: Mechanism, sensitivity: FloatArray | float, stream: Stream) -> IntArray:
    """Integers with the mechanism's noise.

    Args:
        counts: (B, D) integers, one row per agent.
        mechanism: Its noise multipliers are the agents'.
        sensitivity: How far one unit of protection moves a row, in the mechanism's norm.
        stream: Random bits of each row, used for nothing else.

    Guarantee:
        One release of the mechanism's event, against neighbours whose rows differ by no more than the sensitivity.
    """
    scales = noise_scales(mechanism, np.broadcast_to(sensitivity, mechanism.noise_multiplier.shape))
    draw = discrete_gaussian if isinstance(mechanism, Gaussian) else discrete_laplace
    return counts + draw(scales, counts.shape[1], stream)


def release_value(value: FloatArray, mechanism: Mechanism, sensitivity: FloatArray, stream: Stream) -> FloatArray:
    """A real value with noise, both on one lattice.

    What rounding to the lattice moves two neighbours apart is paid for. A row whose multiplier is zero comes back as it
    was given.

    Args:
        value: (B, D) private values, one row per agent.
        mechanism: Its noise multipliers are the agents'.
        sensitivity: (B,) how far one unit of protection moves a row, rounding errors of its computation included.
        stream: Random bits of each row, used for nothing else.
    """
    silent = mechanism.noise_multiplier == 0.0
    if silent.all():
        return value
    cells = spacing(mechanism, sensitivity, value.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        points = np.nan_to_num(np.clip(np.rint(value / cells[:, None]), -_FARTHEST, _FARTHEST), nan=0.0)
    apart = sensitivity / cells + _rounding(mechanism, value.shape[1])
    noisy = add_noise(points.astype(np.int64), mechanism, apart, stream) * cells[:, None]
    return np.where(silent[:, None], value, noisy) if silent.any() else noisy


def spacing(mechanism: Mechanism, sensitivity: FloatArray, dimension: int) -> FloatArray:
    """(B,) the distance of lattice points: a power of two, small beside the noise and beside what rounding costs."""
    cost = mechanism.noise_multiplier * _rounding(mechanism, dimension)
    bits = np.maximum(_BITS, np.ceil(np.log2(np.maximum(cost, 1.0))) + 5.0)
    _, exponent = np.frexp(mechanism.noise_multiplier * sensitivity)  # exact, where a logarithm would round
    return np.ldexp(1.0, exponent - 1 - bits.astype(np.int64))


def _rounding(mechanism: Mechanism, dimension: int) -> float:
    """How far two values may be moved apart by rounding each to its nearest lattice point, in points."""
    return float(dimension) if mechanism.norm == 1 else math.sqrt(dimension)
