"""Linearised ADMM with E local updates over a set (001: Ryu & Kim, "Differentially private distributed convex
optimization"; theory 4.1). Equation and line numbers are the paper's, Alg. 3.1.
"""

from __future__ import annotations

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import ServerFirst
from dpadmm.admm.perturbations import Gradient, Output, Perturbation, Unperturbed
from dpadmm.admm.rho import GrowingRho
from dpadmm.admm.schedules import RyuKim
from dpadmm.admm.solvers import LocalUpdates

PAPER = "Ryu & Kim 2022, constrained DP ADMM"


def _recipe(name: str, about: str, paper: str, perturbation: Perturbation, twin: str | None = None) -> Algorithm:
    return Algorithm(
        name=name,
        about=about,
        paper=paper,
        consensus=ServerFirst(),  # lines 5, 6 (w), 8 and 23 (duals on both sides)
        phases=(Phase(LocalUpdates(), perturbation),),  # lines 15-22
        schedule=RyuKim(),  # theorems 5.3 and 5.4
        rho=GrowingRho(),  # (E.1)
        weighting="records",  # (6.2): every record weighs 1/I
        twin=twin,
    )


# (3.2) adds a random linear term to a linearised step over W. That step is the projection of a gradient step, so its
# noise is noise on the gradient, and what follows is post-processing (claims B3, theory 4.1).
OBJ_G = _recipe(
    "obj-g",
    "local updates over a set, Gaussian noise in the objective: releases stay in the set",
    f"{PAPER}, Alg. 3.1, Gaussian",
    Gradient("gaussian"),
    twin="local-updates",
)

OBJ_L = _recipe(
    "obj-l",
    "local updates over a set, Laplace noise in the objective: releases stay in the set",
    f"{PAPER}, Alg. 3.1, Laplace",
    Gradient("laplace"),
    twin="local-updates",
)

OUT_G = _recipe(
    "out-g",
    "local updates with Gaussian noise on every result: releases may leave the set",
    f"{PAPER}, the output perturbation it compares with, sensitivity of one step",
    Output("gaussian", may_leave=True),
    twin="local-updates",
)

OUT_L = _recipe(
    "out-l",
    "local updates with Laplace noise on every result: releases may leave the set",
    f"{PAPER}, the output perturbation it compares with, sensitivity of one step",
    Output("laplace", may_leave=True),
    twin="local-updates",
)

LOCAL_UPDATES = _recipe(
    "local-updates", "local updates over a set, without noise", f"{PAPER}, Alg. 3.1 without noise", Unperturbed()
)
