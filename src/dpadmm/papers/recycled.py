"""Decentralised ADMM, R-ADMM and MR-ADMM with what they are compared with (003: Zhang, Khalili & Liu, "Recycled ADMM";
theory 6). Equation and algorithm numbers are the paper's.

The paper weighs every record by C/B_i with C = 1750; here it is 1/B_i, which is the same problem with penalties,
damping and noise divided by C.
"""

from __future__ import annotations

from dpadmm.admm.algorithm import Algorithm, Phase
from dpadmm.admm.consensus import Neighbours
from dpadmm.admm.perturbations import Free, Objective, Output, PenaltyNoise, Unperturbed
from dpadmm.admm.rho import ConstantRho, GeometricRho
from dpadmm.admm.solvers import Exact, Recycled

PAPER = "Zhang, Khalili & Liu 2019, Recycled ADMM"
THETA = 1.0 / 1750.0  # the paper's penalty 1
DAMPING = 0.5 / 1750.0  # and its gamma, 0.5

DECENTRALISED_ADMM = Algorithm(
    name="decentralised-admm",
    about="ADMM on a graph, with exact local solves and no server",
    paper=f"{PAPER}, (8)-(9)",
    consensus=Neighbours(),
    phases=(Phase(Exact(), Unperturbed()),),
    base_rho=THETA,
)

PVP_GRAPH = Algorithm(
    name="pvp-graph",
    about="decentralised ADMM with noise on the answer",
    paper="Zhang & Zhu 2017, primal variable perturbation",
    consensus=Neighbours(),
    phases=(Phase(Exact(), Output("gaussian")),),
    base_rho=THETA,
    twin="decentralised-admm",
)

DVP_GRAPH = Algorithm(
    name="dvp-graph",
    about="decentralised ADMM, each solve of a randomly tilted objective",
    paper="Zhang & Zhu 2017, dual variable perturbation",
    consensus=Neighbours(),
    phases=(Phase(Exact(), Objective("gaussian")),),
    base_rho=THETA,
    twin="decentralised-admm",
)

M_ADMM = Algorithm(
    name="m-admm",
    about="decentralised ADMM with growing penalties and a fixed dual step",
    paper="Zhang, Khalili & Liu 2018, M-ADMM",
    consensus=Neighbours(),
    phases=(Phase(Exact(), Unperturbed()),),
    rho=GeometricRho(1.04),
    dual_rho=ConstantRho(),
    base_rho=THETA,
)

M_ADMM_PENALTY = Algorithm(
    name="m-admm-penalty",
    about="M-ADMM with noise on the centre of the penalty",
    paper="Zhang, Khalili & Liu 2018, penalty perturbation",
    consensus=Neighbours(),
    phases=(Phase(Exact(), PenaltyNoise("gaussian")),),
    rho=GeometricRho(1.04),
    dual_rho=ConstantRho(),
    base_rho=THETA,
    twin="m-admm",
)

R_ADMM = Algorithm(
    name="r-admm",
    about="decentralised ADMM, every second round made of what was released",
    paper=f"{PAPER}, Alg. 1",
    consensus=Neighbours(),
    phases=(
        Phase(Exact(), Unperturbed()),  # (12), (13)
        Phase(Recycled(DAMPING), Free(), moves_dual=False),  # (10), (11)
    ),
    base_rho=THETA,
)

MR_ADMM = Algorithm(
    name="mr-admm",
    about="R-ADMM with growing penalties",
    paper=f"{PAPER}, Alg. 2",
    consensus=Neighbours(),
    phases=R_ADMM.phases,  # (14)-(17)
    rho=GeometricRho(1.04),
    base_rho=THETA,
)

PRIVATE_R_ADMM = Algorithm(
    name="private-r-admm",
    about="R-ADMM, odd solves of a randomly tilted objective; even rounds are free",
    paper=f"{PAPER}, Alg. 3 with a constant penalty",
    consensus=Neighbours(),
    phases=(
        Phase(Exact(), Objective("gaussian")),  # (18)
        Phase(Recycled(DAMPING), Free(), moves_dual=False),  # (19)
    ),
    base_rho=THETA,
    twin="r-admm",
)

PRIVATE_MR_ADMM = Algorithm(
    name="private-mr-admm",
    about="R-ADMM with growing penalties, odd solves of a randomly tilted objective; even rounds are free",
    paper=f"{PAPER}, Alg. 3",
    consensus=Neighbours(),
    phases=PRIVATE_R_ADMM.phases,
    rho=GeometricRho(1.04),
    base_rho=THETA,
    twin="mr-admm",
)

# VII.B: output perturbation in place of (18). The even round is made of the noisy release: the gradient that it gives
# away is that of the answer before the noise, with kappa times the noise on it.
PVP_R_ADMM = Algorithm(
    name="pvp-r-admm",
    about="R-ADMM with noise on the answers of odd rounds; even rounds are free",
    paper=f"{PAPER}, Alg. 3 with the output perturbation of VII.B and a constant penalty",
    consensus=Neighbours(),
    phases=(
        Phase(Exact(), Output("gaussian")),  # (12), and VII.B
        Phase(Recycled(DAMPING), Free(), moves_dual=False),  # (10) of the release, (11)
    ),
    base_rho=THETA,
    twin="r-admm",
)

PVP_MR_ADMM = Algorithm(
    name="pvp-mr-admm",
    about="R-ADMM with growing penalties, noise on the answers of odd rounds; even rounds are free",
    paper=f"{PAPER}, Alg. 3 with the output perturbation of VII.B",
    consensus=Neighbours(),
    phases=PVP_R_ADMM.phases,
    rho=GeometricRho(1.04),
    base_rho=THETA,
    twin="mr-admm",
)
