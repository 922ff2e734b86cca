"""Every number of a registered part has a finite public range, keeps to it, and does no harm at its ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array

from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import compiled
from dpadmm._ranges import RANGE, SIZES, PublicRange, check_ranges, range_of, ranged
from dpadmm.admm.algorithm import Algorithm
from dpadmm.admm.consensus import CONSENSUS
from dpadmm.admm.noise_schedule import NOISE_SCHEDULES
from dpadmm.admm.perturbations import PERTURBATIONS
from dpadmm.admm.rho import RHO_SCHEDULES
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.admm.setting import Density, Multiplier, Setting
from dpadmm.admm.solvers import SOLVERS
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.privacy.events import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS, Quantiles
from dpadmm.problems.losses.base import MarginLoss
from dpadmm.problems.penalties import PENALTIES, RoundedElasticNet
from dpadmm.problems.problem import Problem
from dpadmm.problems.rows import RowRules
from dpadmm.problems.sets import (
    SETS,
    WRITTEN,
    Affine,
    Ball,
    Box,
    Cone,
    ConeProgramme,
    Each,
    Intersection,
    NonCrossing,
    Polyhedron,
    Range,
    Simplex,
)
from dpadmm.spec._part_options import PartOptions
from dpadmm.spec.declare import TABLES

PARTS: dict[str, Mapping[str, Any]] = {
    "loss": LOSSES | STATISTICS,
    "penalty": PENALTIES | {"rounded-elastic-net": RoundedElasticNet},
    "set": SETS | WRITTEN,
    "schedule": SCHEDULES,
    "rho schedule": RHO_SCHEDULES,
    "noise schedule": NOISE_SCHEDULES,
    "consensus": CONSENSUS,
    "solver": SOLVERS,
    "perturbation": PERTURBATIONS,
    "problem": {"problem": Problem},
    "terms": {
        "setting": Setting,
        "budget": Budget,
        "density": Density,
        "noise multiplier": Multiplier,
        "algorithm": Algorithm,
        "rows": RowRules,
    },
}
NO_NUMBERS = {
    "bool",
    "str",
    "str | None",
    "str | type[Mechanism]",
    "Sequence[ConvexSet]",
    "Loss",
    "Penalty",
    "ConvexSet",
    *("Problem", "Relation", "Topology | None"),
    *("Consensus", "tuple[Phase, ...]", "Schedule", "RhoSchedule", "RhoSchedule | None", "NoiseSchedule"),
}  # kinds of fields
ROUNDING = 1.0 + 1e-12


def numeric(part: Any) -> list[Field[Any]]:
    """The fields of a part that hold numbers, and that somebody can set."""
    found = fields(part) if is_dataclass(part) else ()
    return [entry for entry in found if entry.init and str(entry.type) not in NO_NUMBERS]


# -- every number has a range ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "name"),
    [
        pytest.param(part, entry.name, id=f"{kind} {key}: {entry.name}")
        for kind, parts in PARTS.items()
        for key, part in parts.items()
        for entry in numeric(part)
    ],
)
def test_every_number_of_a_part_has_a_finite_range(part: Any, name: str) -> None:
    entry = next(entry for entry in fields(part) if entry.name == name)
    within = entry.metadata.get(RANGE)
    assert isinstance(within, PublicRange), f"{part.__name__}.{name} has no public range; declare it by `ranged`"
    assert 0.0 <= within.low < within.high < math.inf


@pytest.mark.parametrize("table", ["run", "simulation", "federation"])
def test_every_number_of_a_declared_run_has_a_finite_range(table: str) -> None:
    """But for options of parts, which the parts check."""
    own = {entry.name for entry in fields(PartOptions)}
    numbers = [
        entry
        for entry in fields(TABLES[table])
        if entry.name not in own and any(kind in str(entry.type) for kind in ("float", "int"))
    ]
    assert numbers
    for entry in numbers:
        within = entry.metadata[RANGE]
        assert 0.0 <= within.low < within.high < math.inf


@pytest.mark.parametrize("recipe", ALGORITHMS.values(), ids=ALGORITHMS)
def test_the_numbers_of_a_recipe_are_within_their_ranges(recipe: Any) -> None:
    assert SIZES.holds(recipe.base_rho)
    assert SIZES.holds(recipe.base_radius)
    parts = [recipe.consensus, recipe.schedule, recipe.rho, recipe.dual_rho or recipe.rho, recipe.noise_schedule]
    for part in (*parts, *(part for phase in recipe.phases for part in (phase.solver, phase.perturbation))):
        check_ranges(part, recipe.name)


# -- numbers outside are refused ---------------------------------------------------------------------------------------


MADE: dict[str, Any] = {
    "rounded-elastic-net": RoundedElasticNet(0.5, 0.1),
    "affine": Affine([[1.0, 2.0]], [1.0]),
    "polyhedron": Polyhedron([[1.0, 2.0]], [1.0], [[1.0, 0.0]], [0.5]),
    "each": Each([Box(1.0)]),
    "intersection": Intersection([Box(1.0)]),
    "cone": ConeProgramme(Cone(csc_array(np.ones((1, 2))), np.ones(1), 0, 1)),
    "setting": Setting(Problem(), np.array([5, 6]), 3, 1.0, Relation.REPLACE, rounds=2),
    "budget": Budget(1.0, 1e-5),
    "density": Density((1.0,)),
    "noise multiplier": Multiplier(1.0),
    "algorithm": ALGORITHMS["dp-admm"],
    "rows": RowRules(1.0),
}
TOGETHER: dict[tuple[str, str], dict[str, Any]] = {  # what must be set together with a number at its ends
    ("mcp", "reach"): {},
    ("scad", "reach"): {"knee": 0.0},
    ("geometric", "bound"): {"scale": 1e-9},
    ("geometric", "scale"): {"bound": 1e9},
}
ENDLESS = {("scad", "knee"), ("sequence", "agents")}  # numbers that others bound from above


def made(key: str, part: Any) -> Any:
    return MADE[key] if key in MADE else part()


def scalars() -> list[Any]:
    """Every part with each of its fields that hold one number, or a list of numbers."""
    found = []
    for kind, parts in PARTS.items():
        for key, part in parts.items():
            for entry in numeric(part):
                plain = all(word not in str(entry.type) for word in ("Any", "FloatArray", "IntArray", "Cone"))
                if plain and RANGE in entry.metadata:
                    found.append(pytest.param(key, part, entry, id=f"{kind} {key}: {entry.name}"))
    return found


def written(entry: Field[Any], value: Any) -> Any:
    """The number as the field holds it."""
    return (value,) if str(entry.type).startswith("tuple") else value


def outside(within: PublicRange) -> list[Any]:
    """Values just outside of a range, far outside of it, and no numbers at all."""
    beside = [math.nextafter(within.low, -math.inf), math.nextafter(within.high, math.inf)]
    if within.whole:
        beside = [within.low - 1, within.high + 1, within.low + 0.5]
    if within.zero:
        beside += [5e-324, -math.nextafter(0.0, 1.0)]
    return [*beside, math.nan, math.inf, -math.inf, -1.0, 1e300, 10**400, True, "1"]


@pytest.mark.parametrize(("key", "part", "entry"), scalars())
def test_numbers_outside_of_the_range_are_refused(key: str, part: Any, entry: Field[Any]) -> None:
    whole = made(key, part)
    for value in outside(entry.metadata[RANGE]):
        with pytest.raises(InputError) as caught:
            replace(whole, **{entry.name: written(entry, value)})
        said = str(caught.value)
        shown = "an integer with many digits" if value == 10**400 else repr(value)
        assert f"{entry.name} = {shown} must be {entry.metadata[RANGE]}." in said
        assert key in said


@pytest.mark.parametrize(("key", "part", "entry"), scalars())
def test_the_ends_of_the_range_are_accepted(key: str, part: Any, entry: Field[Any]) -> None:
    within, whole = entry.metadata[RANGE], made(key, part)
    ends = [within.low, *([] if (key, entry.name) in ENDLESS else [within.high]), *([0.0] if within.zero else [])]
    for value in ends:
        changes = {entry.name: written(entry, value)} | TOGETHER.get((key, entry.name), {})
        assert getattr(replace(whole, **changes), entry.name) == written(entry, value)


@pytest.mark.parametrize("number", [1.1e9, -1.1e9, 9e-16, -9e-16, math.nan, math.inf, 1e300])
def test_entries_of_vectors_and_tables_outside_of_the_range_are_refused(number: float) -> None:
    makers = [
        lambda: Affine([[1.0, number]], [1.0]),
        lambda: Affine([[1.0, 1.0]], [number]),
        lambda: Polyhedron([[1.0, number]], [1.0]),
        lambda: Polyhedron([[1.0, 1.0]], [number]),
        lambda: Polyhedron([[1.0, 1.0]], [1.0], [[1.0, number]], [1.0]),
        lambda: Polyhedron([[1.0, 1.0]], [1.0], [[1.0, 1.0]], [number]),
        lambda: ConeProgramme(Cone(csc_array(np.array([[1.0, number]])), np.ones(1), 0, 1)),
        lambda: ConeProgramme.written([[1.0, 1.0]], [number], 0, 1),
        lambda: Ball(1.0, [0.0, number]),
        lambda: Range(-number if number == math.inf else 0.0, [1.0, -math.inf if number == math.inf else number]),
    ]
    for make in makers:
        with pytest.raises(InputError, match=r"must be 0 or a number whose size is from 1e-15 to 1e\+09"):
            make()


@pytest.mark.parametrize("name", ["counts", "members"])
@pytest.mark.parametrize("bad", [-1, 10**9 + 1, 2**63 - 1])
def test_counts_and_positions_outside_of_the_range_are_refused(name: str, bad: int) -> None:
    with pytest.raises(InputError, match=rf"setting: {name} = {bad} must be a whole number from [01] to 1,000,000,000"):
        replace(MADE["setting"], **{name: np.array([5, bad])})


@pytest.mark.parametrize("name", ["counts", "members"])
@pytest.mark.parametrize(
    "wrong", [[5, 6], np.array([5.0, np.nan]), np.array([True, True]), np.array([[5, 6]]), np.array(["5", "6"]), 5]
)
def test_what_is_no_array_of_whole_numbers_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(InputError, match=f"setting: {name} = .* must be an array, and each entry a whole number"):
        replace(MADE["setting"], **{name: wrong})


@pytest.mark.parametrize("relation", ["replace", "zero-out", None, True])
def test_a_setting_takes_no_name_of_a_relation(relation: Any) -> None:
    """The name `replace` is not the relation, and would have had the noise of the other one: half of it."""
    with pytest.raises(InputError, match=r"setting: relation = .* must be a Relation"):
        replace(MADE["setting"], relation=relation)


def test_every_agent_of_a_setting_has_a_count_and_a_place() -> None:
    with pytest.raises(InputError, match="setting: 3 members for 2 counts"):
        replace(MADE["setting"], members=np.arange(3))


def test_a_range_reads_as_a_sentence() -> None:
    assert str(PublicRange(1e-9, 1e9)) == "a number from 1e-09 to 1e+09"
    assert str(PublicRange(0.5, 2.0, zero=True)) == "0 or a number from 0.5 to 2"
    assert str(PublicRange(1, 10_000, whole=True)) == "a whole number from 1 to 10,000"
    assert str(PublicRange(0.1, 3.0, zero=True, signed=True)) == "0 or a number whose size is from 0.1 to 3"
    assert range_of(Box, "bound") == range_of(Box(2.0), "bound") == SIZES
    with pytest.raises(InputError) as caught:
        SIZES.check("here", "number", "x" * 1000)
    assert len(str(caught.value)) < 150
    assert ranged(SIZES, 2.0).default == 2.0


# -- losses at the ends ------------------------------------------------------------------------------------------------


@compiled()
def scalar_functions(loss: Any, margin: float, target: float) -> Any:
    value = loss_functions.value(loss, margin, target)
    slope = loss_functions.derivative(loss, margin, target)
    return value, slope, loss_functions.curvature(loss, margin, target)


def extremes(part: Any) -> Iterator[Any]:
    """The part with all of its numbers at ends of their ranges, in every combination."""
    ends = {}
    for entry in numeric(part):
        within = entry.metadata[RANGE]
        ends[entry.name] = [written(entry, end) for end in (within.low, within.high, *([0.0] if within.zero else []))]
    for values in itertools.product(*ends.values()):
        yield part(**dict(zip(ends, values, strict=True)))


def margin_losses() -> list[MarginLoss]:
    """Every loss of one margin at the ends of its parameters' ranges; of losses that are sums, each member."""
    found: list[MarginLoss] = []
    for kind in LOSSES.values():
        for loss in extremes(kind):
            found += [loss] if isinstance(loss, MarginLoss) else loss.each if isinstance(loss, Quantiles) else []
    return found


