"""What is to be run, written down: a spec file says it, flags override it, and a run saves what it came to.

`RunSpec` holds the terms that all owners agree on; with public facts about the data it resolves to a plan. `DataSpec`
and `SimulationSpec` say where the records come from and how often to repeat, which only simulations need.

A field is declared here once: flags, the keyword arguments of `dpadmm.train` and the reference page are made from it.
Options of a solver, perturbation, consensus or schedule are fields of that part; `make generate` collects them in
`PartOptions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dpadmm._fields import FILE_ONLY, listed, names, option, typed
from dpadmm._ranges import (
    COUNTS,
    DELTAS,
    ENTRIES,
    EPSILONS,
    SHARES,
    SHARES_OR_ZERO,
    SIZES,
    SIZES_OR_ZERO,
    STRENGTHS,
    PublicRange,
    check_ranges,
)
from dpadmm.errors import InputError, unknown
from dpadmm.spec._part_options import PartOptions
from dpadmm.spec.part import Part
from dpadmm.spec.sequences import is_table, table_text

DATA, PROBLEM, ALGORITHM, PRIVACY = "Data", "Problem", "Algorithm", "Privacy"
SIMULATION, FEDERATION = "Simulation", "Federation"
PANELS = (DATA, PROBLEM, ALGORITHM, PRIVACY, SIMULATION, FEDERATION)  # in the order in which they are shown

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

SEEDS = PublicRange(0, 2**63 - 1, whole=True)


@dataclass(frozen=True)
class RunSpec(PartOptions):
    """The terms of a run. None means: the recipe's own."""

    algorithm: str | Part = option(
        "dp-admm",
        help="Name from 'dpadmm algorithms', 'auto', or an import path (mypackage.recipes:MINE).",
        panel=ALGORITHM,
        first=True,
        part="algorithm",
    )
    loss: str | Part | None = option(
        None,
        help="Name from 'dpadmm losses', or an import path (mypackage.losses:MyLoss).",
        panel=PROBLEM,
        shown="logistic; quantile for f-admm and fdp-admm",
        first=True,
        part="loss",
    )
    tau: tuple[float, ...] = option(
        (),
        help="Level of a quantile regression, or several that share the budget: 0.1,0.9.",
        panel=PROBLEM,
        within=SHARES,
    )
    non_crossing: bool = option(
        False,
        help="Keep the quantiles of several levels in order; needs --intercept.",
        panel=PROBLEM,
        off_flag="--free",
        shown="free",
    )
    penalty: str | Part = option("l2", help="Name from 'dpadmm penalties'.", panel=PROBLEM, part="penalty")
    strength: float = option(
        1e-6, help="The penalty's weight in each agent's objective.", panel=PROBLEM, shown="1e-6", within=STRENGTHS
    )
    set: str | Part = option(
        "whole",
        help="Where models must lie: from 'dpadmm sets' (box:0.1), or @FILE with JSON.",
        panel=PROBLEM,
        part="set",
    )
    rounds: int | None = option(
        None,
        help="Rounds of communication.",
        panel=ALGORITHM,
        shown=f"{ROUNDS}, or auto's choice",
        first=True,
        within=COUNTS,
    )
    epsilon: float | None = option(
        None, help="Total budget of every agent for the whole run.", panel=PRIVACY, first=True, within=EPSILONS
    )
    delta: float | None = option(None, help="The delta of that budget.", panel=PRIVACY, first=True, within=DELTAS)
    epsilons: tuple[float, ...] = option(
        (), help="A budget for every agent instead, in their order: 1,2,0.5.", panel=PRIVACY, within=EPSILONS
    )
    deltas: tuple[float, ...] = option(
        (), help="The deltas of those budgets: 1e-5,1e-6,1e-5.", panel=PRIVACY, within=DELTAS
    )
    alpha: tuple[float, ...] = option(
        (),
        help="Noise of density exp(-alpha |.|) in the objective: of all agents, or of each (1,2).",
        panel=PRIVACY,
        within=SIZES,
    )
    relation: str = option("replace", help="Which data sets are neighbours: replace or zero-out.", panel=PRIVACY)
    paper_noise: bool = option(
        False,
        help="Epsilon and delta are those of each round, as in the papers.",
        panel=PRIVACY,
        off_flag="--total-noise",
        shown="total",
    )
    noise_multiplier: float | None = option(
        None, help="Noise scale divided by the sensitivity, instead of an epsilon.", panel=PRIVACY, within=SIZES_OR_ZERO
    )
    noise_schedule: str | Part | None = option(
        None,
        help="How noise varies: from 'dpadmm noise-schedules', or @FILE with a line per round, a number per agent.",
        panel=PRIVACY,
        shown="the same in all rounds",
        part="noise_schedule",
    )
    norm_bound: float | None = option(
        None,
        help="Public bound on the length of rows; longer ones are scaled down to it.",
        panel=PROBLEM,
        shown="1, or the data set's own",
        within=SIZES,
    )
    intercept: bool | None = option(
        None, help="Add a column of ones.", panel=PROBLEM, off_flag="--no-intercept", shown="no; auto: yes"
    )
    weighting: str | None = option(
        None, help="Whether all owners or all records count alike; default: the algorithm's.", panel=PROBLEM
    )
    rho: float | None = option(
        None,
        help="ADMM's penalty parameter; default: 0.1, 1/1750 on graphs, or a schedule's.",
        panel=ALGORITHM,
        within=SIZES,
    )
    rho_schedule: str | Part | None = option(
        None,
        help="From 'dpadmm rho-schedules' (e.g. growing:2:5:10000), or @FILE with a line per round, a number per node.",
        panel=ALGORITHM,
        part="rho_schedule",
    )
    dual_rho: float | None = option(
        None, help="Penalty of the dual steps on a graph; default: the algorithm's.", panel=ALGORITHM, within=SIZES
    )
    topology: str | None = option(
        None,
        help="Who talks to whom, for algorithms on graphs: from 'dpadmm topologies' (ring:20, erdos-renyi:20:0.3), or "
        "@FILE with an edge list.",
        panel=ALGORITHM,
        part="topology",
    )
    start: tuple[float, ...] = option(
        (),
        help="A public model that all agents begin at: its coefficients, one number for all of them, or @FILE.",
        panel=ALGORITHM,
        shown="zeros",
        within=ENTRIES,
    )
    radius: float | None = option(
        None,
        help="Public guess of the optimum's length, for step sizes.",
        panel=ALGORITHM,
        shown="100; 20 for fdp-admm",
        within=SIZES,
    )
    components: str | None = option(
        None,
        help="Turn rows onto principal components, found privately: how many, 'noise' (those that stand out of it), or "
        "share:0.95.",
        panel=ALGORITHM,
    )
    centred: bool = option(
        False,
        help="Components of the covariance, around a private mean of the rows; needs --intercept.",
        panel=ALGORITHM,
        off_flag="--uncentred",
        shown="of second moments",
    )
    components_share: float = option(
        0.1, help="Share of the budget for finding the components.", panel=PRIVACY, within=SHARES
    )
    standardise: float | None = option(
        None,
        help="Share of the budget for means and squares of the columns, to standardise rows by; with auto, 0 for none.",
        panel=PRIVACY,
        within=SHARES_OR_ZERO,
    )
    schedule: str | Part | None = option(
        None, help="Step sizes, from 'dpadmm schedules' (e.g. fixed:0.5).", panel=ALGORITHM, part="schedule"
    )
    evaluation_epsilon: float | None = option(
        None,
        help="Part of epsilon for one private estimate of the error at each agent.",
        panel=PRIVACY,
        within=EPSILONS,
    )

    def __post_init__(self) -> None:
        check_ranges(self, "the run")

    @property
    def reported_delta(self) -> float:
        """The delta at which epsilon is reported: the largest that is asked for."""
        return max((self.delta or 0.0, *self.deltas))

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

    source: str = option(
        "adult",
        help="Name from 'dpadmm datasets', a .csv or .parquet file, or a data folder.",
        panel=DATA,
        flag="--data",
        first=True,
    )
    data_dir: str | None = option(
        None, help="Folder with the files of data sets that do not ship; else DPADMM_DATA names it.", panel=DATA
    )
    target: str | None = option(None, help="Column of the file to predict.", panel=DATA, first=True)
    owner: str | None = option(None, help="Column of the file that names each record's owner.", panel=DATA, first=True)
    agents: int | None = option(
        None,
        help="Agents to split the records over, where no column names owners.",
        panel=DATA,
        shown="100, or the graph's",
        first=True,
    )
    split: str = option(
        "random",
        help="How records are split: random, by-label, dirichlet or dirichlet:NUMBER. Who owns what is taken as given.",
        panel=DATA,
    )
    test: float | None = option(
        None, help="Records held out: a count, or a share below 1.", panel=DATA, shown="5222 of Adult, else a fifth"
    )
    scaling: str = option("public", help="public, or max as in the papers: not private.", panel=DATA)
    task: str = option("classification", help="What a file's target is: classification or regression.", panel=DATA)
    classes: str | None = option(
        None,
        help="Labels that a file's target may have, with commas between them; other records count as zero.",
        panel=DATA,
        shown="those that occur, which is not covered by epsilon",
    )
    curve: str | None = option(
        None, help="Columns of the file whose names begin so and end in a number are one curve.", panel=DATA
    )
    basis: str | None = option(
        None,
        help="Functions that curves are written in, from 'dpadmm bases' (cosine:10).",
        panel=DATA,
        shown="the data set's own",
    )
    smoothing: float | None = option(
        None, help="Roughness penalty when a curve is projected onto the basis; useful for few points.", panel=DATA
    )
    columns: tuple[Mapping[str, Any], ...] = option(
        (), help="Public facts about each column of a file, as tables of a spec file.", panel=DATA, flag=FILE_ONLY
    )


