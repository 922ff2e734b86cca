"""The tables of the theory pages are the registries, and their constants the library's."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from dpadmm.admm.noise_schedule import NOISE_SCHEDULES
from dpadmm.admm.rho import RHO_SCHEDULES
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.engine import result
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy import MECHANISMS, Relation
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.problems.penalties import PENALTIES
from dpadmm.problems.sets import SETS, WRITTEN

THEORY = Path(__file__).parents[2] / "docs" / "theory"


def names(rows, column):
    return [row[column] for row in rows]


# -- recipes -----------------------------------------------------------------------------------------------------------


def test_the_table_of_recipes_is_the_registry(table):
    rows = table("index.md", "The recipes")
    assert names(rows, "recipe") == list(ALGORITHMS)
    for row, recipe in zip(rows, ALGORITHMS.values(), strict=True):
        noises = [phase.perturbation for phase in recipe.phases]
        assert row["consensus"] == recipe.consensus.name
        assert row["solver"] == ", ".join(phase.solver.name for phase in recipe.phases)
        assert row["noise enters"] == ", ".join(noise.name for noise in noises)
        assert row["mechanism"] == next((noise.mechanism for noise in noises if hasattr(noise, "mechanism")), "-")
        assert row["twin"] == (recipe.twin or "-")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_recipe_has_its_place_where_the_table_says(name, table):
    (row,) = (row for row in table("index.md", "The recipes") if row["recipe"] == name)
    page, anchor = re.fullmatch(r"\[.*\]\((.*)#(.*)\)", row["where"]).groups()
    sections = re.split(r"^## ", (THEORY / page).read_text(encoding="utf-8"), flags=re.M)[1:]
    slug = {re.sub(r"[^\w\- ]", "", text.split("\n")[0]).lower().replace(" ", "-"): text for text in sections}
    assert f"`{name}`" in slug[anchor], f"{page}#{anchor} does not name {name}"


def test_every_recipe_that_is_named_exists():
    """Two statistics are called as their recipes are."""
    looks = re.compile(r"`((?:[a-z]+-)*(?:admm|pvp|dvp|dpsgd|accelerated|components|moments)(?:-[a-z]+)*)`")
    named = {name for page in THEORY.glob("*.md") for name in looks.findall(page.read_text(encoding="utf-8"))}
    assert named - set(ALGORITHMS) - set(STATISTICS) == set()
    assert len(named) > 30


# -- losses ------------------------------------------------------------------------------------------------------------

LOSS_ROWS = [*LOSSES, *STATISTICS]


def value(formula: str, **known: float | tuple[float, ...]) -> float:
    """A formula of the table, with the numbers put in."""
    text = formula.replace("⁴", "**4").replace("²", "**2").replace("√2", "sqrt(2)").replace("√(", "sqrt(")
    text = text.replace("Σ max(τ, 1 - τ)**2", "sum(max(t, 1 - t)**2 for t in τ)")
    text = re.sub(r"(?<=[\w)])\s+(?=[\w(])(?!for\b|in\b)(?<!\bfor )(?<!\bin )(?<!\bt )", "*", text)
    return eval(text, {"sqrt": math.sqrt, "max": max, "min": min, "sum": sum}, known)


def test_the_table_of_losses_is_the_registry(table):
    assert names(table("losses.md", "1 Losses and their constants"), "loss") == LOSS_ROWS


@pytest.mark.parametrize("radius", [1.0, 2.5])
@pytest.mark.parametrize("name", LOSS_ROWS)
def test_constants_of_a_loss_are_the_library_s(name, radius, table):
    (row,) = (row for row in table("losses.md", "1 Losses and their constants") if row["loss"] == name)
    own = {
        "squared": {"clip": 0.7},
        "smoothed-hinge": {"width": 0.4},
        "quantile": {"level": 0.2},
        "smoothed-quantile": {"level": 0.2, "width": 0.4},
        "quantiles": {"levels": (0.2, 0.5, 0.9)},
        "capped-logistic": {"cap": 0.2},
        "capped-softmax": {"cap": 0.2},
        "column-moments": {"scale": radius},
        "mean-and-products": {"scale": radius},
    }.get(name, {})
    loss = {**LOSSES, **STATISTICS}[name](**own)
    letters = {"clip": "c", "cap": "c", "scale": "c", "width": "h", "level": "τ", "levels": "τ"}
    known = {"R": radius} | {letters[key]: number for key, number in own.items()}
    assert value(row["G"], **known) == pytest.approx(loss.gradient_bound(radius), rel=1e-12)
    for column, relation in (("s, replace", Relation.REPLACE), ("s, zero-out", Relation.ZERO_OUT)):
        assert value(row[column], **known) == pytest.approx(loss.sensitivity(radius, relation), rel=1e-12)
    bend = loss.curvature_bound(radius)
    if bend is None:
        assert row["Hessian"] == "none"
    else:
        assert value(row["Hessian"], **known) == pytest.approx(bend, rel=1e-12)


def test_formulas_are_read_as_they_are_meant():
    assert value("2 √2 c R", c=0.5, R=3.0) == pytest.approx(math.sqrt(2) * 3)
    assert value("R √(Σ max(τ, 1 - τ)²)", R=2.0, τ=(0.1, 0.5)) == pytest.approx(2 * math.hypot(0.9, 0.5))
    assert value("min(c, 0.5) (1 - min(c, 0.5)) R²", c=0.7, R=2.0) == 1.0


# -- other parts -------------------------------------------------------------------------------------------------------


def test_the_table_of_penalties_is_the_registry(table):
    rows = table("losses.md", "Penalties")
    assert names(rows, "penalty") == list(PENALTIES)
    for row in rows:
        penalty = PENALTIES[row["penalty"]]()
        assert float(row["strong convexity"]) == penalty.strong_convexity
        assert row["Lipschitz gradient"] == ("none" if penalty.curvature is None else f"{penalty.curvature:g}")
        assert row["convex"] == ("yes" if penalty.convex else "no")


def test_the_table_of_sets_is_the_registry(table):
    rows = table("losses.md", "Sets")
    assert {row["set"]: row["from"] for row in rows} == dict.fromkeys(SETS, "numbers") | dict.fromkeys(WRITTEN, "JSON")


def test_the_table_of_mechanisms_is_the_registry(table):
    rows = table("losses.md", "Mechanisms")
    assert names(rows, "mechanism") == list(MECHANISMS)
    for row in rows:
        kind = MECHANISMS[row["mechanism"]]
        assert row["sensitivity"] == f"{kind.norm}-norm"
        (event,) = kind(np.array([2.0])).events()
        assert row["event of one release at multiplier z"] == type(event).__name__


@pytest.mark.parametrize(
    ("heading", "column", "registry"),
    [
        ("Steps", "schedule", SCHEDULES),
        ("Penalties of ADMM", "rule", RHO_SCHEDULES),
        ("How noise varies", "rule", NOISE_SCHEDULES),
    ],
)
def test_the_tables_of_rules_are_the_registries(heading, column, registry, table):
    assert names(table("losses.md", heading), column) == list(registry)


def test_the_table_of_metrics_is_what_a_result_tells(table):
    assert names(table("losses.md", "2 Metrics"), "column") == list(result._MEASURED)
