"""Perturbations. Adding one: a file with its lemma in the docstring, and a line here."""

from __future__ import annotations

from dpadmm.admm.perturbations.base import Perturbation, Release
from dpadmm.admm.perturbations.free import Free
from dpadmm.admm.perturbations.gradient import Gradient
from dpadmm.admm.perturbations.none import Unperturbed
from dpadmm.admm.perturbations.objective import Objective
from dpadmm.admm.perturbations.output import Output
from dpadmm.admm.perturbations.penalty import PenaltyNoise
from dpadmm.admm.perturbations.sampled import SampledGradient

PERTURBATIONS: dict[str, type[Perturbation]] = {
    "none": Unperturbed,
    "output": Output,
    "objective": Objective,
    "penalty": PenaltyNoise,
    "gradient": Gradient,
    "sampled-gradient": SampledGradient,
    "free": Free,
}
"""Where noise can enter, by name."""

__all__ = [
    "PERTURBATIONS",
    "Free",
    "Gradient",
    "Objective",
    "Output",
    "PenaltyNoise",
    "Perturbation",
    "Release",
    "SampledGradient",
    "Unperturbed",
]
