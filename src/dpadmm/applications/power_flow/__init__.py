"""Zones of a power network agree on an operating point without showing their loads."""

from __future__ import annotations

from dpadmm.applications.power_flow.cases import NAMES, load, read_matpower
from dpadmm.applications.power_flow.network import Buses, Generators, Lines, Network
from dpadmm.applications.power_flow.partition import BUILT_IN, Partition, choose, computed, given
from dpadmm.applications.power_flow.pooled import OperatingPoint, solve_pooled
from dpadmm.applications.power_flow.relaxation import Relaxation, relax
from dpadmm.applications.power_flow.variables import Part, Variables
from dpadmm.applications.power_flow.zones import Decomposition, Zone, decompose

__all__ = [
    "BUILT_IN",
    "NAMES",
    "Buses",
    "Decomposition",
    "Generators",
    "Lines",
    "Network",
    "OperatingPoint",
    "Part",
    "Partition",
    "Relaxation",
    "Variables",
    "Zone",
    "choose",
    "computed",
    "decompose",
    "given",
    "load",
    "read_matpower",
    "relax",
    "solve_pooled",
]
