"""Solvers answer what they promise, alike for any batch, and move no further than their gain allows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array

from dpadmm.admm.solvers import SOLVERS, Exact, GradientAnswer, Linearised, exact
from dpadmm.admm.solvers.base import Subproblem
from dpadmm.admm.solvers.exact import START
from dpadmm.errors import InputError
from dpadmm.problems.kernels.batch import learn
from dpadmm.problems.losses import LOSSES, Logistic, Softmax
from dpadmm.problems.penalties import L1, L2, PENALTIES, NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Box, Whole
from dpadmm.problems.shards import gather

TOLERANCE = 1e-10
STEP = np.full((4, 1), 0.7)

EVERY = {
    f"{name}-{kind}-{domain.name}": Problem(loss(), penalty(), 0.05, domain)
    for name, loss in LOSSES.items()
    for kind, penalty in PENALTIES.items()
    for domain in (Whole(), Box(0.4))
}


def has_kink(problem):
    """Whether the loss has one: test_kinks.py says how near to the minimiser the answer is then."""
    return problem.loss.curvature_bound(1.0) is None


REFUSED = {
    name: problem
    for name, problem in EVERY.items()
    if not problem.penalty.convex or (has_kink(problem) and problem.domain.name == "box")
}
SOLVED = {name: problem for name, problem in EVERY.items() if name not in REFUSED}
PROBLEMS = {name: problem for name, problem in SOLVED.items() if not has_kink(problem)}
SMOOTH = {name: problem for name, problem in PROBLEMS.items() if problem.smooth}
every_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
every_solved_problem = pytest.mark.parametrize("problem", SOLVED.values(), ids=SOLVED)
every_smooth_problem = pytest.mark.parametrize("problem", SMOOTH.values(), ids=SMOOTH)


def solve(solver, sub, memory=None, eta=STEP):
    memory = solver.start(np.zeros(sub.tilt.shape)) if memory is None else memory
    return solver.solve(sub, sub.loss_gradient, memory, eta[: sub.tilt.shape[0]])


def distance_to_optimality(sub, x):
    """Length of the shortest element of the objective's subdifferential over the set, coordinate by coordinate."""
    penalty, strength = sub.problem.penalty, sub.problem.strength
    kink = strength * getattr(penalty, "ratio", 0.0)
    bend = strength * penalty.strong_convexity
    smooth = sub.loss_gradient(x) + sub.tilt + sub.kappa * (x - sub.centre) + bend * x
    low, high = smooth + kink * np.where(x > 0, 1.0, -1.0), smooth + kink * np.where(x < 0, -1.0, 1.0)
    if isinstance(sub.problem.domain, Box):
        bound = sub.problem.domain.bound
        high = np.where(x >= bound, np.inf, high)  # the normal cone points outwards
        low = np.where(x <= -bound, -np.inf, low)
    shortest = np.clip(0.0, low, high)
    return np.linalg.norm(shortest, axis=1)


@every_problem
def test_exact_reaches_its_tolerance(problem, simulated, subproblem, terms):
    shards = simulated(problem.loss)
    sub = subproblem(problem, shards)
    Exact(TOLERANCE).check(terms(problem, shards))
    answer, _ = solve(Exact(TOLERANCE), sub)
    assert problem.domain.contains(answer, 0.0).all()
    assert distance_to_optimality(sub, answer).max() <= TOLERANCE * (1 + 1e-3)
    # The measure itself must notice: a nearby point of the set is not optimal.
    nearby = problem.domain.project(answer + 1e-6)
    assert distance_to_optimality(sub, nearby).max() > 1e-8


