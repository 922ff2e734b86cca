"""What the estimators have in common: bounds, owners, one fit, and what it cost.

What a fit does, says, warns of or refuses is a function of parameters, of public facts (`FitTask.public`) and of what
was released. A public parameter that is not given is taken from the records, which is told before a record is looked
at. Where everything is given, no record can make a fit fail: one that cannot be used contributes zero.
"""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dpadmm._arrays import BoolArray, FloatArray
from dpadmm.errors import InputError
from dpadmm.estimators import inputs
from dpadmm.estimators.privacy import OwnerSpent, Privacy, PrivacyLeakWarning
from dpadmm.spec.declare import AUTO

if TYPE_CHECKING:
    from dpadmm.engine.fit import Fitted
    from dpadmm.engine.prepare import Prepared
    from dpadmm.spec.declare import Experiment

_LARGEST_SEED = 2**31 - 1

PUBLIC: tuple[str, ...] = (
    "the number of columns, their names, and whether rows are dense or sparse",
    "the owners, and the number of records of each",
    "that all entries are finite numbers: others are refused, as scikit-learn refuses them",
)


@dataclass
class FitTask:
    """What is to be learned: targets as the loss wants them, and the penalty's weight beside the mean loss."""

    loss: str | None  # None: as `auto` chooses it
    targets: NDArray[Any]
    usable: BoolArray  # which of them are valid; the records of the others contribute zero
    classes: tuple[str, ...] | None
    weight: float | None  # None: the library's own, which is next to nothing
    target_bound: float = 1.0
    degree: int = 2  # of the loss, in the targets
    leaked: tuple[str, ...] = ()
    public: tuple[str, ...] = PUBLIC


