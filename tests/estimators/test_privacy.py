"""What a fit says of itself: what was spent, by whom, what leaked; and whether its noise protects."""

import pickle
import warnings

import numpy as np
import pytest

from dpadmm.estimators import PrivacyLeakWarning, PrivateLogisticRegression, PrivateRidge
from dpadmm.release.random_bits import SeededRandomness


@pytest.fixture
def secure(quick):
    """Parameters of a quick fit whose noise protects."""
    return quick | {"random_state": None}


def test_every_owner_is_named_with_what_it_spent(quick, rows, labels):
    owners = np.array(["west", "east", "south"])[np.minimum(np.arange(300) // 120, 2)]
    quick |= {"epsilon": 2.0, "delta": 1e-6, "relation": "replace"}
    privacy = PrivateLogisticRegression(**quick).fit(rows, labels, owners=owners).privacy_
    assert [(owner.name, owner.records) for owner in privacy.owners] == [("east", 120), ("south", 60), ("west", 120)]
    for owner in privacy.owners:
        assert owner.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
        assert owner.guarantee.epsilon <= 2.0
        assert owner.guarantee.delta == 1e-6
    assert privacy.epsilon == max(owner.guarantee.epsilon for owner in privacy.owners)
    assert (privacy.relation, privacy.algorithm, privacy.rounds) == ("replace", "dp-admm", 5)
    assert privacy.loss == "logistic"
    text = str(privacy)
    for part in (
        "epsilon 2.000",
        "delta 1e-06",
        "replace",
        "dp-admm",
        "loss logistic, 5 rounds",
        "3 owner(s)",
        "south: 60 records",
    ):
        assert part in text


def test_many_owners_are_not_all_printed(quick, rows, labels):
    privacy = PrivateLogisticRegression(**quick, n_agents=12).fit(rows, labels).privacy_
    assert len(privacy.owners) == 12
    assert "  and 2 more" in str(privacy).splitlines()


def test_delta_is_by_default_below_one_tenth_of_a_record(quick, rows, labels):
    model = PrivateLogisticRegression(**quick)
    assert model.fit(rows, labels).privacy_.delta == 1e-5
    many = np.tile(rows, (100, 1)), np.tile(labels, 100)
    assert model.fit(*many).privacy_.delta == pytest.approx(1 / 300_000)
    owners = np.where(np.arange(30_000) < 20_000, "large", "small")
    assert model.fit(*many, owners=owners).privacy_.delta == pytest.approx(1 / 200_000)


def test_a_delta_that_gives_records_away_is_warned_of(quick, rows, labels):
    model = PrivateLogisticRegression(**quick, delta=0.01)
    with pytest.warns(PrivacyLeakWarning, match="permits giving away whole records"):
        model.fit(rows, labels)
    assert "permits giving away" in str(model.privacy_)


def test_a_bound_taken_from_the_data_is_a_leak(quick, rows, labels):
    model = PrivateLogisticRegression(**quick | {"norm_bound": None})
    said = r"norm_bound was taken from the data: the length of the longest row is not covered by epsilon\."
    with pytest.warns(PrivacyLeakWarning, match=said) as caught:
        model.fit(rows, labels)
    assert caught[0].filename == __file__
    assert len(model.privacy_.leaked) == 1
    assert "leaked: norm_bound was taken from the data" in str(model.privacy_)
    longest = float(np.linalg.norm(rows, axis=1).max())
    told = PrivateLogisticRegression(**quick | {"norm_bound": longest}).fit(rows, labels)
    np.testing.assert_allclose(model.coef_, told.coef_, rtol=1e-12)


def test_so_is_a_bound_on_targets(quick_numbers, rows, numbers):
    model = PrivateRidge(**quick_numbers)
    with pytest.warns(PrivacyLeakWarning, match="target_bound was taken from the data: the largest target"):
        model.fit(rows, numbers)
    told = PrivateRidge(**quick_numbers, target_bound=float(np.abs(numbers).max())).fit(rows, numbers)
    np.testing.assert_array_equal(model.coef_, told.coef_)


def test_a_strict_fit_leaks_nothing(secure, rows, labels):
    with pytest.raises(ValueError, match=r"norm_bound was taken from the data.*strict=True"):
        PrivateLogisticRegression(**secure | {"norm_bound": None, "strict": True}).fit(rows, labels)
    model = PrivateLogisticRegression(**secure, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(rows, labels)
    assert model.privacy_.private
    assert "leaked: nothing" in str(model.privacy_)


def test_a_seeded_fit_says_that_it_protects_nobody(quick, rows, labels):
    model = PrivateLogisticRegression(**quick).fit(rows, labels)
    again = PrivateLogisticRegression(**quick).fit(rows, labels)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    assert not model.privacy_.secure
    assert not model.privacy_.private
    assert "Seeded noise protects nobody" in str(model.privacy_)


def test_a_random_state_is_used_as_scikit_learn_does(quick, rows, labels):
    quick["random_state"] = np.random.RandomState(7)
    model = PrivateLogisticRegression(**quick)
    first, second = model.fit(rows, labels).coef_, model.fit(rows, labels).coef_
    assert not np.array_equal(first, second)
    model.set_params(random_state=np.random.RandomState(7))
    np.testing.assert_array_equal(model.fit(rows, labels).coef_, first)


def test_without_a_random_state_the_noise_is_the_systems(secure, rows, labels, monkeypatch):
    def never(*_):
        raise AssertionError("a seeded word was drawn")

    monkeypatch.setattr(SeededRandomness, "stream", never)
    model = PrivateLogisticRegression(**secure, n_agents=3)
    first, second = model.fit(rows, labels).coef_, model.fit(rows, labels).coef_
    assert not np.array_equal(first, second)
    assert model.privacy_.secure
    assert "operating system's generator" in str(model.privacy_)
    with pytest.raises(AssertionError, match="a seeded word was drawn"):
        model.set_params(secure=False).fit(rows, labels)


def test_secure_noise_and_a_random_state_do_not_go_together(quick, rows, labels):
    with pytest.raises(ValueError, match="noise that can be repeated can be subtracted"):
        PrivateLogisticRegression(**quick, secure=True).fit(rows, labels)


def test_history_tells_what_everybody_may_know(quick, rows, labels):
    model = PrivateLogisticRegression(**quick, n_agents=3).fit(rows, labels)
    history = model.history_
    assert list(history) == ["round", "epsilon", "length", "change", "residual"]
    assert history["round"].tolist() == [1, 2, 3, 4, 5]
    assert (np.diff(history["epsilon"]) > 0).all()
    assert history["epsilon"][-1] == model.privacy_.epsilon
    assert model.n_iter_ == 5
    shorter = PrivateLogisticRegression(**quick | {"epsilon": history["epsilon"][1], "rounds": 2}, n_agents=3)
    np.testing.assert_allclose(shorter.fit(rows, labels).history_["length"], history["length"][:2], rtol=1e-6)


def test_a_record_of_what_was_spent_can_be_kept(quick, rows, labels):
    privacy = PrivateLogisticRegression(**quick, n_agents=3).fit(rows, labels).privacy_
    assert pickle.loads(pickle.dumps(privacy)) == privacy


def test_owners_may_talk_to_neighbours_only(secure, rows, labels):
    """On a ring, in the order of their names; a topology says by itself how many owners there are."""
    secure |= {"algorithm": "private-r-admm", "topology": "ring:5", "epsilon": 1e6}
    owners = np.array(["e", "c", "a", "d", "b"])[np.arange(300) % 5]
    model = PrivateLogisticRegression(**secure).fit(rows, labels, owners=owners)
    assert [owner.name for owner in model.privacy_.owners] == ["a", "b", "c", "d", "e"]
    assert model.score(rows, labels) > 0.75
    dealt = PrivateLogisticRegression(**secure).fit(rows, labels)
    assert [owner.records for owner in dealt.privacy_.owners] == [60] * 5
    with pytest.raises(ValueError, match="has 5 nodes, and there are 4 agents"):
        PrivateLogisticRegression(**secure, n_agents=4).fit(rows, labels)


@pytest.mark.parametrize("seed", [None, 0])
def test_the_defaults_learn_at_a_small_epsilon(seed):
    """What `auto` releases before the rounds is in the same budget, and comes from the same noise."""
    draw = np.random.default_rng(5)
    rows = draw.uniform(-0.5, 0.5, size=(20_000, 4)) + np.array([0.5, 0.0, 0.0, 0.0])
    labels = rows @ [1.0, 2.0, -1.0, 0.0] > 0.5
    model = PrivateLogisticRegression(norm_bound=1.5, classes=[False, True], random_state=seed, n_agents=2).fit(
        rows, labels
    )
    assert model.score(rows, labels) > 0.9
    assert model.privacy_.epsilon <= 1.0
    assert model.privacy_.private == (seed is None)
    targets = rows @ [1.0, 2.0, -1.0, 0.0] + 0.3
    ridge = PrivateRidge(norm_bound=1.5, target_bound=3.0, random_state=seed).fit(rows, targets)
    assert ridge.score(rows, targets) > 0.9
