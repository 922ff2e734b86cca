"""What exists, as rows: name, what it is, and the facts a person chooses by, all asked of the registries."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dpadmm.errors import InputError

if TYPE_CHECKING:
    from dpadmm.admm.setting import Setting

Row = dict[str, Any]


def _said(part: Any) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(part) or "").partition("\n")[0].rstrip(".")


def algorithms() -> list[Row]:
    from dpadmm.papers import ALGORITHMS
    from dpadmm.problems.losses import STATISTICS

    return [
        {
            "name": name,
            "about": recipe.about,
            "paper": recipe.paper,
            "consensus": recipe.consensus.name,
            "solver": ", ".join(phase.solver.name for phase in recipe.phases),
            "perturbation": ", ".join(phase.perturbation.name for phase in recipe.phases),
            "mechanism": ", ".join(getattr(phase.perturbation, "mechanism", "none") for phase in recipe.phases),
            "schedule": recipe.schedule.name,
            "rho": recipe.rho.name,
            "weighting": recipe.weighting,
            "private": recipe.private,
            "twin": recipe.twin,
            "needs": f"loss {recipe.base_loss}" if recipe.base_loss in STATISTICS else needs(recipe.check),
        }
        for name, recipe in ALGORITHMS.items()
    ]


def losses() -> list[Row]:
    from dpadmm.privacy.events import Relation
    from dpadmm.problems.losses import LOSSES

    return [
        {
            "name": name,
            "about": loss.about,
            "task": loss.task,
            "gradient_bound": loss().gradient_bound(1.0),
            "curvature_bound": loss().curvature_bound(1.0),
            **{f"sensitivity_{relation}": loss().sensitivity(1.0, relation) for relation in Relation},
        }
        for name, loss in LOSSES.items()
    ]


def penalties() -> list[Row]:
    from dpadmm.problems.penalties import PENALTIES

    return [
        {
            "name": name,
            "about": penalty.about,
            "strong_convexity": penalty().strong_convexity,
            "smooth": penalty().curvature is not None,
        }
        for name, penalty in PENALTIES.items()
    ]


def sets() -> list[Row]:
    from dpadmm.problems.sets import SETS

    return [{"name": name, "about": member.about} for name, member in SETS.items()]


def solvers() -> list[Row]:
    from dpadmm.admm.solvers import SOLVERS

    return [
        {"name": name, "about": solver.about, "first_order": solver.first_order, "needs": needs(solver().check)}
        for name, solver in SOLVERS.items()
    ]


def perturbations() -> list[Row]:
    from dpadmm.admm.perturbations import PERTURBATIONS
    from dpadmm.admm.solvers import SOLVERS
    from dpadmm.privacy.events import Relation
    from dpadmm.privacy.mechanisms import MECHANISMS

    found = []
    for name, kind in PERTURBATIONS.items():
        part: Any = kind()
        solvers = [
            key
            for key in SOLVERS
            if any(
                accepts(lambda key=key, part=part, word=word: part.check(setting(relation=word), SOLVERS[key]()))  # type: ignore[misc]
                for word in Relation
            )
        ]
        first = SOLVERS[solvers[0]]()
        noises = [
            key
            for key in MECHANISMS
            if any(field.name == "mechanism" for field in fields(part))
            and accepts(lambda key=key, part=part, first=first: replace(part, mechanism=key).check(setting(), first))  # type: ignore[misc]
        ]
        found.append(
            {
                "name": name,
                "about": part.about,
                "private": part.private,
                "solvers": ", ".join(solvers),
                "mechanisms": ", ".join(noises) or getattr(part, "mechanism", None),
                "needs": needs(lambda given, part=part, first=first: part.check(given, first)),  # type: ignore[misc]
            }
        )
    return found


def mechanisms() -> list[Row]:
    from dpadmm.privacy.mechanisms import MECHANISMS

    return [
        {"name": name, "about": _said(kind), "sensitivity": f"L{kind.norm}", "pure": kind.name != "gaussian"}
        for name, kind in MECHANISMS.items()
    ]


def consensus() -> list[Row]:
    from dpadmm.admm.consensus import CONSENSUS

    return [
        {"name": name, "about": kind.about, "releases": "models" if kind.releases_models else "gradients"}
        for name, kind in CONSENSUS.items()
    ]


def topologies() -> list[Row]:
    from dpadmm.admm.topology.graph import TOPOLOGIES

    return [
        {"name": name, "about": kind.about, "written": kind.form, "example": kind.example}
        for name, kind in TOPOLOGIES.items()
    ]


def schedules() -> list[Row]:
    from dpadmm.admm.schedules import SCHEDULES

    return [{"name": name, "about": rule.about, "needs": needs(rule().check)} for name, rule in SCHEDULES.items()]


def noise_schedules() -> list[Row]:
    from dpadmm.admm.noise_schedule import NOISE_SCHEDULES

    return [{"name": name, "about": rule.about} for name, rule in NOISE_SCHEDULES.items()]


def rho_schedules() -> list[Row]:
    from dpadmm.admm.rho import RHO_SCHEDULES

    return [{"name": name, "about": rule.about} for name, rule in RHO_SCHEDULES.items()]


def datasets() -> list[Row]:
    from dpadmm.datasets.registry import DATASETS

    return [{"name": name, "about": source.about} for name, source in DATASETS.items()]


def bases() -> list[Row]:
    from dpadmm.datasets.curves import BASES

    return [{"name": name, "about": basis.about, "smallest": basis.smallest} for name, basis in BASES.items()]


def splits() -> list[Row]:
    from dpadmm.engine.data import SPLITS

    return [{"name": name, "about": _said(deal) or _said(deal())} for name, deal in SPLITS.items()]


def accountants() -> list[Row]:
    from dpadmm.privacy.accountants import ACCOUNTANTS

    return [
        {
            "name": name,
            "about": accountant.label,
            "how": _said(type(accountant)),
            "understands": ", ".join(event.__name__.removesuffix("DpEvent") for event in accountant.understands),
        }
        for name, accountant in ACCOUNTANTS.items()
    ]


def relations() -> list[Row]:
    from dpadmm.privacy.events import Relation

    return [{"name": str(relation), "about": relation.description} for relation in Relation]


def setting(loss: str = "logistic", penalty: str = "l2", set: str = "whole", relation: str = "replace") -> Setting:
    """A small run's public terms."""
    import numpy as np

    from dpadmm.admm.setting import Setting
    from dpadmm.admm.topology.graph import parse_topology
    from dpadmm.privacy.events import Relation
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
    from dpadmm.privacy.events import Relation
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