class PrivateLinearModel(BaseEstimator):  # type: ignore[misc]
    """A linear model fitted by the owners of its records. Parameters are read when it is fitted, and not before."""

    # The parameters that all estimators have; each lists them in its own signature, as scikit-learn wants it.
    epsilon: float
    delta: float | None
    algorithm: Any  # a name, or a recipe of the user's own
    rounds: int | str
    penalty: str | None
    norm_bound: float | None
    fit_intercept: bool
    n_agents: int
    topology: Any  # a text, a networkx graph or a `Topology`
    relation: str
    secure: bool | None
    strict: bool
    random_state: Any

    from_records: ClassVar[dict[str, str]] = {"norm_bound": "the length of the longest row"}
    """Public parameters, and what stands for each of them where it is not given: that is covered by no epsilon."""

    def _leaks(self) -> tuple[str, ...]:
        """What will be taken from the records, by the parameters alone: told, or refused, before one is looked at."""
        leaks = tuple(
            f"{name} was taken from the data: {what} is not covered by epsilon."
            for name, what in self.from_records.items()
            if getattr(self, name) is None
        )
        self._warn(leaks)
        return leaks

    def _learn(self, X: Any, task: FitTask, owners: Any) -> FloatArray:
        """Fits, says what it cost, and returns the model (columns with the intercept's, outputs) in the units of X."""
        # Here, so that importing the estimators does not wait for compilers.
        from dpadmm.datasets import Dataset
        from dpadmm.engine.fit import fit
        from dpadmm.engine.prepare import prepare
        from dpadmm.spec.part import refuse_own_parts

        secure, seed = self._randomness()
        names = inputs.owner_names(owners, X.shape[0])
        rows = inputs.canonical(X)
        bound = inputs.longest(rows) if self.norm_bound is None else inputs.positive("norm_bound", self.norm_bound)
        rows, finite = inputs.scaled(rows, bound)
        dataset = Dataset(
            name="the records",
            features=rows,
            targets=task.targets,
            usable=task.usable & finite,
            classes=task.classes,
            feature_names=tuple(map(str, getattr(self, "feature_names_in_", range(X.shape[1])))),
            owners=names,
        )
        experiment = self._experiment(task, bound, names, X.shape[0], seed)
        if secure:  # before anybody releases anything
            refuse_own_parts(experiment.run, "fits whose noise protects (without a random_state)")
        prepared = prepare(experiment, dataset=dataset)
        _check_budget(prepared)
        self._warn(prepared.warnings)
        fitted = fit(prepared, secure)
        self.n_iter_ = prepared.plan.setting.rounds
        self.history_ = fitted.history
        self.privacy_ = _privacy(prepared, fitted, task)
        return self._unscaled(fitted.model, X.shape[1], bound, task.target_bound)

    def _experiment(
        self, task: FitTask, bound: float, owners: NDArray[np.str_] | None, records: int, seed: int
    ) -> Experiment:
        from dpadmm.spec import resolve
        from dpadmm.spec.declare import Experiment, RunSpec
        from dpadmm.spec.parts import declared, imported

        agents = _whole("n_agents", self.n_agents, 1)
        if not agents <= records:
            raise InputError(f"n_agents={agents} is more than n_samples={records}: every owner needs a record.")
        delta = inputs.default_delta(owners, records, agents) if self.delta is None else float(self.delta)
        penalty = "none" if self.penalty is None else self.penalty
        if penalty not in (*inputs.DEGREES, "none"):
            raise InputError(f"penalty {penalty!r}: 'l2', 'l1', or None.")
        parts = declared({"algorithm": self.algorithm, "topology": self.topology})
        run = imported(RunSpec(algorithm=parts["algorithm"]))
        strength = 0.0 if penalty == "none" else None
        if task.weight is not None and penalty != "none":
            strength = inputs.strength(penalty, task.weight, bound, task.target_bound, task.degree)
            if run.algorithm != AUTO and resolve.named_recipe(run).weighting == "records":
                strength /= agents if owners is None else np.unique(owners).size  # the penalties of all owners add up
        return Experiment().changed(
            algorithm=run.algorithm,
            loss=task.loss,
            penalty=penalty,
            strength=strength,
            rounds=None if self.rounds == AUTO else _whole("rounds", self.rounds, 1),
            epsilon=inputs.positive("epsilon", self.epsilon),
            delta=delta,
            relation=self.relation,
            norm_bound=1.0,  # rows are in units of their bound
            intercept=bool(self.fit_intercept),
            topology=parts["topology"],
            # A topology says by itself how many there are.
            agents=None if owners is not None or (self.topology is not None and agents == 1) else agents,
            seed=seed,
        )

    def _randomness(self) -> tuple[bool, int]:
        """Whether the noise is the system's, and the seed of what is not secret (or of everything)."""
        secure = self.random_state is None if self.secure is None else bool(self.secure)
        if secure and self.random_state is not None:
            raise InputError(
                "secure=True with a random_state: noise that can be repeated can be subtracted, so it protects nobody. "
                "Leave random_state out, or secure, for experiments."
            )
        if secure:
            return True, secrets.randbelow(_LARGEST_SEED)
        return False, int(check_random_state(self.random_state).randint(_LARGEST_SEED))

    def _warn(self, texts: Sequence[str]) -> None:
        """For methods that `fit` calls: warnings point at the line that fits."""
        for text in texts:
            if self.strict:
                raise InputError(f"{text} With strict=True that is an error; give the value, which must be public.")
            warnings.warn(text, PrivacyLeakWarning, stacklevel=4)

    def _unscaled(self, model: FloatArray, columns: int, bound: float, target_bound: float) -> FloatArray:
        matrix = model.reshape(columns + bool(self.fit_intercept), -1) * target_bound
        matrix[:columns] /= bound
        return matrix if self.fit_intercept else np.vstack([matrix, np.zeros((1, matrix.shape[1]))])

    def _scores(self, X: Any) -> FloatArray:
        """(records, outputs)."""
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", reset=False)
        return np.asarray(rows @ np.atleast_2d(self.coef_).T + self.intercept_)

    def _export(self, plain: Any) -> Any:
        """A plain scikit-learn estimator with this model in it."""
        check_is_fitted(self)
        names = ("coef_", "intercept_", "classes_", "n_features_in_", "feature_names_in_")
        for name in names:
            if hasattr(self, name):
                value = getattr(self, name)
                setattr(plain, name, value.copy() if isinstance(value, np.ndarray) else value)
        return plain

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _privacy(prepared: Prepared, fitted: Fitted, task: FitTask) -> Privacy:
    from dpadmm.spec import resolve

    run, shards = prepared.experiment.run, prepared.shards
    owners = zip(shards.names, shards.counts.tolist(), fitted.guarantees, strict=True)
    return Privacy(
        epsilon=fitted.guarantee.epsilon,
        delta=fitted.guarantee.delta,
        relation=run.relation,
        algorithm=str(run.algorithm),
        loss=resolve.loss_text(run),
        rounds=prepared.plan.setting.rounds,
        secure=fitted.secure,
        owners=tuple(OwnerSpent(str(name), records, guarantee) for name, records, guarantee in owners),
        leaked=task.leaked,
        public=task.public,
        warnings=tuple(prepared.warnings),
    )


def _check_budget(prepared: Prepared) -> None:
    """Refuses recipes whose epsilon is a paper's claim, or nothing at all."""
    from dpadmm.admm.setting import TotalBudget

    if not isinstance(prepared.declared.noise, TotalBudget):
        name = prepared.experiment.run.algorithm
        raise InputError(f"algorithm {name!r} keeps no total budget; choose another, such as {AUTO!r}.")


def _whole(name: str, value: Any, least: int) -> int:
    if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least):
        raise InputError(f"{name} {value!r}: must be a whole number, at least {least}.")
    return int(value)
