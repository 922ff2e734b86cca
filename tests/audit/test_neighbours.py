"""Canaries: as far apart as the loss allows, clipped on the way in, and found for losses nobody thought of."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from dpadmm.admm.setting import Multiplier
from dpadmm.audit.neighbours import CLASSES, OVER, blank, sheet, worst_pair
from dpadmm.audit.one_run import crowd
from dpadmm.audit.scene import WORST, Scenario, chosen, scene
from dpadmm.errors import InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS, ClippedSquared, Quantile

ALL = {name: kind() for name, kind in (LOSSES | STATISTICS).items()}
# What a record at zero can reach of its bound: sigmoids are half way there, three classes at sqrt(1 - 1/3) of sqrt(2),
# and levels of 0.1, 0.5 and 0.9 have slopes that are not all largest on one side.
SHARE = {
    "logistic": 0.5,
    "softmax": np.sqrt(1 / 3),
    "quantiles": 0.7564340773451339,
    "capped-softmax": np.sqrt(3 / 4),  # the others share what one of them alone would have
}


def apart(loss, pair, width=2, bound=1.5):
    shards = sheet(loss, [[record] for record in pair], bound)
    zeros = np.zeros((2, loss.dimension(width, CLASSES[loss.task])))
    return np.subtract(*loss.gradient(shards, zeros, np.ones(2)))


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("loss", ALL.values(), ids=ALL)
def test_a_pair_attains_the_sensitivity_as_far_as_the_loss_can_at_zero(loss, relation):
    pair = worst_pair(loss, relation, 2, 2, 1.5)
    share = np.linalg.norm(apart(loss, pair)) / loss.sensitivity(1.5, relation)
    if loss.name in ("column-moments", "mean-and-products") and relation is Relation.REPLACE:
        assert 0.94 <= share <= 1.0  # two axes; the farthest two rows lie between them
    else:
        assert share == pytest.approx(SHARE.get(loss.name, 1.0), rel=1e-9)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("loss", [Quantile(), Quantile(0.9), ClippedSquared(2.0)], ids=str)
def test_in_the_1_norm_it_is_the_diagonal(loss, relation):
    pair = worst_pair(loss, relation, 1, 2, 1.5)
    share = np.abs(apart(loss, pair)).sum() / loss.sensitivity(1.5 * np.sqrt(2.0), relation, 1)
    assert 1.0 - 1e-6 <= share <= 1.0  # rows are integers, and shrunk where they would be too long


def test_the_worst_losses_attain_their_bounds():
    assert not set(WORST) & set(SHARE)


@pytest.mark.parametrize("loss", ALL.values(), ids=ALL)
def test_a_blank_record_weighs_nothing_anywhere(loss):
    canary, _ = worst_pair(loss, Relation.ZERO_OUT, 2, 2, 1.0)
    shards = sheet(loss, [[blank(canary, 2)]], 1.0)
    models = np.random.default_rng(0).normal(size=(1, loss.dimension(2, CLASSES[loss.task])))
    assert np.all(loss.gradient(shards, models, np.ones(1)) == 0.0)


def test_rows_come_too_long_and_are_clipped():
    canary, instead = worst_pair(Quantile(), Relation.REPLACE, 2, 2, 1.0)
    shards = sheet(Quantile(), [[canary], [instead]], 1.0)
    assert shards.clipped == 2
    assert OVER > 2.0
    assert np.allclose(np.linalg.norm(shards.real_rows, axis=1), 1.0)


def test_a_new_loss_has_its_canary():
    @dataclass(frozen=True)
    class Other(Quantile):
        name = "other"

    pair = worst_pair(Other(0.25), Relation.REPLACE, 2, 2, 1.0)
    assert np.linalg.norm(apart(Other(0.25), pair, bound=1.0)) == pytest.approx(1.5)


class TestScene:
    def test_neighbours_differ_in_one_record_of_the_victim(self):
        run = scene(ALGORITHMS["dp-admm"], Multiplier(1.0), Scenario(agents=3, records=4))
        first, second = run.shards.take(np.arange(3)), run.shards.take(np.arange(3, 6))
        different = [
            (agent, place)
            for agent, place in itertools.product(range(3), range(4))
            if not (
                np.array_equal(
                    first.features[first.starts[agent] + place], second.features[second.starts[agent] + place]
                )
                and first.targets[first.starts[agent] + place] == second.targets[second.starts[agent] + place]
            )
        ]
        assert different == [(0, 0)]
        assert np.array_equal(run.victims(2, 0).starts, first.starts[[0, 0]])
        assert np.array_equal(run.victims(2, 1).starts, second.starts[[0, 0]])

    def test_all_other_records_are_blank(self):
        run = scene(ALGORITHMS["dp-admm"], Multiplier(1.0), Scenario(agents=3, records=4))
        assert np.array_equal(np.flatnonzero(run.shards.features.any(axis=1)), run.shards.starts[[0, 3]])

    def test_in_one_run_coins_decide_the_victim_s_records_and_others_have_none(self):
        run = crowd(ALGORITHMS["dp-admm"], Multiplier(1.0), Scenario(agents=3, relation="zero-out"), 20)
        coins = np.arange(20) % 3 == 0
        rows = run.shards(coins).features.any(axis=1).reshape(3, 20)
        assert np.array_equal(rows[0], ~coins)  # blank if the coin says so
        assert not rows[1:].any()

    def test_laplace_noise_is_attacked_along_the_diagonal_and_in_one_run_along_axes(self):
        recipe = ALGORITHMS["obj-l"]
        rows = scene(recipe, Multiplier(1.0), Scenario(records=1)).victims(2, 0).real_rows
        assert np.allclose(np.abs(rows[rows.any(axis=1)]), np.sqrt(0.5), rtol=1e-6)
        for side in crowd(recipe, Multiplier(1.0), Scenario(), 20).pairs:
            assert np.array_equal(np.abs([row for row, _ in side]), np.eye(20))

    @pytest.mark.parametrize(
        ("name", "loss", "relation"),
        [
            ("dp-admm", "quantile", "replace"),
            ("pvp", "smoothed-hinge", "replace"),
            ("dvp", "smoothed-hinge", "replace"),
            ("ps-admm-sgd", "quantile", "zero-out"),
            ("ps-admm-paper", "smoothed-hinge", "replace"),
            ("private-components", "second-moment", "replace"),
            ("private-column-moments", "column-moments", "replace"),
            ("dp-accelerated", "quantile", "replace"),
        ],
    )
    def test_the_worst_that_a_recipe_accepts(self, name, loss, relation):
        setting = chosen(ALGORITHMS[name], Scenario())
        assert (setting.problem.loss.name, setting.relation) == (loss, relation)

    def test_what_is_asked_for_is_taken_or_refused(self):
        asked = chosen(ALGORITHMS["dp-admm"], Scenario(loss="smoothed-hinge:0.25", relation="zero-out", rounds=7))
        assert (asked.problem.loss.width, str(asked.relation), asked.rounds) == (0.25, "zero-out", 7)
        with pytest.raises(InputError, match="one margin"):
            chosen(ALGORITHMS["dvp"], Scenario(loss="softmax"))
        with pytest.raises(InputError, match="unknown loss"):
            chosen(ALGORITHMS["dvp"], Scenario(loss="cubic"))
        with pytest.raises(InputError, match="unknown relation"):
            chosen(ALGORITHMS["dvp"], Scenario(relation="add-remove"))
