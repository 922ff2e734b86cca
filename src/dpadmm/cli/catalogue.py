"""What exists, as rows: name, what it is, and the facts a person chooses by, all asked of the registries."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import Any

from dpadmm.cli.needs import accepts, needs, setting

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
    from dpadmm.privacy.relations import Relation
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
    from dpadmm.privacy.mechanisms import MECHANISMS
    from dpadmm.privacy.relations import Relation

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
    from dpadmm.datasets.splits import SPLITS

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
    from dpadmm.privacy.relations import Relation

    return [{"name": str(relation), "about": relation.description} for relation in Relation]
