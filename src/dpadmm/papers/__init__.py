"""The recipes. A paper is one short declarative file here: parts put together, no class and no loop of its own."""

from __future__ import annotations

from dpadmm.admm.algorithm import Algorithm
from dpadmm.papers.accelerated import ACCELERATED, COLUMN_MOMENTS, DP_ACCELERATED, PRIVATE_COLUMN_MOMENTS
from dpadmm.papers.dp_admm import (
    ADMM,
    DP_ADMM,
    DP_ADMM_GRAPH,
    DPSGD,
    DVP,
    GRADIENT_DESCENT,
    LINEARISED_ADMM,
    LINEARISED_ADMM_GRAPH,
    PVP,
)
from dpadmm.papers.functional import COMPONENTS, COVARIANCE, F_ADMM, FDP_ADMM, PRIVATE_COMPONENTS, PRIVATE_COVARIANCE
from dpadmm.papers.ps_admm import (
    GRADIENT_ADMM,
    PS_ADMM,
    PS_ADMM_ANCHOR,
    PS_ADMM_FULL,
    PS_ADMM_PAPER,
    PS_ADMM_SGD,
    SCAS_ADMM,
    SCAS_ADMM_PAPER,
    SGD_ADMM,
)
from dpadmm.papers.recycled import (
    DECENTRALISED_ADMM,
    DVP_GRAPH,
    M_ADMM,
    M_ADMM_PENALTY,
    MR_ADMM,
    PRIVATE_MR_ADMM,
    PRIVATE_R_ADMM,
    PVP_GRAPH,
    PVP_MR_ADMM,
    PVP_R_ADMM,
    R_ADMM,
)
from dpadmm.papers.ryu_kim import LOCAL_UPDATES, OBJ_G, OBJ_L, OUT_G, OUT_L

ALGORITHMS: dict[str, Algorithm] = {
    recipe.name: recipe
    for recipe in (
        *(ADMM, PVP, DVP, DP_ADMM, DPSGD, LINEARISED_ADMM, GRADIENT_DESCENT),
        *(OBJ_G, OBJ_L, OUT_G, OUT_L, LOCAL_UPDATES),
        *(SCAS_ADMM, PS_ADMM, PS_ADMM_ANCHOR, SGD_ADMM, PS_ADMM_SGD, GRADIENT_ADMM, PS_ADMM_FULL),
        *(SCAS_ADMM_PAPER, PS_ADMM_PAPER),
        *(DECENTRALISED_ADMM, PVP_GRAPH, DVP_GRAPH, M_ADMM, M_ADMM_PENALTY, DP_ADMM_GRAPH, LINEARISED_ADMM_GRAPH),
        *(R_ADMM, PRIVATE_R_ADMM, PVP_R_ADMM, MR_ADMM, PRIVATE_MR_ADMM, PVP_MR_ADMM),
        *(F_ADMM, FDP_ADMM, COMPONENTS, PRIVATE_COMPONENTS, COVARIANCE, PRIVATE_COVARIANCE),
        *(ACCELERATED, DP_ACCELERATED, COLUMN_MOMENTS, PRIVATE_COLUMN_MOMENTS),
    )
}
"""The recipes by name."""

__all__ = ["ALGORITHMS"]
