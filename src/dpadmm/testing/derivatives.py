"""Whether gradient and Hessian are derivatives, whether a loss is as convex and as smooth as it says, and finite."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray
from dpadmm.problems.shards import Shards
from dpadmm.testing.contract import ContractError, first, numbers
from dpadmm.testing.problems import Method, SmallProblem, at_each

HUGE = 10.0 ** np.arange(0.0, 101.0, 4.0)  # margins at which a loss must still be a number
FINEST = 40  # halvings of an interval in which the Hessian seems to jump


def _moved(method: Method, shards: Shards, x: FloatArray, weights: FloatArray, step: float) -> tuple[Any, Any]:
    """What a method answers a step further and a step back along every coordinate of all agents: (D, n, ...)."""
    size, agents = x.shape[1], len(x)
    moves = step * np.repeat(np.eye(size), agents, axis=0)
    tiled, all_weights = shards.tile(size), np.tile(weights, size)
    sides = (method(tiled, np.tile(x, (size, 1)) + side * moves, all_weights) for side in (1.0, -1.0))
    ahead, behind = (answers.reshape(size, agents, *answers.shape[1:]) for answers in sides)
    return ahead, behind


def check_derivative(
    problem: SmallProblem, shards: Shards, x: FloatArray, weights: FloatArray, *, order: int
) -> FloatArray:
    """Compares the gradient (order 1) with differences of the values, or the Hessian (2) with those of the gradient.

    Central differences are off by as much as the derivative itself bends within the step, which is measured: across a
    kink or a jump nothing is asked.

    Args:
        problem: the loss.
        shards: the records of some agents.
        x: a model for each agent.
        weights: a weight for each agent.
        order: 1 or 2.

    Returns:
        The derivative, one row or matrix per agent.

    Raises:
        ContractError: with the agent and coordinate at which the two differ most.
    """
    loss = problem.loss
    lower, upper = (loss.values, loss.gradient) if order == 1 else (loss.gradient, loss.hessian)
    step = 1e-5 if order == 1 else 1e-6
    ahead, behind = _moved(lower, shards, x, weights, step)
    numeric = np.moveaxis((ahead - behind) / (2.0 * step), 0, -1)
    exact = upper(shards, x, weights)
    after, before = _moved(upper, shards, x, weights, step)
    # The k-th coordinate of the derivative a step along coordinate k, twice here, and a step back.
    bent = np.abs(np.moveaxis(_own(after, order) + _own(before, order), 0, -1) - 2.0 * exact)
    total = (weights * shards.counts).reshape(-1, *(1,) * order)
    if order == 1:
        size = np.abs(ahead).max(axis=0)[:, None]
        allowed = 1e-7 * np.maximum(1.0, total * loss.gradient_bound(problem.bound)) + 1e-10 * size + bent
    else:
        allowed = 1e-4 * total * (loss.curvature_bound(problem.bound) or 0.0) + 1e-6 + bent
    off = np.abs(numeric - exact) - allowed
    if not (off <= 0.0).all():
        worst = np.unravel_index(int(np.where(np.isnan(off), np.inf, off).argmax()), off.shape)
        place = tuple(int(index) for index in worst)
        which, of = ("gradient", "values") if order == 1 else ("hessian", "gradient")
        raise ContractError(
            problem.part,
            f"{which} is the derivative of {of}",
            f"entry {list(place[1:])} of the {which} of agent {place[0]} ({shards.counts[place[0]]} records, model "
            f"{numbers(x[place[0]])}) is {exact[place]:.10g}, and differences of {of} give {numeric[place]:.10g}.",
            f"Correct {which}, or {of}.",
        )
    return exact


def _own(moved: FloatArray, order: int) -> FloatArray:
    """Of (D, n, D) the entries (k, n, k); of (D, n, D, D) all (k, n, :, k)."""
    diagonal = np.arange(len(moved))
    return moved[diagonal, :, diagonal] if order == 1 else moved[diagonal, :, :, diagonal]


def check_derivatives(problem: SmallProblem, rng: np.random.Generator, agents: int = 300) -> None:
    """Gradient and Hessian at records alone, and at agents with several records and weights of their own."""
    alone = problem.shards(problem.rows(rng, agents), problem.targets(rng, agents))
    some = problem.ragged(rng, [1, 7, 3, 12])
    for shards, models in ((alone, 3), (some, 4)):
        for _ in range(models):
            weights = np.ones(agents) if shards is alone else rng.uniform(0.1, 3.0, shards.agents)
            x = problem.models(rng, shards.agents, 10.0 ** rng.uniform(-1.0, 1.0, (shards.agents, 1)))
            check_derivative(problem, shards, x, weights, order=1)
            if problem.bends:
                check_derivative(problem, shards, x, weights, order=2)


def check_convexity(
    problem: SmallProblem, rng: np.random.Generator, count: int = 2000
) -> tuple[FloatArray, FloatArray]:
    """Values on random segments never lie above the chord, and Hessians have no negative eigenvalue.

    Returns:
        The values between, and the chord.

    Raises:
        ContractError: with record and models of a segment that is above its chord.
    """
    rows, targets = problem.rows(rng, count), problem.targets(rng, count)
    shards, ones = problem.shards(rows, targets), np.ones(count)
    one, other = (problem.models(rng, count, 10.0 ** rng.uniform(-1.0, 2.0, (count, 1))) for _ in range(2))
    share = rng.random(count)
    between = problem.loss.values(shards, share[:, None] * one + (1.0 - share[:, None]) * other, ones)
    ends = [problem.loss.values(shards, x, ones) for x in (one, other)]
    chord = share * ends[0] + (1.0 - share) * ends[1]
    above = between - chord - 1e-12 * (1.0 + np.abs(ends[0]) + np.abs(ends[1]))
    if not (above <= 0.0).all():
        worst = int(np.argmax(above))
        raise ContractError(
            problem.part,
            "convex",
            f"between the models {numbers(one[worst])} and {numbers(other[worst])} the value is {between[worst]:.8g}, "
            f"above the chord's {chord[worst]:.8g}, for the record {numbers(rows[worst])} with target "
            f"{targets[worst]}.",
            "Set convex = False, or correct values.",
        )
    if problem.bends:
        check_positive(problem, rows, targets, one)
    return between, chord


def check_positive(problem: SmallProblem, rows: FloatArray, targets: NDArray[Any], x: FloatArray) -> None:
    """Hessians of records, each at its own model, are symmetric and have no negative eigenvalue."""
    hessians = problem.loss.hessian(problem.shards(rows, targets), x, np.ones(len(x)))
    uneven = np.abs(hessians - hessians.transpose(0, 2, 1)).max(axis=(1, 2))
    least = np.linalg.eigvalsh(hessians).min(axis=1)
    size = max(1.0, problem.loss.curvature_bound(problem.bound) or 0.0)
    for name, wrong, value in (
        ("symmetric", uneven > 1e-12 * size, uneven),
        ("positive", least < -1e-12 * size, least),
    ):
        if wrong.any():
            worst = first(wrong)[0]
            raise ContractError(
                problem.part,
                f"hessian is {name}",
                f"it is off by {value[worst]:.6g} at the model {numbers(x[worst])} for the record "
                f"{numbers(rows[worst])} with target {targets[worst]}.",
                "Correct hessian, or set convex = False.",
            )


def largest_jump(problem: SmallProblem, points: int = 8001) -> tuple[float, float]:
    """The largest jump of the Hessian along a line, over the curvature bound, and the margin of the first output
    where it is: an interval in which it moves is halved until a jump is all that can be left of it."""
    bound = problem.loss.curvature_bound(problem.bound)
    if not bound:
        return 0.0, 0.0
    outputs = problem.loss.outputs(problem.classes)
    line = np.outer(np.eye(problem.width)[0], np.arange(1.0, outputs + 1.0)).ravel() / problem.bound
    row, worst = problem.bound * np.eye(problem.width)[:1], (0.0, 0.0)
    targets = problem.every_target()
    for target in targets[np.abs(targets) <= 10.0] if problem.loss.task == "regression" else targets:
        shards = problem.shards(row, np.array([target]))
        low, high, number = -4.0 + min(target, 0.0), 4.0 + max(target, 0.0), points
        for _ in range(FINEST):
            at = np.linspace(low, high, number)
            jumps = np.abs(np.diff(at_each(problem.loss.hessian, shards, at[:, None] * line)[:, 0], axis=0))
            sizes = jumps.max(axis=(1, 2)) / bound
            place = int(sizes.argmax())
            low, high, number = at[place], at[place + 1], 3
            if not sizes[place] > 1e-3 or high - low < 1e-12:
                break
        worst = max(worst, (float(sizes[place]), float(low)))
    return worst


def check_smoothness(problem: SmallProblem) -> float:
    """Where `twice_differentiable` is claimed, there is a Hessian and it does not jump; returns the largest jump."""
    if not problem.bends:
        if problem.loss.twice_differentiable:
            raise ContractError(
                problem.part,
                "twice_differentiable",
                "curvature_bound is None, which says that there are kinks.",
                "Set twice_differentiable = False, or give a curvature bound.",
            )
        return 1.0
    jump, margin = largest_jump(problem) if problem.a_matrix else (0.0, 0.0)
    if problem.loss.twice_differentiable and jump > 0.01:
        raise ContractError(
            problem.part,
            "twice_differentiable",
            f"the Hessian jumps by {jump:.3g} of the curvature bound at the margin {margin:.10g}.",
            "Set twice_differentiable = False: objective perturbation must not be used with it.",
        )
    return jump


def check_totality(problem: SmallProblem, rng: np.random.Generator) -> None:
    """Values, gradients and Hessians are finite numbers at margins up to 1e100 of either sign."""
    targets = problem.every_target()
    rows = np.vstack([problem.bound * np.eye(problem.width)[:1], problem.rows(rng, 3)])
    shards = problem.shards(np.repeat(rows, len(targets), axis=0), np.tile(targets, len(rows)))
    sizes = np.concatenate([HUGE, -HUGE])[:, None, None]
    models = (sizes * np.vstack([problem.directions()[:4], problem.models(rng, 4)])).reshape(-1, problem.dimension)
    for method in problem.methods:
        with np.errstate(all="ignore"):
            found = at_each(method, shards, models)
        wrong = ~np.isfinite(found)
        if wrong.any():
            model, record = first(wrong)[:2]
            raise ContractError(
                problem.part,
                "finite at large margins",
                f"{method.__name__} is {found[wrong][0]} at the model {numbers(models[model])}, for the record "
                f"{numbers(rows[record // len(targets)])} with the encoded target {shards.targets[record]}.",
                "Write it so that nothing overflows: whether a sum is a number must not depend on the records.",
            )


def check_subgradients(problem: SmallProblem, rng: np.random.Generator, count: int = 400) -> None:
    """The contract of `rounded` and `slack`: loss(y) >= loss(x) + <rounded gradient at x, y - x> - slack, for all y.

    With a loss that rounds nothing this says that its gradients are subgradients.
    """
    rows, targets = problem.rows(rng, count), problem.targets(rng, count)
    shards, ones = problem.shards(rows, targets), np.ones(count)
    for width in (1.0, 0.1, 1e-3):
        rounded = problem.loss.rounded(width)
        _check_rounded(problem, rounded, width)
        start = _near_kinks(problem, rng, rows, targets, width)
        value, slope = problem.loss.values(shards, start, ones), rounded.gradient(shards, start, ones)
        slack = rounded.slack(shards, start, ones)
        if not (slack >= 0.0).all():
            raise ContractError(problem.part, "slack is not negative", f"slack is {slack.min():.6g}.", "Correct slack.")
        for scale in (0.1 * width, width, 3.0, 30.0):
            move = problem.models(rng, count, scale)
            there = problem.loss.values(shards, start + move, ones)
            least = value + (slope * move).sum(axis=1) - slack
            short = least - there - 1e-11 * (1.0 + np.abs(value) + np.abs(there) + np.abs(slope * move).sum(axis=1))
            if not (short <= 0.0).all():
                worst = int(np.argmax(short))
                raise ContractError(
                    problem.part,
                    "the rounded gradient is a subgradient up to slack",
                    f"with half-width {width:g}, record {numbers(rows[worst])} and target {targets[worst]}, the loss "
                    f"at {numbers(start[worst] + move[worst])} is {there[worst]:.8g}, below the "
                    f"{least[worst]:.8g} that gradient and slack at {numbers(start[worst])} promise.",
                    "Raise slack, or correct the gradient of rounded().",
                )


def _check_rounded(problem: SmallProblem, rounded: Any, width: float) -> None:
    if rounded is problem.loss:
        return
    if rounded.curvature_bound(1.0) is None:
        raise ContractError(
            problem.part,
            "rounded has no kink",
            f"rounded({width:g}) has no curvature bound.",
            "Give it one, or let rounded return the loss itself.",
        )
    if rounded.gradient_bound(1.0) > problem.loss.gradient_bound(1.0) * (1.0 + 1e-12):
        raise ContractError(
            problem.part,
            "rounded is no steeper",
            f"rounded({width:g}) has the gradient bound {rounded.gradient_bound(1.0):.6g} for rows of length 1, and "
            f"the loss {problem.loss.gradient_bound(1.0):.6g}.",
            "A rounded kink lies between the slopes on its sides.",
        )


def _near_kinks(
    problem: SmallProblem, rng: np.random.Generator, rows: FloatArray, targets: NDArray[Any], width: float
) -> FloatArray:
    """Models for each record, half of them with margins within a few half-widths of its target."""
    models = problem.models(rng, len(rows))
    if problem.loss.task == "regression" and problem.a_matrix:
        outputs = problem.loss.outputs(problem.classes)
        margins = np.asarray(targets)[:, None] + 2.0 * width * rng.normal(size=(len(rows), outputs))
        lengths = np.maximum((rows * rows).sum(axis=1), 1e-12)[:, None, None]
        near = (rows[:, :, None] * margins[:, None, :] / lengths).reshape(len(rows), -1)
        models[::2] = near[::2]
    return models
