"""The estimators in scikit-learn's company: clones, pickles, pipelines, searches, and plain estimators made of them."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import dpadmm
from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateQuantileRegressor, PrivateRidge

ESTIMATORS = [PrivateLogisticRegression, PrivateLinearSVC, PrivateRidge, PrivateQuantileRegressor]


@pytest.fixture
def fitted(quick, quick_numbers, rows, labels, numbers):
    """fitted(kind, **changes): an estimator of this kind, fitted to what it is for."""

    def fit(kind, **changes):
        regressor = "target_bound" in kind().get_params()
        model = kind(**(quick_numbers | {"target_bound": 80.0} if regressor else quick) | changes)
        return model.fit(rows, numbers if regressor else labels)

    return fit


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_clone_is_unfitted_and_fits_alike(fitted, kind, rows, labels, numbers):
    model = fitted(kind, epsilon=3.0, n_agents=2)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")
    copy.fit(rows, numbers if "target_bound" in model.get_params() else labels)
    np.testing.assert_array_equal(copy.coef_, model.coef_)


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_a_pickle_predicts_alike(fitted, kind, rows):
    model = fitted(kind)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict(rows) == model.predict(rows)).all()
    assert str(again.privacy_) == str(model.privacy_)


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_plain_estimator_predicts_the_same(fitted, kind, intercept, rows):
    model = fitted(kind, fit_intercept=intercept)
    plain = model.to_sklearn()
    assert type(plain).__name__ == kind.__name__.removeprefix("Private")
    assert type(plain).__module__.startswith("sklearn.")
    assert (plain.predict(rows) == model.predict(rows)).all()
    for method in ("decision_function", "predict_proba"):
        if hasattr(model, method):
            np.testing.assert_allclose(getattr(plain, method)(rows), getattr(model, method)(rows), rtol=1e-12)
    plain.coef_ *= 2.0
    assert not np.array_equal(plain.coef_, model.coef_)
    assert pickle.loads(pickle.dumps(plain)).n_features_in_ == 3


def test_several_classes_and_names_of_columns_are_exported(quick, rows):
    pandas = pytest.importorskip("pandas")
    table, labels = pandas.DataFrame(rows, columns=list("abc")), np.arange(300) % 3
    model = PrivateLogisticRegression(**quick | {"classes": [0, 1, 2]}).fit(table, labels)
    plain = model.to_sklearn()
    assert (plain.predict(table) == model.predict(table)).all()
    np.testing.assert_allclose(plain.predict_proba(table), model.predict_proba(table), rtol=1e-12)
    assert plain.feature_names_in_.tolist() == ["a", "b", "c"]


def test_an_unfitted_model_cannot_be_exported(quick_numbers):
    with pytest.raises(ValueError, match="not fitted yet"):
        PrivateRidge(**quick_numbers).to_sklearn()


def test_it_can_end_a_pipeline(quick, rows, labels):
    """A step that looks at one row at a time needs no budget, and makes its bound public."""
    quick |= {"norm_bound": 1.0}
    pipeline = make_pipeline(Normalizer(), PrivateLogisticRegression(**quick))
    owners = np.array(["one", "two"])[np.arange(300) % 2]
    pipeline.fit(rows, labels, privatelogisticregression__owners=owners)
    alone = PrivateLogisticRegression(**quick).fit(Normalizer().transform(rows), labels, owners=owners)
    assert (pipeline.predict(rows) == alone.predict(Normalizer().transform(rows))).all()
    assert [owner.name for owner in pipeline[-1].privacy_.owners] == ["one", "two"]


def test_a_search_finds_the_better_budget(quick, rows, labels):
    quick |= {"rounds": 30}
    search = GridSearchCV(PrivateLogisticRegression(**quick), {"epsilon": [1e-4, 1e4], "C": [None, 1.0]}, cv=3)
    search.fit(rows, labels, owners=np.array(["one", "two"])[np.arange(300) % 2])
    assert search.best_params_["epsilon"] == 1e4
    assert search.best_score_ > 0.75
    assert sum(owner.records for owner in search.best_estimator_.privacy_.owners) == 300


def test_scores_of_folds_can_be_had(quick_numbers, rows, numbers):
    quick_numbers |= {"epsilon": 1e6, "algorithm": "dpsgd", "rounds": 300, "target_bound": 80.0}
    assert cross_val_score(PrivateRidge(**quick_numbers), rows, numbers, cv=3).min() > 0.8


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_the_package_has_them_by_name(kind):
    assert getattr(dpadmm, kind.__name__) is kind
    assert kind.__name__ in dpadmm.__all__


def test_importing_the_estimators_waits_for_no_compiler():
    code = "import sys, dpadmm.estimators; print({'numba', 'dp_accounting', 'networkx'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"
