"""Every split deals out every record once, each in its own way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpadmm._registry import build
from dpadmm.engine.data import SPLITS
from dpadmm.errors import InputError

RECORDS, LABELS = 1003, 5


@pytest.fixture
def targets() -> Any:
    return np.random.default_rng(4).integers(LABELS, size=RECORDS)


def assign(text: str, targets: Any, agents: int, seed: int = 0) -> Any:
    return build("split", SPLITS, text)(targets, agents, np.random.default_rng(seed))


def labels_seen(owner: Any, targets: Any, agents: int) -> Any:
    return np.array([len(np.unique(targets[owner == agent])) for agent in range(agents)])


@pytest.mark.parametrize("agents", [1, 7, 100, RECORDS])
@pytest.mark.parametrize("text", [*SPLITS, "dirichlet:0.01", "dirichlet:100"])
def test_every_record_has_one_owner_and_every_agent_a_record(text: str, targets: Any, agents: int) -> None:
    owner = assign(text, targets, agents)
    assert owner.shape == (RECORDS,)
    assert owner.dtype == np.int64
    assert np.array_equal(np.unique(owner), np.arange(agents))


@pytest.mark.parametrize("agents", [1, 7, 100, RECORDS])
@pytest.mark.parametrize("text", ["random", "by-label"])
def test_equal_shares_are_equal_to_one_record(text: str, targets: Any, agents: int) -> None:
    counts = np.bincount(assign(text, targets, agents))
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("text", SPLITS)
def test_a_split_follows_its_generator(text: str, targets: Any) -> None:
    first = assign(text, targets, 20, seed=1)
    assert np.array_equal(assign(text, targets, 20, seed=1), first)
    assert not np.array_equal(assign(text, targets, 20, seed=2), first)


def test_random_shares_mix_positions_and_labels(targets: Any) -> None:
    owner = assign("random", targets, 10)
    assert (labels_seen(owner, targets, 10) == LABELS).all()
    assert (np.diff(owner) < 0).any()


def test_most_agents_see_one_label_when_split_by_label(targets: Any) -> None:
    seen = labels_seen(assign("by-label", targets, 50), targets, 50)
    assert seen.max() <= 2
    assert (seen == 2).sum() <= LABELS - 1


def test_dirichlet_shares_are_ragged_and_more_skewed_when_concentration_is_small(targets: Any) -> None:
    skewed, even = (assign(text, targets, 10) for text in ("dirichlet:0.1", "dirichlet:1000"))
    assert np.ptp(np.bincount(skewed)) > 50 > np.ptp(np.bincount(even))
    assert labels_seen(skewed, targets, 10).mean() < labels_seen(even, targets, 10).mean() == LABELS


def test_dirichlet_takes_one_half_when_nothing_is_said(targets: Any) -> None:
    assert np.array_equal(assign("dirichlet", targets, 9), assign("dirichlet:0.5", targets, 9))


@pytest.mark.parametrize("concentration", ["0", "-1", "nan", "inf"])
def test_a_concentration_that_is_no_positive_number_is_refused(concentration: str, targets: Any) -> None:
    with pytest.raises(InputError, match=f"dirichlet concentration {float(concentration)}: must be a positive"):
        assign(f"dirichlet:{concentration}", targets, 3)


def test_an_unknown_split_is_refused_with_the_nearest_name(targets: Any) -> None:
    with pytest.raises(InputError, match=r"unknown split 'dirichlett'; did you mean 'dirichlet'\?"):
        assign("dirichlett", targets, 3)
