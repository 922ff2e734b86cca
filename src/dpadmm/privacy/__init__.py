"""What a release costs.

Nothing here knows of ADMM, and noise is drawn elsewhere (`dpadmm.release`). A `Mechanism` is a noise and the event that
it costs; an `Account` tallies events; an accountant turns a tally into a `Guarantee`; calibration goes the other way,
from a total `Budget` to the noise. `claims` sets the papers' totals beside the true ones.
"""

from dpadmm.privacy.accounting import ACCOUNTANTS, Account, Accounts, Guarantee, best
from dpadmm.privacy.calibration import (
    Budget,
    classic_multiplier,
    gaussian_multiplier,
    noise_multipliers,
    smallest,
)
from dpadmm.privacy.events import DpEvent, PureDpEvent, Relation, Tally
from dpadmm.privacy.mechanisms import MECHANISMS, GammaNorm, Gaussian, Laplace, Mechanism, SimulatedMechanism
from dpadmm.privacy.randomness import generator

__all__ = [
    "ACCOUNTANTS",
    "MECHANISMS",
    "Account",
    "Accounts",
    "Budget",
    "DpEvent",
    "GammaNorm",
    "Gaussian",
    "Guarantee",
    "Laplace",
    "Mechanism",
    "PureDpEvent",
    "Relation",
    "SimulatedMechanism",
    "Tally",
    "best",
    "classic_multiplier",
    "gaussian_multiplier",
    "generator",
    "noise_multipliers",
    "smallest",
]
