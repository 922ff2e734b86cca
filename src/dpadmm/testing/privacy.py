"""What a private recipe must keep: noise in every release that reads records, events for it, and a budget."""

from __future__ import annotations

import math

import numpy as np

from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.admm.setting import Multiplier
from dpadmm.audit.run import audit
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import NonPrivateDpEvent, flatten
from dpadmm.testing.contract import ContractError
from dpadmm.testing.runs import Bits, SmallRun, bits, played

CONFIDENCE = 0.999  # of the audit: one false alarm in a thousand


def check_phases(algorithm: Algorithm) -> None:
    """Of the phases that read records, either all are private, or none is."""
    reading = [phase.perturbation for phase in algorithm.phases if phase.solver.reads_records]
    silent = [perturbation for perturbation in reading if not perturbation.private]
    if silent and len(silent) < len(reading):
        raise ContractError(
            f"recipe {algorithm.name!r}",
            "every phase is private, or none is",
            f"perturbation {silent[0].name!r} releases without noise next to phases that have some.",
            "One exact release undoes the noise of all others: perturb every phase, or use 'free' where a phase reads "
            "no records.",
        )


def check_budget(run: SmallRun, plan: Plan, budget: Budget) -> float:
    """The plan's own account of the whole run is within the budget; returns the epsilon that it comes to."""
    spent = plan.accounts().worst(budget.delta).epsilon
    if not (spent <= budget.epsilon or run.algorithm.as_printed):
        raise ContractError(
            run.part,
            "the budget is respected",
            f"the run costs epsilon {spent:.6g} at delta {budget.delta:g}, and the budget is {budget.epsilon:g}.",
            "Calibrate its perturbation to the whole run: all rounds and all steps.",
        )
    if not math.isfinite(spent):
        raise ContractError(
            run.part, "the cost is finite", "its account says non-private.", "Name events that accountants know."
        )
    return spent


def check_noise(run: SmallRun, plan: Plan) -> None:
    """Every release of a phase that reads records has noise in every coordinate, and an event that costs something.

    The same round is answered twice from the same state with other random bits: what is the same in both has no noise.
    """
    shards, agents = run.shards, np.arange(run.shards.agents)
    state, server = begin(plan), first_state(plan, 1).server
    for k in range(1, plan.setting.rounds + 1):
        phase = plan.algorithm.phases[plan.algorithm.phase(k)]
        common = np.repeat(server.common, agents.size // len(server.common), axis=0)
        release, after = solve_and_perturb(plan, state, shards, common, k, Bits(k, agents))
        other, _ = solve_and_perturb(plan, state, shards, common, k, Bits(k, agents, seed=2))
        if release.events != plan.events(k):
            raise ContractError(
                run.part,
                "releases cost what was planned",
                f"in round {k} the release names the event {release.events[0]}, and the plan {plan.events(k)[0]}.",
                "Return the events of task.noise with a release.",
            )
        if phase.solver.reads_records:
            _check_event(run, plan, k)
            same = release.value == other.value
            if same.any():
                agent, column = (int(place) for place in np.argwhere(same)[0])
                raise ContractError(
                    run.part,
                    "every release that reads records has noise",
                    f"in round {k} (perturbation {phase.perturbation.name!r}) number {column} of agent {agent}'s "
                    f"release is {release.value[agent, column]:.8g} whatever the random bits are.",
                    "Add the mechanism's noise to all of what depends on records, from task.random_bits.",
                )
        server = next_server(plan, server, release.value[None], k)
        state = absorb(plan, after, np.repeat(server.common, agents.size // len(server.common), axis=0), k)


def _check_event(run: SmallRun, plan: Plan, round: int) -> None:
    for agent, event in enumerate(plan.events(round)):
        flat = flatten({event: 1})
        if not flat or any(isinstance(each, NonPrivateDpEvent) for each in flat):
            raise ContractError(
                run.part,
                "every release that reads records has a price",
                f"agent {agent} reads records in round {round}, and the event is {event}.",
                "Name the event of the noise: mechanism.events().",
            )


def check_twin(run: SmallRun, twin: Algorithm) -> None:
    """Without noise it is its twin, bit for bit."""
    if twin.private:
        raise ContractError(run.part, "its twin has no noise", f"{twin.name!r} is private.", "Name another twin.")
    silent = Multiplier(0.0)
    mine, other = (played(recipe.plan(run.setting, silent), run.shards) for recipe in (run.algorithm, twin))
    if bits(mine) != bits(other):
        apart = [k for k, (one, two) in enumerate(zip(mine, other, strict=True), 1) if bits([one]) != bits([two])]
        off = float(np.abs(mine[apart[0] - 1].shared.model - other[apart[0] - 1].shared.model).max())
        raise ContractError(
            run.part,
            "without noise it is its twin",
            f"from round {apart[0]} on it differs from {twin.name!r}, there by {off:.3g}.",
            "Noise of multiplier 0 must change nothing; give both the same solvers, consensus and schedules.",
        )


def check_audit(run: SmallRun, budget: Budget, transcripts: int, seed: int) -> float:
    """The attack of `dpadmm.audit` does not refute the account's epsilon; returns the lower bound that it proves."""
    found = audit(
        run.algorithm, budget.epsilon, budget.delta, transcripts=transcripts, confidence=CONFIDENCE, seed=seed
    )
    if found.violated:
        raise ContractError(
            run.part,
            "an audit does not refute its epsilon",
            f"its account says epsilon {found.claimed:.4g} at delta {found.delta:g}, and an attack on {transcripts:,} "
            f"transcripts proves at least {found.lower_bound:.4g} ({found.confidence:.1%} confidence, loss "
            f"{found.loss!r}, {found.relation} relation).",
            "Compare the scale of the noise with sensitivity times multiplier, and the events with what is released.",
        )
    return found.lower_bound
