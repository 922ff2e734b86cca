"""DP-ADMM and what it is compared with (000: Huang et al., "DP-ADMM: ADMM-based distributed learning with differential
privacy"; theory 3.1-3.5). Equation and algorithm numbers are the paper's.
"""

from __future__ import annotations

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import Descent, Neighbours, Star
from dpadmm.admm.perturbations import Gradient, Objective, Output, Unperturbed
from dpadmm.admm.schedules import Fixed, Theorem
from dpadmm.admm.solvers import Exact, GradientAnswer, Linearised

PAPER = "Huang et al. 2020, DP-ADMM"
GRAPH_RHO = 0.02  # theta, of which a node has twice as many as neighbours: ours, the paper has no graphs

ADMM = Algorithm(
    name="admm",
    about="consensus ADMM with exact local solves",
    paper=f"{PAPER}, Alg. 1",
    consensus=Star(),  # (4)-(6), duals never sent
    phases=(Phase(Exact(), Unperturbed()),),
)

PVP = Algorithm(
    name="pvp",
    about="primal variable perturbation: exact local solves, noise on the answer",
    paper=f"{PAPER}, Alg. 2, after Zhang & Zhu 2017",
    consensus=Star(),
    phases=(Phase(Exact(), Output("gaussian")),),  # (8), sensitivity of Lemma 4 with the solver's tolerance paid for
    twin="admm",
)

DVP = Algorithm(
    name="dvp",
    about="dual variable perturbation: exact local solves of a randomly tilted objective",
    paper="Zhang & Zhu 2017, as a baseline of Huang et al. 2020",
    consensus=Star(),
    phases=(Phase(Exact(), Objective("gaussian")),),
    twin="admm",
)

# The paper adds noise of standard deviation sigma_g / (rho + 1/eta) to the step's result (11). On the whole space that
# is the same as constant noise sigma_g on the gradient (theory 3.4), which also keeps releases inside a set.
DP_ADMM = Algorithm(
    name="dp-admm",
    about="one linearised step per round with noise on the gradient",
    paper=f"{PAPER}, Alg. 3",
    consensus=Star(),
    phases=(Phase(Linearised(), Gradient("gaussian")),),  # (10), (11)
    schedule=Theorem(),  # theorems 3 and 4
    twin="linearised-admm",
)

LINEARISED_ADMM = Algorithm(
    name="linearised-admm",
    about="DP-ADMM without noise",
    paper=f"{PAPER}, Alg. 3 without noise",
    consensus=Star(),
    phases=(Phase(Linearised(), Unperturbed()),),
    schedule=Theorem(),
)

# The paper's remark that the approach carries over to other topologies: (10), (11) with the terms of decentralised
# ADMM, and so the lemma of the star: noise is on the gradient, and all else is made of releases and public numbers.
DP_ADMM_GRAPH = Algorithm(
    name="dp-admm-graph",
    about="one linearised step per round on a graph, with noise on the gradient",
    paper=f"{PAPER}, Alg. 3 on a graph",
    consensus=Neighbours(),
    phases=(Phase(Linearised(), Gradient("gaussian")),),
    schedule=Theorem(),
    base_rho=GRAPH_RHO,
    twin="linearised-admm-graph",
)

LINEARISED_ADMM_GRAPH = Algorithm(
    name="linearised-admm-graph",
    about="DP-ADMM on a graph without noise",
    paper=f"{PAPER}, Alg. 3 on a graph without noise",
    consensus=Neighbours(),
    phases=(Phase(Linearised(), Unperturbed()),),
    schedule=Theorem(),
    base_rho=GRAPH_RHO,
)

DPSGD = Algorithm(
    name="dpsgd",
    about="distributed gradient descent with noisy gradients, whole data sets, no duals",
    paper="Abadi et al. 2016 at sampling ratio 1, as a baseline of Huang et al. 2020",
    consensus=Descent(),
    phases=(Phase(GradientAnswer(), Gradient("gaussian"), moves_dual=False),),
    schedule=Fixed(0.1),  # the paper's learning rate
    twin="gradient-descent",
)

GRADIENT_DESCENT = Algorithm(
    name="gradient-descent",
    about="distributed gradient descent without noise",
    paper="the twin of dpsgd",
    consensus=Descent(),
    phases=(Phase(GradientAnswer(), Unperturbed(), moves_dual=False),),
    schedule=Fixed(0.1),
)
