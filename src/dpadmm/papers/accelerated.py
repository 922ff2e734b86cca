"""Our own: what a total budget buys when nothing of a paper has to be kept (docs/auto.md).

The gradient step of linearised ADMM at the consensus point, with momentum and averaging at the server, which cost
nothing: they are made of releases. `auto` puts it together with capped losses and standardised rows.
"""

from __future__ import annotations

from dataclasses import replace

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import Accelerated, Descent
from dpadmm.admm.perturbations import Gradient, Unperturbed
from dpadmm.admm.schedules import Fixed, Horizon
from dpadmm.admm.solvers import GradientAnswer

ACCELERATED = Algorithm(
    name="accelerated",
    about="gradient descent with Nesterov's momentum and a mean in which later steps count more",
    paper="after Nesterov 1983; the twin of dp-accelerated",
    consensus=Accelerated(),
    phases=(Phase(GradientAnswer(), Unperturbed(), moves_dual=False),),
    schedule=Horizon(),
)

DP_ACCELERATED = replace(
    ACCELERATED,
    name="dp-accelerated",
    about="noisy gradients, with momentum, averaging and a step for the whole horizon at the server",
    paper="our own; see docs/auto.md",
    phases=(Phase(GradientAnswer(), Gradient("gaussian"), moves_dual=False),),
    twin="accelerated",
)

# What rows are standardised by: from zero, a step of length one along the mean gradient of a linear loss.
COLUMN_MOMENTS = Algorithm(
    name="column-moments",
    about="means of the columns and of their squares in one round, to standardise rows by",
    paper="the twin of private-column-moments",
    consensus=Descent(),
    phases=(Phase(GradientAnswer(), Unperturbed(), moves_dual=False),),
    schedule=Fixed(1.0),
    base_loss="column-moments",
)

PRIVATE_COLUMN_MOMENTS = replace(
    COLUMN_MOMENTS,
    name="private-column-moments",
    about="means of the columns and of their squares in one round, with noise, to standardise rows by",
    paper="our own; see docs/auto.md",
    phases=(Phase(GradientAnswer(), Gradient("gaussian"), moves_dual=False),),
    twin="column-moments",
)