@every_smooth_problem
def test_exact_agrees_with_scipy(problem, simulated, subproblem):
    sub = subproblem(problem, simulated(problem.loss))
    answer, _ = solve(Exact(TOLERANCE), sub)
    bound = getattr(problem.domain, "bound", None)
    for agent in range(2):
        one = sub.take([agent])

        def objective(x, one=one):
            value = one.problem.objective(one.shards, x[None])[0] + float(one.tilt[0] @ x)
            return value + 0.5 * one.kappa[0, 0] * float(((x - one.centre[0]) ** 2).sum())

        found = minimize(
            objective,
            np.zeros(answer.shape[1]),
            jac=lambda x, one=one: one.gradient(x[None])[0],
            method="L-BFGS-B",
            bounds=None if bound is None else [(-bound, bound)] * answer.shape[1],
            options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5000},
        )
        np.testing.assert_allclose(answer[agent], found.x, atol=2e-6)


def test_what_exact_cannot_solve_it_refuses_beforehand(simulated, terms):
    """And it solves the rest: every loss and every convex penalty on the whole space, and in a box without kinks."""
    for problem in REFUSED.values():
        with pytest.raises(InputError, match=r"solver 'exact' (needs a convex penalty|handles the kink)"):
            Exact(1e-6).check(terms(problem, simulated(problem.loss)))
    for problem in SOLVED.values():
        Exact(1e-6).check(terms(problem, simulated(problem.loss)))
    assert {problem.penalty.name for problem in REFUSED.values()} == PENALTIES.keys()
    assert {problem.loss.name for problem in SOLVED.values()} == LOSSES.keys()


@every_solved_problem
def test_a_warm_start_moves_the_answer_by_no_more_than_the_tolerance(problem, simulated, subproblem):
    sub = subproblem(problem, simulated(problem.loss))
    tolerance = 1e-6 if has_kink(problem) else TOLERANCE
    solver = Exact(tolerance)
    cold, _ = solve(solver, sub)
    _, memory = solve(solver, subproblem(problem, sub.shards, seed=9, spread=4.0))
    warm, _ = solve(solver, sub, memory)
    reach = 2 * tolerance / (sub.kappa[:, 0] + problem.strong_convexity)
    assert (np.linalg.norm(warm - cold, axis=1) <= reach).all()


def test_newton_is_used_where_there_is_a_hessian(simulated, subproblem):
    def newton(problem, shards=None):
        return Exact.by_newton(subproblem(problem, shards or simulated(problem.loss)))

    assert newton(Problem(penalty=L2(), strength=0.1))
    assert newton(Problem(penalty=L1(), strength=0.0))
    assert newton(Problem(Softmax()))
    assert not newton(Problem(penalty=L1(), strength=0.1))
    assert not newton(Problem(domain=Box(1.0)))
    assert not newton(Problem(LOSSES["squared"]()))
    dense = simulated(Softmax())
    sparse = replace(dense, features=csr_array(dense.features))
    assert not newton(Problem(Softmax()), sparse)


def test_proximal_over_sparse_softmax_agrees_with_newton_over_dense(simulated, subproblem):
    dense = simulated(Softmax())
    problem = Problem(Softmax(), L2(), 0.05)
    by_newton, _ = solve(Exact(TOLERANCE), subproblem(problem, dense))
    by_steps, _ = solve(Exact(TOLERANCE), subproblem(problem, replace(dense, features=csr_array(dense.features))))
    np.testing.assert_allclose(by_steps, by_newton, atol=2 * TOLERANCE / 0.1)


def test_newton_converges_from_far_away(simulated, subproblem):
    """A full Newton step of the logistic loss overshoots from here; backtracking must save it."""
    sub = subproblem(Problem(), simulated(), spread=1.0)
    sub = replace(sub, kappa=np.full((4, 1), 1e-4), centre=np.zeros_like(sub.centre))
    solver = Exact(TOLERANCE)
    memory = replace(solver.start(np.zeros(sub.tilt.shape)), point=np.full(sub.tilt.shape, 200.0))
    answer, _ = solve(solver, sub, memory)
    assert distance_to_optimality(sub, answer).max() <= TOLERANCE * (1 + 1e-3)


