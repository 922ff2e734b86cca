"""A zone's solvers: the set without flows is the same set, solutions are Clarabel's, and proofs of accuracy hold."""

import dataclasses
import re
from fractions import Fraction
from types import SimpleNamespace

import clarabel
import numpy as np
import pytest
import scs
from power_flow_checks import violation
from scipy.sparse import csc_array, csc_matrix, csr_array, diags_array

from dpadmm.applications.power_flow import certified, computed, decompose, given, relax
from dpadmm.applications.power_flow import programme as programme_module
from dpadmm.applications.power_flow.certified import nearest_certified
from dpadmm.applications.power_flow.inside import inside
from dpadmm.applications.power_flow.pooled import minimise
from dpadmm.applications.power_flow.programme import Condensed, Programme, condense
from dpadmm.applications.power_flow.rounds import run
from dpadmm.applications.power_flow.terms import Terms
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.conic.slacks import Slacks


@pytest.fixture
def zones(halves, grid):
    """Of the network written by hand, and of a grid."""
    network = grid(3, 4)
    return [*halves.zones, *decompose(network, computed(network, 2)).zones]


class Built(list):
    """How often each solver was built."""

    @property
    def scs(self):
        return self.count("SCS")

    @property
    def clarabel(self):
        return self.count("DefaultSolver")


@pytest.fixture
def built(monkeypatch):
    names = Built()
    for module, name in ((scs, "SCS"), (clarabel, "DefaultSolver")):
        original = getattr(module, name)

        def build(*given, original=original, name=name, **settings):
            names.append(name)
            return original(*given, **settings)

        monkeypatch.setattr(module, name, build)
    return names


@pytest.fixture
def troubled(monkeypatch):
    """A Clarabel that meets numerical trouble whenever it is asked for more digits than these."""

    def install(digits):
        original, asked = clarabel.DefaultSolver, []

        class Solver:
            def __init__(self, *given):
                self.accuracy, self.solver = given[-1].tol_gap_abs, original(*given)
                asked.append(self.accuracy)

            def solve(self):
                answer = self.solver.solve()
                return answer if self.accuracy >= digits else SimpleNamespace(status="NumericalError")

        monkeypatch.setattr(clarabel, "DefaultSolver", Solver)
        return asked

    return install


def nearest(cone, point, weights):
    """By Clarabel in all variables, centred at the point, to as many digits as it can."""
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-15
    kinds = [clarabel.ZeroConeT(cone.zero), clarabel.NonnegativeConeT(cone.nonnegative)]
    kinds += [clarabel.SecondOrderConeT(size) for size in cone.second_order]
    limits = cone.limits - cone.rows @ point
    quadratic, rows = csc_matrix(diags_array(weights)), csc_matrix(cone.rows)
    answer = clarabel.DefaultSolver(quadratic, np.zeros(point.size), rows, limits, kinds, settings).solve()
    found = point + np.array(answer.x)
    assert violation(cone, found) < 1e-7
    return found


# The condensed set.


def test_the_lift_of_an_operating_point_gives_its_flows(grid, operate):
    """Voltages decide the flows, by circuit theory; the lift computes the same."""
    rng = np.random.default_rng(0)
    network = grid(3, 4)
    relaxation = relax(network)
    condensed = condense(relaxation)
    for _ in range(5):
        voltages = rng.uniform(0.9, 1.1, 12) * np.exp(1j * rng.uniform(-0.5, 0.5, 12))
        x = operate(network, relaxation, voltages, rng.normal(size=4) + 1j * rng.normal(size=4))
        np.testing.assert_allclose(condensed.lift @ x[condensed.kept], x, atol=1e-12)


def test_what_is_kept_is_all_but_the_flows(zones):
    for zone in zones:
        variables, condensed = zone.relaxation.variables, condense(zone.relaxation)
        lines = zone.relaxation.part.lines.size
        others = (variables.voltage, variables.cosine, variables.sine, variables.active, variables.reactive)
        assert condensed.kept.tolist() == sorted(np.concatenate(others).tolist())
        assert condensed.kept.size == variables.size - 4 * lines
        assert condensed.lift.shape == (variables.size, condensed.kept.size)
        assert condensed.cone.dimension == condensed.kept.size
        assert condensed.cone.limits.size == zone.relaxation.cone.limits.size - 4 * lines
        w = np.random.default_rng(0).normal(size=condensed.kept.size)
        assert (condensed.lift @ w)[condensed.kept].tolist() == w.tolist()


