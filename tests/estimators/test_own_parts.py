"""Recipes and networks of one's own in estimators: simulations take them, fits whose noise protects do not."""

import pickle

import networkx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from dpadmm.admm.topology.graph import parse_topology
from dpadmm.engine.executors.owners import OwnerExecutor
from dpadmm.errors import InputError
from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateQuantileRegressor, PrivateRidge
from dpadmm.papers import ALGORITHMS

ESTIMATORS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateRidge, PrivateQuantileRegressor]
CLASSIFIERS = ESTIMATORS[:2]


@pytest.fixture
def fitted(quick, quick_numbers, rows, labels, numbers):
    """fitted(kind, **changes): an estimator of this kind, fitted to what it is for."""

    def fit(kind, **changes):
        terms = quick if kind in CLASSIFIERS else quick_numbers | {"target_bound": 80.0}
        return kind(**terms | changes).fit(rows, labels if kind in CLASSIFIERS else numbers)

    return fit


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_simulation_takes_a_recipe_by_value_and_by_path(fitted, kind, somebody):
    by_value = fitted(kind, algorithm=somebody.recipes.MINE)
    by_path = fitted(kind, algorithm="somebody.recipes:MINE")
    np.testing.assert_array_equal(by_value.coef_, by_path.coef_)
    assert by_value.privacy_.algorithm == by_path.privacy_.algorithm == "somebody.recipes:MINE"
    assert not by_value.privacy_.secure
    assert (by_value.coef_ != fitted(kind, algorithm="dp-admm").coef_).any()  # its step is another


def test_penalties_of_a_recipe_that_counts_records_are_shared_by_value_and_by_path(fitted, somebody):
    terms = {"C": 0.1, "n_agents": 4}
    by_value = fitted(PrivateLogisticRegression, algorithm=somebody.recipes.BY_RECORD, **terms)
    by_path = fitted(PrivateLogisticRegression, algorithm="somebody.recipes:BY_RECORD", **terms)
    np.testing.assert_array_equal(by_value.coef_, by_path.coef_)


def test_clones_pickles_and_searches_work_with_a_recipe_by_value(fitted, somebody, rows, labels, quick):
    model = fitted(PrivateLogisticRegression, algorithm=somebody.recipes.MINE)
    for copy in (clone(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.fit(rows, labels).coef_, model.coef_)
    scores = cross_val_score(
        PrivateLogisticRegression(**quick | {"algorithm": somebody.recipes.MINE}), rows, labels, cv=2
    )
    assert np.isfinite(scores).all()


def test_a_network_may_be_a_graph_with_names_of_owners(quick, rows, labels):
    owners = np.array(["south", "east", "north"])[np.arange(len(rows)) % 3]
    network = networkx.Graph([("north", "south"), ("south", "east")])
    found = [
        PrivateLogisticRegression(**quick | {"algorithm": "private-mr-admm", "rounds": 2, "topology": topology}).fit(
            rows, labels, owners=owners
        )
        for topology in (network, parse_topology('{"edges": [[1, 2], [0, 2]]}'), '{"edges": [[1, 2], [0, 2]]}')
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].coef_, other.coef_)


# -- fits whose noise protects -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("by", ["value", "path"])
def test_a_fit_whose_noise_protects_refuses_a_recipe_of_ones_own(fitted, kind, by, somebody, monkeypatch):
    def joined(*arguments):
        raise AssertionError("owners were asked")

    monkeypatch.setattr(OwnerExecutor, "place", joined)
    algorithm = somebody.recipes.MINE if by == "value" else "somebody.recipes:MINE"
    message = r"algorithm 'somebody\.recipes:MINE' is a part of your own.*without a random_state.*registry names only"
    with pytest.raises(InputError, match=message):
        fitted(kind, algorithm=algorithm, random_state=None)
    with pytest.raises(InputError, match=message):
        fitted(kind, algorithm=algorithm, random_state=None, secure=True)


def test_a_registered_recipe_by_value_protects_also_as_a_clone(fitted, rows, labels):
    model = fitted(PrivateLogisticRegression, algorithm=ALGORITHMS["pvp"], random_state=None)
    assert model.privacy_.secure
    assert model.privacy_.algorithm == "pvp"
    assert clone(model).fit(rows, labels).privacy_.secure


def test_a_network_by_value_protects_as_one_by_name(quick, rows, labels):
    terms = quick | {"algorithm": "private-mr-admm", "rounds": 2, "random_state": None}
    model = PrivateLogisticRegression(**terms, topology=networkx.cycle_graph(3)).fit(rows, labels)
    assert model.privacy_.secure
    assert len(model.privacy_.owners) == 3