@pytest.mark.parametrize("penalty", [L2(), L1()], ids=["l2", "l1"])
@pytest.mark.parametrize("name", SOLVERS)
def test_a_batch_of_n_is_n_batches_of_one_bit_for_bit(name, penalty, simulated, subproblem):
    """Over rounds, with what each solver keeps: Newton's inverses, the previous release."""
    solver = SOLVERS[name]()
    problem = Problem(Logistic(), penalty, 0.05)
    shards = simulated(agents=4, records=1500, width=5)  # the largest agent has more than one chunk
    together = solver.start(np.zeros((4, 5)))
    apart = [solver.start(np.zeros((1, 5))) for _ in range(4)]
    for round in range(5):
        sub = subproblem(problem, shards, seed=round)
        sub = replace(sub, kappa=np.full((4, 1), 0.1))
        answer, together = solve(solver, sub, together)
        for i in range(4):
            alone, apart[i] = solve(solver, sub.take([i]), apart[i])
            np.testing.assert_array_equal(alone[0], answer[i])
            for key, kept in apart[i].private.items():
                np.testing.assert_array_equal(kept[0], together.private[key][i])


@pytest.mark.parametrize("penalty", [L2(), L1()], ids=["l2", "l1"])
@pytest.mark.parametrize("name", SOLVERS)
def test_what_was_remembered_stays_as_it_was(name, penalty, simulated, subproblem):
    """The point a solver starts from may be somebody's release: it must not be written into."""
    solver = SOLVERS[name]()
    sub = subproblem(Problem(Logistic(), penalty, 0.05), simulated())
    _, memory = solve(solver, sub)
    point, private = memory.point.copy(), {key: kept.copy() for key, kept in memory.private.items()}
    solve(solver, sub.tilted(np.ones_like(sub.tilt)), memory)
    np.testing.assert_array_equal(memory.point, point)
    for key, kept in private.items():
        np.testing.assert_array_equal(memory.private[key], kept)


def test_newton_keeps_its_inverses(simulated, subproblem, monkeypatch):
    solver = Exact()
    sub = subproblem(Problem(penalty=L2(), strength=0.1), simulated())
    _, memory = solve(solver, sub)
    monkeypatch.setattr(Subproblem, "hessian", lambda *_: pytest.fail("a Hessian was made anew"))
    answer, after = solve(solver, sub.tilted(np.full(sub.tilt.shape, 1e-4)), memory)
    assert distance_to_optimality(sub.tilted(np.full(sub.tilt.shape, 1e-4)), answer).max() <= TOLERANCE
    assert memory.private[START] is not after.private[START]
    np.testing.assert_array_equal(after.private["slope"], sub.loss_gradient(after.private[START]))


def test_newton_learns_the_curvature_along_its_steps(simulated, subproblem):
    """BFGS: the kept inverses stay symmetric and positive definite, and right for the last change of the gradient."""
    sub = subproblem(Problem(penalty=L2(), strength=0.1), simulated())
    inverse = np.linalg.inv(sub.hessian(np.zeros(sub.tilt.shape)))
    far = 2.0 * np.random.default_rng(3).standard_normal(sub.tilt.shape)
    change = sub.gradient(far) - sub.gradient(np.zeros_like(far))
    before = inverse.copy()
    rows = np.array([0, 2])
    learn(inverse, rows, far[rows], change[rows])
    np.testing.assert_array_equal(inverse[[1, 3]], before[[1, 3]])
    np.testing.assert_allclose(np.einsum("aij,aj->ai", inverse[rows], change[rows]), far[rows], atol=1e-12)
    np.testing.assert_allclose(inverse, inverse.transpose(0, 2, 1), atol=1e-15)
    assert np.linalg.eigvalsh(inverse).min() > 0
    learn(inverse, rows, far[rows], -change[rows])  # no convex function changes like that
    np.testing.assert_allclose(np.einsum("aij,aj->ai", inverse[rows], change[rows]), far[rows], atol=1e-12)


