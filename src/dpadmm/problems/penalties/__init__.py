"""Penalties. Adding one: a file, and a line here."""

from __future__ import annotations

from dpadmm.problems.penalties.base import Penalty
from dpadmm.problems.penalties.elastic_net import L1, L2, ElasticNet
from dpadmm.problems.penalties.nonconvex import Mcp, Scad
from dpadmm.problems.penalties.none import NoPenalty
from dpadmm.problems.penalties.rounded import RoundedElasticNet

PENALTIES: dict[str, type[Penalty]] = {
    "none": NoPenalty,
    "l1": L1,
    "l2": L2,
    "elastic-net": ElasticNet,
    "mcp": Mcp,
    "scad": Scad,
}
"""The penalties by name."""

__all__ = ["L1", "L2", "PENALTIES", "ElasticNet", "Mcp", "NoPenalty", "Penalty", "RoundedElasticNet", "Scad"]
