"""FDP-ADMM (004: Zhou & Xiang, "ADMM-based differential privacy learning for penalized quantile regression on
distributed functional data"; theory 7). Curves become rows of scores before (`datasets/functional`); from there
on it is consensus ADMM and DP-ADMM with the check loss.
"""

from __future__ import annotations

from dataclasses import replace

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import Descent, Star
from dpadmm.admm.perturbations import Gradient, Unperturbed
from dpadmm.admm.schedules import Fixed
from dpadmm.admm.solvers import Exact, GradientAnswer
from dpadmm.papers.dp_admm import DP_ADMM

PAPER = "Zhou & Xiang 2022, FDP-ADMM"
RADIUS = 20.0  # c_w, which the paper does not give. Its coefficients have length 1.2; steps for a worst case are timid

F_ADMM = Algorithm(
    name="f-admm",
    about="quantile regression by consensus ADMM with exact local solves",
    paper=f"{PAPER}, Alg. 1",
    consensus=Star(),
    phases=(Phase(Exact(tolerance=1e-6), Unperturbed()),),
    base_loss="quantile",
    base_radius=RADIUS,
)

FDP_ADMM = replace(
    DP_ADMM,
    name="fdp-admm",
    about="quantile regression by one linearised step per round with noise on the gradient",
    paper=f"{PAPER}, Alg. 2",
    base_loss="quantile",
    base_radius=RADIUS,
)

# Functional principal components, which the paper takes from the curves without saying who computes them: the second
# moments of all agents, released once with noise (claims B8). From zero, a step of length one along the mean gradient.
COMPONENTS = Algorithm(
    name="components",
    about="second moments of the rows in one round, for principal components",
    paper="the twin of private-components",
    consensus=Descent(),
    phases=(Phase(GradientAnswer(), Unperturbed(), moves_dual=False),),
    schedule=Fixed(1.0),
    base_loss="second-moment",
)

PRIVATE_COMPONENTS = replace(
    COMPONENTS,
    name="private-components",
    about="second moments of the rows in one round, with noise, for principal components",
    paper="after Dwork, Talwar, Thakurta & Zhang 2014, Analyze Gauss",
    phases=(Phase(GradientAnswer(), Gradient("gaussian"), moves_dual=False),),
    twin="components",
)

# The same around a mean, as the paper's expansion of the covariance has it: mean curve and products in one release.
COVARIANCE = replace(
    COMPONENTS,
    name="covariance",
    about="the mean of the rows and their products in one round, for components of their covariance",
    paper=f"{PAPER}, 2.1; the twin of private-covariance",
    base_loss="mean-and-products",
)

PRIVATE_COVARIANCE = replace(
    PRIVATE_COMPONENTS,
    name="private-covariance",
    about="the mean of the rows and their products in one round, with noise, for components of their covariance",
    paper=f"{PAPER}, 2.1, with the noise that it leaves out",
    base_loss="mean-and-products",
    twin="covariance",
)
