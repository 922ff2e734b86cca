"""What a loss says of targets and predictions, and that it is a value."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpadmm.errors import InputError
from dpadmm.problems.losses.base import Loss
from dpadmm.testing.contract import ContractError, different
from dpadmm.testing.problems import SmallProblem

TASKS = ("binary", "multiclass", "regression")


def check_names(loss: Loss) -> None:
    """`name`, `about` and `task` are declared."""
    part = f"loss {getattr(loss, 'name', type(loss).__name__)!r}"
    for what in ("name", "about", "task"):
        said = getattr(loss, what, None)
        if not isinstance(said, str) or not said:
            raise ContractError(part, f"{what} is declared", f"it is {said!r}.", f"Say {what} = '...' in the class.")
    if loss.task not in TASKS:
        raise ContractError(part, "task is declared", f"task is {loss.task!r}.", f"It is one of {', '.join(TASKS)}.")


def check_value(part: str, value: Any, change: str) -> None:
    """A frozen value: equal to copies of itself, with their hash, unchanged by pickling, and not to be changed."""
    for how, other in (
        ("a copy", copy.deepcopy(value)),
        ("itself after pickling", _pickled(part, value)),
    ):
        if other != value or hash(other) != hash(value):
            raise ContractError(part, "it is a value", f"it does not equal {how}.", "Make it a frozen dataclass.")
    before = getattr(value, change)
    try:
        setattr(value, change, before)
    except (AttributeError, TypeError):
        return
    raise ContractError(part, "it is frozen", f"{change} can be set.", "Make it a frozen dataclass.")


def _pickled(part: str, value: Any) -> Any:
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception as error:
        raise ContractError(
            part,
            "it pickles",
            f"pickling fails: {error}.",
            "Define its class at the top of a module, without lambdas: workers of a cluster get it by pickling.",
        ) from error


def check_targets(problem: SmallProblem, rng: np.random.Generator) -> None:
    """`encode` looks at one target at a time, and refuses what is none."""
    loss, classes = problem.loss, problem.classes
    targets = np.concatenate([problem.targets(rng, 20), problem.every_target()])
    encoded = loss.encode(targets, classes)
    if encoded.shape != targets.shape or encoded.dtype.kind not in "fiu" or not np.isfinite(encoded).all():
        raise ContractError(
            problem.part,
            "encode gives one number per target",
            f"of {targets.size} targets it makes an array of shape {encoded.shape} and type {encoded.dtype}.",
            "Return finite numbers, one for each target.",
        )
    alone = np.array([loss.encode(targets[[i]], classes)[0] for i in range(targets.size)])
    if different(alone, encoded):
        place = int(np.argmax(alone != encoded))
        raise ContractError(
            problem.part,
            "encode looks at one target at a time",
            f"target {targets[place]} alone becomes {alone[place]}, among others {encoded[place]}.",
            "What depends on other records' targets has no sensitivity: scale by public numbers only.",
        )
    if np.ptp(encoded) == 0.0:
        return  # targets do not matter, so none is wrong
    wrong = [np.nan, np.inf, -np.inf] if loss.task == "regression" else [classes, -1, 0.5, np.nan]
    for value in wrong:
        _check_refusal(problem, np.append(targets[:7].astype(float), value), classes)
    if loss.task == "binary":
        _check_refusal(problem, np.array([0, 1, 2]), 3)


def _check_refusal(problem: SmallProblem, targets: NDArray[Any], classes: int) -> None:
    try:
        problem.loss.encode(targets, classes)
    except InputError:
        return
    except Exception as error:
        raise ContractError(
            problem.part,
            "encode refuses bad targets with an InputError",
            f"target {targets[-1]} of {classes} classes raises {type(error).__name__}: {error}.",
            "Raise dpadmm.InputError, and name row and value.",
        ) from error
    raise ContractError(
        problem.part,
        "encode refuses bad targets with an InputError",
        f"target {targets[-1]} of {classes} classes is accepted.",
        "Raise dpadmm.InputError, and name row and value.",
    )


def check_shapes(problem: SmallProblem, rng: np.random.Generator) -> None:
    """Answers have a row per agent and a number per coefficient."""
    size, shards = problem.dimension, problem.ragged(rng, [2, 5, 3])
    for what, number in (("dimension", size), ("outputs", problem.loss.outputs(problem.classes))):
        if not (isinstance(number, int | np.integer) and number >= 1):
            raise ContractError(problem.part, what, f"it is {number!r}.", "It counts, and is at least 1.")
    x = problem.models(rng, 3)
    for method, shape in zip(problem.methods, ((3,), (3, size), (3, size, size)), strict=False):
        found = method(shards, x, np.ones(3))
        if found.shape != shape or found.dtype != np.float64:
            raise ContractError(
                problem.part,
                f"{method.__name__} has a row per agent",
                f"for 3 agents and models of {size} numbers it has the shape {found.shape} and the type {found.dtype}.",
                f"Return float64 of shape {shape}.",
            )


def check_predictions(problem: SmallProblem, rng: np.random.Generator) -> None:
    """Predictions are targets, one per model and record, whatever stands beside them, dense or sparse."""
    loss, rows, models = problem.loss, problem.rows(rng, 30), problem.models(rng, 5)
    found = loss.predictions(rows, models)
    levels = found.shape[2:]
    if found.shape[:2] != (5, 30) or levels not in ((), (loss.outputs(problem.classes),)):
        raise ContractError(
            problem.part,
            "predictions has a row per model and a column per record",
            f"of 5 models and 30 records it makes the shape {found.shape}.",
            "Return (models, records), or with several levels (models, records, levels).",
        )
    right = np.isfinite(found) if loss.task == "regression" else np.isin(found, np.arange(problem.classes))
    if not right.all():
        raise ContractError(
            problem.part,
            "predictions are targets",
            f"a record is said to be {found[~right][0]}.",
            "Return class numbers 0, 1, ..., or finite numbers.",
        )
    others = {
        "sparse rows": loss.predictions(csr_array(rows), models),
        "models one by one": np.stack([loss.predict(rows, model) for model in models]),
        "records one by one": np.concatenate([loss.predictions(rows[[i]], models) for i in range(30)], axis=1),
    }
    for how, other in others.items():
        if other.shape != found.shape or not np.allclose(other, found, rtol=1e-10, atol=1e-12):
            raise ContractError(
                problem.part,
                "a prediction depends on its own record and model",
                f"{how} give other predictions.",
                "Correct predictions or predict.",
            )
    errors = loss.errors(rows, problem.targets(rng, 30), models)
    if errors.shape != (5,) or not np.isfinite(errors).all():
        raise ContractError(problem.part, "errors has a number per model", f"it is {errors}.", "Correct errors.")
