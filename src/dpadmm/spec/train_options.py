"""The keyword arguments of `dpadmm.train`. Made by `make generate`; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import networkx
    from numpy.typing import ArrayLike

    from dpadmm.admm.algorithm import Algorithm
    from dpadmm.admm.noise_schedule import NoiseSchedule
    from dpadmm.admm.rho import RhoSchedule
    from dpadmm.admm.schedules import Schedule
    from dpadmm.admm.topology.graph import Topology
    from dpadmm.problems.losses import Loss
    from dpadmm.problems.penalties import Penalty
    from dpadmm.problems.sets import ConvexSet


class TrainOptions(TypedDict, total=False):
    """Fields of the tables [run], [data] and [simulation]; None leaves a field as it is."""

    algorithm: str | Algorithm | None
    """Name from 'dpadmm algorithms', 'auto', or an import path (mypackage.recipes:MINE)."""

    loss: str | Loss | None
    """Name from 'dpadmm losses', or an import path (mypackage.losses:MyLoss)."""

    tau: float | Sequence[float] | None
    """Level of a quantile regression, or several that share the budget: 0.1,0.9."""

    non_crossing: bool | None
    """Keep the quantiles of several levels in order; needs --intercept."""

    penalty: str | Penalty | None
    """Name from 'dpadmm penalties'."""

    strength: float | None
    """The penalty's weight in each agent's objective."""

    set: str | ConvexSet | None
    """Where models must lie: from 'dpadmm sets' (box:0.1), or @FILE with JSON."""

    rounds: int | None
    """Rounds of communication."""

    epsilon: float | None
    """Total budget of every agent for the whole run."""

    delta: float | None
    """The delta of that budget."""

    epsilons: float | Sequence[float] | None
    """A budget for every agent instead, in their order: 1,2,0.5."""

    deltas: float | Sequence[float] | None
    """The deltas of those budgets: 1e-5,1e-6,1e-5."""

    alpha: float | Sequence[float] | None
    """Noise of density exp(-alpha |.|) in the objective: of all agents, or of each (1,2)."""

    relation: str | None
    """Which data sets are neighbours: replace or zero-out."""

    paper_noise: bool | None
    """Epsilon and delta are those of each round, as in the papers."""

    noise_multiplier: float | None
    """Noise scale divided by the sensitivity, instead of an epsilon."""

    noise_schedule: str | NoiseSchedule | ArrayLike | None
    """How noise varies: from 'dpadmm noise-schedules', or @FILE with a line per round, a number per agent."""

    norm_bound: float | None
    """Public bound on the length of rows; longer ones are scaled down to it."""

    intercept: bool | None
    """Add a column of ones."""

    weighting: str | None
    """Whether all owners or all records count alike; default: the algorithm's."""

    rho: float | None
    """ADMM's penalty parameter; default: 0.1, 1/1750 on graphs, or a schedule's."""

    rho_schedule: str | RhoSchedule | ArrayLike | None
    """From 'dpadmm rho-schedules' (e.g. growing:2:5:10000), or @FILE with a line per round, a number per node."""

    dual_rho: float | None
    """Penalty of the dual steps on a graph; default: the algorithm's."""

    topology: str | Topology | networkx.Graph | None
    """Who talks to whom, for algorithms on graphs: from 'dpadmm topologies' (ring:20, erdos-renyi:20:0.3), or @FILE
    with an edge list.
    """

    start: float | Sequence[float] | None
    """A public model that all agents begin at: its coefficients, one number for all of them, or @FILE."""

    radius: float | None
    """Public guess of the optimum's length, for step sizes."""

    components: str | None
    """Turn rows onto principal components, found privately: how many, 'noise' (those that stand out of it), or
    share:0.95.
    """

    centred: bool | None
    """Components of the covariance, around a private mean of the rows; needs --intercept."""

    components_share: float | None
    """Share of the budget for finding the components."""

    standardise: float | None
    """Share of the budget for means and squares of the columns, to standardise rows by; with auto, 0 for none."""

    schedule: str | Schedule | None
    """Step sizes, from 'dpadmm schedules' (e.g. fixed:0.5)."""

    evaluation_epsilon: float | None
    """Part of epsilon for one private estimate of the error at each agent."""

    tolerance: float | None
    """Gradient length at which an exact solver stops."""

    fixed_steps: bool | None
    """Solve exactly in a fixed number of steps, which no record can change. Slower."""

    updates: int | None
    """Local updates in a round."""

    average: str | None
    """Mean of the inner steps: plain, or over-relaxed as in the paper."""

    batch: float | None
    """Mini-batches of ps-admm and its kin: records, or a share below 1."""

    sampling: str | None
    """How mini-batches are drawn: poisson, or uniform (one record)."""

    reach: float | None
    """How far ps-admm's steps may lead in a round; a short reach needs less noise."""

    damping: float | None
    """Shortens the recycled rounds of r-admm and its kin (gamma of 003)."""

    mechanism: str | None
    """Noise, from 'dpadmm mechanisms'."""

    unit_gain: bool | None
    """Scale output noise as if a step moved the model as far as its gradient: safe, and wasteful."""

    extra_curvature: float | None
    """Quadratic term that dvp adds to pay for its Jacobian."""

    momentum: float | None
    """Nesterov's momentum at the server of dp-accelerated."""

    edge_penalties: bool | None
    """Penalties of edges, the mean of both nodes', with which nodes agree on the optimum."""

    source: str | None
    """Name from 'dpadmm datasets', a .csv or .parquet file, or a data folder."""

    data_dir: str | None
    """Folder with the files of data sets that do not ship; else DPADMM_DATA names it."""

    target: str | None
    """Column of the file to predict."""

    owner: str | None
    """Column of the file that names each record's owner."""

    agents: int | None
    """Agents to split the records over, where no column names owners."""

    split: str | None
    """How records are split: random, by-label, dirichlet or dirichlet:NUMBER. Who owns what is taken as given."""

    test: float | None
    """Records held out: a count, or a share below 1."""

    scaling: str | None
    """public, or max as in the papers: not private."""

    task: str | None
    """What a file's target is: classification or regression."""

    classes: str | None
    """Labels that a file's target may have, with commas between them; other records count as zero."""

    curve: str | None
    """Columns of the file whose names begin so and end in a number are one curve."""

    basis: str | None
    """Functions that curves are written in, from 'dpadmm bases' (cosine:10)."""

    smoothing: float | None
    """Roughness penalty when a curve is projected onto the basis; useful for few points."""

    columns: Sequence[Mapping[str, Any]] | None
    """Public facts about each column of a file, as tables of a spec file."""

    seed: int | None
    """Seed of data split and noise."""

    repeats: int | None
    """Independent runs, differing in noise."""

    measure_every: int | None
    """Rounds between measurements."""
