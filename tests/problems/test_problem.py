"""What is minimised: how records weigh, and what that makes of an agent's objective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.problems.losses import Logistic, Softmax
from dpadmm.problems.penalties import L1, L2, NoPenalty
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets import Ball, Box, Each
from dpadmm.problems.shards import gather

COUNTS = np.array([4, 1, 15])


@pytest.fixture
def records() -> Any:
    """Shards of three ragged agents, their rows and their targets."""
    draw = np.random.default_rng(3)
    rows, targets = draw.uniform(-0.5, 0.5, (20, 3)), draw.choice([-1.0, 1.0], 20)
    return gather(rows, targets, np.repeat(np.arange(3), COUNTS), norm_bound=1.0), rows, targets


def test_a_record_weighs_one_over_its_owners_or_one_over_all() -> None:
    np.testing.assert_array_equal(Problem().weights(COUNTS), [1 / 4, 1.0, 1 / 15])
    np.testing.assert_array_equal(Problem(records=20).weights(COUNTS), [1 / 20] * 3)
    np.testing.assert_array_equal(Problem(records=20).weights(COUNTS[[2]]), [1 / 20])
    assert Problem(records=7).weights(COUNTS).dtype == np.float64


@pytest.mark.parametrize("penalty", [NoPenalty(), L1(), L2()], ids=lambda penalty: penalty.name)
def test_objectives_add_up_to_the_pooled_one_where_records_count_alike(records: Any, penalty: Any) -> None:
    """The sum over agents is the mean loss of all records, and the penalty once for each agent."""
    shards, _, targets = records
    x = np.array([0.7, -1.0, 2.0])
    each = np.log1p(np.exp(-targets * (shards.real_rows @ x)))
    punished = 0.3 * float(penalty.value(x))
    pooled = Problem(Logistic(), penalty, 0.3, records=20).objective(shards, np.tile(x, (3, 1)))
    assert pooled.sum() == pytest.approx(each.mean() + 3 * punished, rel=1e-13)
    alike = Problem(Logistic(), penalty, 0.3).objective(shards, np.tile(x, (3, 1)))
    means = [part.mean() for part in np.split(each, np.cumsum(COUNTS)[:-1])]
    assert alike == pytest.approx([mean + punished for mean in means], rel=1e-13)
    assert pooled.sum() != pytest.approx(alike.mean(), rel=1e-3)


def test_taking_agents_keeps_the_number_of_all_records() -> None:
    plain = Problem(Softmax(), L2(), 0.1, Box(), 20)
    assert plain.take([1]) is plain
    own = Problem(domain=Each((Box(1.0), Ball(2.0), Box(3.0))), records=20)
    taken = own.take([2, 0])
    assert taken.records == 20
    assert taken.domain == Each((Box(3.0), Box(1.0)))
    np.testing.assert_array_equal(taken.weights(COUNTS[[2, 0]]), [1 / 20] * 2)


@pytest.mark.parametrize("strength", [-1e-9, np.nan, np.inf])
def test_a_strength_that_is_no_number_is_refused(strength: float) -> None:
    with pytest.raises(InputError, match=f"problem: strength = {strength!r} must be 0 or a number from 1e-12"):
        Problem(strength=strength)