def test_a_lifted_point_satisfies_every_flow_equation(zones):
    rng = np.random.default_rng(1)
    for zone in zones:
        cone, condensed = zone.relaxation.cone, condense(zone.relaxation)
        equations = csc_matrix(cone.rows)[: 4 * zone.relaxation.part.lines.size]
        assert np.abs(equations).sum() > 0
        for w in rng.normal(size=(10, condensed.kept.size)):
            assert np.abs(equations @ (condensed.lift @ w)).max() < 1e-12


def test_the_condensed_set_is_the_set(zones, flat):
    """Within it and outside, a point misses the one by as much as the other."""
    rng = np.random.default_rng(2)
    for zone in zones:
        cone, condensed = zone.relaxation.cone, condense(zone.relaxation)
        inside = nearest(cone, flat(zone), np.ones(cone.dimension))
        assert violation(condensed.cone, inside[condensed.kept]) < 1e-7
        missed = []
        for scale in (0.0, 1e-3, 0.03, 1.0, 30.0):
            w = inside[condensed.kept] + scale * rng.normal(size=condensed.kept.size)
            missed.append(violation(condensed.cone, w))
            assert missed[-1] == pytest.approx(violation(cone, condensed.lift @ w), abs=1e-12 * (1 + scale))
        assert missed[0] < 1e-7
        assert missed[-1] > 1


def test_a_point_with_other_flows_is_in_neither(zones):
    """Only points that are lifts can be in the set at all."""
    rng = np.random.default_rng(3)
    for zone in zones:
        cone, condensed = zone.relaxation.cone, condense(zone.relaxation)
        lifted = condensed.lift @ rng.normal(size=condensed.kept.size)
        flow = rng.choice(np.setdiff1d(np.arange(cone.dimension), condensed.kept))
        other = lifted.copy()
        other[flow] += 1.0
        equations = csc_matrix(cone.rows)[: 4 * zone.relaxation.part.lines.size]
        assert np.abs(equations @ other).max() > 1e-3


# The programme.


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_the_nearest_point_is_clarabels(zones, flat, metric, scale):
    rng = np.random.default_rng(4)
    for zone in zones:
        cone, solver = zone.relaxation.cone, Programme(zone.relaxation, "zone")
        weights = metric(zone, 10.0)
        point = flat(zone) + scale * rng.normal(size=cone.dimension)
        found = solver.nearest(point, weights)
        assert np.abs(found - point).max() > 0.01  # the set has a say
        assert violation(cone, found) < 1e-6
        np.testing.assert_allclose(found, nearest(cone, point, weights), atol=1e-5 * max(1.0, 3 * scale))
        again = solver.nearest(point, weights)  # from the last answer, by the other solver
        np.testing.assert_allclose(again, nearest(cone, point, weights), atol=1e-5)


def test_the_minimiser_of_any_quadratic_is_clarabels(zones, metric):
    for zone in zones:
        cone, balance = zone.relaxation.cone, zone.relaxation.balance
        quadratic = csc_array(2 * balance.T @ balance + diags_array(metric(zone, 0.1, 1.0)))
        linear = 2 * balance.T @ zone.relaxation.loads
        found = Programme(zone.relaxation, "zone").minimise(quadratic, linear)
        np.testing.assert_allclose(found, minimise(cone, quadratic, linear, "reference"), atol=1e-5)


