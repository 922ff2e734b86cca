"""What is to be run, written down: a spec file says it, flags override it, and a run saves what it came to.

`RunSpec` holds the terms all parties agree on; with public facts about the data it resolves to a plan. `DataSpec` and
`SimulationSpec` say where the records come from and how often to repeat, which only simulations need.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import tomli_w

from dpadmm._arrays import IntArray
from dpadmm._fields import names, typed
from dpadmm._registry import build
from dpadmm.admm.algorithm import Algorithm, Plan
from dpadmm.admm.noise import NoiseRequest
from dpadmm.admm.rho import RHO_SCHEDULES, ConstantRho
from dpadmm.admm.schedules import SCHEDULES
from dpadmm.admm.setting import Setting
from dpadmm.admm.topology.graph import Topology, count_nodes, parse_topology
from dpadmm.asked import FIELDS, request
from dpadmm.errors import InputError, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.parties import FederationSpec
from dpadmm.privacy.relations import Relation
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.problems.penalties import PENALTIES
from dpadmm.problems.problem import Problem
from dpadmm.problems.sets.text import parse as parse_set
from dpadmm.quantiles import ordered, with_levels

AUTO = "auto"  # the name of a rule that chooses a recipe (`engine/automatic`)
ROUNDS = 100  # where nobody says how many
WEIGHTINGS = ("owners", "records")


@dataclass(frozen=True)
class RunSpec:
    """The terms of a run. None means: the recipe's own."""

    algorithm: str = "dp-admm"
    loss: str | None = None
    tau: tuple[float, ...] = ()  # levels of a quantile regression
    non_crossing: bool = False  # whether quantiles of different levels must stay in order
    penalty: str = "l2"
    strength: float = 1e-6
    set: str = "whole"
    rounds: int | None = None  # None: 100, or as many as `auto` finds best
    epsilon: float | None = None
    delta: float | None = None
    epsilons: tuple[float, ...] = ()  # of each agent, in their order, instead of one for all
    deltas: tuple[float, ...] = ()  # likewise
    alpha: tuple[float, ...] = ()  # noise by its density exp(-alpha |.|), as 003 gives it: of all agents, or of each
    relation: str = "replace"
    paper_noise: bool = False  # epsilon and delta are those of every round, as in the papers
    noise_multiplier: float | None = None
    norm_bound: float | None = None  # public; None: the one the data set documents, else 1
    intercept: bool | None = None  # None: none, unless `auto` gives one
    precision: str = "float64"  # of the records; float32 is faster, and what its sums lose is paid for
    weighting: str | None = None  # "owners": all count alike; "records": all of those do
    rho: float | None = None
    rho_schedule: str | None = None
    dual_rho: float | None = None  # of the dual steps on a graph, where it is not that of the subproblems
    topology: str | None = None  # who talks to whom, for recipes without a server
    radius: float | None = None
    components: str | None = None  # rows in principal components: how many, or a rule (see `components`)
    components_share: float = 0.1  # of the budget, for finding them
    standardise: float | None = None  # the share of the budget for means and squares of columns, to standardise rows by
    momentum: float | None = None
    schedule: str | None = None
    updates: int | None = None  # local updates a round
    batch: float | None = None  # records of a mini-batch, or the share of them below 1
    sampling: str | None = None
    average: str | None = None
    reach: float | None = None  # how far a round's steps may lead
    damping: float | None = None  # of recycled rounds (003: gamma)
    mechanism: str | None = None
    tolerance: float | None = None
    extra_curvature: float | None = None
    unit_gain: bool | None = None  # output noise as loud as the gradient's, as 001 compares with
    evaluation_epsilon: float | None = None  # the part of epsilon set aside for one estimate of each owner's error

    @property
    def row_bound(self) -> float:
        """How long a row can be, with the intercept's one."""
        return math.hypot(self.clip, 1.0) if self.intercept else self.clip

    @property
    def clip(self) -> float:
        """What rows are clipped to."""
        return 1.0 if self.norm_bound is None else self.norm_bound

    @property
    def _named(self) -> Algorithm:
        """The recipe as it is in the catalogue."""
        if self.algorithm == AUTO:
            raise InputError(
                f"algorithm {AUTO!r} stands for what public facts come to, and has no parts itself; use the spec that "
                f"a simulation with it writes (dpadmm train --algorithm {AUTO} --out RUN)."
            )
        if self.algorithm not in ALGORITHMS:
            raise unknown("algorithm", self.algorithm, [AUTO, *ALGORITHMS])
        return ALGORITHMS[self.algorithm]

    def recipe(self) -> Algorithm:
        """The algorithm, with this spec's changes to its parts."""
        changes: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                *("mechanism", "updates", "batch", "sampling", "average", "reach", "damping", "momentum"),
                *("tolerance", "extra_curvature", "unit_gain", "weighting"),
            )
            if getattr(self, name) is not None
        }
        if self.weighting not in (None, *WEIGHTINGS):
            raise unknown("weighting", str(self.weighting), WEIGHTINGS)
        recipe = self._named
        if self.rho_schedule is not None:
            changes["rho"] = build("rho schedule", RHO_SCHEDULES, self.rho_schedule)
            if self.rho is not None and not changes["rho"].scales_rho:
                raise InputError(f"give a rho or the rho schedule {self.rho_schedule!r}, not both: it makes its own.")
        elif self.rho is not None and not recipe.rho.scales_rho:
            changes["rho"] = ConstantRho()
        if self.dual_rho is not None:
            if not recipe.consensus.decentralised:
                raise InputError(f"algorithm {self.algorithm!r} has a server, and one rho for all its steps.")
            changes["dual_rho"] = ConstantRho(self.dual_rho)
        if self.schedule is not None:
            changes["schedule"] = build("schedule", SCHEDULES, self.schedule)
        return recipe.tuned(**changes)

    @property
    def loss_text(self) -> str:
        """The loss by name and numbers, with the levels asked for."""
        text = self._named.base_loss if self.loss is None else self.loss
        return with_levels(text, self.tau) if self.tau else text

    def problem(self, records: int | None = None) -> Problem:
        """The problem; `records` is how many there are in all, where they are to count alike."""
        loss = build("loss", LOSSES | STATISTICS, self.loss_text)
        statistic = self._named.base_loss in STATISTICS
        if (loss.name in STATISTICS) != statistic:
            raise InputError(f"algorithm {self.algorithm!r} does not go with loss {loss.name!r}.")
        domain = parse_set(self.set)
        if self.non_crossing:
            domain = ordered(loss, domain, self.clip, bool(self.intercept))
        return Problem(loss, build("penalty", PENALTIES, self.penalty), self.strength, domain, records)

    def request(self) -> NoiseRequest:
        """The noise asked for."""
        return request(self.recipe(), **{name: getattr(self, name) for name in FIELDS})

    def graph(self, agents: int) -> Topology | None:
        """Who talks to whom, where there is no server; a network of another size is refused before it is built."""
        if self.topology is None:
            return None
        if not self._named.consensus.decentralised:
            raise InputError(
                f"topology {self.topology!r}: algorithm {self.algorithm!r} has a server that talks to all agents. "
                f"Algorithms on graphs are {', '.join(n for n, a in ALGORITHMS.items() if a.consensus.decentralised)}."
            )
        if count_nodes(self.topology) != agents:
            raise InputError(
                f"topology {self.topology!r} has {count_nodes(self.topology)} nodes, and there are {agents} agents: "
                f"it must have one for each."
            )
        return parse_topology(self.topology)

    def plan(self, counts: IntArray, width: int, classes: int, records_per_person: int = 1) -> Plan:
        """Every number of the run, from this spec and public facts: records per agent, columns (with the intercept),
        classes, and how many records of one person are protected together."""
        recipe = self.recipe()
        problem = self.problem(int(counts.sum()) if recipe.weighting == "records" else None)
        setting = Setting(
            problem=problem,
            counts=counts,
            dimension=problem.loss.dimension(width, classes),
            norm_bound=self.row_bound,
            relation=Relation.parse(self.relation),
            rounds=ROUNDS if self.rounds is None else self.rounds,
            rho=recipe.base_rho if self.rho is None else self.rho,
            radius=recipe.base_radius if self.radius is None else self.radius,
            unit_size=records_per_person,
            width=width,
            precision=self.precision,
            graph=self.graph(counts.size),
        )
        plan = recipe.plan(setting, self.request())
        if self.evaluation_epsilon is None:
            return plan
        if problem.loss.task == "regression":
            raise InputError("an evaluation is an error rate: it needs classes, and this is a regression.")
        return plan.with_evaluation(self.evaluation_epsilon)


