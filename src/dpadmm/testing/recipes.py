"""The contract of a recipe."""

from __future__ import annotations

import copy

import numpy as np

from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.setting import Multiplier, NoiseRequest, PaperNoise, TotalBudget
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.problems.losses.base import Loss
from dpadmm.problems.reference import optimum
from dpadmm.testing import privacy
from dpadmm.testing.contract import ContractError, Report
from dpadmm.testing.interface import check_value
from dpadmm.testing.runs import SmallRun, check_alone, check_repeats, check_resumes, played, small_run

ROUNDS = 4
MANY_ROUNDS = 60  # of the run that must come nearer to the optimum


def check_recipe(
    algorithm: Algorithm,
    *,
    loss: Loss | None = None,
    twin: Algorithm | None = None,
    epsilon: float = 2.0,
    delta: float = 1e-5,
    rounds: int = ROUNDS,
    transcripts: int = 4000,
    seed: int = 0,
) -> Report:
    """Looks for a counterexample to everything that a recipe says of itself, on a small simulated problem.

    It must plan, repeat, resume and give each agent the same numbers alone and in a batch; without noise it must come
    nearer to the pooled optimum. If it is private, its account must keep the budget, every release that reads records
    must have noise and a price, without noise it must be its twin, and an attack must not refute its epsilon.

    Args:
        algorithm: a recipe of the library or of your own.
        loss: what is minimised; its `base_loss` if None.
        twin: the recipe without noise, where the library has none of the name that `algorithm.twin` says.
        epsilon: the total budget of a private recipe.
        delta: of the same budget.
        rounds: of most runs; one cycle of its phases at least.
        transcripts: of the audit, each a run of its own; 0 leaves the audit out.
        seed: of the audit.

    Returns:
        The promises that hold, and the epsilons of account and audit.

    Raises:
        ContractError: for the first promise that does not hold; it names the round, the agent and the numbers.
    """
    part = f"recipe {algorithm.name!r}"
    for what in ("name", "about", "paper"):
        if not getattr(algorithm, what):
            raise ContractError(part, f"{what} is declared", "it is empty.", "Say it, for tables and reports.")
    if not algorithm.phases:
        raise ContractError(part, "it has phases", "there are none.", "Give at least one Phase.")
    check_value(part, algorithm, "name")
    privacy.check_phases(algorithm)
    before, mark = copy.deepcopy(algorithm), hash(algorithm)
    run = small_run(algorithm, loss, max(rounds, len(algorithm.phases)))
    budget = Budget(epsilon, delta)
    measured: dict[str, float] = {}
    promises = ["names, value and phases", "it repeats", "it resumes", "batches of one"]
    request = _request(algorithm, budget)
    plan = _planned(run, request)
    if algorithm.private:
        privacy.check_noise(run, plan)
        measured["epsilon by its account"] = privacy.check_budget(run, plan, budget)
        promises += ["noise and events", "budget"]
    check_repeats(run, plan, request)
    check_resumes(run, plan)
    check_alone(run, plan)
    if algorithm.private and algorithm.twin is not None:
        privacy.check_twin(run, _twin(algorithm, twin))
        promises.append("twin")
    if progress := check_progress(run):
        measured |= progress
        promises.append("progress")
    if algorithm.private and transcripts:
        measured["epsilon that an attack proves"] = privacy.check_audit(run, budget, transcripts, seed)
        promises.append("audit")
    if algorithm != before or hash(algorithm) != mark:
        raise ContractError(part, "running changes nothing in it", "it is not what it was.", "Keep state in Memory.")
    return Report(part, tuple(promises), measured)


def _request(algorithm: Algorithm, budget: Budget) -> NoiseRequest:
    if not algorithm.private:
        return Multiplier(0.0)
    return PaperNoise(budget) if algorithm.as_printed else TotalBudget((budget,))


def _planned(run: SmallRun, request: NoiseRequest) -> Plan:
    try:
        return run.plan(request)
    except InputError as error:
        if run.algorithm.private:  # a release without noise is the worse mistake, and is named first
            privacy.check_noise(run, run.plan(Multiplier(1.0)))
        raise ContractError(
            run.part,
            "it plans",
            f"asked for {request}, it says: {error}",
            "Calibrate its perturbations so that all phases together fit the budget, or ask for a larger epsilon.",
        ) from error


def _twin(algorithm: Algorithm, given: Algorithm | None) -> Algorithm:
    if given is not None:
        return given
    if algorithm.twin in ALGORITHMS:
        return ALGORITHMS[algorithm.twin]
    raise ContractError(
        f"recipe {algorithm.name!r}",
        "its twin is known",
        f"no recipe of the library has the name {algorithm.twin!r}.",
        "Give it: check_recipe(recipe, twin=...).",
    )


def check_progress(run: SmallRun) -> dict[str, float]:
    """Without noise, the objective at the last model is below that at the first.

    Returns:
        The objective at both, and at the pooled optimum if that is known; nothing where nothing is minimised, as with
        a statistic.

    Raises:
        ContractError: if the objective did not fall.
    """
    run, problem = run.longer(MANY_ROUNDS), run.setting.problem
    if problem.loss.curvature_bound(1.0) == 0.0:
        return {}

    def objective(model: np.ndarray) -> float:
        return float(problem.objective(run.shards, np.tile(model, (run.shards.agents, 1))).mean())

    end = objective(played(run.plan(Multiplier(0.0)), run.shards)[-1].shared.model[0])
    begin = objective(np.zeros(run.setting.dimension))
    if not end < begin:
        raise ContractError(
            run.part,
            "it lowers the objective",
            f"after {MANY_ROUNDS} rounds without noise the objective is {end:.6g}, and at zero {begin:.6g}.",
            "Look at its schedule, its duals, and whether it minimises the objective at all.",
        )
    measured = {"objective at zero": begin, f"objective after {MANY_ROUNDS} rounds without noise": end}
    try:
        best = optimum(problem, run.shards, run.setting.dimension)
    except ConvergenceError:  # a loss with kinks, for one
        return measured
    return {**measured, "objective at the pooled optimum": objective(best)}
