"""The rounds: theory 4.1 line by line, the pooled optimum without noise, and the better algorithm with it."""

import numpy as np
import pytest
from power_flow_checks import violation
from scipy.sparse import csc_array, diags_array, eye_array, hstack, vstack

from dpadmm.applications.power_flow import OperatingPoint, decompose, given, relax, releases, rounds, solve_pooled
from dpadmm.applications.power_flow.formulation import FORMULATIONS
from dpadmm.applications.power_flow.pooled import minimise
from dpadmm.applications.power_flow.releases import Protection
from dpadmm.applications.power_flow.rounds import Holder, run
from dpadmm.applications.power_flow.terms import Terms
from dpadmm.problems.sets.conic.cone import Cone

LINEARISED = ("linearised", "obj-g", "obj-l", "out-g", "out-l")


def noise(algorithm):
    """A little, where the algorithm has any."""
    return {} if algorithm in ("none", "linearised") else {"noise_multiplier": 0.5, "delta": 1e-2}


@pytest.fixture
def thirds(small):
    return decompose(small, given(small, [[10], [20], [5]]))


class Answer:
    """One zone's answer to one broadcast, with what it held before."""

    def __init__(self, holder, phi):
        self.phi, self.holder, self.zone = phi, holder, holder.zone
        self.sent_before, self.dual_before, self.point_before = holder.sent, holder.dual, holder.point

    def close(self):
        self.sent, self.dual = self.holder.sent, self.holder.dual
        self.point, self.answer = self.holder.point, self.holder.answer


@pytest.fixture
def watched(monkeypatch):
    """A run together with all answers, by round."""
    original = Holder.round

    def watch(decomposition, terms, seed=0):
        seen = []

        def answer(holder, phi, *rest):
            seen.append(Answer(holder, phi))
            events = original(holder, phi, *rest)
            seen[-1].close()
            return events

        with monkeypatch.context() as patched:
            patched.setattr(Holder, "round", answer)
            result = run(decomposition, terms, seed)
        zones = len(decomposition.zones)
        return result, [seen[first : first + zones] for first in range(0, len(seen), zones)]

    return watch


def summed(decomposition, answers, value):
    """Over all copies of each shared entry."""
    total = np.zeros(decomposition.phi.size)
    for answer in answers:
        np.add.at(total, answer.zone.common, value(answer))
    return total


# Line by line.


@pytest.mark.parametrize("algorithm", ["none", "linearised", "obj-g", "out-l"])
def test_broadcasts_and_duals_are_those_of_the_spec(thirds, watched, algorithm):
    terms = Terms(algorithm, rounds=4, rho=3.0, **noise(algorithm))
    result, by_round = watched(thirds, terms, seed=1)
    assert len(by_round) == 4
    for answers in by_round:
        phi = summed(thirds, answers, lambda answer: answer.sent_before - answer.dual_before / 3) / thirds.copies
        for answer in answers:
            np.testing.assert_allclose(answer.phi, phi, atol=1e-12)
            near = phi[answer.zone.common]
            np.testing.assert_allclose(answer.dual, answer.dual_before + 3 * (near - answer.sent), atol=1e-10)
            assert answer.sent.tolist() == answer.answer[answer.zone.shared].tolist()
        # So of every entry the duals of all copies sum to rho times what the copies moved down by.
        moved = summed(thirds, answers, lambda answer: answer.sent_before - answer.sent)
        np.testing.assert_allclose(summed(thirds, answers, lambda answer: answer.dual), 3 * moved, atol=1e-10)
        assert np.abs(moved).max() > 1e-6
    first, last = by_round[0], by_round[-1]
    assert all(not answer.dual_before.any() for answer in first)
    assert result.residual == pytest.approx(
        np.sqrt(sum(np.sum((answer.phi[answer.zone.common] - answer.sent) ** 2) for answer in last))
    )


@pytest.mark.parametrize("algorithm", ["none", "obj-l"])
def test_a_coordinator_follows_from_the_messages_alone(thirds, watched, algorithm):
    """It keeps the duals itself, from what was sent."""
    terms = Terms(algorithm, rounds=5, rho=3.0, **noise(algorithm))
    _, by_round = watched(thirds, terms)
    sent = [answer.sent_before for answer in by_round[0]]  # where round one begins is public
    duals = [np.zeros_like(copies) for copies in sent]
    for answers in by_round:
        phi = np.zeros(thirds.phi.size)
        for zone, copies, dual in zip(thirds.zones, sent, duals, strict=True):
            np.add.at(phi, zone.common, (copies - dual / 3) / thirds.copies[zone.common])
        np.testing.assert_allclose(answers[0].phi, phi, atol=1e-10)
        sent = [answer.sent for answer in answers]
        duals = [
            dual + 3 * (phi[zone.common] - copies) for zone, dual, copies in zip(thirds.zones, duals, sent, strict=True)
        ]
    for answer, dual in zip(by_round[-1], duals, strict=True):
        np.testing.assert_allclose(answer.dual, dual, atol=1e-9)


