"""Stochastic ADMM (002: Ding et al., "Stochastic ADMM based distributed machine learning with differential privacy";
theory 5). Equation and algorithm numbers are the paper's.
"""

from __future__ import annotations

from dataclasses import replace

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import PenalisedStar
from dpadmm.admm.perturbations import Gradient, Perturbation, SampledGradient, Unperturbed
from dpadmm.admm.schedules import Averaged, Stable
from dpadmm.admm.solvers import GradientSteps, Sgd, Solver, Svrg

PAPER = "Ding et al. 2019, PS-ADMM"


def _recipe(name: str, about: str, paper: str, solver: Solver, noise: Perturbation, twin: str | None) -> Algorithm:
    return Algorithm(
        name=name,
        about=about,
        paper=paper,
        consensus=PenalisedStar(),  # (5), (6): the regulariser sits at the server
        phases=(Phase(solver, noise),),  # Alg. 1 and 2, the inner loop
        schedule=Averaged(),
        twin=twin,
    )


SCAS_ADMM = _recipe(
    "scas-admm",
    "variance-reduced steps on mini-batches, without noise",
    f"{PAPER}, Alg. 1, with Poisson sampling and the plain average",
    Svrg(),
    Unperturbed(),
    None,
)

PS_ADMM = _recipe(
    "ps-admm",
    "variance-reduced steps on mini-batches with noise on every gradient, soundly accounted",
    f"{PAPER}, Alg. 2, with Poisson sampling and the plain average",
    Svrg(),
    SampledGradient(),
    "scas-admm",
)

PS_ADMM_ANCHOR = _recipe(
    "ps-admm-anchor",
    "as ps-admm, but the whole gradient of each round has noise of its own",
    f"{PAPER}, Alg. 2, with a noisy anchor",
    Svrg(),
    SampledGradient(anchor_share=1 / 3),
    "scas-admm",
)

SGD_ADMM = _recipe(
    "sgd-admm",
    "gradient steps on mini-batches, without noise",
    f"{PAPER}, Alg. 1 without variance reduction",
    Sgd(),
    Unperturbed(),
    None,
)

PS_ADMM_SGD = _recipe(
    "ps-admm-sgd",
    "gradient steps on mini-batches with noise on every gradient",
    f"{PAPER}, Alg. 2 without variance reduction",
    Sgd(),
    SampledGradient(),
    "sgd-admm",
)

GRADIENT_ADMM = _recipe(
    "gradient-admm",
    "several whole gradient steps a round, without noise",
    f"{PAPER}, Alg. 1 with whole gradients",
    GradientSteps(),
    Unperturbed(),
    None,
)

PS_ADMM_FULL = _recipe(
    "ps-admm-full",
    "several whole gradient steps a round with noise on every gradient",
    f"{PAPER}, Alg. 2 with whole gradients",
    GradientSteps(),
    Gradient("gaussian"),
    "gradient-admm",
)

# As printed: one uniform record, over-relaxed average, steps within the range that its formulas need.
_PRINTED = Svrg(batch=1, sampling="uniform", average="over-relaxed")

SCAS_ADMM_PAPER = replace(
    _recipe("scas-admm-paper", "SCAS-ADMM as its paper prints it", f"{PAPER}, Alg. 1", _PRINTED, Unperturbed(), None),
    schedule=Stable(),
)

PS_ADMM_PAPER = replace(
    _recipe(
        "ps-admm-paper",
        "PS-ADMM as its paper prints it: its epsilon is a claim, and the true one stands beside it",
        f"{PAPER}, Alg. 2 and theorem 2 with c = 1",
        _PRINTED,
        SampledGradient(),
        "scas-admm-paper",
    ),
    schedule=Stable(),
    as_printed=True,
)
