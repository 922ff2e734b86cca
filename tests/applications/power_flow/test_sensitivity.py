"""How far loads move a zone's results: by hand, by trying every bus, and beside what the paper and the audit say."""

import dataclasses
from itertools import product

import numpy as np
import pytest
from power_flow_checks import row_norms

from dpadmm.applications.power_flow import choose, decompose
from dpadmm.applications.power_flow.certified import nearest_certified
from dpadmm.applications.power_flow.formulation import FORMULATIONS, Formulation
from dpadmm.applications.power_flow.programme import condense
from dpadmm.applications.power_flow.releases import Adjacency

BETA, RHO = 0.01, 100.0
ONE, BOTH = (
    [(1, 0), (0, -1)],
    [(1, 1), (1, -1)],
)  # changes of a bus's loads in units of beta; the rest is weaker or -1 times


def changed(zone, bus, change):
    """The zone's loads with those of one bus changed by so many betas."""
    loads = zone.relaxation.loads.copy()
    loads[[bus, zone.buses.size + bus]] += BETA * np.array(change)
    return loads


def changes(zone, both):
    return product(range(zone.buses.size), BOTH if both else ONE)


def gradient(zone, loads, x):
    """By differences of the objective, which are exact for a quadratic function however long the step."""
    balance = zone.relaxation.balance
    ahead, behind = (balance @ (x[:, None] + h * np.eye(x.size)) + loads[:, None] for h in (1.0, -1.0))
    return (np.sum(ahead**2, axis=0) - np.sum(behind**2, axis=0)) / 2


def eliminated(zone):
    return Formulation.of(zone, "eliminated")


def smoothness(zone):
    return 2 * np.linalg.norm(zone.relaxation.balance.toarray(), 2) ** 2


class Stepper:
    """A zone's linearised step from one point, as a function of its loads."""

    def __init__(self, zone, weights, start, inverse_step, near):
        self.zone, self.weights, self.condensed = zone, weights, condense(zone.relaxation)
        self.start, self.pull = start, inverse_step * start
        self.pull[zone.shared] += near

    def __call__(self, loads, error):
        balance = self.zone.relaxation.balance
        point = (self.pull - 2 * balance.T @ (balance @ self.start + loads)) / self.weights
        return nearest_certified(self.condensed, point, self.weights, error, "zone")


@pytest.fixture
def measured(flat, metric):
    """How far one step's result really moves, at the bus where it moves most, in several norms."""

    def measure(zone, inverse_step, both, error):
        weights = metric(zone, inverse_step, RHO)
        start = flat(zone)
        step = Stepper(zone, weights, start, inverse_step, RHO * start[zone.shared])
        before = step(zone.relaxation.loads, error)
        moves = np.array([step(changed(zone, *change), error) - before for change in changes(zone, both)])
        return {
            "metric": np.sqrt(moves**2 @ weights).max(),
            "euclidean": np.sqrt(np.sum(moves**2, axis=1)).max(),
            "absolute": np.abs(moves).sum(axis=1).max(),
            "sent": np.sqrt(np.sum(moves[:, zone.shared] ** 2, axis=1)).max(),
        }

    return measure


def test_loads_move_by_beta_each():
    one, both = Adjacency(0.03, both=False), Adjacency(0.03)
    assert one.of_loads(2) == one.of_loads(1) == pytest.approx(0.03)
    assert both.of_loads(2) == pytest.approx(np.sqrt(2) * 0.03)
    assert both.of_loads(1) == pytest.approx(2 * 0.03)


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("both", [False, True])
def test_the_gradient_moves_by_just_as_much_as_said(halves, both, norm):
    """Not more for any bus and any change, and as much for one; whatever the point."""
    rng = np.random.default_rng(1)
    for zone in halves.zones:
        said = Adjacency(BETA, both).of_gradient(eliminated(zone), norm)
        for x in rng.normal(size=(3, zone.members.size)):
            before = gradient(zone, zone.relaxation.loads, x)
            moved = [
                np.linalg.norm(gradient(zone, changed(zone, *change), x) - before, norm)
                for change in changes(zone, both)
            ]
            assert max(moved) == pytest.approx(said, rel=1e-9)


