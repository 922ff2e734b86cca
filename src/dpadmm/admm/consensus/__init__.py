"""Ways to agree. Adding one: a file, and a line here."""

from __future__ import annotations

from dpadmm.admm.consensus.accelerated import Accelerated
from dpadmm.admm.consensus.base import Consensus, PenalisedStar, Server, ServerFirst, Star
from dpadmm.admm.consensus.descent import Descent
from dpadmm.admm.consensus.graph import Neighbours

CONSENSUS: dict[str, type[Consensus]] = {
    "star": Star,
    "server-first": ServerFirst,
    "penalised-star": PenalisedStar,
    "descent": Descent,
    "accelerated": Accelerated,
    "graph": Neighbours,
}
"""Ways to agree, by name."""

__all__ = [
    "CONSENSUS",
    "Accelerated",
    "Consensus",
    "Descent",
    "Neighbours",
    "PenalisedStar",
    "Server",
    "ServerFirst",
    "Star",
]