def test_an_exact_round_minimises_the_augmented_lagrangian(halves, watched):
    _, by_round = watched(halves, Terms("none", rounds=4, rho=3.0))
    for answers in by_round:
        for answer in answers:
            zone = answer.zone
            balance, loads = zone.relaxation.balance, zone.relaxation.loads
            penalty, pull = np.zeros(zone.members.size), np.zeros(zone.members.size)
            penalty[zone.shared] = 3.0
            pull[zone.shared] = 3.0 * answer.phi[zone.common] + answer.dual_before
            near = rounds.PROXIMAL
            quadratic = csc_array(2 * balance.T @ balance + diags_array(penalty + near))
            linear = 2 * balance.T @ loads - pull - near * answer.point_before
            x = minimise(zone.relaxation.cone, quadratic, linear, "reference")

            def value(x, quadratic=quadratic, linear=linear):
                return x @ (quadratic @ x) / 2 + linear @ x

            assert value(answer.answer) == pytest.approx(value(x), abs=1e-6)
            np.testing.assert_allclose(answer.sent, x[zone.shared], atol=2e-4)
            assert answer.point.tolist() == answer.answer.tolist()


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("algorithm", LINEARISED)
@pytest.mark.parametrize("steps", ["smooth", "paper"])
def test_an_update_is_a_projected_gradient_step_in_the_metric(
    halves, watched, monkeypatch, algorithm, steps, formulation
):
    """Three a round: each begins where the last one ended, across rounds too; the mean of the three is sent."""
    made, slopes = [], []
    kind = releases.PROTECTIONS[algorithm]
    gradient, result = kind.gradient, kind.result

    def noisy_gradient(self, problem, exact, words):
        slopes.append((exact, gradient(self, problem, exact, words)))
        return slopes[-1][1]

    def projected(self, step, programme, words):
        made.append((step, result(self, step, programme, words)))
        return made[-1][1]

    monkeypatch.setattr(kind, "gradient", noisy_gradient)
    monkeypatch.setattr(kind, "result", projected)
    asked = {"rounds": 2, "updates": 3, "rho": 5.0, "steps": steps, "formulation": formulation}
    terms = Terms(algorithm, **asked, **noise(algorithm))
    _, by_round = watched(halves, terms)
    assert len(made) == len(slopes) == 2 * 2 * 3
    at = 0
    last = {}
    for k, answers in enumerate(by_round, start=1):
        for place, answer in enumerate(answers):
            zone, u, ends = answer.zone, answer.point_before, []
            if place in last:
                assert u.tolist() == last[place].tolist()
            balance, loads, size = zone.relaxation.balance.toarray(), zone.relaxation.loads, zone.members.size
            if formulation == "slack":  # the derivative of |t + loads|² in (x, t)
                balance = np.hstack([np.zeros((loads.size, size)), np.eye(loads.size)])
            eta = terms.eta(2 * np.linalg.norm(balance, 2) ** 2, k)
            for _ in range(3):
                (step, end), (exact, noisy) = made[at], slopes[at]
                at += 1
                np.testing.assert_allclose(exact, 2 * balance.T @ loads, atol=1e-10)
                weights, point = np.full(u.size, 1 / eta), u / eta - 2 * balance.T @ (balance @ u)
                weights[zone.shared] += 5.0
                point[zone.shared] += 5.0 * answer.phi[zone.common] + answer.dual_before
                np.testing.assert_allclose(step.weights, weights, rtol=1e-12)
                np.testing.assert_allclose(step.point, (point - noisy) / weights, atol=1e-10)
                without_loads = point / weights - answer.holder.start
                assert step.reach == pytest.approx(np.sqrt(weights @ without_loads**2))
                if not algorithm.startswith("out"):  # the nearest point of the set, t = B x included
                    x = end[:size]
                    np.testing.assert_allclose(end, np.concatenate([x, zone.relaxation.balance @ x])[: end.size])
                    assert violation(zone.relaxation.cone, x) < 1e-5
                u = end
                ends.append(end)
            np.testing.assert_allclose(answer.answer, np.mean(ends, axis=0), atol=1e-12)
            assert answer.point.tolist() == ends[-1].tolist()
            assert np.abs(answer.answer - answer.point).max() > 1e-6
            last[place] = ends[-1]