def test_smaller_changes_move_the_gradient_less(halves):
    """Neighbours may be anywhere within beta; the corners are the worst."""
    rng = np.random.default_rng(2)
    for zone in halves.zones:
        x = rng.normal(size=zone.members.size)
        before = gradient(zone, zone.relaxation.loads, x)
        for norm in (1, 2):
            said = Adjacency(BETA).of_gradient(eliminated(zone), norm)
            for bus, change in product(range(zone.buses.size), rng.uniform(-1, 1, (20, 2))):
                moved = gradient(zone, changed(zone, bus, change), x) - before
                assert np.linalg.norm(moved, norm) < said


def test_one_load_moves_the_gradient_by_its_row(halves):
    for zone in halves.zones:
        euclidean, absolute = row_norms(zone.relaxation.balance)
        one = Adjacency(BETA, both=False)
        assert one.of_gradient(eliminated(zone), 2) == pytest.approx(2 * BETA * euclidean.max())
        assert one.of_gradient(eliminated(zone), 1) == pytest.approx(2 * BETA * absolute.max())


def test_rows_of_the_hand_made_network_by_hand(halves):
    """Bus 10 has three lines and two generators and no shunt; bus 20 three lines and a shunt of 3 - 19i MVA at 50."""
    one, both = Adjacency(BETA, both=False), Adjacency(BETA)
    first, second = halves.zones
    assert one.of_gradient(eliminated(first), 2) == pytest.approx(2 * BETA * np.sqrt(5))
    assert one.of_gradient(eliminated(first), 1) == pytest.approx(2 * BETA * 5)
    assert both.of_gradient(eliminated(first), 2) == pytest.approx(2 * BETA * np.sqrt(10))
    assert both.of_gradient(eliminated(first), 1) == pytest.approx(2 * BETA * 10)
    active, reactive = 3 / 50, -19 / 50
    assert one.of_gradient(eliminated(second), 2) == pytest.approx(2 * BETA * np.sqrt(3 + reactive**2))
    assert one.of_gradient(eliminated(second), 1) == pytest.approx(2 * BETA * (3 + abs(reactive)))
    # Both of its loads pull at the one voltage: in opposite directions if they change alike.
    assert both.of_gradient(eliminated(second), 2) == pytest.approx(2 * BETA * np.sqrt(6 + (active - reactive) ** 2))
    assert both.of_gradient(eliminated(second), 1) == pytest.approx(2 * BETA * (6 + active - reactive))


def test_a_shunt_decides_which_changes_of_both_loads_are_worse(halves):
    """With a reactor in place of the capacitor the two rows of bus 20 pull alike, so loads that rise together do."""
    buses = halves.network.buses
    turned = dataclasses.replace(halves.network, buses=dataclasses.replace(buses, susceptance=-buses.susceptance))
    zone = decompose(turned, halves.partition).zones[1]
    assert Adjacency(BETA).of_gradient(eliminated(zone), 2) == pytest.approx(
        2 * BETA * np.sqrt(6 + (3 / 50 + 19 / 50) ** 2)
    )
    assert Adjacency(BETA).of_gradient(eliminated(zone), 1) == pytest.approx(2 * BETA * (6 + 3 / 50 + 19 / 50))


def test_case14_has_the_norms_of_the_audit(case14):
    zones = case14.zones
    one, both = Adjacency(BETA, both=False), Adjacency(BETA)
    assert max(one.of_gradient(eliminated(zone), 2) for zone in zones) == pytest.approx(2 * BETA * np.sqrt(5))
    assert max(one.of_gradient(eliminated(zone), 1) for zone in zones) == pytest.approx(2 * BETA * 5)
    assert max(both.of_gradient(eliminated(zone), 2) for zone in zones) == pytest.approx(2 * BETA * np.sqrt(10))
    assert max(both.of_gradient(eliminated(zone), 1) for zone in zones) == pytest.approx(2 * BETA * 10)


@pytest.mark.parametrize(("name", "steepest"), [("case14", 10.0), ("case118", 26.0)])
def test_the_curvature_of_either_form_is_what_theory_says(ieee, name, steepest):
    network = ieee(name)
    zones = decompose(network, choose(network, 3)).zones
    curvatures = [[Formulation.of(zone, form).smoothness for form in FORMULATIONS] for zone in zones]
    assert np.max(curvatures, axis=0) == pytest.approx([2.0, steepest])


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("inverse_step", [1.0, 12.0])
def test_no_step_moves_farther_than_said_and_some_nearly_as_far(halves, measured, metric, inverse_step, both):
    for zone in halves.zones:
        weights = metric(zone, inverse_step, RHO)
        said, error = Adjacency(BETA, both).of_step(eliminated(zone), weights), 1e-5
        found = measured(zone, inverse_step, both, error)
        assert said / 3 < found["metric"] <= said + 2 * error
        assert found["euclidean"] <= (said + 2 * error) / np.sqrt(weights.min())
        assert found["absolute"] <= (said + 2 * error) * np.sqrt(np.sum(1 / weights))


