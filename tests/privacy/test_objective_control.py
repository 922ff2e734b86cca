"""The worst shift of objective perturbation, found by brute force: what `privacy.objective` computes by formulas must
be the largest value of its integral (1) over all shifts that the loss allows, whichever way the record goes."""

import math

import numpy as np
import pytest

from dpadmm.privacy.events import Relation
from dpadmm.privacy.objective import _removed_and_added, rdp

STEP = 0.03
NODES, WEIGHTS = np.polynomial.legendre.leggauss(3)


def largest_moment(t, mu, slope, low, high):
    """max over eta of ln integral of phi(u) exp(t (u eta + eta²/2)) (1 + eta')^-t du, by dynamic programming.

    eta is in [low, high] and moves at the slope or not at all: the integrand is convex in eta', so nothing between is
    better. Its values lie on a lattice that a cell of u crosses in one step; within a cell the integral is all but
    exact, so what is found is (1) for an eta that is allowed, and short of the largest only by where eta may turn.
    """
    states = max(1, math.ceil((high - low) / (abs(slope) * STEP)))
    cell = (high - low) / (states * abs(slope))
    eta = low + (high - low) * np.arange(states + 1) / states
    cells = math.ceil(2 * (t * mu + 9.0) / cell)
    value = np.zeros(states + 1)

    def over_cell(left, rate):
        u = left + cell * (NODES[:, None] + 1) / 2
        shift = eta + rate * (u - left)
        exponent = t * (u * shift + shift**2 / 2) - u**2 / 2
        return cell / 2 * WEIGHTS @ np.exp(exponent) / math.sqrt(2 * math.pi) * (1 + rate) ** -t

    for left in cell * (np.arange(cells)[::-1] - cells / 2):
        stay = over_cell(left, 0.0) + value
        moving = over_cell(left, slope)
        next_state = np.roll(value, -1 if slope > 0 else 1)  # one further along the slope
        move = moving + next_state
        move[-1 if slope > 0 else 0] = -math.inf  # from the last there is nowhere to go
        value = np.maximum(stay, move)
    return math.log(value.max())


CASES = [
    # orders less one, shift, kappa: small and large ratios beside the shift, and claims B6's
    (0.5, 0.3, 0.1),
    (2.0, 1.0, 0.5),
    (1.0, 0.1, 0.83),
    (19.0, 0.1, 0.83),
    (8.0, 0.5, 0.2),
    (3.0, 0.05, 1.5),
    (30.0, 0.2, 0.05),
]


@pytest.mark.parametrize("one_sided", [True, False], ids=["one-sided", "two-sided"])
@pytest.mark.parametrize(("t", "mu", "kappa"), CASES)
def test_no_shift_is_worse_than_the_formulas_say_and_one_is_as_bad(t, mu, kappa, one_sided):
    claimed = _removed_and_added(np.array([t]), np.array([t]), mu, kappa, one_sided)
    found = []
    for side, slope in zip(claimed, (-kappa / (1 + kappa), kappa), strict=True):
        worst = largest_moment(t, mu, slope, 0.0 if one_sided else -mu, mu) / t
        assert 0.9995 * side[0] <= worst <= side[0]
        found.append(worst)
    whole = rdp(np.array([t + 1]), 1 / mu, kappa, Relation.ZERO_OUT, one_sided)[0]
    assert 0.9995 * whole <= max(found) <= whole
    assert whole >= (t + 1) * mu**2 / 2  # never less than the Gaussian's own


def test_a_shift_of_the_other_sign_is_no_worse():
    """One sign or the other: (1) does not change when u and eta are reflected."""
    for slope in (0.4, -0.3):
        above, below = (largest_moment(2.0, 0.6, slope, *sides) for sides in ((0.0, 0.6), (-0.6, 0.0)))
        assert above == pytest.approx(below, rel=1e-9)


def test_the_brute_force_knows_the_gaussian():
    """With next to no slope to use, the worst shift is a constant: t (t + 1) mu² / 2."""
    for t, mu in ((2.0, 0.5), (9.0, 0.2)):
        assert largest_moment(t, mu, -0.02, -mu, mu) == pytest.approx(t * (t + 1) * mu**2 / 2, rel=1e-6)
