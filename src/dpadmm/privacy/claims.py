"""The totals the papers claim, beside the true ones.

Two of the papers derive their total from a moments bound used in the wrong direction: with a = T eps^2 / (4 ln(1.25/
delta)) they report 2 sqrt(a ln(1/delta)), which drops a term +a. The number is an over-estimate of the true epsilon
while a is small and a false promise beyond (claims A1, A2). Each `ClaimCheck` shows which of the two it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpadmm.privacy import gaussian
from dpadmm.privacy.calibration import classic_multiplier
from dpadmm.privacy.zcdp import zcdp_epsilon


@dataclass(frozen=True)
class Claim:
    """A paper's setting: `steps` Gaussian releases, each with the classic noise for (epsilon_step, delta)."""

    setting: str
    epsilon_step: float
    delta: float
    steps: int

    @property
    def mu(self) -> float:
        """The exact GDP parameter of all steps together."""
        return math.sqrt(self.steps) / classic_multiplier(self.epsilon_step, self.delta)

    @property
    def total(self) -> float:
        """What the papers say all steps together cost: 2 sqrt(a ln(1/delta)), a = mu^2 / 2."""
        return self.mu * math.sqrt(2.0 * math.log(1.0 / self.delta))


@dataclass(frozen=True)
class ClaimCheck:
    """What is claimed for a setting, and what is true of it."""

    claim: Claim
    claimed: float
    """2 sqrt(a ln(1/delta)), the papers' total epsilon."""
    mironov: float
    """a + 2 sqrt(a ln(1/delta)): sufficient."""
    rdp: float
    """Rényi composition with the tight conversion: sufficient, smaller."""
    exact: float
    """Necessary and sufficient."""
    true_delta: float
    """The delta that really holds at the claimed epsilon."""

    @property
    def holds(self) -> bool:
        """Whether the claim is true, be it by luck."""
        return self.exact <= self.claimed


def compare(claim: Claim) -> ClaimCheck:
    """Set a claim beside the truth."""
    mu = claim.mu
    a = 0.5 * mu * mu
    claimed = claim.total
    return ClaimCheck(
        claim=claim,
        claimed=claimed,
        mironov=a + claimed,
        rdp=zcdp_epsilon(a, claim.delta),
        exact=gaussian.epsilon(mu, claim.delta),
        true_delta=gaussian.delta(claimed, mu),
    )


def comparisons() -> tuple[ClaimCheck, ...]:
    """The table of claims A1/A2, row by row."""
    return tuple(compare(claim) for claim in CLAIMS)


def rounds_of_ps_admm(
    records: int, epsilon: float, delta: float, dimension: int, slope: float, convexity: float, smoothness: float
) -> int:
    """002's theorem 4: K = (M epsilon / G) sqrt(mu_f / (v_f p ln(1/delta))), with 1 for its unspecified constant.

    That is where its bound is smallest for the noise of its theorem 2, which is not sound (claims B5).

    Args:
        records: M, of one agent.
        epsilon: Of the whole run.
        delta: Likewise.
        dimension: p, of a model.
        slope: G, the longest gradient of a record's loss.
        convexity: mu_f: every f_i is that strongly convex.
        smoothness: v_f, of the loss of every record.
    """
    return max(1, round(records * epsilon / slope * math.sqrt(convexity / (smoothness * dimension * -math.log(delta)))))


def _rows(setting: str, epsilons: tuple[float, ...], delta: float, steps: int) -> tuple[Claim, ...]:
    return tuple(Claim(setting, epsilon, delta, steps) for epsilon in epsilons)


CLAIMS: tuple[Claim, ...] = (
    *_rows("DP-ADMM (000), t=100", (0.01, 0.05, 0.1, 0.2), 1e-3, 100),
    *_rows("DP-ADMM (000), t=100", (0.01, 0.05, 0.1, 0.2), 1e-6, 100),
    *_rows("DP-ADMM (000), if epsilon were 1", (1.0,), 1e-3, 100),
    *_rows("Ryu-Kim (001) power flow, E=1", (0.05, 0.1, 0.5, 1.0), 1e-2, 100),
    *_rows("Ryu-Kim (001) power flow, E=5", (0.5, 1.0), 1e-2, 500),
    *_rows("Ryu-Kim (001) federated, E=1", (0.05, 0.1, 0.5, 1.0), 1e-6, 5000),
    *_rows("Ryu-Kim (001) federated, E=5", (0.05, 0.1, 0.5, 1.0), 1e-6, 25000),
    *_rows("Ryu-Kim (001) federated, E=10", (0.05, 0.1, 0.5, 1.0), 1e-6, 50000),
    *_rows("FDP-ADMM (004), if L=100", (0.1, 0.2, 0.3, 0.5, 0.8), 1e-3, 100),
)
"""Settings as in the audit; 004 never states L, and 001 does not list E for federated learning."""
