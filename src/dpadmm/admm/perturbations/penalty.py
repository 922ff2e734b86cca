"""Noise inside the penalty: M-ADMM's penalty perturbation (Zhang, Khalili & Liu 2018; theory 6.3)."""

from __future__ import annotations

from dataclasses import dataclass

from dpadmm._arrays import FloatArray
from dpadmm.admm.perturbations.linear import LinearTerm
from dpadmm.admm.perturbations.objective import Objective
from dpadmm.admm.setting import Density, Setting
from dpadmm.errors import Unpublished


@dataclass(frozen=True)
class PenaltyNoise(Objective):
    """theta sum over j of |x + e - (x_i + x_j)/2|²: the penalty's centre is moved by noise e.

    That is a linear term kappa * e, with kappa = 2 theta V the penalty's curvature, and so an objective perturbation
    whose noise grows with the penalty. Formal guarantee: that of objective perturbation, per round. For e of density
    exp(-alpha |.|), in simulations, it is alpha * weight * s / kappa + ln(1 + ratio) + eps_out (theory 6.3, with s = 2
    for replaced records). As penalties grow, rounds get cheaper, and their answers are moved by e all the same.
    """

    name = "penalty"
    about = "noise on the centre of an exact minimiser's penalty: an objective perturbation as loud as the penalty"

    def louder(self, kappas: FloatArray) -> FloatArray:
        return kappas / kappas[:1]

    def _of_density(self, setting: Setting, request: Density, kappas: FloatArray) -> FloatArray:
        return super()._of_density(setting, request, kappas) * kappas[:1]

    def _as_published(self, term: LinearTerm, epsilon: float) -> tuple[FloatArray, FloatArray]:
        raise Unpublished("perturbation 'penalty': its paper gives noise by its density; give an alpha, or a budget.")
