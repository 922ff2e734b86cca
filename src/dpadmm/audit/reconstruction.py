"""The reconstruction attack: an agent's records from the messages it sent.

Whoever hears the messages of a run (the server, or anybody on the way) knows the terms, the broadcasts and the
releases, and nothing else. An ADMM message is an answer to a subproblem of which all but the records is public, so it
gives away the gradient over the agent's records; gradients give away the records (`inversion`). The same attack, on
the same records, is then made on private runs, whose messages give away gradients with noise on them.

An agent with few records is the worst case, and the one that shows what a message contains. The noise of the private
runs hides any single record whatever else the agent holds, so it does not depend on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm._plots import empty_figure, save
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.rounds import subproblem
from dpadmm.admm.solvers import Exact, GradientAnswer
from dpadmm.admm.solvers.linearised import LocalUpdates
from dpadmm.audit.inversion import RecoveredMatch, compare, invert
from dpadmm.audit.observed import Message, messages
from dpadmm.datasets import Dataset
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.data import load_data
from dpadmm.errors import InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.accounting import Guarantee
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.randomness import generator
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.release.rows import SIDE
from dpadmm.spec import resolve
from dpadmm.spec.declare import DataSpec, RunSpec

VICTIM = 0
BUDGETS = (Budget(8.0, 1e-5), Budget(1.0, 1e-5))
MOST_RECORDS, MOST_ROUNDS = 20, 100  # the fit has a number for each feature of each record, and all rounds at once


@dataclass(frozen=True, eq=False)
class RecordFinding:
    """What the attack on one run has found."""

    budget: Budget | None  # None: the run was not private
    guarantee: Guarantee | None
    found: RecoveredMatch


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The victim's records, and what was recovered of them: without privacy first, then at each budget.

    Attributes:
        data: The data set's name.
        algorithm: The recipe's name.
        twin: The recipe's without noise.
        rounds: Of each run.
        seed: Of records and noise.
        rows: The victim's records as the model sees them: encoded, and clipped to the public bound.
        labels: Of the victim's records, by the names of their classes.
        features: Names of the columns.
        signs_found: False where records of two classes come back as label times row: that is all the loss sees.
        attacks: One without noise, then one for each budget.
    """

    data: str
    algorithm: str
    twin: str
    rounds: int
    seed: int
    rows: FloatArray  # as the model sees them: encoded, and clipped to the public bound
    labels: tuple[str, ...]  # by the names of their classes
    features: tuple[str, ...]
    signs_found: bool  # False where records of two classes come back as label times row: that is all the loss sees
    attacks: tuple[RecordFinding, ...]

    @property
    def side(self) -> int | None:
        """Pixels along the edge of a record that is a square picture; None for a table."""
        side = isqrt(len(self.features))
        pixels = all(name.startswith("pixel") for name in self.features)
        return side if pixels and side**2 == len(self.features) else None