SMALL = [0.0, 5e-324, 1e-300, 1e-12, 1e-9, 1e-6, 0.5, 1.0, 1.0 + 2.0**-52, 1e6, 1e9, 1e12, 1e150, 1e300]
MARGINS = [sign * size for size in SMALL for sign in (-1.0, 1.0)]


def targets(loss: MarginLoss) -> list[float]:
    return [-1.0, 1.0] if loss.task == "binary" else [0.0, 1.0, -1e-300, 1e9, -1e9, 1e300, -1e300]


def beside(loss: MarginLoss, target: float) -> list[float]:
    """Margins at which a loss changes its formula: at the target and next to it, or a parameter away."""
    centre = target if loss.task == "regression" else 0.0
    numbers = [value for value in loss.tag if isinstance(value, float)]
    away = [0.0, 1.0, *numbers, *(1.0 + number for number in numbers), *(1.0 - number for number in numbers)]
    return [
        math.nextafter(centre + sign * step, side)
        for step in away
        for sign in (-1.0, 1.0)
        for side in (-math.inf, math.inf, centre + sign * step)
    ]


@pytest.mark.parametrize("loss", margin_losses(), ids=repr)
def test_a_loss_is_total_at_the_ends_of_its_parameters(loss: MarginLoss) -> None:
    """Finite margins have a slope within the bound and a curvature within it; a value may be too large for a number,
    and is never NaN. So it is at infinite margins. NaN alone leads to NaN."""
    with np.errstate(all="raise"):
        tag, bound, bend = loss.tag, loss.slope_bound, loss.bend_bound
    largest = max(1.0, *tag)
    for target in targets(loss):
        for margin in (*MARGINS, *beside(loss, target), math.inf, -math.inf):
            value, slope, curvature = scalar_functions(tag, margin, target)
            place = f"at the margin {margin!r} with target {target!r}"
            assert abs(slope) <= bound * ROUNDING, place
            assert 0.0 <= curvature <= bend * ROUNDING, place
            assert value >= -1e-15 * largest, place
            assert value < math.inf or max(abs(margin), abs(target)) >= 1e299, place
        _, slope, curvature = scalar_functions(tag, math.nan, target)
        assert math.isnan(slope) or abs(slope) <= bound * ROUNDING
        assert math.isnan(curvature) or 0.0 <= curvature <= bend * ROUNDING