def test_exact_goes_on_from_its_private_answer_and_linearised_from_the_release(simulated, subproblem):
    sub = subproblem(Problem(penalty=L2(), strength=0.05), simulated())

    def emit(value):
        return value + 7.0

    for solver in (Exact(), Linearised()):
        answer, memory = solver.solve(sub, sub.loss_gradient, solver.start(np.zeros(sub.tilt.shape)), STEP, emit)
        plain, _ = solve(solver, sub)
        np.testing.assert_array_equal(answer, plain + 7.0)
        if solver.first_order:
            np.testing.assert_array_equal(memory.point, answer)
            assert memory.private == {}
        else:
            np.testing.assert_allclose(memory.private[START], plain, atol=TOLERANCE)
            np.testing.assert_array_equal(memory.point, 0.0)  # as it was: nothing of the answer without noise


@pytest.mark.parametrize("penalty", [NoPenalty(), L1(), L2()], ids=["none", "l1", "l2"])
@pytest.mark.parametrize("domain", [Whole(), Box(0.1)], ids=["whole", "box"])
def test_linearised_step_is_the_formula_of_the_paper(penalty, domain, simulated):
    """Spec 3.4: x = (-g + y + rho z + u/eta) / (rho + 1/eta), then the nearest point of the set."""
    problem = Problem(Logistic(), penalty, 0.3, domain)
    shards = simulated()
    rng = np.random.default_rng(1)
    y, z, u = 0.1 * rng.standard_normal((3, 4, 3))
    rho, eta = 0.1, np.array([[0.2], [0.5], [1.0], [4.0]])
    sub = Subproblem(problem, shards, problem.weights(shards.counts), -y, np.full((4, 1), rho), z)
    answer, memory = Linearised().solve(sub, sub.loss_gradient, Linearised().start(u), eta)
    slope = {"none": 0.0 * u, "l1": np.sign(u), "l2": u}[penalty.name]
    for i in range(4):
        a = shards.real_rows[shards.starts[i] : shards.stops[i]]
        b = shards.targets[shards.starts[i] : shards.stops[i]]
        g = -(a * (b / (1 + np.exp(b * (a @ u[i]))))[:, None]).mean(axis=0) + 0.3 * slope[i]
        expected = (-g + y[i] + rho * z[i] + u[i] / eta[i]) / (rho + 1 / eta[i])
        if domain.name == "box":
            assert np.abs(expected).max() > domain.bound  # the projection has something to do
            expected = np.clip(expected, -domain.bound, domain.bound)
        np.testing.assert_allclose(answer[i], expected, atol=1e-14)
    assert domain.contains(answer, 0.0).all()
    assert memory.point is answer


def test_gradient_answer_is_the_gradient_at_the_centre(simulated, subproblem):
    sub = subproblem(Problem(penalty=L2(), strength=9.0), simulated())
    answer, _ = solve(GradientAnswer(), sub)
    np.testing.assert_array_equal(answer, sub.loss_gradient(sub.centre))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_first_order_solver_sees_records_through_its_oracle_only(name, simulated, subproblem):
    solver = SOLVERS[name]()
    sub = subproblem(Problem(penalty=L2(), strength=0.1), simulated())
    other = replace(sub, shards=simulated(seed=1))
    memory = solver.start(np.zeros(sub.tilt.shape))

    def same(x):
        return np.ones_like(x)

    here, there = (solver.solve(s, same, memory, STEP)[0] for s in (sub, other))
    assert solver.first_order == np.array_equal(here, there)


def moved(solver, problem, rows, labels, others, other_labels, centre, point, kappa, eta):
    """How far the answer of one agent moves when its last record is replaced by each of the others."""
    count = len(others)
    features = np.concatenate([np.concatenate([rows[:-1], other[None]]) for other in others])
    targets = np.concatenate([np.concatenate([labels[:-1], [label]]) for label in other_labels])
    owner = np.repeat(np.arange(count), len(rows))
    shards = gather(features, targets, owner, norm_bound=1.0, names=[str(i) for i in range(count)])

    def full(row):
        return np.tile(row, (count, 1))

    sub = Subproblem(
        problem, shards, problem.weights(shards.counts), full(0.0 * centre), np.full((count, 1), kappa), full(centre)
    )
    memory = solver.start(full(point))
    answers, _ = solver.solve(sub, sub.loss_gradient, memory, np.full((count, 1), eta))
    return np.linalg.norm(answers[:, None] - answers[None], axis=2)


