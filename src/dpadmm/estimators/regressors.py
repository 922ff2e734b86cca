"""Private regressors: ridge regression, and quantile regression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from dpadmm._arrays import FloatArray
from dpadmm.errors import InputError
from dpadmm.estimators import inputs
from dpadmm.estimators.base import FitTask, PrivateLinearModel
from dpadmm.spec.declare import AUTO, DEFAULTS

if TYPE_CHECKING:
    from dpadmm.admm.algorithm import Algorithm

CLIP = 1.0  # of a residual's pull, where targets lie in [-1, 1]
WIDTH = 0.05  # over which the kink of the check loss is rounded, likewise


class PrivateRegressor(RegressorMixin, PrivateLinearModel, ABC):  # type: ignore[misc]
    """Numbers, learned in units of a public bound on their size."""

    degree = 2  # of the loss, in the targets
    from_records = PrivateLinearModel.from_records | {"target_bound": "the largest target"}

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        algorithm: str | Algorithm = AUTO,
        rounds: int | str = AUTO,
        penalty: str | None = str(DEFAULTS.penalty),
        alpha: float | None = None,
        norm_bound: float | None = None,
        target_bound: float | None = None,
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
        self.alpha = alpha
        self.norm_bound = norm_bound
        self.target_bound = target_bound
        self.fit_intercept = fit_intercept
        self.n_agents = n_agents
        self.topology = topology
        self.relation = relation
        self.secure = secure
        self.strict = strict
        self.random_state = random_state

    def fit(self, X: Any, y: Any, owners: Any = None) -> Self:
        """Fits to rows X and numbers y.

        Args:
            X: Rows, dense or sparse.
            y: Their targets.
            owners: Who holds each record; None: `n_agents` share them at random.

        Returns:
            Itself, fitted.

        Raises:
            InputError: A parameter is wrong, the budget does not suffice, or a recipe of one's own is to protect
                records.
        """
        leaked = self._leaks()
        X, y = validate_data(self, X, y, accept_sparse=inputs.SPARSE, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        given = self.target_bound
        bound = inputs.farthest(y) if given is None else inputs.positive("target_bound", given)
        targets, usable = inputs.clipped(y, bound)
        task = FitTask(self._loss(), targets, usable, None, self._weight(X.shape[0]), bound, self.degree, leaked)
        matrix = self._learn(X, task, owners)
        self.coef_, self.intercept_ = matrix[:-1, 0].copy(), float(matrix[-1, 0])
        return self

    @abstractmethod
    def _loss(self) -> str | None:
        """The loss of scaled targets; None: as `auto` chooses it."""

    @abstractmethod
    def _weight(self, records: int) -> float | None:
        """Of the penalty beside the mean loss; None: the library's own."""

    def _alpha(self) -> float | None:
        if self.alpha is None or self.alpha == 0:
            return self.alpha
        return inputs.positive("alpha", self.alpha)

    def predict(self, X: Any) -> FloatArray:
        """The number that the model says of each row, in the units of y.

        Args:
            X: Rows.

        Returns:
            One number per row.
        """
        return self._scores(X)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of a few dozen records, at a small epsilon
        return tags


class PrivateRidge(PrivateRegressor):
    """Least squares with a penalty, whose every record is protected by (epsilon, delta)-differential privacy.

    A square has no bounded slope, so a residual's gradient is clipped at target_bound, or at the part of it that
    "auto"
    chooses: beyond, the loss goes on straight.

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
        alpha: As in scikit-learn, the penalty's weight beside the sum of squares: alpha/records next to half the
            mean
            square. None: next to nothing, 1e-6 where rows and targets are in units of their bounds.
        norm_bound: Public; longer rows are shortened to it while fitting, and left as they are when predicting, so
            it
            should be no shorter than rows usually are. None: the longest row's length, which leaks.
        target_bound: Public; targets are clipped to [-target_bound, target_bound] while fitting. None: the largest
            target's
            size, which leaks.
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

    def _loss(self) -> str | None:
        return None if self.algorithm == AUTO else f"squared:{CLIP:g}"

    def _weight(self, records: int) -> float | None:
        alpha = self._alpha()
        return None if alpha is None else alpha / records

    def to_sklearn(self) -> Any:
        """A plain `Ridge` with this model in it.

        Returns:
            A fitted estimator that predicts the same.
        """
        from sklearn.linear_model import Ridge

        plain = self._export(Ridge(fit_intercept=self.fit_intercept))
        plain.n_iter_ = None
        return plain


class PrivateQuantileRegressor(PrivateRegressor):
    """A quantile of the target, whose every record is protected.

    The check loss's kink is rounded over a twentieth of target_bound.

    Every fit spends its budget anew: what a grid search costs is the sum over its fits.

    Args:
        quantile: Its level, between 0 and 1; 0.5 is the median.
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
        alpha: As in scikit-learn, the penalty's weight beside the mean check loss. None: next to nothing.
        norm_bound: Public; longer rows are shortened to it while fitting, and left as they are when predicting, so
            it
            should be no shorter than rows usually are. None: the longest row's length, which leaks.
        target_bound: Public; targets are clipped to [-target_bound, target_bound] while fitting. None: the largest
            target's
            size, which leaks.
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

    degree = 1

    def __init__(
        self,
        *,
        quantile: float = 0.5,
        epsilon: float = 1.0,
        delta: float | None = None,
        algorithm: str | Algorithm = AUTO,
        rounds: int | str = AUTO,
        penalty: str | None = str(DEFAULTS.penalty),
        alpha: float | None = None,
        norm_bound: float | None = None,
        target_bound: float | None = None,
        fit_intercept: bool = True,
        n_agents: int = 1,
        topology: Any = None,
        relation: str = "zero-out",
        secure: bool | None = None,
        strict: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon, delta=delta, algorithm=algorithm, rounds=rounds, penalty=penalty, alpha=alpha,
            norm_bound=norm_bound, target_bound=target_bound, fit_intercept=fit_intercept, n_agents=n_agents,
            topology=topology, relation=relation, secure=secure, strict=strict, random_state=random_state,
        )  # fmt: skip
        self.quantile = quantile

    def _loss(self) -> str | None:
        level = inputs.positive("quantile", self.quantile)
        if not level < 1.0:
            raise InputError(f"quantile {self.quantile!r}: must lie between 0 and 1, such as 0.5 for the median.")
        return f"smoothed-quantile:{level:.17g}:{WIDTH:g}"

    def _weight(self, records: int) -> float | None:
        return self._alpha()

    def to_sklearn(self) -> Any:
        """A plain `QuantileRegressor` with this model in it.

        Returns:
            A fitted estimator that predicts the same.
        """
        from sklearn.linear_model import QuantileRegressor

        plain = self._export(QuantileRegressor(quantile=self.quantile, fit_intercept=self.fit_intercept))
        plain.n_iter_ = self.n_iter_
        return plain
