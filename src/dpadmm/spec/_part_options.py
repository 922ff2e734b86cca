"""Options of the parts of a recipe, as fields of a run. Made by `make generate`; do not edit."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm._fields import option


@dataclass(frozen=True, kw_only=True)
class PartOptions:
    """Fields of the parts of a recipe. None means: the recipe's own."""

    tolerance: float | None = option(
        None,
        help="Gradient length at which an exact solver stops.",
        panel="Algorithm",
        flag="--tolerance",
        shown="1e-8",
    )
    fixed_steps: bool | None = option(
        None,
        help="Solve exactly in a fixed number of steps, which no record can change. Slower.",
        panel="Algorithm",
        flag="--fixed-steps",
        off_flag="--no-fixed-steps",
        shown="no",
    )
    updates: int | None = option(
        None,
        help="Local updates in a round.",
        panel="Algorithm",
        flag="--updates",
        shown="1 for obj-g and its kin, 10 for ps-admm's",
    )
    average: str | None = option(
        None,
        help="Mean of the inner steps: plain, or over-relaxed as in the paper.",
        panel="Algorithm",
        flag="--average",
        shown="plain",
    )
    batch: float | None = option(
        None,
        help="Mini-batches of ps-admm and its kin: records, or a share below 1.",
        panel="Algorithm",
        flag="--batch",
        shown="0.05",
    )
    sampling: str | None = option(
        None,
        help="How mini-batches are drawn: poisson, or uniform (one record).",
        panel="Algorithm",
        flag="--sampling",
        shown="poisson",
    )
    reach: float | None = option(
        None,
        help="How far ps-admm's steps may lead in a round; a short reach needs less noise.",
        panel="Algorithm",
        flag="--reach",
    )
    damping: float | None = option(
        None,
        help="Shortens the recycled rounds of r-admm and its kin (gamma of 003).",
        panel="Algorithm",
        flag="--damping",
        shown="0",
    )
    mechanism: str | None = option(
        None,
        help="Noise, from 'dpadmm mechanisms'.",
        panel="Privacy",
        flag="--mechanism",
        shown="the algorithm's",
    )
    unit_gain: bool | None = option(
        None,
        help="Scale output noise as if a step moved the model as far as its gradient: safe, and wasteful.",
        panel="Algorithm",
        flag="--unit-gain",
        off_flag="--step-gain",
        shown="step",
    )
    extra_curvature: float | None = option(
        None,
        help="Quadratic term that dvp adds to pay for its Jacobian.",
        panel="Algorithm",
        flag="--extra-curvature",
        shown="from public facts",
    )
    momentum: float | None = option(
        None,
        help="Nesterov's momentum at the server of dp-accelerated.",
        panel="Algorithm",
        flag="--momentum",
        shown="0.8",
    )
    edge_penalties: bool | None = option(
        None,
        help="Penalties of edges, the mean of both nodes', with which nodes agree on the optimum.",
        panel="Algorithm",
        flag="--edge-penalties",
        off_flag="--node-penalties",
        shown="those of nodes, as in 003",
    )
