"""What a part needs, found by asking its own check about every loss, penalty and set: so it cannot be out of date."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.admm.setting import Setting


def setting(loss: str = "logistic", penalty: str = "l2", set: str = "whole", relation: str = "replace") -> Setting:
    """A small run's public terms."""
    import numpy as np

    from dpadmm.admm.setting import Setting
    from dpadmm.admm.topology.graph import parse_topology
    from dpadmm.privacy.relations import Relation
    from dpadmm.problems.losses import LOSSES
    from dpadmm.problems.penalties import PENALTIES
    from dpadmm.problems.problem import Problem
    from dpadmm.problems.sets import SETS

    return Setting(
        problem=Problem(LOSSES[loss](), PENALTIES[penalty](), 1e-6, SETS[set]()),
        counts=np.array([100, 100]),
        dimension=10,
        norm_bound=1.0,
        relation=Relation.parse(relation),
        rounds=10,
        graph=parse_topology("path:2"),
    )


def accepts(check: Callable[[], None]) -> bool:
    """Whether a check lets something pass."""
    try:
        check()
    except InputError:
        return False
    return True


def needs(check: Callable[[Setting], None]) -> str:
    """The losses, penalties, sets and relations that pass, where not all of them do."""
    from dpadmm.privacy.relations import Relation
    from dpadmm.problems.losses import LOSSES
    from dpadmm.problems.penalties import PENALTIES
    from dpadmm.problems.sets import SETS

    relations = [str(relation) for relation in Relation]

    def passes(**words: str) -> bool:
        return accepts(lambda: check(setting(**words)))

    # Each axis is asked about with a set and a relation that will do, where the usual ones will not.
    pairs = [{"set": name, "relation": relation} for relation in relations for name in SETS]
    will_do = next((pair for pair in pairs if passes(**pair)), pairs[0])
    found = []
    for axis, registry in (("loss", LOSSES), ("penalty", PENALTIES), ("set", SETS), ("relation", relations)):
        passed = [name for name in registry if passes(**(will_do | {axis: name}))]
        if len(passed) < len(registry):
            found.append(f"{axis} {' or '.join(passed)}")
    return "; ".join(found) or "any loss, penalty and set"