def reconstruct(
    source: str = "digits",
    *,
    records: int = 1,
    algorithm: str = "dp-admm",
    budgets: Sequence[Budget] = BUDGETS,
    rounds: int = 10,
    agents: int = 2,
    seed: int = 0,
    target: str | None = None,
    data_dir: str | None = None,
) -> Reconstruction:
    """Attacks the first agent of a run without noise, and of a private run at each budget, over the same records.

    Every agent has as many records as the victim, drawn by the seed.

    Args:
        source: A data set's name, or a file.
        records: How many the victim has.
        algorithm: A private recipe's name.
        budgets: The total budgets to attack.
        rounds: Of each run.
        agents: How many there are, with the victim.
        seed: Of records and noise.
        target: Column of a file to predict.
        data_dir: Folder with the files of data sets that do not ship.

    Returns:
        The victim's records, and what was recovered of them.

    Raises:
        InputError: The recipe cannot be attacked in this way, or there are not enough records.
    """
    recipe = _attackable(algorithm)
    for name, value, most in (("records", records, MOST_RECORDS), ("rounds", rounds, MOST_ROUNDS)):
        if not 1 <= value <= most:
            raise InputError(f"{name} {value}: the attack takes between 1 and {most}.")
    if agents < 1:
        raise InputError(f"agents {agents}: at least one, the victim.")
    dataset = _classified(source, target, data_dir, seed)
    if records * agents > len(dataset):
        raise InputError(
            f"records {records}: {agents} agents with as many each need {records * agents:,}, and {dataset.name!r} has "
            f"{len(dataset):,}; take fewer."
        )
    classes = len(dataset.classes or ())
    spec = RunSpec(
        algorithm=str(recipe.twin), loss="logistic" if classes == 2 else "softmax", rounds=rounds,
        norm_bound=dataset.norm_bound,
    )  # fmt: skip
    picked = dataset.take(generator(seed, "reconstruction").choice(len(dataset), records * agents, replace=False))
    targets = resolve.problem(spec).loss.encode(picked.targets, classes)
    owner = np.repeat(np.arange(agents), records)
    names = [f"agent {i}" for i in range(agents)]
    rows = picked.features if isinstance(picked.features, np.ndarray) else picked.features.toarray()
    shards = gather(rows, targets, owner, names=names, norm_bound=spec.clip)
    own = np.asarray(shards.real_rows[:records])
    labels = np.asarray(shards.targets[:records], dtype=np.int64)
    # That pixels and shares of a range are not negative is common knowledge of such data, not of these records.
    positive = bool(dataset.features.min() >= 0.0)

    def attack(budget: Budget | None) -> RecordFinding:
        asked = spec
        if budget is not None:
            asked = replace(spec, algorithm=algorithm, epsilon=budget.epsilon, delta=budget.delta)
        plan = resolve.plan(asked, shards.counts, shards.width, classes)
        points, gradients = overheard(plan, shards, seed)
        found = invert(
            points, gradients, weight=float(plan.local.weights[VICTIM]), records=records, classes=classes,
            bound=shards.norm_bound, labels=labels if records > 1 and classes > 2 else None, positive=positive,
            inexact=_inexact(plan, records), seed=seed,
        )  # fmt: skip
        guarantee = None if budget is None else plan.accounts().guarantee(VICTIM, budget.delta)
        return RecordFinding(budget, guarantee, compare(found, own, labels))

    return Reconstruction(
        data=dataset.name, algorithm=algorithm, twin=str(recipe.twin), rounds=rounds, seed=seed, rows=own,
        labels=tuple((dataset.classes or ())[number] for number in picked.targets[:records]),
        features=dataset.feature_names, signs_found=positive or classes > 2,
        attacks=tuple(attack(budget) for budget in (None, *budgets)),
    )  # fmt: skip


def overheard(plan: Plan, shards: Shards, seed: int) -> tuple[FloatArray, FloatArray]:
    """Points and gradients (T, D) that the victim's messages in a simulated run give away."""
    cohort = Cohort.of(plan, shards, [0], SeededRandomness(seed))
    told = [revealed(message) for message in messages(cohort, SimulationState.of(cohort), np.array([VICTIM]))]
    points, gradients = zip(*told, strict=True)
    return np.concatenate(points), np.concatenate(gradients)


def revealed(message: Message) -> tuple[FloatArray, FloatArray]:
    """Where, and what, the gradient of the data part of an agent's objective was, by its message of a round.

    With noise in the round, the gradient has it too.
    """
    plan, round, release = message.plan, message.round, message.release
    given = subproblem(plan, message.before, _nothing(plan), message.common, round)
    if isinstance(message.phase.solver, GradientAnswer):
        return given.centre, release
    if isinstance(message.phase.solver, Exact):  # the answer is where the gradient of the whole objective is zero
        stiff = plan.noise_in(round).curvature
        if stiff is not None and stiff.any():
            given = given.stiffened(stiff)
        return release, -given.completed(np.zeros_like(release), release)
    eta, point = plan.eta(round)[:, None], message.before.released  # one step from the last release
    pull = point / eta + given.kappa * given.centre - given.tilt
    return point, pull - release * (1.0 / eta + given.kappa) - given.penalty_gradient(point)


def _inexact(plan: Plan, records: int) -> float:
    """How far a gradient may be off without any noise: by the solver's tolerance, or by the rounding of slopes."""
    solver, setting = plan.algorithm.phases[0].solver, plan.local
    rounded = 0.5 * SIDE * setting.bounds.worth * records * float(setting.weights[VICTIM])
    return rounded if solver.first_order else solver.tolerance


def _nothing(plan: Plan) -> Shards:
    """The records that an attacker has."""
    none = np.zeros(plan.setting.agents, dtype=np.int64)
    width = plan.setting.width or plan.setting.dimension
    return Shards(np.zeros((0, width)), np.zeros(0), none, none, plan.setting.norm_bound, ("?",) * none.size)