@dataclass(frozen=True)
class DataSpec:
    """Where the records of a simulation come from, and who owns them."""

    source: str = "adult"
    data_dir: str | None = None  # where files of data sets that do not ship are
    target: str | None = None
    owner: str | None = None
    agents: int | None = None  # None: as many as the topology has nodes, else 100
    split: str = "random"
    test: float | None = None  # a count, or a share below 1; None: 5,222 of Adult, a fifth of anything else
    scaling: str = "public"
    task: str = "classification"
    curve: str | None = None  # columns of a file that begin so and end in a number are one curve, at those numbers
    basis: str | None = None  # functions that curves are written in; None: the data set's own
    smoothing: float | None = None  # weight of a curve's roughness when it is
    columns: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class SimulationSpec:
    """How a simulation is seeded, repeated and looked at. Real releases have no seed."""

    seed: int = 0
    repeats: int = 1
    measure_every: int = 1

    def __post_init__(self) -> None:
        for name, least in (("seed", 0), ("repeats", 1), ("measure_every", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} {getattr(self, name)}: must be at least {least}.")


@dataclass(frozen=True)
class Experiment:
    """What a spec file says: tables [run], [data] and [simulation], and [federation] for owners who are far away."""

    run: RunSpec = field(default_factory=RunSpec)
    data: DataSpec = field(default_factory=DataSpec)
    simulation: SimulationSpec = field(default_factory=SimulationSpec)
    federation: FederationSpec = field(default_factory=FederationSpec)

    def changed(self, where: str = "the arguments", **values: Any) -> Experiment:
        """With these values, each by the name of its field; None leaves a field as it is."""
        result = self
        for name, value in values.items():
            if value is None:
                continue
            table = next((t for t in _TABLES if name in names(_TABLES[t])), None)
            if table is None:
                raise unknown(f"key in {where}", name, [key for t in _TABLES.values() for key in names(t)])
            part = getattr(result, table)
            result = replace(result, **{table: replace(part, **{name: typed(part, name, value, where)})})
        return result

    def dumps(self) -> str:
        """As a spec file; what is left to the recipe is left out."""
        tables = {
            table: {k: v for k, v in asdict(getattr(self, table)).items() if v is not None and v != ()}
            for table in _TABLES
            if table != "federation" or self.federation != FederationSpec()
        }
        return tomli_w.dumps(tables)


_TABLES = {"run": RunSpec, "data": DataSpec, "simulation": SimulationSpec, "federation": FederationSpec}


def loads(text: str, where: str = "the spec") -> Experiment:
    """An experiment from the text of a spec file."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where} is not TOML: {error}") from None
    result = Experiment()
    for table, values in tables.items():
        if table not in _TABLES:
            raise unknown(f"table in {where}", table, _TABLES)
        if not isinstance(values, Mapping):
            raise InputError(f"{where}: {table} must be a table, [{table}], with keys below it.")
        for name, value in values.items():
            if name not in names(_TABLES[table]):
                raise unknown(f"key in [{table}] of {where}", name, names(_TABLES[table]))
            result = result.changed(where, **{name: value})
    return result


def read(path: Path) -> Experiment:
    """An experiment from a spec file."""
    try:
        return loads(path.read_text(), where=str(path))
    except OSError as error:
        raise InputError(f"spec file {str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"spec file {str(path)!r} is not text.") from None
