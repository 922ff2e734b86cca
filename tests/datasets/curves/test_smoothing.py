"""Scores: the least-squares answer of every curve on its own, whatever the others are."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpadmm.datasets.curves import BASES, Basis, Curves, parse, scores, smoothing
from dpadmm.errors import InputError

INTERVAL = (-5.0, 15.0)


def spread(count, seed):
    """Uneven times, but no long stretch without any: there a spline would be anybody's guess."""
    return (np.arange(count) + np.random.default_rng(seed).random(count)) / count * 20 - 5


GRID = spread(40, 3)
BASIS_TEXTS = ("cosine:6", "fourier:7", "bspline:8", "legendre:5")


def draw_matrix(holes, seed=0, curves=60):
    draw = np.random.default_rng(seed)
    matrix = np.sin(GRID / 4) * draw.standard_normal((curves, 1)) + draw.standard_normal((curves, len(GRID)))
    return np.where(draw.random(matrix.shape) < holes, np.nan, matrix)


def draw_ragged(seed=0, curves=60, fewest=12):
    draw = np.random.default_rng(seed)
    counts = draw.integers(fewest, 30, curves)
    times = [draw.permutation(spread(count, seed + row)) for row, count in enumerate(counts)]
    return times, [draw.standard_normal(count) for count in counts]


def one_by_one(times, values, basis, price):
    """Least squares with the root of the price on roughness as more equations; times are not yet rescaled."""
    lengths, directions = np.linalg.eigh(basis.roughness())
    root = directions.T * np.sqrt(price * np.maximum(lengths, 0))[:, None]
    answers = []
    for own_times, own_values in zip(times, values, strict=True):
        seen = ~np.isnan(own_values)
        t = (own_times[seen] - INTERVAL[0]) / (INTERVAL[1] - INTERVAL[0])
        equations = np.vstack([basis.values(t) / np.sqrt(seen.sum()), root])
        right = np.concatenate([own_values[seen] / np.sqrt(seen.sum()), np.zeros(basis.size)])
        answers.append(np.linalg.lstsq(equations, right)[0])
    return np.array(answers)