def test_a_slack_step_is_the_papers_subproblem(halves, watched):
    """(D.3) as 001 prints it: over (s, x) with s = B x + loads in the set, linearised and proximal in both; solved here
    with the private s as a variable, and ours with t, which knows nothing of the loads, come to the same x."""
    terms = Terms("linearised", rounds=2, rho=5.0)
    _, by_round = watched(halves, terms)
    for k, answers in enumerate(by_round, start=1):
        for answer in answers:
            zone, u = answer.zone, answer.point_before
            relaxation, size, eta = zone.relaxation, zone.members.size, terms.eta(2.0, k)
            x, s = u[:size], u[size:] + relaxation.loads
            cone, buses = relaxation.cone, s.size
            with_slack = Cone(
                csc_array(
                    vstack(
                        [
                            hstack([relaxation.balance, -eye_array(buses)]),
                            hstack([cone.rows, csc_array((cone.limits.size, buses))]),
                        ]
                    )
                ),
                np.concatenate([-relaxation.loads, cone.limits]),
                cone.zero + buses,
                cone.nonnegative,
                cone.second_order,
            )
            weights, linear = np.full(size + buses, 1 / eta), -np.concatenate([x, s]) / eta
            linear[size:] += 2.0 * s
            weights[zone.shared] += 5.0
            linear[zone.shared] -= 5.0 * answer.phi[zone.common] + answer.dual_before
            theirs = minimise(with_slack, csc_array(diags_array(weights)), linear, "reference")
            np.testing.assert_allclose(answer.answer[:size], theirs[:size], atol=2e-5)
            np.testing.assert_allclose(answer.answer[size:] + relaxation.loads, theirs[size:], atol=2e-5)


def test_every_noise_is_drawn_anew(halves, thirds, monkeypatch):
    """For every zone, round and update, and for the loads; none is a piece of another."""
    drawn, original = [], Protection._noisy

    def remember(self, exact, multiplier, *rest):
        found = original(self, exact, multiplier, *rest)
        drawn.append(np.round((found - exact)[:2] / multiplier, 9))
        return found

    monkeypatch.setattr(Protection, "_noisy", remember)
    for algorithm in ("obj-g", "out-g"):
        drawn.clear()
        run(halves, Terms(algorithm, rounds=3, updates=2, noise_multiplier=1.0, delta=1e-2), seed=3)
        assert len(drawn) == 12
        assert len(set(np.concatenate(drawn).tolist())) == 24
    drawn.clear()
    run(thirds, Terms("input", rounds=3, noise_multiplier=1.0, delta=1e-2), seed=3)
    assert [each.size for each in drawn] == [2, 2, 2]  # as many for every zone
    assert len(set(np.concatenate(drawn).tolist())) == 6


# The result.


@pytest.mark.parametrize("algorithm", ["none", "input", "obj-g", "out-g"])
def test_what_is_reported_is_what_the_zones_hold(halves, algorithm):
    told = []
    result = run(halves, Terms(algorithm, rounds=3, **noise(algorithm)), 2, lambda *report: told.append(report))
    assert told == list(zip([1, 2, 3], result.objectives, result.residuals, strict=True))
    zones = zip(halves.zones, result.vectors, strict=True)
    assert result.objective == pytest.approx(sum(zone.relaxation.objective(vector) for zone, vector in zones))
    assert result.objective == result.objectives[-1]
    assert result.residual == result.residuals[-1]
    # The mean of the copies is nearer to them than anything that was broadcast.
    assert halves.residual(result.vectors) <= result.residual
    merged = halves.merge(result.vectors)
    expected = OperatingPoint.at(relax(halves.network), merged)
    assert result.point.x.tolist() == merged.tolist()
    assert result.point.objective == expected.objective
    for zone, vector in zip(halves.zones, result.vectors, strict=True):
        assert merged[zone.members[zone.private]].tolist() == vector[zone.private].tolist()
    assert result.point.voltage.shape == (3,)
    assert result.seconds > 0


@pytest.mark.parametrize("algorithm", ["input", "obj-g", "obj-l", "out-g", "out-l"])
def test_a_run_repeats_from_its_seed_and_another_seed_gives_another(halves, algorithm):
    terms = Terms(algorithm, rounds=3, noise_multiplier=1.0, delta=1e-2)
    one, again, other = (run(halves, terms, seed) for seed in (5, 5, 6))
    for first, second, third in zip(one.vectors, again.vectors, other.vectors, strict=True):
        assert first.tolist() == second.tolist()
        assert np.abs(first - third).max() > 1e-4
    assert one.objectives.tolist() == again.objectives.tolist()
    assert (one.objectives != other.objectives).all()


@pytest.mark.parametrize("algorithm", ["input", "obj-g", "out-l"])
def test_more_rounds_begin_with_the_same_ones(halves, algorithm):
    """With the same multiplier; and the noise on the loads is the same for a budget too, whatever the rounds."""
    short, long = (Terms(algorithm, rounds=rounds, noise_multiplier=1.0, delta=1e-2) for rounds in (2, 4))
    assert run(halves, short, 5).objectives.tolist() == run(halves, long, 5).objectives[:2].tolist()