def test_solvers_are_built_once_for_as_long_as_the_quadratic_stays(halves, metric, flat, built):
    zone = halves.zones[0]
    solver, balance = Programme(zone.relaxation, "zone"), zone.relaxation.balance
    weights, point = metric(zone, 10.0), flat(zone)
    solver.nearest(point, weights)
    assert (built.clarabel, built.scs) == (1, 0)  # there is no last answer to go on from
    for count in range(5):
        solver.nearest(point + 0.1 * count, weights.copy())
    assert (built.clarabel, built.scs) == (1, 1)
    quadratic = csc_array(2 * balance.T @ balance + diags_array(weights))
    for count in range(5):
        solver.minimise(quadratic, -weights * (point + 0.1 * count))
    assert (built.clarabel, built.scs) == (2, 2)  # entries elsewhere, and a new matrix
    solver.minimise(csc_array(2 * quadratic), -weights * point)
    assert (built.clarabel, built.scs) == (2, 2)


def test_a_step_that_shrinks_needs_no_new_solver(halves, metric, flat, built):
    """Other numbers in the same places: Clarabel takes them as they come, and SCS is not asked."""
    zone, rng = halves.zones[0], np.random.default_rng(13)
    solver, cone = Programme(zone.relaxation, "zone"), zone.relaxation.cone
    for count in range(1, 6):
        weights, point = metric(zone, 10.0 + count), flat(zone) + 0.3 * rng.normal(size=zone.members.size)
        found = solver.nearest(point, weights)
        assert (built.clarabel - (count - 1), built.scs) == (1, 0)
        np.testing.assert_allclose(found, nearest(cone, point, weights), atol=1e-4)  # builds one of its own


def test_answers_do_not_depend_on_what_was_asked_before(zones, metric, flat):
    """The last answer is where the next solve begins, not where it ends; nor is an old quadratic ever used."""
    rng = np.random.default_rng(5)
    for zone in zones:
        balance = zone.relaxation.balance
        used, point = Programme(zone.relaxation, "zone"), flat(zone) + rng.normal(size=zone.members.size)
        metrics = [metric(zone, 10.0), metric(zone, 20.0)]
        quadratic = csc_array(2 * balance.T @ balance + diags_array(metrics[0]))
        for weights in (*metrics, *metrics):
            used.nearest(10 * rng.normal(size=point.size), weights)
            found = used.nearest(point, weights)
            np.testing.assert_allclose(found, Programme(zone.relaxation, "new").nearest(point, weights), atol=1e-4)
            found = used.minimise(quadratic, -weights * point)
            fresh = Programme(zone.relaxation, "new").minimise(quadratic, -weights * point)
            np.testing.assert_allclose(found, fresh, atol=1e-4)


def test_weights_decide_which_point_is_nearest(halves, flat, metric):
    zone = halves.zones[0]
    solver, rng = Programme(zone.relaxation, "zone"), np.random.default_rng(6)
    point = flat(zone) + rng.normal(size=zone.members.size)
    first, second = metric(zone, 1.0, 0.0), metric(zone, 1.0, 100.0)
    found = [solver.nearest(point, weights) for weights in (first, second)]
    assert first @ (found[0] - point) ** 2 < 0.99 * (first @ (found[1] - point) ** 2)
    assert second @ (found[1] - point) ** 2 < 0.99 * (second @ (found[0] - point) ** 2)


def test_a_zone_without_operating_points_is_named(contradictory):
    zone = decompose(contradictory, given(contradictory, [[10, 20, 5]])).zones[0]
    with pytest.raises(InputError, match="the third: no operating point keeps all limits of the zone"):
        Programme(zone.relaxation, "the third").nearest(np.ones(zone.members.size), np.ones(zone.members.size))


def test_a_run_names_the_zone_without_operating_points(contradictory):
    decomposition = decompose(contradictory, given(contradictory, [[10], [20, 5]]))
    with pytest.raises(InputError, match="small, zone 1: no operating point"):
        run(decomposition, Terms("none", rounds=1))


def test_where_scs_would_take_long_clarabel_answers(halves, flat, metric, monkeypatch):
    """An answer of SCS that ran out of iterations is none, though SCS calls it 'solved (inaccurate ...)'."""
    monkeypatch.setattr(programme_module, "WARM_ITERATIONS", 1)
    statuses, solve = [], scs.SCS.solve
    monkeypatch.setattr(scs.SCS, "solve", lambda self, **start: statuses.append(solve(self, **start)) or statuses[-1])
    zone, rng = halves.zones[0], np.random.default_rng(7)
    solver, weights = Programme(zone.relaxation, "zone"), metric(zone, 10.0)
    for _ in range(4):
        point = flat(zone) + rng.normal(size=zone.members.size)
        found = solver.nearest(point, weights)
        np.testing.assert_allclose(found, nearest(zone.relaxation.cone, point, weights), atol=1e-4)
    assert [answer["info"]["status"] for answer in statuses] == ["solved (inaccurate - reached max_iters)"] * 3