@pytest.mark.parametrize("price", [0.0, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("text", BASIS_TEXTS)
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_curves_on_a_grid_one_by_one(text, price, holes):
    matrix, basis = draw_matrix(holes), parse(text)
    answers = scores(Curves.on_grid(GRID, matrix, INTERVAL), basis, price)
    expected = one_by_one([GRID] * len(matrix), matrix, basis, price)
    np.testing.assert_allclose(answers, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("price", [0.0, 1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("text", BASIS_TEXTS)
def test_curves_at_times_of_their_own_one_by_one(text, price):
    (times, values), basis = draw_ragged(), parse(text)
    answers = scores(Curves.individual(times, values, INTERVAL), basis, price)
    np.testing.assert_allclose(answers, one_by_one(times, values, basis, price), rtol=1e-6, atol=1e-8)


def test_a_hand_made_answer():
    """Two points, a constant: their mean; and a price on roughness does not touch what is straight."""
    curves = Curves.on_grid([0.0, 1.0], [[2.0, 4.0], [5.0, np.nan]])
    assert scores(curves, parse("cosine:1")).tolist() == [[3.0], [5.0]]
    line = Curves.on_grid(GRID, [3 * GRID - 1], INTERVAL)
    straight = scores(line, parse("legendre:6"), 0.0)
    np.testing.assert_allclose(scores(line, parse("legendre:6"), 100.0), straight, atol=1e-9)
    np.testing.assert_allclose(straight[0, 2:], 0, atol=1e-12)


@pytest.mark.parametrize("price", [1e-6, 100.0])
def test_many_components_of_a_rough_basis_are_not_taken_for_undetermined(price):
    """The last cosine costs (99 pi)^4 times the price, the first nothing: the curve is determined all the same."""
    curves, basis = Curves.on_grid(GRID, draw_matrix(0.2), INTERVAL), parse("cosine:100")
    expected = one_by_one([GRID] * len(curves), draw_matrix(0.2), basis, price)
    np.testing.assert_allclose(scores(curves, basis, price), expected, rtol=1e-5, atol=1e-7)


@dataclass(frozen=True, eq=False)
class Rotated(Basis):
    """Combinations of the functions of another basis: the columns of `rotation` in it."""

    name = "rotated"
    about = "combinations of the functions of another basis"

    basis: Basis
    rotation: np.ndarray

    def _values(self, t):
        return self.basis.values(t) @ self.rotation

    def roughness(self):
        return self.rotation.T @ self.basis.roughness() @ self.rotation

    def quadrature(self):
        return self.basis.quadrature()


def test_scores_in_a_rotated_basis():
    curves = Curves.on_grid(GRID, draw_matrix(0.2), INTERVAL)
    basis = parse("cosine:6")
    turned = Rotated(6, basis, np.linalg.qr(np.random.default_rng(1).standard_normal((6, 6)))[0])
    for price in (0.0, 1e-3):
        answers = scores(curves, turned, price) @ turned.rotation.T
        np.testing.assert_allclose(answers, scores(curves, basis, price), atol=1e-9)


@pytest.mark.parametrize("entries", [1, 200, 1000, 1 << 22])
def test_blocks_do_not_show(monkeypatch, entries):
    times, values = draw_ragged()
    kinds = (Curves.on_grid(GRID, draw_matrix(0.3), INTERVAL), Curves.individual(times, values, INTERVAL))
    for curves in kinds:
        whole = scores(curves, parse("bspline:8"), 1e-4)
        with monkeypatch.context() as patch:
            patch.setattr(smoothing, "_ENTRIES", entries)
            np.testing.assert_array_equal(scores(curves, parse("bspline:8"), 1e-4), whole)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 19), st.sampled_from(BASIS_TEXTS), st.sampled_from([0.0, 1e-3]), st.data())
def test_a_curve_does_not_depend_on_the_others(seed, row, text, price, data):
    """Not a bit: neither on their values or holes, nor on how many there are, nor on their order."""
    order = np.array(data.draw(st.permutations(range(20))))
    some = np.unique(np.append(order[:5], row))
    matrix, other = draw_matrix(0.2, seed, 20), draw_matrix(0.3, seed + 1, 20) * 100
    other[row] = matrix[row]
    times, values = draw_ragged(seed, 20)
    new_times, new_values = draw_ragged(seed + 1, 20)
    new_times[row], new_values[row] = times[row], values[row]
    pairs = [
        (Curves.on_grid(GRID, matrix, INTERVAL), Curves.on_grid(GRID, other, INTERVAL)),
        (Curves.individual(times, values, INTERVAL), Curves.individual(new_times, new_values, INTERVAL)),
    ]
    basis = parse(text)
    for curves, changed in pairs:
        answers = scores(curves, basis, price)
        np.testing.assert_array_equal(scores(changed, basis, price)[row], answers[row])
        np.testing.assert_array_equal(scores(curves.take(order), basis, price), answers[order])
        np.testing.assert_array_equal(scores(curves.take(some), basis, price), answers[some])


@pytest.mark.parametrize("points", [1, 2, 7, 100])
@pytest.mark.parametrize("size", [1, 5, 12])
def test_few_curves_and_many_are_multiplied_alike(points, size):
    draw = np.random.default_rng(points)
    values, matrix = draw.standard_normal((50, points)), draw.standard_normal((points, size))
    many = smoothing._applied(values, matrix)
    for few in (1, 3, 8):
        assert few <= smoothing._FEW < 50
        np.testing.assert_array_equal(smoothing._applied(values[:few], matrix), many[:few])


def test_other_values_in_the_same_places_leave_every_bit():
    matrix = draw_matrix(0.2)
    basis = parse("bspline:8")
    answers = scores(Curves.on_grid(GRID, matrix, INTERVAL), basis, 1e-3)
    matrix[1:] *= -7.0
    np.testing.assert_array_equal(scores(Curves.on_grid(GRID, matrix, INTERVAL), basis, 1e-3)[0], answers[0])


def test_more_components_than_points():
    matrix = draw_matrix(0.0)
    matrix[7] = np.where(np.arange(40) % 8 == 3, 1.0, np.nan)
    curves = Curves.on_grid(GRID, matrix, INTERVAL)
    message = r"more components than grid points: the curve in row 8 has 5 point\(s\) for the 6 functions of 'cosine:6'"
    with pytest.raises(InputError, match=message) as caught:
        scores(curves, parse("cosine:6"))
    assert "fewer components or a positive smoothing" in str(caught.value)
    with pytest.raises(InputError, match="row 108 "):
        scores(curves, parse("cosine:6"), first_row=100)
    assert np.isfinite(scores(curves, parse("cosine:5"))).all()
    assert np.isfinite(scores(curves, parse("cosine:6"), 1e-6)).all()
    times, values = draw_ragged()
    times[3], values[3] = times[3][:2], values[3][:2]
    with pytest.raises(InputError, match=r"row 4 has 2 point\(s\)"):
        scores(Curves.individual(times, values, INTERVAL), parse("cosine:6"))


@pytest.mark.parametrize("entries", [300, 1 << 22])
def test_enough_points_that_determine_nothing(monkeypatch, entries):
    """Enough in number, but all at one place or in one half: the row is named, in whatever block it is."""
    monkeypatch.setattr(smoothing, "_ENTRIES", entries)
    times, values = draw_ragged()
    times[40] = np.full_like(times[40], 3.0)
    with pytest.raises(InputError, match=r"row 41 do not determine the 6 functions .* a positive smoothing"):
        scores(Curves.individual(times, values, INTERVAL), parse("cosine:6"))
    matrix = draw_matrix(0.1)
    matrix[50, GRID > 5] = np.nan
    with pytest.raises(InputError, match=r"row 151 do not determine the 12 functions of 'bspline:12'"):
        scores(Curves.on_grid(GRID, matrix, INTERVAL), parse("bspline:12"), first_row=100)


def test_smoothing_does_not_determine_what_is_not_rough():
    """One point leaves a line free; the cosines have no line among them, and one point is enough."""
    point = Curves.on_grid([0.0, 0.4, 1.0], [[1.0, 2.0, 3.0], [np.nan, 2.0, np.nan]])
    with pytest.raises(InputError, match=r"the 1 point\(s\) of the curve in row 2 .* with smoothing 0.1.* a larger"):
        scores(point, parse("legendre:4"), 0.1)
    assert np.isfinite(scores(point, parse("cosine:4"), 0.1)).all()


@pytest.mark.parametrize("price", [-1e-9, np.nan, np.inf])
def test_smoothing_is_a_price(price):
    with pytest.raises(InputError, match="price on roughness"):
        scores(Curves.on_grid(GRID, draw_matrix(0.0), INTERVAL), parse("cosine:3"), price)


@pytest.mark.parametrize("name", BASES)
def test_no_curves_have_no_scores(name):
    assert scores(Curves.on_grid(GRID, np.empty((0, 40)), INTERVAL), BASES[name](5)).shape == (0, 5)
    assert scores(Curves.individual([], [], INTERVAL), BASES[name](5)).shape == (0, 5)


def test_curves_with_the_same_holes_share_a_matrix(monkeypatch):
    """A grid without holes needs one matrix for all its curves; a curve with times of its own needs its own."""
    made = []
    smoother = smoothing._smoother
    monkeypatch.setattr(smoothing, "_smoother", lambda *given: made.append(len(given[0])) or smoother(*given))
    scores(Curves.on_grid(GRID, draw_matrix(0.0), INTERVAL), parse("cosine:6"))
    holes = draw_matrix(0.0)
    holes[::2, 3] = np.nan
    scores(Curves.on_grid(GRID, holes, INTERVAL), parse("cosine:6"))
    assert sorted(made) == [39, 40, 40]
    made.clear()
    scores(Curves.individual(*draw_ragged(), INTERVAL), parse("cosine:6"))
    assert len(made) == 60