def test_steps_of_case14_keep_to_what_is_said(case14, measured, metric):
    for zone in case14.zones:
        inverse_step, error = smoothness(zone), 2e-5
        weights = metric(zone, inverse_step, RHO)
        said = Adjacency(BETA).of_step(eliminated(zone), weights)
        found = measured(zone, inverse_step, True, error)
        assert said / 2 < found["metric"] <= said + 2 * error
        assert found["euclidean"] <= (said + 2 * error) / np.sqrt(weights.min())


def test_steps_from_anywhere_keep_to_what_is_said(halves, metric):
    """Starts outside of the set, other duals, changes within beta."""
    rng = np.random.default_rng(3)
    for zone in halves.zones:
        weights, error = metric(zone, 5.0, RHO), 1e-4
        said = Adjacency(BETA).of_step(eliminated(zone), weights)
        for bus, _ in product(range(zone.buses.size), range(4)):
            start, near = rng.normal(size=zone.members.size), RHO * rng.normal(size=zone.shared.size)
            step = Stepper(zone, weights, start, 5.0, near)
            moved = step(changed(zone, bus, rng.uniform(-1, 1, 2)), error) - step(zone.relaxation.loads, error)
            assert np.sqrt(weights @ moved**2) <= said + 2 * error


def test_rho_does_not_hold_what_it_does_not_touch(case14, measured):
    """The audit divides by rho + 1/eta (B4). But rho acts on shared variables only, so a step moves far more than that,
    and in the first round of the paper's steps more than the beta that its output noise is scaled by."""
    zone = case14.zones[0]
    gradient_moves = Adjacency(BETA, both=False).of_gradient(eliminated(zone), 2)

    late = measured(zone, smoothness(zone), False, 1e-4)
    assert late["euclidean"] > 8 * gradient_moves / (RHO + smoothness(zone))
    assert late["euclidean"] < 0.5 * BETA  # the paper's beta is enough here,
    assert late["absolute"] > 1.2 * BETA  # though not in the 1-norm

    first = measured(zone, 1.0, False, 1e-4)  # eta = 1/sqrt(1)
    assert first["euclidean"] > 70 * gradient_moves / (RHO + 1)
    assert first["sent"] > 1.9 * gradient_moves / (RHO + 1)  # even of the copies alone
    assert first["euclidean"] > 3 * BETA
    assert first["absolute"] > 10 * BETA


def test_beta_scales_everything(halves, metric):
    for zone in halves.zones:
        weights = metric(zone, 4.0)
        small, large = Adjacency(0.01), Adjacency(0.05)
        assert large.of_loads(2) == pytest.approx(5 * small.of_loads(2))
        assert large.of_gradient(eliminated(zone), 1) == pytest.approx(5 * small.of_gradient(eliminated(zone), 1))
        assert large.of_step(eliminated(zone), weights) == pytest.approx(5 * small.of_step(eliminated(zone), weights))


def test_a_metric_of_one_size_divides_the_gradient(halves):
    """With weights w all over, a step moves by the gradient over w, which in the metric is over sqrt(w)."""
    for zone in halves.zones:
        adjacency = Adjacency(BETA)
        said = adjacency.of_step(eliminated(zone), np.full(zone.members.size, 25.0))
        assert said == pytest.approx(adjacency.of_gradient(eliminated(zone), 2) / 5)


# In slack form: u = (x, t) with t = B x.


def slack(zone):
    return Formulation.of(zone, "slack")