GAINS = pytest.mark.parametrize(
    ("solver", "problem"),
    [
        pytest.param(solver, Problem(Logistic(), penalty, 0.2), id=f"{solver.name}-{penalty.name}")
        for solver in (Exact(1e-6), Linearised())
        for penalty in (L2(), L1())
    ],
)


def allowed(solver, problem, terms, records, kappa, eta, dimension):
    setting = terms(problem, [records], dimension=dimension)
    gain = solver.gain(setting, np.array([kappa]), np.array([eta]))[0]
    return gain * (setting.gradient_sensitivity()[0] + 2 * solver.tolerance)


@GAINS
def test_no_sampled_neighbour_moves_the_answer_further_than_the_gain_allows(solver, problem, terms):
    rng = np.random.default_rng(0)
    unit = rng.standard_normal((130, 3))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    kappa, eta = 0.1, 0.5
    reach = 0.0
    for spread in (0.0, 3.0, 30.0):
        centre, point = spread * rng.standard_normal((2, 3))
        labels = rng.choice([-1.0, 1.0], 130)
        far = moved(solver, problem, unit[:5], labels[:5], unit[5:], labels[5:], centre, point, kappa, eta)
        limit = allowed(solver, problem, terms, 5, kappa, eta, 3)
        assert far.max() <= limit
        reach = max(reach, far.max() / limit)
    assert reach > 0.3


@GAINS
def test_an_adversarial_neighbour_comes_close_to_the_gain(solver, problem, terms):
    """Two records at full slope in nearly opposite directions: both far on the wrong side of a long model."""
    v = np.array([[0.02, np.sqrt(1 - 0.02**2)], [0.02, -np.sqrt(1 - 0.02**2)]])
    centre = np.array([1e4, 50.0])
    rows, labels = np.zeros((4, 2)), np.ones(4)
    far = moved(solver, problem, rows, labels, v, [-1.0, -1.0], centre, centre, 0.1, 0.5)
    limit = allowed(solver, problem, terms, 4, 0.1, 0.5, 2)
    assert 0.995 * limit < far.max() <= limit


# -- fast solvers are not trusted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [L2(), L1()], ids=["newton", "proximal"])
def test_a_tolerance_below_rounding_is_refused_by_public_numbers(penalty, simulated, subproblem):
    problem, seen = Problem(Logistic(), penalty, 0.05), set()
    for seed in range(3):
        given = subproblem(problem, simulated(seed=seed))
        with pytest.raises(InputError, match=r"more than half of the tolerance of 1e-12 .* Set the tolerance to") as no:
            solve(Exact(1e-12), replace(given, tilt=1e4 + 0.0 * given.tilt))
        seen.add(str(no.value))
    assert len(seen) == 1  # whatever the records are


def raising(*given):
    raise ZeroDivisionError("division by zero")


def singular(*given):
    raise np.linalg.LinAlgError("Matrix is singular to machine precision.")


def nothing(sub, *given):
    return np.full_like(sub.tilt, np.nan)


def zeros(sub, *given):
    return np.zeros_like(sub.tilt)


def vandal(sub, *given):
    """Writes into what it was given."""
    for array in (sub.tilt, sub.kappa, sub.centre):
        array[...] = 7.0
    return np.zeros_like(sub.tilt)


BROKEN = {"raises": raising, "singular": singular, "nothing": nothing, "zeros": zeros, "vandal": vandal}
CASES = {
    "newton": (Problem(Logistic(), L2(), 0.05), "newton"),
    "proximal": (Problem(Logistic(), L1(), 0.05), "proximal"),
    "box": (Problem(Logistic(), L1(), 0.05, Box(0.3)), "proximal"),
}
every_case = pytest.mark.parametrize(("problem", "method"), CASES.values(), ids=CASES)