def test_numerical_trouble_is_met_with_fewer_digits(halves, flat, metric, troubled):
    zone, rng = halves.zones[0], np.random.default_rng(8)
    points, weights = flat(zone) + 0.5 * rng.normal(size=(2, zone.members.size)), metric(zone, 10.0)
    expected = [nearest(zone.relaxation.cone, point, weights) for point in points]
    asked = troubled(programme_module.COARSE)
    solver = Programme(zone.relaxation, "zone")
    for point, reference in zip(points, expected, strict=True):
        solver._given = None  # as with a step that shrinks
        np.testing.assert_allclose(solver.nearest(point, weights), reference, atol=1e-3)
    # Full accuracy is tried first every time.
    assert asked == [programme_module.ACCURACY, programme_module.COARSE] * 2


def test_a_solver_that_fails_is_no_answer(halves, troubled):
    zone = halves.zones[0]
    troubled(1.0)
    with pytest.raises(ConvergenceError, match="second zone: the solver stopped with 'NumericalError'"):
        Programme(zone.relaxation, "second zone").nearest(np.ones(zone.members.size), np.ones(zone.members.size))


# Projections with a proof.


def proven(condensed, point, weights):
    """The error that can be proven, read from the complaint that it is not zero."""
    with pytest.raises(ConvergenceError, match=r"zone: a projection is proven to \S+ only") as caught:
        nearest_certified(condensed, point, weights, 0.0, "zone")
    return 1.06 * float(re.search(r"proven to (\S+) only", str(caught.value))[1])  # two digits are told


@pytest.mark.parametrize("error", [1e-1, 1e-3, 1e-4])
def test_a_certified_point_is_as_near_as_promised(zones, flat, metric, error):
    rng = np.random.default_rng(8)
    for zone in zones:
        cone, condensed, weights = zone.relaxation.cone, condense(zone.relaxation), metric(zone, 10.0)
        point = flat(zone) + 0.3 * rng.normal(size=cone.dimension)
        found = nearest_certified(condensed, point, weights, error, "zone")
        reference = nearest(cone, point, weights)
        assert np.sqrt(weights @ (found - reference) ** 2) <= error


def test_the_proof_holds_however_roughly_clarabel_solves(zones, flat, metric, monkeypatch):
    monkeypatch.setattr(certified, "FURTHER", ())
    rng = np.random.default_rng(9)
    for zone in zones:
        cone, condensed, weights = zone.relaxation.cone, condense(zone.relaxation), metric(zone, 10.0)
        point = flat(zone) + rng.normal(size=cone.dimension)
        reference = nearest(cone, point, weights)
        for accuracy in (1e-1, 1e-3, 1e-6, 1e-9):
            monkeypatch.setattr(certified, "ACCURACIES", (accuracy,))
            found = nearest_certified(condensed, point, weights, np.inf, "zone")
            apart = np.sqrt(weights @ (found - reference) ** 2)
            reached = proven(condensed, point, weights)
            assert apart <= reached + 1e-6
            assert reached < 100 * np.sqrt(accuracy)  # the proof says something,
            assert apart > 1e-3 or accuracy < 1e-3  # and there was something to say


