"""Private classifiers: logistic regression, and the linear support vector machine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.estimators import inputs
from dpadmm.estimators.base import PUBLIC, FitTask, PrivateLinearModel
from dpadmm.spec.declare import AUTO, DEFAULTS

if TYPE_CHECKING:
    from dpadmm.admm.algorithm import Algorithm


class PrivateClassifier(ClassifierMixin, PrivateLinearModel, ABC):  # type: ignore[misc]
    """Classes from the side of a plane; the set of labels is public."""

    from_records = PrivateLinearModel.from_records | {"classes": "the set of labels"}

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        algorithm: str | Algorithm = AUTO,
        rounds: int | str = AUTO,
        penalty: str | None = str(DEFAULTS.penalty),
        C: float | None = None,
        norm_bound: float | None = None,
        classes: Any = None,
        fit_intercept: bool = True,
        n_agents: int = 1,
        topology: Any = None,
        relation: str = "zero-out",
        secure: bool | None = None,
        strict: bool = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.algorithm = algorithm
        self.rounds = rounds
        self.penalty = penalty
        self.C = C
        self.norm_bound = norm_bound
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.n_agents = n_agents
        self.topology = topology
        self.relation = relation
        self.secure = secure
        self.strict = strict
        self.random_state = random_state

    def fit(self, X: Any, y: Any, owners: Any = None) -> Self:
        """Fits to rows X and labels y.

        Args:
            X: Rows, dense or sparse.
            y: Their labels. Where classes are given, a record with another label contributes zero.
            owners: Who holds each record; None: `n_agents` share them at random.

        Returns:
            Itself, fitted.

        Raises:
            InputError: A parameter is wrong, the budget does not suffice, or a recipe of one's own is to protect
                records; or no classes are given and y has one only.
        """
        leaked, public, given = self._leaks(), PUBLIC, self.classes is not None
        if given:
            known = self._distinct(np.asarray(self.classes))
            y, public = inputs.labels_apart(y), (*public, "the set of labels, as given")
        X, y = validate_data(self, X, y, accept_sparse=inputs.SPARSE, dtype=np.float64)
        if not given:
            check_classification_targets(y)
            known = self._distinct(y)
        codes, usable = inputs.coded(y, known)
        weight = None if self.C is None else 1.0 / (inputs.positive("C", self.C) * X.shape[0])
        names = tuple(map(str, known))
        task = FitTask(self._loss(len(known)), codes, usable, names, weight, leaked=leaked, public=public)
        matrix = self._learn(X, task, owners)
        self.classes_ = known
        self.coef_, self.intercept_ = matrix[:-1].T.copy(), matrix[-1].copy()
        return self

    def _distinct(self, labels: NDArray[Any]) -> NDArray[Any]:
        """The different labels, in order; an error where there are not as many as this classifier is for."""
        found: NDArray[Any] = np.unique(labels)
        if found.size < 2:
            raise InputError(f"a classifier needs two classes or more, not one class or none: {found.tolist()}.")
        return found

    @abstractmethod
    def _loss(self, classes: int) -> str | None:
        """The loss for so many classes; None: as `auto` chooses it."""

    def decision_function(self, X: Any) -> FloatArray:
        """How far each row is on the side of `classes_[1]`; of more than two classes, a score for each.

        Args:
            X: Rows.

        Returns:
            One number per row, or one per row and class; larger is more likely.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The label of each row.

        Args:
            X: Rows.

        Returns:
            One label per row.
        """
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        found: NDArray[Any] = self.classes_[codes]
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of a few dozen records, at a small epsilon
        return tags


class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression whose every record is protected by (epsilon, delta)-differential privacy.

    Two classes have one row of coefficients, more have one for each (softmax).

    Every fit spends its budget anew: what a grid search costs is the sum over its fits.

    Args:
        epsilon: What the whole fit may cost each owner; smaller is more private.
        delta: Likewise. None: the smaller of 1e-5 and 1/(10 m), where m is the number of records of the largest
            owner.
        algorithm: A recipe of `dpadmm.ALGORITHMS`; "auto" chooses from public facts, and may cap the loss (which
            bounds every
            record's gradient) and standardise rows by a release of its own, from the same budget. A recipe of your
            own, as a
            value or an import path (mypackage.recipes:MINE), is for simulations, that is with a random_state: a fit
            whose noise protects refuses it, because owners' policies name recipes of the registry.
        rounds: How many rounds the recipe has, or "auto".
        penalty: "l2", "l1" or None. The intercept is penalised as well.
        C: As in scikit-learn, the weight of the sum of losses beside the penalty: next to the mean loss over
            records the
            penalty weighs 1/(C records); where rows are standardised, it is on the coefficients of those. None:
            next to
            nothing, 1e-6 where rows are in units of norm_bound.
        norm_bound: Public; longer rows are shortened to it while fitting, and left as they are when predicting, so
            it
            should be no shorter than rows usually are. None: the longest row's length, which leaks.
        classes: The set of labels, which is public; a record with another label contributes zero. None: those in y,
            which leaks.
        fit_intercept: Whether the model has an intercept.
        n_agents: Owners that share the records at random, where `fit` is not told who owns them.
        topology: Who talks to whom, for recipes without a server: "ring:5", or a networkx graph whose nodes are the
            owners'
            names, or whole numbers; owners are in the order of their names.
        relation: Which data sets count as neighbours, "zero-out" or "replace".
        secure: Noise from the operating system. None: unless there is a random_state, whose noise can be repeated
            and
            protects nobody.
        strict: What leaks is an error, and no `PrivacyLeakWarning`.
        random_state: A seed; None: noise that cannot be repeated.
    """

    def _loss(self, classes: int) -> str | None:
        if self.algorithm == AUTO:
            return None
        return "logistic" if classes == 2 else "softmax"

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each class, by the model.

        Args:
            X: Rows.

        Returns:
            (rows, classes), in the order of `classes_`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return np.asarray(softmax(scores, axis=1))
        second = expit(scores)
        return np.stack([1.0 - second, second], axis=1)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """The logarithms of `predict_proba`.

        Args:
            X: Rows.

        Returns:
            (rows, classes), in the order of `classes_`.
        """
        return np.asarray(np.log(self.predict_proba(X)))

    def to_sklearn(self) -> Any:
        """A plain `LogisticRegression` with this model in it.

        Returns:
            A fitted estimator that predicts the same.
        """
        from sklearn.linear_model import LogisticRegression

        plain = self._export(LogisticRegression(fit_intercept=self.fit_intercept))
        plain.n_iter_ = np.array([self.n_iter_])
        return plain