def instead(monkeypatch, method, broken):
    """The solver with another function in the place of its fast one."""

    def by_newton(sub, start, kept, tolerance):
        found = broken(sub, start, tolerance)
        return found, {"inverse": np.zeros((*found.shape, found.shape[1])), "slope": np.full_like(found, np.nan)}

    monkeypatch.setattr(exact, method, by_newton if method == "newton" else broken)


@every_case
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_whatever_a_fast_solver_does_answers_are_within_the_paid_distance(
    broken, problem, method, simulated, subproblem, monkeypatch
):
    solver, sub = Exact(TOLERANCE), subproblem(problem, simulated())
    good, memory = solve(solver, sub)
    reach = 2 * TOLERANCE / (sub.kappa[:, 0] + problem.strong_convexity)
    instead(monkeypatch, method, broken)
    for start in (None, memory):
        answer, after = solve(solver, subproblem(problem, sub.shards), start)
        assert (np.linalg.norm(answer - good, axis=1) <= reach).all()
        assert problem.domain.contains(answer, 0.0).all()
        assert np.isfinite(after.point).all()
    monkeypatch.undo()
    again, _ = solve(solver, sub, after)  # and it goes on from what was left behind
    assert (np.linalg.norm(again - good, axis=1) <= reach).all()


@every_case
def test_one_agents_failure_changes_no_bit_of_the_others_answers(problem, method, simulated, subproblem, monkeypatch):
    solver, sub = Exact(TOLERANCE), subproblem(problem, simulated())
    _, memory = solve(solver, sub)
    moved = sub.tilted(np.full(sub.tilt.shape, 1e-3))
    good, _ = solve(solver, moved, memory)
    fast = getattr(exact, method)

    def fails_for_one(part, *given):
        if sub.shards.names[2] in part.shards.names:
            raise np.linalg.LinAlgError("Matrix is singular to machine precision.")
        return fast(part, *given)

    monkeypatch.setattr(exact, method, fails_for_one)
    answer, after = solve(solver, moved, memory)
    np.testing.assert_array_equal(answer[[0, 1, 3]], good[[0, 1, 3]])
    assert np.linalg.norm(answer[2] - good[2]) <= 2 * TOLERANCE / sub.kappa[2, 0]
    assert np.isfinite(after.point).all()


@pytest.mark.parametrize("dense", [True, False], ids=["newton", "proximal"])
def test_numbers_that_overflow_in_a_fast_solver_do_no_harm(dense, simulated, subproblem):
    """From a warm start of 1e200, where squares overflow."""
    problem = Problem(Logistic(), L2() if dense else L1(), 0.05)
    sub = subproblem(problem, simulated())
    solver = Exact(TOLERANCE)
    good, memory = solve(solver, sub)
    far = replace(memory, point=np.full(sub.tilt.shape, 1e200), private={})
    answer, _ = solve(solver, sub, far)
    assert (np.linalg.norm(answer - good, axis=1) <= 2 * TOLERANCE / sub.kappa[:, 0]).all()


@every_case
def test_fixed_steps_use_no_fast_solver_and_no_memory(problem, method, simulated, subproblem, monkeypatch):
    monkeypatch.setattr(exact, method, lambda *_: pytest.fail("a fast solver was asked"))
    sub = subproblem(problem, simulated())
    solver, asked = Exact(TOLERANCE, fixed_steps=True), []
    gradient = Subproblem.loss_gradient
    monkeypatch.setattr(Subproblem, "loss_gradient", lambda sub, x: asked.append(len(x)) or gradient(sub, x))
    answer, memory = solve(solver, sub)
    cold = len(asked)
    again, _ = solve(solver, sub, memory)
    np.testing.assert_array_equal(again, answer)
    assert len(asked) == 2 * cold
    assert sum(asked[:cold]) == solver._quadratic(sub).bounds.steps().sum()
    assert list(memory.private) == [START]
    np.testing.assert_array_equal(memory.private[START], answer)
    monkeypatch.undo()
    good, _ = solve(Exact(TOLERANCE), sub)
    assert (np.linalg.norm(answer - good, axis=1) <= 2 * TOLERANCE / sub.kappa[:, 0]).all()


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_the_proved_branch_agrees_with_the_fast_one(name, simulated, subproblem):
    problem = SMOOTH[name]
    sub = subproblem(problem, simulated(problem.loss))
    fast, _ = solve(Exact(TOLERANCE), sub)
    proved, _ = solve(Exact(TOLERANCE, fixed_steps=True), sub)
    reach = 2 * TOLERANCE / (sub.kappa[:, 0] + problem.strong_convexity)
    assert (np.linalg.norm(proved - fast, axis=1) <= reach).all()