def test_the_proof_holds_for_any_answer_near_the_right_one(halves, flat, metric, monkeypatch):
    """Moves and multipliers in error, separately and together: what comes back is in the set, and as near as proven."""
    rng, solve = np.random.default_rng(10), certified._answers
    for zone in halves.zones:
        condensed, weights = condense(zone.relaxation), metric(zone, 10.0)
        point = flat(zone) + 0.5 * rng.normal(size=zone.members.size)
        answers = []

        def remembered(*problem, into=answers):
            into.extend(solve(*problem))
            yield into[-1]

        monkeypatch.setattr(certified, "_answers", remembered)
        best = nearest_certified(condensed, point, weights, 1e-4, "zone")
        move, multipliers = answers[-1]
        for of_move, of_multipliers in ((0.0, 0.1), (0.1, 0.0), (0.1, 0.1), (1e-3, 0.3), (0.0, 0.5)):
            for _ in range(10):
                error = of_move * rng.normal(size=move.size)
                factors = 1 + of_multipliers * rng.uniform(-1, 1, multipliers.size)
                wrong = [(move + error, multipliers * factors)]
                monkeypatch.setattr(certified, "_answers", lambda *_, wrong=wrong: iter(wrong))
                found = nearest_certified(condensed, point, weights, np.inf, "zone")
                assert surely_kept(condensed.cone, found[condensed.kept])
                assert np.sqrt(weights @ (found - best) ** 2) <= proven(condensed, point, weights) + 1e-4


def plain(rows, limits, **kinds):
    """A set by hand, in as many variables as it is about."""
    rows = csc_array(np.array(rows, dtype=float))
    size = rows.shape[1]
    cone = Cone(rows, np.array(limits, dtype=float), **kinds)
    return Condensed(cone, csc_array(np.eye(size)), np.arange(size))


@pytest.mark.parametrize(
    ("condensed", "point", "move", "multipliers", "nearest"),
    [
        pytest.param(
            plain([[1, 0]], [1], nonnegative=1),
            [3, 0],
            [-2, 0.3],
            [2],
            [1, 0],
            id="the right face, but elsewhere on it",
        ),
        pytest.param(
            plain(np.eye(2), [1, 1], nonnegative=2), [3, 1], [-1, -1], [1, 1], [1, 1], id="one limit missed, one kept"
        ),
        pytest.param(plain([[1]], [1], nonnegative=1), [0], [1], [-1], [0], id="a limit that pulls"),
        pytest.param(
            plain(-np.eye(3), [0, 0, 0], second_order=(3,)),
            [1.5, 0.5, 0],
            [-0.5, 0.5, 0],
            [-0.5, 0.5, 0],
            [1.5, 0.5, 0],
            id="a cone that pulls",
        ),
        pytest.param(
            plain(-np.eye(3), [0, 0, 0], second_order=(3,)),
            [-1, 3, 4],
            [1, -3, -4],
            [1, -3, -4],
            [2, 1.2, 1.6],
            id="the tip of a cone",
        ),
    ],
)
def test_a_wrong_answer_by_hand_is_not_proven(condensed, point, move, multipliers, nearest, monkeypatch):
    """Each fulfils all conditions of optimality but one, so only one term of the proof stands against it."""
    wrong = [(np.array(move, dtype=float), np.array(multipliers, dtype=float))]
    monkeypatch.setattr(certified, "_answers", lambda *_: iter(wrong))
    point, weights = np.array(point, dtype=float), np.ones(len(point))
    found = nearest_certified(condensed, point, weights, np.inf, "zone")
    apart = np.linalg.norm(found - np.array(nearest))
    assert apart > 0.2
    assert apart <= proven(condensed, point, weights)


def surely_kept(cone, w):
    """Whether w is in the set, in rational arithmetic: no rounding."""
    exact = [Fraction(float(entry)) for entry in w]
    rows = csr_array(cone.rows)
    slack = []
    for row, limit in enumerate(cone.limits):
        at = slice(rows.indptr[row], rows.indptr[row + 1])
        terms = zip(rows.data[at], rows.indices[at], strict=True)
        slack.append(Fraction(float(limit)) - sum(Fraction(float(value)) * exact[column] for value, column in terms))
    first, last = cone.zero, cone.zero + cone.nonnegative
    kept = not any(slack[:first]) and all(entry >= 0 for entry in slack[first:last])
    for size in cone.second_order:
        top, *rest = slack[last : last + size]
        kept = kept and top >= 0 and sum(entry**2 for entry in rest) <= top**2
        last += size
    return kept