@dataclass(frozen=True)
class SimulationSpec:
    """How a simulation is seeded, repeated and looked at. Real releases have no seed."""

    seed: int = option(0, help="Seed of data split and noise.", panel=SIMULATION, within=SEEDS)
    repeats: int = option(1, help="Independent runs, differing in noise.", panel=SIMULATION, within=COUNTS)
    measure_every: int = option(1, help="Rounds between measurements.", panel=SIMULATION, within=COUNTS)

    def __post_init__(self) -> None:
        check_ranges(self, "the simulation")


@dataclass(frozen=True)
class FederationSpec:
    """The table [federation] of a spec; the owners and the straggler policy are part of the terms."""

    owners: tuple[str, ...] = option(
        (),
        help="Owners that take part, in the order of the agents.",
        panel=FEDERATION,
        flag=FILE_ONLY,
        shown="all of the federation's, in its order",
    )
    stragglers: str = option(
        WAIT,
        help=f"What happens in a round that an owner does not answer: {', '.join(STRAGGLERS)}.",
        panel=FEDERATION,
        flag=FILE_ONLY,
    )
    timeout: float = option(
        60.0,
        help="Seconds that a round waits for an owner.",
        panel=FEDERATION,
        flag=FILE_ONLY,
        shown="60",
        within=SIZES,
    )
    min_owners: int = option(
        1, help="A round with fewer answers is not combined.", panel=FEDERATION, flag=FILE_ONLY, within=COUNTS
    )
    public_test: str | None = option(
        None, help="A file of public records that models are tested on.", panel=FEDERATION, flag=FILE_ONLY
    )
    records_per_person: int = option(
        1, help="Records of one person that are protected together.", panel=FEDERATION, flag=FILE_ONLY, within=COUNTS
    )

    def __post_init__(self) -> None:
        if self.stragglers not in STRAGGLERS:
            raise unknown("straggler policy", self.stragglers, STRAGGLERS)
        check_ranges(self, "the federation")
        if len(set(self.owners)) < len(self.owners):
            raise InputError("owners: each can take part once.")


