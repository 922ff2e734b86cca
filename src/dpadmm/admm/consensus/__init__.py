"""Ways to agree. Adding one: a file, and a line here."""

from __future__ import annotations

from dpadmm.admm.consensus.base import Consensus
from dpadmm.admm.consensus.descent import Descent
from dpadmm.admm.consensus.star import Star

CONSENSUS: dict[str, type[Consensus]] = {"star": Star, "descent": Descent}

__all__ = ["CONSENSUS", "Consensus", "Descent", "Star"]
