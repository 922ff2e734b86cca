"""Classifiers: without noise they are scikit-learn's, and what they say of rows is what their coefficients say."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression

from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.problems.losses import SmoothedHinge


@pytest.mark.parametrize("strength", [0.003, 0.1])
def test_without_noise_it_is_scikit_learns_logistic_regression(exact, rows, labels, strength):
    exact |= {"C": strength, "fit_intercept": False}
    private = PrivateLogisticRegression(**exact).fit(rows, labels)
    plain = LogisticRegression(C=strength, fit_intercept=False, tol=1e-10).fit(rows, labels)
    np.testing.assert_allclose(private.coef_, plain.coef_, atol=2e-3)
    assert private.intercept_ == pytest.approx([0.0], abs=0)


def test_the_penalty_is_on_the_coefficients_of_rows_as_they_came(exact, rows, labels):
    """Rows are in units of their bound while fitting, so a looser bound must change nothing but the noise."""
    exact |= {"C": 0.01, "rounds": 1500}
    tight = PrivateLogisticRegression(**exact, fit_intercept=False).fit(rows, labels)
    loose = PrivateLogisticRegression(**exact | {"norm_bound": 8.0}, fit_intercept=False).fit(rows, labels)
    np.testing.assert_allclose(tight.coef_, loose.coef_, atol=2e-3)


def test_an_l1_penalty_makes_zeros_where_the_plain_one_does(exact, rows, labels):
    exact |= {"algorithm": "dpsgd", "penalty": "l1", "C": 0.02, "fit_intercept": False, "rounds": 3000}
    private = PrivateLogisticRegression(**exact).fit(rows, labels)

    signs = np.where(labels == "yes", 1.0, -1.0)

    def objective(halves):
        model = halves[:3] - halves[3:]
        return 0.02 * np.logaddexp(0.0, -signs * (rows @ model)).sum() + halves.sum()

    found = minimize(objective, np.full(6, 0.1), bounds=[(0, None)] * 6, tol=1e-12).x
    optimum = found[:3] - found[3:]
    assert (np.abs(optimum) < 1e-4).any()
    np.testing.assert_allclose(private.coef_[0], optimum, atol=5e-3)


def test_the_support_vector_machine_minimises_the_rounded_hinge(exact, rows, labels):
    private = PrivateLinearSVC(**exact | {"C": 0.01, "fit_intercept": False}).fit(rows, labels)
    signs = np.where(labels == "yes", 1.0, -1.0)
    width = SmoothedHinge.width

    def hinge(gap):
        inside = (width + gap) ** 3 * (3 * width - gap) / (16 * width**3)
        return np.where(gap >= width, gap, np.where(gap <= -width, 0.0, inside))

    def objective(model):
        return 0.01 * hinge(1.0 - signs * (rows @ model)).sum() + 0.5 * model @ model

    np.testing.assert_allclose(private.coef_[0], minimize(objective, np.zeros(3), tol=1e-12).x, atol=2e-3)


def test_probabilities_and_labels_follow_from_the_scores(quick, rows, labels):
    model = PrivateLogisticRegression(**quick).fit(rows, labels)
    scores = rows @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(model.decision_function(rows), scores)
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], expit(scores))
    np.testing.assert_allclose(model.predict_log_proba(rows), np.log(model.predict_proba(rows)))
    assert (model.predict(rows) == np.where(scores > 0, "yes", "no")).all()
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.coef_.shape, model.intercept_.shape) == ((1, 3), (1,))


def test_several_classes_are_told_apart(exact):
    rows, labels = make_blobs(240, centers=[[2, 0], [-2, 1], [0, -2]], cluster_std=0.4, random_state=0)
    exact |= {"algorithm": "dpsgd", "rounds": 150, "classes": [5, 15, 25]}
    model = PrivateLogisticRegression(**exact).fit(rows, 10 * labels + 5)
    assert model.coef_.shape == (3, 2)
    assert model.classes_.tolist() == [5, 15, 25]
    assert model.score(rows, 10 * labels + 5) == 1.0
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0)
    assert (model.classes_[model.predict_proba(rows).argmax(axis=1)] == model.predict(rows)).all()


def test_an_intercept_is_found(exact, rows, margins):
    labels = margins > 1.0
    model = PrivateLogisticRegression(**exact | {"classes": [False, True]}).fit(rows, labels)
    np.testing.assert_allclose(-model.intercept_[0] / model.coef_[0, :2], [1.0, -1.0], atol=0.25)
    assert model.score(rows, labels) > 0.95


def test_classes_may_be_given_beforehand(quick, rows, labels):
    model = PrivateLogisticRegression(**quick | {"classes": ["yes", "no", "perhaps"]}).fit(rows, labels)
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert model.coef_.shape == (3, 3)
    assert any("labels, as given" in text for text in model.privacy_.public)
    many = PrivateLogisticRegression(**quick | {"classes": range(30), "rounds": 1}).fit(rows, np.arange(300) % 3)
    assert many.classes_.tolist() == list(range(30))


@pytest.mark.parametrize("classes", [["no"], []])
def test_fewer_than_two_classes_are_refused(quick, rows, labels, classes):
    with pytest.raises(ValueError, match="needs two classes or more"):
        PrivateLogisticRegression(**quick | {"classes": classes}).fit(rows, labels)


def test_labels_of_another_type_than_the_classes_are_refused(quick, rows, labels):
    with pytest.raises(ValueError, match="no label can be one of them"):
        PrivateLogisticRegression(**quick | {"classes": [0, 1]}).fit(rows, labels)


@pytest.mark.filterwarnings("ignore:classes was taken from the data")
def test_what_cannot_be_learned_is_refused(quick, rows, labels, margins):
    unsaid = quick | {"classes": None}
    with pytest.raises(ValueError, match=r"not one class or none: \['no'\]"):
        PrivateLogisticRegression(**unsaid).fit(rows, np.full(300, "no"))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        PrivateLinearSVC(**unsaid).fit(rows, np.arange(300) % 3)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        PrivateLinearSVC(**quick | {"classes": [0, 1, 2]}).fit(rows, np.arange(300) % 2)
    with pytest.raises(ValueError, match="Unknown label type"):
        PrivateLogisticRegression(**unsaid).fit(rows, margins)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0.0}, "C 0.0: must be a positive number"),
        ({"epsilon": -1.0}, "epsilon -1.0: must be a positive number"),
        ({"norm_bound": "wide"}, "norm_bound 'wide': must be a positive number"),
        ({"delta": 2.0}, "delta = 2.0 must be 0 or a number"),
        ({"penalty": "scad"}, "penalty 'scad': 'l2', 'l1', or None"),
        ({"rounds": 0}, "rounds 0: must be a whole number, at least 1"),
        ({"rounds": 2.5}, "rounds 2.5: must be a whole number"),
        ({"n_agents": 0}, "n_agents 0: must be a whole number, at least 1"),
        ({"n_agents": 301}, "n_agents=301 is more than n_samples=300"),
        ({"algorithm": "dp-adm"}, "did you mean 'dp-admm'"),
        ({"algorithm": "admm"}, "'admm' is not private"),
        ({"algorithm": "ps-admm-paper", "relation": "replace"}, "keeps no total budget"),
        ({"relation": "similar"}, "unknown relation 'similar'"),
        ({"topology": "ring:5"}, "has a server that talks to all agents"),
    ],
)
def test_wrong_parameters_are_named_when_fitting(quick, rows, labels, change, message):
    with pytest.raises(ValueError, match=message):
        PrivateLogisticRegression(**quick | change).fit(rows, labels)