def _can_be_attacked(recipe: Algorithm) -> bool:
    """Whether a message is one gradient of the logistic or softmax loss, in a form that `revealed` undoes."""
    solver = recipe.phases[0].solver
    one_step = isinstance(solver, Exact | GradientAnswer) or (isinstance(solver, LocalUpdates) and solver.updates == 1)
    plain = len(recipe.phases) == 1 and not (recipe.consensus.decentralised or recipe.consensus.penalises)
    return recipe.private and recipe.twin is not None and recipe.base_loss == "logistic" and plain and one_step


def _attackable(algorithm: str) -> Algorithm:
    if algorithm not in ALGORITHMS:
        raise unknown("algorithm", algorithm, ALGORITHMS)
    if not _can_be_attacked(ALGORITHMS[algorithm]):
        known = ", ".join(name for name, recipe in ALGORITHMS.items() if _can_be_attacked(recipe))
        why = "is not private itself" if not ALGORITHMS[algorithm].private else "has messages the attack cannot undo"
        raise InputError(f"algorithm {algorithm!r} {why}; name one of {known}. Each is attacked without noise as well.")
    return ALGORITHMS[algorithm]


def _classified(source: str, target: str | None, data_dir: str | None, seed: int) -> Dataset:
    dataset = load_data(DataSpec(source=source, target=target, data_dir=data_dir), seed)
    if not isinstance(dataset, Dataset):
        raise InputError(f"data {source!r}: the attack draws records from memory; name a data set or a file.")
    if dataset.classes is None:
        raise InputError(
            f"data {source!r} has numbers for targets; the attack is on classifiers. Name a data set with classes, "
            f"such as 'digits' or 'breast-cancer'."
        )
    return dataset


MOST_SHOWN = 60  # features of a table whose names can be read
INK = "Greys"


def draw(reconstruction: Reconstruction, path: Path) -> None:
    """A row for each record. Pictures: the original and what each attack made of it. Tables: a panel for each attack,
    with the true values and those recovered."""
    figure = empty_figure()
    if reconstruction.side is None:
        _values(figure, reconstruction)
    else:
        _images(figure, reconstruction, reconstruction.side)
    figure.suptitle(
        f"{reconstruction.data}: records recovered from the messages of {reconstruction.rounds} rounds",
        fontsize="medium",
    )
    save(figure, path, "--picture")


def _images(figure: Any, found: Reconstruction, side: int) -> None:
    count = len(found.rows)
    figure.set_size_inches(2.2 * (len(found.attacks) + 1), 2.3 * count + 0.8)
    axes = figure.subplots(count, len(found.attacks) + 1, squeeze=False)
    for place, row in enumerate(found.rows):
        # One scale for the whole row: what is recovered must not look better than it is.
        shown: dict[str, Any] = {"cmap": INK, "vmin": 0.0, "vmax": max(float(row.max()), 1e-9)}
        axes[place, 0].imshow(row.reshape(side, side), **shown)
        axes[place, 0].set_title(f"original: {found.labels[place]}", fontsize="small")
        for axis, attack in zip(axes[place, 1:], found.attacks, strict=True):
            axis.imshow(attack.found.rows[place].reshape(side, side), **shown)
            axis.set_title(_title(found, attack, place), fontsize="small")
    for axis in axes.ravel():
        axis.set(xticks=[], yticks=[])


def _values(figure: Any, found: Reconstruction) -> None:
    count, width = len(found.rows), len(found.features)
    figure.set_size_inches(3.4 * len(found.attacks) + 1.5, max(3.0, 0.17 * min(width, MOST_SHOWN)) * count + 0.8)
    axes = figure.subplots(count, len(found.attacks), squeeze=False, sharex="row", sharey=True)
    places = np.arange(width)
    for record, true in enumerate(found.rows):
        for axis, attack in zip(axes[record], found.attacks, strict=True):
            axis.plot(true, places, "o", color="black", markersize=5, fillstyle="none", label="true")
            axis.plot(attack.found.rows[record], places, ".", color="tab:red", markersize=5, label="recovered")
            axis.axvline(0.0, color="grey", linewidth=0.5)
            axis.set_title(_title(found, attack, record), fontsize="small")
        if width <= MOST_SHOWN:
            axes[record, 0].set_yticks(places, found.features, fontsize="xx-small")
    axes[0, 0].invert_yaxis()
    axes[0, 0].legend(fontsize="x-small")


def _title(found: Reconstruction, attack: RecordFinding, record: int) -> str:
    run = (
        f"{found.twin},\nno privacy"
        if attack.budget is None
        else f"{found.algorithm},\nepsilon {attack.budget.epsilon:g}"
    )
    return f"{run}: error {attack.found.relative_error[record]:.2g}"
