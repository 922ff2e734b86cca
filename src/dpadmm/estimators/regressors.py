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
        """Fits to rows X and numbers y; `owners` names who holds each record, else `n_agents` share them at random."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        task = FitTask(self._loss(), y, None, self._weight(X.shape[0]), degree=self.degree)
        task.target_bound = self._given_or_leaked(task, "target_bound", y, inputs.farthest, "the largest target")
        task.targets = np.clip(y / task.target_bound, -1.0, 1.0)
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
        """The number that the model says of each row, in the units of y."""
        return self._scores(X)[:, 0]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of a few dozen records, at a small epsilon
        return tags


class PrivateRidge(PrivateRegressor):
    """Least squares with a penalty, whose every record is protected by (epsilon, delta)-differential privacy.

    A square has no bounded slope, so a residual's pull is clipped at target_bound, or at the part of it that "auto"
    chooses: beyond, the loss goes on straight.

    alpha: as in scikit-learn, the penalty's weight beside the sum of squares: alpha/records next to half the mean
        square. None: next to nothing, 1e-6 where rows and targets are in units of their bounds.
    target_bound: public; targets are clipped to [-target_bound, target_bound] while fitting. None: the largest target's
        size, which leaks.

    The other parameters are those of `PrivateLogisticRegression`.
    """

    def _loss(self) -> str | None:
        return None if self.algorithm == AUTO else f"squared:{CLIP:g}"

    def _weight(self, records: int) -> float | None:
        alpha = self._alpha()
        return None if alpha is None else alpha / records

    def to_sklearn(self) -> Any:
        """A plain `Ridge` with this model in it."""
        from sklearn.linear_model import Ridge

        plain = self._export(Ridge(fit_intercept=self.fit_intercept))
        plain.n_iter_ = None
        return plain


class PrivateQuantileRegressor(PrivateRegressor):
    """A quantile of the target, whose every record is protected; the check loss's kink is rounded over a
    twentieth of target_bound.

    quantile: its level, between 0 and 1; 0.5 is the median.
    alpha: as in scikit-learn, the penalty's weight beside the mean check loss. None: next to nothing.

    The other parameters are those of `PrivateRidge`.
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
        """A plain `QuantileRegressor` with this model in it."""
        from sklearn.linear_model import QuantileRegressor

        plain = self._export(QuantileRegressor(quantile=self.quantile, fit_intercept=self.fit_intercept))
        plain.n_iter_ = self.n_iter_
        return plain