@pytest.mark.parametrize("name", FORMULATIONS)
def test_both_formulations_have_the_zones_objective(halves, name):
    """And its derivative along the set, whichever entries of u carry it."""
    rng = np.random.default_rng(4)
    for zone in halves.zones:
        problem, loads = Formulation.of(zone, name), zone.relaxation.loads
        for x, way in rng.normal(size=(3, 2, zone.members.size)):
            u = problem.lift @ x
            assert u[: x.size].tolist() == x.tolist()
            assert np.sum((problem.balance @ u + loads) ** 2) == pytest.approx(zone.relaxation.objective(x))
            slope = problem.public_gradient(u) + problem.of_loads(loads)
            assert slope @ (problem.lift @ way) == pytest.approx(gradient(zone, loads, x) @ way)


@pytest.mark.parametrize("norm", [1, 2])
def test_one_load_moves_one_entry_of_the_slack_forms_gradient_by_twice_beta(halves, norm):
    """001 has 2 beta in both norms; its `a` are the rows of an identity."""
    for zone in halves.zones:
        problem = slack(zone)
        one, both = (Adjacency(BETA, both) for both in (False, True))
        assert one.of_gradient(problem, norm) == pytest.approx(2 * BETA, rel=1e-12)
        assert both.of_gradient(problem, norm) == pytest.approx(2 * BETA * 2 ** (1 / norm), rel=1e-12)
        before = problem.of_loads(zone.relaxation.loads)
        for bus, change in changes(zone, False):
            moved = problem.of_loads(changed(zone, bus, change)) - before
            assert np.count_nonzero(moved) == 1
            assert np.abs(moved).max() == pytest.approx(2 * BETA)
            assert set(np.flatnonzero(moved)) <= set(problem.entered)
        assert problem.smoothness == pytest.approx(2.0)


def test_the_papers_2_beta_holds_for_case118_in_slack_form_only(ieee):
    network = ieee("case118")
    zones = decompose(network, choose(network, 3)).zones
    one = Adjacency(BETA, both=False)
    for norm, longest in ((1, 13.0), (2, np.sqrt(13))):
        assert max(one.of_gradient(slack(zone), norm) for zone in zones) == pytest.approx(2 * BETA)
        assert max(one.of_gradient(eliminated(zone), norm) for zone in zones) == pytest.approx(2 * BETA * longest)
    assert max(slack(zone).smoothness for zone in zones) == pytest.approx(2.0)
    assert max(eliminated(zone).smoothness for zone in zones) > 20


def test_entries_that_loads_do_not_enter_are_zero_whatever_the_loads(halves):
    rng = np.random.default_rng(5)
    for zone in halves.zones:
        for name, count in (("slack", zone.relaxation.loads.size), ("eliminated", None)):
            problem = Formulation.of(zone, name)
            rest = np.setdiff1d(np.arange(problem.size), problem.entered)
            assert rest.size
            assert count is None or problem.entered.tolist() == list(range(zone.members.size, problem.size))
            for loads in rng.normal(size=(3, zone.relaxation.loads.size)):
                assert not problem.of_loads(loads)[rest].any()
                assert problem.of_loads(loads)[problem.entered].all()


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("inverse_step", [1.0, 12.0])
def test_a_step_in_slack_form_moves_no_farther_than_said(halves, inverse_step, both):
    """2 beta sqrt(eta) in the metric for one load, sqrt(2) times that for both; and not far from it in the zone that
    has lines of its own."""
    rng, nearest = np.random.default_rng(6), 0.0
    for zone in halves.zones:
        problem, size = slack(zone), zone.members.size
        condensed = condense(zone.relaxation, problem.lift)
        weights = np.full(problem.size, inverse_step)
        weights[zone.shared] += RHO
        said, error = Adjacency(BETA, both).of_step(problem, weights), 1e-4
        assert said == pytest.approx(2 * BETA * np.sqrt((2 if both else 1) / inverse_step))
        u = rng.normal(size=problem.size)  # as after output noise: t is not B x

        def step(loads):
            slope = problem.public_gradient(u) + problem.of_loads(loads)  # noqa: B023
            return nearest_certified(condensed, u - slope / weights, weights, error, "zone")  # noqa: B023

        before = step(zone.relaxation.loads)
        np.testing.assert_allclose(before[size:], zone.relaxation.balance @ before[:size], atol=1e-9)
        moves = np.array([step(changed(zone, *change)) - before for change in changes(zone, both)])
        assert np.sqrt(moves**2 @ weights).max() <= said + 2 * error
        nearest = max(nearest, np.sqrt(moves**2 @ weights).max() / said)
    assert nearest > 1 / 4