# -- penalties and sets at the ends ------------------------------------------------------------------------------------

POINTS = np.array([sign * size for size in SMALL for sign in (-1.0, 1.0)])[:, None]
STEPS = [1e-21, 1e-9, 1.0, 1e9, 1e18]  # strength times a step, or over rho


@pytest.mark.parametrize("kind", [*PENALTIES.values(), RoundedElasticNet], ids=lambda kind: kind.name)
def test_penalties_are_total_at_the_ends_of_their_numbers(kind: Any) -> None:
    """Proximal maps and gradients of all finite numbers are finite, and a proximal map never leads away from zero."""
    tried = 0
    for numbers in itertools.product(*([e.metadata[RANGE].low, e.metadata[RANGE].high] for e in numeric(kind))):
        try:
            penalty = kind(*numbers)
        except InputError:  # a knee beyond the reach
            continue
        tried += 1
        assert np.isfinite(penalty.gradient(POINTS)).all()
        assert np.isfinite(penalty.curvatures(POINTS)).all()
        for step in STEPS:
            after = penalty.prox(POINTS, step)
            assert np.isfinite(after).all()
            assert (np.abs(after) <= np.abs(POINTS) * ROUNDING).all()
    assert tried


PROJECTED = {
    "box": [Box(1e-9), Box(1e9)],
    "range": [Range(-1e9, 1e9), Range(0.0, 1e-15), Range([-1e9, 0.0, 1e9], 1e9), Range(0.0)],
    "ball": [Ball(1e-9), Ball(1e9), Ball(1e-9, [1e9] * 3), Ball(1e9, [-1e9, 0.0, 1e9])],
    "simplex": [Simplex(1e-9), Simplex(1e9)],
    "affine": [Affine([[1e-15, 0.0, 0.0]], [0.0]), Affine([[1e9, 1.0, 0.0]], [1e9])],
}
CONIC = [
    Polyhedron([[1.0, 1.0, 0.0], [-1e9, 0.0, 0.0]], [1e9, 1e9]),
    NonCrossing(3, 1e-9),
    NonCrossing(3, 1e9),
    Intersection([Ball(1.0), Simplex(1e-9)]),
]


@pytest.mark.parametrize("domain", [each for sets in PROJECTED.values() for each in sets], ids=repr)
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e9, 1e100, 1e300])
def test_projections_of_huge_finite_points_are_finite_and_in_the_set(domain: Any, size: float) -> None:
    x = np.array([[1.0, -1.0, 0.5], [1.0, 1.0, 1.0], [-1.0, 0.0, -0.5]]) * size
    found = domain.project(x)
    assert np.isfinite(found).all()
    assert domain.contains(found, 1e-6 * max(1.0, size)).all()


@pytest.mark.parametrize("domain", CONIC, ids=repr)
@pytest.mark.parametrize("size", [0.0, 1.0, 1e6, 1e100, 1e300])
def test_a_conic_projection_is_finite_or_says_why_there_is_none(domain: Any, size: float) -> None:
    for direction in ([1.0, -1.0, 0.5], [-1.0, 2.0, 0.0]):
        with suppress(ConvergenceError):
            assert np.isfinite(domain.project(size * np.array([direction]))).all()