@pytest.mark.parametrize("off", [0.0, 1e-12, 1e-6, 1e-2, 10.0])
def test_a_point_that_misses_conditions_is_moved_into_the_set_exactly(zones, flat, metric, off):
    """Not to rounding: the privacy lemma is about points of the set. By little more than was missed where that is
    little."""
    rng = np.random.default_rng(15)
    for zone in zones:
        condensed, weights = condense(zone.relaxation), metric(zone, 10.0)
        point = flat(zone) + 0.5 * rng.normal(size=zone.members.size)
        edge = nearest(zone.relaxation.cone, point, weights)[condensed.kept]
        w = edge + off * rng.normal(size=edge.size)
        found = inside(condensed, w)
        assert surely_kept(condensed.cone, found)
        assert surely_kept(condensed.cone, condensed.deep)
        if 0 < off < 1e-3:
            assert np.abs(found - w).max() < 1e3 * off + 1e-7


def test_equations_are_kept_exactly(small):
    """A bus of fixed voltage: rounding may not move it."""
    buses = dataclasses.replace(small.buses, highest_voltage=small.buses.lowest_voltage)
    for zone in decompose(dataclasses.replace(small, buses=buses), given(small, [[10, 5], [20]])).zones:
        condensed = condense(zone.relaxation)
        assert condensed.fixed.size == condensed.cone.zero > 0
        found = inside(condensed, condensed.deep + np.random.default_rng(16).normal(size=condensed.deep.size))
        assert found is None or surely_kept(condensed.cone, found)
        limits = condensed.cone.limits[: condensed.cone.zero]
        assert condensed.deep[condensed.fixed].tolist() == limits.tolist()


def test_a_set_without_room_is_not_proven():
    """Two limits that leave one point: nothing there is surely inside."""
    flat = plain([[1], [-1]], [1, -1], nonnegative=2)
    assert inside(flat, np.array([1.0])) is None
    with pytest.raises(ConvergenceError, match="proven to inf only"):
        nearest_certified(flat, np.array([3.0]), np.ones(1), 1.0, "zone")


def test_slacks_are_measured_against_the_nearest_of_the_cone():
    """Moreau: what is taken away lies in the polar cone, and at right angles."""
    rng = np.random.default_rng(14)
    cone = Cone(csc_array((11, 1)), np.zeros(11), zero=2, nonnegative=3, second_order=(4, 2))
    heights = []
    for slack in 2 * rng.normal(size=(50, 11)):
        near = Slacks(cone.zero, cone.nonnegative, cone.second_order).nearest(slack)
        off = near - slack
        assert not near[:2].any()
        assert min(near[2:5].min(), off[2:5].min()) >= 0
        for part in (slice(5, 9), slice(9, 11)):
            for vector in (near[part], off[part]):
                assert np.linalg.norm(vector[1:]) <= vector[0] + 1e-12
            assert near[part] @ off[part] == pytest.approx(0, abs=1e-12)
            heights.append((near[part][0] > 0) + 2 * (off[part][0] > 0))
    assert set(heights) == {1, 2, 3}  # within, at the tip, and on the side


def test_an_accuracy_that_nobody_can_prove_is_refused(halves, flat, metric):
    for zone in halves.zones:
        point = flat(zone) + np.random.default_rng(11).normal(size=zone.members.size)
        with pytest.raises(ConvergenceError, match=r"zone 7: a projection is proven to .* and the privacy lemma"):
            nearest_certified(condense(zone.relaxation), point, metric(zone, 10.0), 1e-14, "zone 7")


def test_scs_goes_on_where_clarabel_is_not_enough(halves, flat, metric, monkeypatch, built):
    monkeypatch.setattr(certified, "ACCURACIES", (1e-2,))
    rng = np.random.default_rng(12)
    for zone in halves.zones:
        cone, condensed, weights = zone.relaxation.cone, condense(zone.relaxation), metric(zone, 10.0)
        point = flat(zone) + 0.3 * rng.normal(size=cone.dimension)
        built.clear()
        nearest_certified(condensed, point, weights, 100.0, "zone")
        assert built.scs == 0
        found = nearest_certified(condensed, point, weights, 1e-4, "zone")
        assert built.scs in (1, 2)
        reference = nearest(cone, point, weights)
        assert np.sqrt(weights @ (found - reference) ** 2) <= 1e-4