def test_the_noise_on_the_loads_does_not_depend_on_the_rounds(halves):
    short, long = (run(halves, Terms(rounds=rounds, epsilon=1.0, delta=1e-2), 5) for rounds in (2, 9))
    assert short.objectives.tolist() == long.objectives[:2].tolist()
    assert short.guarantee == long.guarantee


def test_the_start_is_public_and_within_the_set(halves, with_loads):
    other = with_loads(halves.network, np.ones(3), -np.ones(3))
    protection = Terms("obj-g", noise_multiplier=1.0).protection()
    for zone, changed in zip(halves.zones, decompose(other, halves.partition).zones, strict=True):
        one, two = (Holder.begin(each, protection, "slack", "zone", None)[0] for each in (zone, changed))
        assert one.start.tolist() == two.start.tolist() == one.point.tolist() == one.answer.tolist()
        assert violation(zone.relaxation.cone, one.start[: zone.members.size]) < 1e-6
        eliminated = Holder.begin(zone, protection, "eliminated", "zone", None)[0]
        np.testing.assert_allclose(one.operating, eliminated.start, atol=1e-9)
        assert not one.dual.any()
        assert (one.loads != two.loads).any()


# Without noise: the pooled optimum.


def test_zones_come_to_the_pooled_optimum(overloaded):
    """Where not all can be supplied, exact zones together miss by the least possible."""
    pooled = solve_pooled(overloaded)
    assert pooled.objective > 1
    for zones in ([[10, 5], [20]], [[10], [20], [5]]):
        result = run(decompose(overloaded, given(overloaded, zones)), Terms("none", rounds=60))
        assert result.objective == pytest.approx(pooled.objective, rel=1e-2)
        assert result.point.objective == pytest.approx(pooled.objective, rel=1e-2)
        assert result.residual < 1e-3
        assert violation(relax(overloaded).cone, result.point.x) < 1e-3
        np.testing.assert_allclose(result.point.active_mismatch, pooled.active_mismatch, atol=1e-2)
        assert abs(result.objectives[0] / pooled.objective - 1) > 0.1  # it was not there from the start


def test_gradient_steps_come_to_the_pooled_optimum_too(overloaded):
    pooled = solve_pooled(overloaded)
    decomposition = decompose(overloaded, given(overloaded, [[10, 5], [20]]))
    result = run(decomposition, Terms("linearised", rounds=200))
    assert result.objective == pytest.approx(pooled.objective, rel=1e-2)
    assert result.residual < 1e-3
    more = run(decomposition, Terms("linearised", rounds=50, updates=4))
    assert more.objective < 1.5 * pooled.objective


def test_one_zone_alone_needs_nobody(overloaded):
    decomposition = decompose(overloaded, given(overloaded, [[10, 20, 5]]))
    result = run(decomposition, Terms("none", rounds=5))
    assert result.objective == pytest.approx(solve_pooled(overloaded).objective, rel=1e-4)
    assert result.residuals.tolist() == [0.0] * 5


def test_case14_agrees_and_supplies_all(case14):
    result = run(case14, Terms("none", rounds=60))
    assert result.residuals[0] > 1e-2
    assert result.residual < 1e-3
    assert solve_pooled(case14.network).objective < 1e-12
    assert result.objective < 1e-6
    assert result.point.objective < 1e-6


def test_rho_decides_how_fast_not_where(overloaded):
    decomposition = decompose(overloaded, given(overloaded, [[10, 5], [20]]))
    pooled = solve_pooled(overloaded).objective
    for rho, count in ((0.3, 150), (10.0, 60)):
        result = run(decomposition, Terms("none", rounds=count, rho=rho))
        assert result.objective == pytest.approx(pooled, rel=1e-2)


# With noise.


def test_noisy_loads_are_supplied_in_place_of_the_true_ones(halves):
    """Both can be, so what the true loads miss at the end is the noise, and nothing else."""
    result = run(halves, Terms(rounds=60, epsilon=1.0, delta=1e-2), seed=3)
    total = 0.0
    for place, zone in enumerate(halves.zones):
        loads, _ = result.terms.protection().loads(zone, rounds._random_bits(3, place, 0))
        total += np.sum((loads - zone.relaxation.loads) ** 2)
    assert total > 1e-4
    assert result.objective == pytest.approx(total, rel=1e-2)


def test_at_the_same_budget_input_noise_is_best(case14):
    """Total (1, 0.01): noise once, on 28 numbers, beats noise in every round, wherever that enters."""

    def mean(algorithm):
        terms = Terms(algorithm, rounds=15, epsilon=1.0, delta=1e-2)
        return np.mean([run(case14, terms, seed).objective for seed in range(3)])

    best = mean("input")
    assert best < 0.05
    for algorithm in ("obj-g", "obj-l", "out-g", "out-l"):
        assert mean(algorithm) > 3 * best