# -- and nothing that is refused depends on records --------------------------------------------------------------------


def test_a_penalty_so_small_that_a_record_decides_on_convergence_is_refused_before_round_one(terms):
    """In 0.1.0 rho 1e-8 and 1e-9 were accepted, and one record of 200 decided whether the owner answered."""
    for loss in (Logistic(), LOSSES["capped-logistic"](), LOSSES["squared"]()):
        for rho in (1e-8, 1e-9):
            for solver in (Exact(), Exact(1e-10), Exact(fixed_steps=True)):
                with pytest.raises(InputError, match="steps to prove a minimiser"):
                    solver.check_step(terms(Problem(loss), [200]), np.array([rho]), np.ones(1))
        Exact().check_step(terms(Problem(loss), [200]), np.array([1e-3]), np.ones(1))


def test_more_classes_than_the_error_of_a_slope_is_stated_for_are_refused(terms):
    setting = terms(Problem(LOSSES["softmax"]()), [200])
    rho, eta = np.array([1.0]), np.ones(1)
    Exact().check_step(replace(setting, dimension=6_000, width=3), rho, eta)
    with pytest.raises(InputError, match="up to 2,000 classes, not for 2,001"):
        Exact().check_step(replace(setting, dimension=6_003, width=3), rho, eta)


@pytest.mark.parametrize("loss", [Logistic(), LOSSES["capped-logistic"](), LOSSES["squared"]()], ids=lambda x: x.name)
@pytest.mark.parametrize("size", [0.0, 1.0, 1e3, 1e4, 1e6, 1e8, 1e12])
def test_neighbours_are_both_answered_or_both_refused(loss, size, subproblem):
    """Records without anything in them but for one, whose attributes nobody else has; whatever is broadcast."""
    rows = np.zeros((200, 4))
    rows[:100, 0], rows[100:, 1], rows[:, 2] = 0.5, 0.5, 0.5
    other = rows.copy()
    other[0] = [0.5, 0.5, 0.5, 0.5]
    empty, one = np.zeros((200, 4)), np.zeros((200, 4))
    one[0, 0] = 1.0
    for pair in ((rows, other), (empty, one)):
        said = []
        for features in pair:
            shards = gather(features, np.ones(200), np.zeros(200, dtype=int), norm_bound=1.0, names=["owner"])
            sub = subproblem(Problem(loss), shards)
            centre = np.zeros((1, 4))
            centre[0, :2] = size, -size
            sub = replace(sub, kappa=np.array([[1e-3]]), centre=centre, tilt=np.zeros((1, 4)))
            try:
                answer, _ = solve(Exact(), sub)
                said.append("answered")
                assert np.isfinite(answer).all()
            except InputError as refused:
                said.append(str(refused))
        assert said[0] == said[1]
        assert (said[0] == "answered") == (size <= 1e6)


def test_a_bound_on_hidden_noise_is_judged_before_it_is_drawn(simulated, subproblem):
    sub = subproblem(Problem(), simulated())
    reach = Exact().reach(sub, np.full(4, 10.0))
    answer, _ = solve(Exact(), sub.tilted(np.full((4, 3), 10.0 / np.sqrt(3.0))))
    assert (np.linalg.norm(answer, axis=1) <= reach).all()
    with pytest.raises(InputError, match="less noise, which keep models short"):
        Exact().reach(sub, np.full(4, 1e9))
