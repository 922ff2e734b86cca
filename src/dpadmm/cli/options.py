"""The options of `train`, one for each field of a spec.

Their defaults are all None, which means: what the spec file says, else what `spec/declare.py` says. The values shown
in the help repeat the latter, because importing the library for a help text would be slow; a test compares them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, overload

import typer

from dpadmm.errors import InputError


def _option(panel: str, flags: str, help: str, default: str | None = None) -> Any:
    return typer.Option(flags, help=help, rich_help_panel=panel, show_default=default or False)


_DATA, _PROBLEM, _PRIVACY = "Data", "Problem", "Privacy"
_ALGORITHM, _SIMULATION, _RUN = "Algorithm", "Simulation", "Run"

Source = Annotated[
    str | None,
    _option(_DATA, "--data", "Name from 'dpadmm datasets', a .csv or .parquet file, or a data folder.", "adult"),
]
DataDir = Annotated[
    str | None,
    _option(_DATA, "--data-dir", "Folder with the files of data sets that do not ship; else DPADMM_DATA names it."),
]
Target = Annotated[str | None, _option(_DATA, "--target", "Column of the file to predict.")]
Owner = Annotated[str | None, _option(_DATA, "--owner", "Column of the file that names each record's owner.")]
Agents = Annotated[
    int | None,
    _option(
        _DATA, "--agents", "Agents to split the records over, where no column names owners.", "100, or the graph's"
    ),
]
Split = Annotated[
    str | None, _option(_DATA, "--split", "How: random, by-label, dirichlet or dirichlet:NUMBER.", "random")
]
Test = Annotated[
    float | None,
    _option(_DATA, "--test", "Records held out: a count, or a share below 1 (5222 of Adult, else a fifth)."),
]
Scaling = Annotated[str | None, _option(_DATA, "--scaling", "public, or max as in the papers: not private.", "public")]
Task = Annotated[
    str | None, _option(_DATA, "--task", "What a file's target is: classification or regression.", "classification")
]

Curve = Annotated[
    str | None,
    _option(_DATA, "--curve", "Columns of the file whose names begin so and end in a number are one curve."),
]
Basis = Annotated[
    str | None,
    _option(
        _DATA, "--basis", "Functions that curves are written in, from 'dpadmm bases' (cosine:10); else the data's."
    ),
]
Smoothing = Annotated[
    float | None, _option(_DATA, "--smoothing", "Weight of a curve's roughness when it is; for few points.")
]

Loss = Annotated[
    str | None,
    _option(_PROBLEM, "--loss", "Name from 'dpadmm losses'.", "logistic; quantile for f-admm and fdp-admm"),
]
Tau = Annotated[
    str | None, _option(_PROBLEM, "--tau", "Level of a quantile regression, or several that share the budget: 0.1,0.9.")
]
NonCrossing = Annotated[
    bool | None,
    _option(
        _PROBLEM, "--non-crossing/--free", "Keep the quantiles of several levels in order; needs --intercept.", "free"
    ),
]
Penalty = Annotated[str | None, _option(_PROBLEM, "--penalty", "Name from 'dpadmm penalties'.", "l2")]
Strength = Annotated[
    float | None, _option(_PROBLEM, "--strength", "The penalty's weight in each agent's objective.", "1e-6")
]
Domain = Annotated[
    str | None,
    _option(_PROBLEM, "--set", "Where models must lie: from 'dpadmm sets' (box:0.1), or @FILE with JSON.", "whole"),
]
NormBound = Annotated[
    float | None,
    _option(_PROBLEM, "--norm-bound", "Public bound; longer rows are scaled down to it (1, or the data set's own)."),
]
Intercept = Annotated[
    bool | None, _option(_PROBLEM, "--intercept/--no-intercept", "Add a column of ones.", "no; auto: yes")
]
Weighting = Annotated[
    str | None,
    _option(_PROBLEM, "--weighting", "Whether all owners or all records count alike; default: the algorithm's."),
]
Precision = Annotated[
    str | None, _option(_PROBLEM, "--precision", "Of the records: float64, or float32 for speed.", "float64")
]

Algorithm = Annotated[
    str | None, _option(_ALGORITHM, "--algorithm", "Name from 'dpadmm algorithms', or 'auto'.", "dp-admm")
]
Rounds = Annotated[int | None, _option(_ALGORITHM, "--rounds", "Rounds of communication.", "100, or auto's choice")]
Updates = Annotated[
    int | None,
    _option(_ALGORITHM, "--updates", "Local updates in a round; default: 1 for obj-g and its kin, 10 for ps-admm's."),
]
Batch = Annotated[
    float | None,
    _option(_ALGORITHM, "--batch", "Mini-batches of ps-admm and its kin: records, or a share below 1.", "0.05"),
]
Sampling = Annotated[
    str | None, _option(_ALGORITHM, "--sampling", "Of mini-batches: poisson, or uniform (one record).", "poisson")
]
Average = Annotated[
    str | None, _option(_ALGORITHM, "--average", "Of inner steps: plain, or over-relaxed as in the paper.", "plain")
]
Reach = Annotated[
    float | None, _option(_ALGORITHM, "--reach", "How far ps-admm's steps may lead in a round; less noise if short.")
]
TuneBatches = Annotated[
    bool,
    _option(_ALGORITHM, "--tune-batches", "Choose mini-batches and inner steps for the least noise at the budget."),
]
Topology = Annotated[
    str | None,
    _option(
        _ALGORITHM,
        "--topology",
        "Who talks to whom, for algorithms on graphs: from 'dpadmm topologies' (ring:20, erdos-renyi:20:0.3), or @FILE "
        "with an edge list.",
    ),
]
Damping = Annotated[
    float | None, _option(_ALGORITHM, "--damping", "Shortens the recycled rounds of r-admm and its kin (their gamma).")
]
DualRho = Annotated[
    float | None, _option(_ALGORITHM, "--dual-rho", "Penalty of the dual steps on a graph; default: the algorithm's.")
]
Rho = Annotated[
    float | None,
    _option(_ALGORITHM, "--rho", "ADMM's penalty parameter; default: 0.1, 1/1750 on graphs, or a schedule's."),
]
RhoSchedule = Annotated[
    str | None, _option(_ALGORITHM, "--rho-schedule", "From 'dpadmm rho-schedules' (e.g. growing:2:5:10000).")
]
Radius = Annotated[
    float | None,
    _option(_ALGORITHM, "--radius", "Public guess of the optimum's length, for step sizes: 100, or 20 for fdp-admm."),
]
Schedule = Annotated[
    str | None, _option(_ALGORITHM, "--schedule", "Step sizes, from 'dpadmm schedules' (e.g. fixed:0.5).")
]
Tolerance = Annotated[
    float | None, _option(_ALGORITHM, "--tolerance", "Gradient length at which an exact solver stops.")
]
ExtraCurvature = Annotated[
    float | None, _option(_ALGORITHM, "--extra-curvature", "Quadratic term that dvp adds to pay for its Jacobian.")
]
UnitGain = Annotated[
    bool | None,
    _option(
        _ALGORITHM, "--unit-gain/--step-gain", "Output noise as loud as the gradient's: safe, and wasteful.", "step"
    ),
]

Components = Annotated[
    str | None,
    _option(
        _ALGORITHM,
        "--components",
        "Turn rows onto principal components, found privately: how many, 'noise' (those that stand out of it), or "
        "share:0.95.",
    ),
]
ComponentsShare = Annotated[
    float | None, _option(_PRIVACY, "--components-share", "Share of the budget for finding them.", "0.1")
]

Standardise = Annotated[
    float | None,
    _option(
        _PRIVACY,
        "--standardise",
        "Share of the budget for means and squares of the columns, to standardise rows by; with auto, 0 for none.",
    ),
]
Momentum = Annotated[float | None, _option(_ALGORITHM, "--momentum", "Of dp-accelerated; default 0.8.")]

EvaluationEpsilon = Annotated[
    float | None,
    _option(_PRIVACY, "--evaluation-epsilon", "Part of epsilon for one private estimate of the error at each agent."),
]
Epsilon = Annotated[float | None, _option(_PRIVACY, "--epsilon", "Total budget of every agent for the whole run.")]
Delta = Annotated[float | None, _option(_PRIVACY, "--delta", "The delta of that budget.")]
Epsilons = Annotated[
    str | None, _option(_PRIVACY, "--epsilons", "A budget for every agent instead, in their order: 1,2,0.5.")
]
Deltas = Annotated[str | None, _option(_PRIVACY, "--deltas", "The deltas of those budgets: 1e-5,1e-6,1e-5.")]
Alpha = Annotated[
    str | None,
    _option(_PRIVACY, "--alpha", "Noise of density exp(-alpha |.|) in the objective: of all agents, or of each (1,2)."),
]
NeighbourRelation = Annotated[str | None, _option(_PRIVACY, "--relation", "replace or zero-out.", "replace")]
PaperNoise = Annotated[
    bool | None,
    _option(
        _PRIVACY, "--paper-noise/--total-noise", "Epsilon and delta are those of each round, as in papers.", "total"
    ),
]
NoiseMultiplier = Annotated[
    float | None, _option(_PRIVACY, "--noise-multiplier", "Noise over sensitivity, instead of an epsilon.")
]
Mechanism = Annotated[
    str | None, _option(_PRIVACY, "--mechanism", "Noise, from 'dpadmm mechanisms'; default: the algorithm's.")
]

Seed = Annotated[int | None, _option(_SIMULATION, "--seed", "Seed of data split and noise.", "0")]
Repeats = Annotated[int | None, _option(_SIMULATION, "--repeats", "Independent runs, differing in noise.", "1")]
MeasureEvery = Annotated[int | None, _option(_SIMULATION, "--measure-every", "Rounds between measurements.", "1")]

SpecFile = Annotated[Path | None, _option(_RUN, "--spec", "TOML file that says all this; flags override it.")]
Out = Annotated[Path | None, _option(_RUN, "--out", "New folder for spec, history, model and result.")]
Engine = Annotated[
    str,
    _option(
        _RUN,
        "--engine",
        "Where the agents work: local (this process), dask (a worker process per core), dask:NUMBER, or the address of "
        "a Dask scheduler, dask:tcp://HOST:8786. The numbers are the same.",
        "local",
    ),
]
Resume = Annotated[bool, _option(_RUN, "--resume", "Go on with the interrupted run in --out.")]
Open = Annotated[bool, _option(_RUN, "--open", "Show the report in a browser when the run is over.")]
Quiet = Annotated[bool, _option(_RUN, "--quiet", "The result only: no progress bar, no hints.")]


@overload
def numbers(flag: str, given: str) -> tuple[float, ...]: ...
@overload
def numbers(flag: str, given: None) -> None: ...
def numbers(flag: str, given: str | None) -> tuple[float, ...] | None:
    """A list of numbers, separated by commas; None where none was given."""
    try:
        return None if given is None else tuple(float(part) for part in given.split(","))
    except ValueError:
        raise InputError(f"{flag} {given}: must be numbers, separated by commas, as in 1,2,0.5.") from None