@dataclass(frozen=True)
class Experiment:
    """What a spec file says: tables [run], [data] and [simulation], and [federation] for owners who are far away.

    Args:
        run: The terms of the run.
        data: Where the records come from.
        simulation: How a simulation is seeded and repeated.
        federation: Who takes part in a federation, and what happens to absent owners.
    """

    run: RunSpec = field(default_factory=RunSpec)
    data: DataSpec = field(default_factory=DataSpec)
    simulation: SimulationSpec = field(default_factory=SimulationSpec)
    federation: FederationSpec = field(default_factory=FederationSpec)

    def changed(self, where: str = ARGUMENTS, **values: Any) -> Experiment:
        """With these values, each by the name of its field; None leaves a field as it is.

        In Python, one number will do where a field is a list of numbers: `alpha=2.0` for `alpha=(2.0,)`.

        Args:
            where: Where the values come from, for messages.
            **values: Fields of the tables [run], [data], [simulation] and [federation].

        Returns:
            A new experiment.

        Raises:
            InputError: There is no such field, or a value is not of its kind.
        """
        result = self
        for name, value in values.items():
            if value is None:
                continue
            table = next((t for t in TABLES if name in names(TABLES[t])), None)
            if table is None:
                raise unknown(f"key in {where}", name, [key for t in TABLES.values() for key in names(t)])
            part = getattr(result, table)
            if is_table(name, value):
                value = table_text(name, value)
            if where == ARGUMENTS:
                value = listed(part, name, value)
            value = value if isinstance(value, Part) else typed(part, name, value, where)
            result = replace(result, **{table: replace(part, **{name: value})})
        return result


TABLES = {"run": RunSpec, "data": DataSpec, "simulation": SimulationSpec, "federation": FederationSpec}
DEFAULTS = RunSpec()
