"""What is to be run, written down: a spec file says it, flags override it, and a run saves what it came to.

`RunSpec` holds the terms that all owners agree on; with public facts about the data it resolves to a plan. `DataSpec`
and `SimulationSpec` say where the records come from and how often to repeat, which only simulations need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpadmm._fields import listed, names, typed
from dpadmm.errors import InputError, unknown

AUTO = "auto"  # the name of a rule that chooses a recipe (`spec/auto`)
ROUNDS = 100  # where nobody says how many
ARGUMENTS = "the arguments"  # where values come from in Python
WEIGHTINGS = ("owners", "records")

WAIT, REUSE, SKIP = "wait", "reuse", "skip"
STRAGGLERS = {
    WAIT: "the run waits, and goes on when the owner is back",
    REUSE: "its last release is used again, at no privacy cost",
    SKIP: "the round is combined without it",
}


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
class FederationSpec:
    """The table [federation] of a spec; the owners and the straggler policy are part of the terms."""

    owners: tuple[str, ...] = ()  # in the order of the agents; none: all of the federation's, in its order
    stragglers: str = WAIT  # what happens in a round that an owner does not answer
    timeout: float = 60.0  # seconds that a round waits for an owner
    min_owners: int = 1  # a round with fewer answers is not combined
    public_test: str | None = None  # a file of public records that models are tested on
    records_per_person: int = 1  # that are protected together

    def __post_init__(self) -> None:
        if self.stragglers not in STRAGGLERS:
            raise unknown("straggler policy", self.stragglers, STRAGGLERS)
        if not 0.0 < self.timeout < math.inf:
            raise InputError(f"timeout {self.timeout!r}: must be positive (seconds).")
        if self.min_owners < 1 or self.records_per_person < 1:
            raise InputError("min_owners and records_per_person: must be at least 1.")
        if len(set(self.owners)) < len(self.owners):
            raise InputError("owners: each can take part once.")


@dataclass(frozen=True)
class Experiment:
    """What a spec file says: tables [run], [data] and [simulation], and [federation] for owners who are far away."""

    run: RunSpec = field(default_factory=RunSpec)
    data: DataSpec = field(default_factory=DataSpec)
    simulation: SimulationSpec = field(default_factory=SimulationSpec)
    federation: FederationSpec = field(default_factory=FederationSpec)

    def changed(self, where: str = ARGUMENTS, **values: Any) -> Experiment:
        """With these values, each by the name of its field; None leaves a field as it is.

        In Python, one number will do where a field is a list of numbers: `alpha=2.0` for `alpha=(2.0,)`.
        """
        result = self
        for name, value in values.items():
            if value is None:
                continue
            table = next((t for t in TABLES if name in names(TABLES[t])), None)
            if table is None:
                raise unknown(f"key in {where}", name, [key for t in TABLES.values() for key in names(t)])
            part = getattr(result, table)
            if where == ARGUMENTS:
                value = listed(part, name, value)
            result = replace(result, **{table: replace(part, **{name: typed(part, name, value, where)})})
        return result


TABLES = {"run": RunSpec, "data": DataSpec, "simulation": SimulationSpec, "federation": FederationSpec}