class PrivateLinearSVC(PrivateClassifier):
    """A linear support vector machine for two classes, its every record protected; the hinge's kink is rounded.

    Every fit spends its budget anew: what a grid search costs is the sum over its fits.

    Args:
        epsilon: What the whole fit may cost each owner; smaller is more private.
        delta: Likewise. None: the smaller of 1e-5 and 1/(10 m), where m is the number of records of the largest
            owner.
        algorithm: A recipe of `dpadmm.ALGORITHMS`; "auto" chooses from public facts, and may cap the loss (which
            bounds every
            record's gradient) and standardise rows by a release of its own, from the same budget. A recipe of your
            own, as a
            value or an import path (mypackage.recipes:MINE), is for simulations, that is with a random_state: a fit
            whose noise protects refuses it, because owners' policies name recipes of the registry.
        rounds: How many rounds the recipe has, or "auto".
        penalty: "l2", "l1" or None. The intercept is penalised as well.
        C: As in scikit-learn, the weight of the sum of losses beside the penalty: next to the mean loss over
            records the
            penalty weighs 1/(C records); where rows are standardised, it is on the coefficients of those. None:
            next to
            nothing, 1e-6 where rows are in units of norm_bound.
        norm_bound: Public; longer rows are shortened to it while fitting, and left as they are when predicting, so
            it
            should be no shorter than rows usually are. None: the longest row's length, which leaks.
        classes: The set of labels, which is public; a record with another label contributes zero. None: those in y,
            which leaks.
        fit_intercept: Whether the model has an intercept.
        n_agents: Owners that share the records at random, where `fit` is not told who owns them.
        topology: Who talks to whom, for recipes without a server: "ring:5", or a networkx graph whose nodes are the
            owners'
            names, or whole numbers; owners are in the order of their names.
        relation: Which data sets count as neighbours, "zero-out" or "replace".
        secure: Noise from the operating system. None: unless there is a random_state, whose noise can be repeated
            and
            protects nobody.
        strict: What leaks is an error, and no `PrivacyLeakWarning`.
        random_state: A seed; None: noise that cannot be repeated.
    """

    def _distinct(self, labels: NDArray[Any]) -> NDArray[Any]:
        found = super()._distinct(labels)
        if found.size > 2:
            raise InputError("Only binary classification is supported. The type of the target is multiclass.")
        return found

    def _loss(self, classes: int) -> str | None:
        return "smoothed-hinge"

    def to_sklearn(self) -> Any:
        """A plain `LinearSVC` with this model in it.

        Returns:
            A fitted estimator that predicts the same.
        """
        from sklearn.svm import LinearSVC

        plain = self._export(LinearSVC(fit_intercept=self.fit_intercept))
        plain.n_iter_ = self.n_iter_
        return plain

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
