"""The contract of a loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpadmm.problems.losses.base import Loss, MarginLoss
from dpadmm.testing import batches, bounds, derivatives, integers, interface, margins
from dpadmm.testing.contract import Report
from dpadmm.testing.problems import SmallProblem

WIDE = 19  # columns: with more than a few, other loops compute gradients


def check_loss(
    loss: Loss,
    *,
    norm_bound: float = 1.5,
    width: int = 4,
    reach: float = 100.0,
    targets: Sequence[float] = (),
    seed: int = 0,
) -> Report:
    """Looks for a counterexample to everything that a loss says of itself.

    Derivatives are compared with differences; public bounds with the worst records that a search finds, on the norm
    bound, at models and targets far and near, and for losses of the margin on a dense grid of margins. Answers must not
    depend on other agents, on their order, or on how rows are stored. What is released is a sum of integers: it must be
    the same however records are grouped, ordered and computed, and no record's integers may exceed their bounds.

    Args:
        loss: a `Loss` of the library or of your own.
        norm_bound: rows are clipped to this length; bounds are also checked at a quarter of it.
        width: columns of the records.
        reach: length of the longest model that is plausible; margins up to `reach * norm_bound` are looked at one by
            one.
        targets: of a regression, targets that `encode` accepts, extreme ones included; if empty, seven between
            -1000 and 1000, as far as it accepts them.
        seed: of the search.

    Returns:
        The promises that hold, and what share of each bound was reached: far below 1, a bound may be loose.

    Raises:
        ContractError: for the first promise that does not hold; it names the record, the model and the numbers.
    """
    interface.check_names(loss)
    problem = SmallProblem(loss, width, norm_bound, tuple(float(each) for each in targets))
    interface.check_value(problem.part, loss, "name")
    rng = np.random.default_rng(seed)
    wide, short = replace(problem, width=WIDE), replace(problem, bound=norm_bound / 4.0)
    suite: dict[str, list[Callable[[], Any]]] = {
        "targets": [lambda: interface.check_targets(problem, rng)],
        "shapes and predictions": [
            lambda: interface.check_shapes(problem, rng),
            lambda: interface.check_predictions(problem, rng),
        ],
        "finite at large margins": [lambda: derivatives.check_totality(problem, rng)],
    }
    measured: dict[str, float] = {}
    if isinstance(loss, MarginLoss):
        suite["scalar functions and their bounds"] = [
            lambda: measured.update(margins.check_margins(problem, loss, reach * norm_bound))
        ]
    suite["derivatives"] = [lambda: derivatives.check_derivatives(problem, rng)]
    suite["smoothness"] = [lambda: derivatives.check_smoothness(problem)]
    if loss.convex:
        suite["convexity"] = [lambda: derivatives.check_convexity(problem, rng)]
        suite["subgradients and slack"] = [lambda: derivatives.check_subgradients(problem, rng)]
    suite["public bounds"] = [
        lambda: bounds.check_bounds(short, rng),
        lambda: measured.update(bounds.check_bounds(problem, rng)),
    ]
    suite["batches, order, sparse rows"] = [
        lambda: batches.check_batches(problem, rng),
        lambda: batches.check_batches(wide, rng),
    ]
    suite["exact integer sums"] = [
        lambda: integers.check_integers(problem, rng),
        lambda: integers.check_integers(wide, rng),
    ]
    for checks in suite.values():
        for check in checks:
            check()
    return Report(problem.part, ("names and value", *suite), measured)
