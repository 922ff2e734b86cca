"""The attack on whole runs: it succeeds without noise, fails on private runs, and uses messages only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from dpadmm.admm.solvers.base import Memory
from dpadmm.audit.observed import messages
from dpadmm.audit.reconstruction import Reconstruction, _nothing, draw, overheard, reconstruct, revealed
from dpadmm.datasets.registry import load
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.errors import InputError
from dpadmm.privacy.calibration import Budget
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.release.rows import SIDE
from dpadmm.spec import resolve
from dpadmm.spec.declare import RunSpec

ONE = (Budget(1.0, 1e-5),)


def _shards(source: str, count: int = 2) -> tuple[Shards, int]:
    dataset = load(source)
    classes = len(dataset.classes or ())
    targets = dataset.targets[: 2 * count]
    encoded = np.where(targets == 1, 1.0, -1.0) if classes == 2 else targets
    rows = dataset.features[: 2 * count]
    owner = np.repeat([0, 1], count)
    return gather(rows, encoded, owner, norm_bound=1.0, names=["a", "b"]), classes


@pytest.mark.parametrize("source", ["digits", "breast-cancer"])
@pytest.mark.parametrize("algorithm", ["dp-admm", "dpsgd", "obj-g"])
def test_one_record_comes_back_exactly(source: str, algorithm: str) -> None:
    found = reconstruct(source, algorithm=algorithm, budgets=(), seed=1).attacks[0].found
    assert found.relative_error[0] <= 1e-6  # messages are rounded: slopes have 20 bits
    assert found.label_right == (True,)


@pytest.mark.parametrize("source", ["digits", "breast-cancer"])
def test_from_exact_solves_to_their_tolerance(source: str) -> None:
    found = reconstruct(source, algorithm="pvp", budgets=(), rounds=4).attacks[0].found
    assert found.relative_error[0] <= 1e-7  # a gradient is off by 1e-10 at most, and may itself be 1e-3
    assert found.label_right == (True,)


@pytest.mark.parametrize("source", ["digits", "breast-cancer"])
@pytest.mark.parametrize("seed", [0, 1])
def test_three_records_come_back(source: str, seed: int) -> None:
    found = reconstruct(source, records=3, budgets=(), seed=seed).attacks[0].found
    # Slopes have 20 bits. Rows of breast-cancer resemble each other, which makes much of that; a guess comes to 1.4.
    assert found.relative_error.max() <= (1e-4 if source == "digits" else 0.25)
    assert found.label_right == ((None,) * 3 if source == "digits" else (True,) * 3)


@pytest.mark.parametrize("source", ["digits", "breast-cancer"])
@pytest.mark.parametrize("algorithm", ["dp-admm", "dpsgd", "pvp"])
def test_a_private_run_gives_nothing_away(source: str, algorithm: str) -> None:
    found = reconstruct(source, algorithm=algorithm, budgets=ONE, rounds=5)
    bare, private = found.attacks
    assert bare.budget is None
    assert bare.guarantee is None
    assert bare.found.relative_error[0] < 1e-6
    assert private.guarantee is not None
    assert private.guarantee.epsilon <= 1.0
    assert private.guarantee.delta == ONE[0].delta
    assert private.found.relative_error[0] > 0.5
    assert private.found.cosine[0] < 0.5  # in 30 dimensions a guess has 0.2, give or take


def test_a_budget_that_is_none_protects_nobody() -> None:
    """The attack is the same one: where noise is small, so is its error."""
    private = reconstruct("digits", budgets=[Budget(1e8, 1e-5)]).attacks[1]
    assert private.found.relative_error[0] < 0.02
    assert private.found.label_right == (True,)


@pytest.mark.parametrize(
    ("algorithm", "source"),
    [("linearised-admm", "digits"), ("gradient-descent", "digits"), ("local-updates", "digits"), ("admm", "digits"),
     ("admm", "breast-cancer")],
)  # fmt: skip
def test_what_messages_reveal_is_the_gradient(algorithm: str, source: str) -> None:
    shards, classes = _shards(source)
    plan = resolve.plan(
        RunSpec(algorithm=algorithm, loss="logistic" if classes == 2 else "softmax", rounds=5, strength=0.1),
        shards.counts,
        shards.width,
        classes,
    )
    points, gradients = overheard(plan, shards, 0)
    loss, own = plan.setting.problem.loss, shards.take([0])
    true = [loss.gradient(own, point[None, :], plan.local.weights[:1])[0] for point in points]
    rounding = plan.local.bounds.worth * SIDE * plan.local.weights[0] * len(own.targets[: own.stops[0]])
    np.testing.assert_allclose(gradients, true, rtol=1e-7, atol=2e-10 if algorithm == "admm" else rounding)


def test_the_extra_curvature_of_dvp_is_public_and_taken_off() -> None:
    """What is left after it is the gradient and the noise; the true gradient is no longer than the bound."""
    shards, classes = _shards("breast-cancer")
    spec = RunSpec(algorithm="dvp", loss="logistic", rounds=2, noise_multiplier=1e-9, extra_curvature=3.0)
    plan = resolve.plan(spec, shards.counts, shards.width, classes)
    points, gradients = overheard(plan, shards, 0)
    own = shards.take([0])
    true = plan.setting.problem.loss.gradient(own, points[:1], plan.local.weights[:1])
    np.testing.assert_allclose(gradients[:1], true, atol=1e-5)


def test_only_messages_are_used() -> None:
    """A state whose private memory is rubbish, and records that are not there, change nothing."""
    shards, classes = _shards("digits")
    plan = resolve.plan(
        RunSpec(algorithm="linearised-admm", loss="softmax", rounds=3), shards.counts, shards.width, classes
    )
    cohort = Cohort.of(plan, shards, [0], SeededRandomness(0))
    for message in messages(cohort, SimulationState.of(cohort), np.array([0])):
        memory = Memory(np.full_like(message.before.memory.point, np.nan), {"x": np.full(3, np.nan)})
        spoilt = replace(message, before=replace(message.before, memory=memory))
        for left, right in zip(revealed(message), revealed(spoilt), strict=True):
            np.testing.assert_array_equal(left, right)
        assert _nothing(message.plan).features.shape[0] == 0


def test_the_seed_chooses_records_and_repeats() -> None:
    first, again, other = (reconstruct("digits", budgets=ONE, rounds=2, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.attacks[1].found.rows, again.attacks[1].found.rows)
    assert not np.array_equal(first.rows, other.rows)


def test_features_of_both_signs_come_back_as_products() -> None:
    found = reconstruct("synthetic", records=2, budgets=())
    assert not found.signs_found
    assert found.attacks[0].found.relative_error.max() <= 1e-5
    assert found.attacks[0].found.label_right == (None, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"source": "digit"}, "unknown data set 'digit'"),
        ({"source": "synthetic-regression"}, "numbers for targets; the attack is on classifiers"),
        ({"records": 0}, "records 0: the attack takes between 1 and 20"),
        ({"records": 20, "agents": 100}, "need 2,000, and 'digits' has 1,797; take fewer"),
        ({"agents": 0}, "agents 0: at least one"),
        ({"rounds": 1000}, "rounds 1000: the attack takes between 1 and 100"),
        ({"algorithm": "dp-adm"}, "unknown algorithm 'dp-adm'"),
        ({"algorithm": "ps-admm"}, "messages the attack cannot undo; name one of pvp, dvp, dp-admm, dpsgd, obj-g"),
        ({"algorithm": "pvp-graph"}, "messages the attack cannot undo"),
        ({"algorithm": "admm"}, "'admm' is not private itself"),
    ],
)
def test_what_cannot_be_attacked_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        reconstruct(**arguments)


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    counted: list[int] = []
    write = Figure.savefig

    def savefig(figure: Figure, *arguments: Any, **more: Any) -> None:
        counted.append(len(figure.axes))
        write(figure, *arguments, **more)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return counted


@pytest.fixture(scope="module")
def digits() -> Reconstruction:
    return reconstruct("digits", records=2, rounds=3, budgets=ONE)


def test_a_picture_of_pictures(digits: Reconstruction, panels: list[int], tmp_path: Path) -> None:
    assert digits.side == 8
    draw(digits, tmp_path / "digits.png")
    assert panels == [2 * 3]  # the original and two attacks
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_a_table(panels: list[int], tmp_path: Path) -> None:
    found = reconstruct("breast-cancer", records=1, rounds=3, budgets=ONE)
    assert found.side is None
    draw(found, tmp_path / "cancer.svg")
    assert panels == [2]
    assert "<svg" in (tmp_path / "cancer.svg").read_text()


def test_a_picture_that_cannot_be_written(digits: Reconstruction, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        draw(digits, tmp_path / "nowhere" / "digits.png")
