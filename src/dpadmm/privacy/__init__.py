"""What a release costs.

Nothing here knows of ADMM. A `Mechanism` adds noise, made of words from a source of `Randomness`, and says which event
that was; an `Account` tallies events; an accountant turns a tally into a `Guarantee`; calibration goes the other way,
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
from dpadmm.privacy.mechanisms import MECHANISMS, GammaNorm, Gaussian, Laplace, Mechanism
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
    "Randomness",
    "Relation",
    "Tally",
    "best",
    "classic_multiplier",
    "gaussian_multiplier",
    "generator",
    "noise_multipliers",
    "smallest",
]
