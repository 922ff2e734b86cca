"""From what a spec asks for to a request for noise: a total budget of all agents or of each, or a paper's own words."""

from __future__ import annotations

from dpadmm.admm.algorithm import Algorithm
from dpadmm.admm.noise import Density, Multiplier, NoiseRequest, PaperNoise, TotalBudget
from dpadmm.errors import InputError
from dpadmm.privacy.calibration import Budget

NOISE_FIELDS = (
    *("epsilon", "delta", "epsilons", "deltas", "alpha"),
    *("paper_noise", "noise_multiplier", "evaluation_epsilon"),
)
"""What of a spec is about noise."""


def requested(
    recipe: Algorithm,
    *,
    epsilon: float | None,
    delta: float | None,
    epsilons: tuple[float, ...],
    deltas: tuple[float, ...],
    alpha: tuple[float, ...],
    paper_noise: bool,
    noise_multiplier: float | None,
    evaluation_epsilon: float | None,
) -> NoiseRequest:
    """The noise asked for; a private recipe must be given a budget, a density, a multiplier, or per-round noise."""
    asked = {"epsilon": epsilon, "epsilons": epsilons, "alpha": alpha, "noise multiplier": noise_multiplier}
    given = [name for name, value in asked.items() if value not in (None, ())]
    total = recipe.private and bool(given) and given[0].startswith("epsilon")
    if paper_noise and not total:
        raise InputError("paper_noise makes noise of an epsilon for every round; it goes with epsilon and delta only.")
    if evaluation_epsilon is not None and (not total or paper_noise or recipe.as_printed):
        raise InputError("evaluation_epsilon is a part of a total budget; give one, as epsilon and delta.")
    if not recipe.private:
        if given and not (given == ["noise multiplier"] and not noise_multiplier):
            raise InputError(
                f"algorithm {recipe.name!r} is not private, so {given[0]} {_said(asked[given[0]])} means nothing to "
                f"it; leave the budget out, or choose a private algorithm such as 'dp-admm'."
            )
        return Multiplier(0.0)
    if len(given) > 1:
        raise InputError(f"give {_article(given[0])} or {_article(given[1])}, not both: each follows from the other.")
    if delta is not None and not 0.0 <= delta < 1.0:
        raise InputError(f"delta {delta:g}: must lie between 0 and 1, such as 1e-6.")
    if noise_multiplier is not None:
        return Multiplier(noise_multiplier, delta or Multiplier.delta)
    if alpha:
        return Density(alpha, delta or Density.delta)
    if not given:
        raise InputError(
            f"algorithm {recipe.name!r} is private: give a total budget (epsilon, and delta unless the noise is "
            f"pure), or a noise multiplier."
        )
    budgets = _budgets(epsilons or (epsilon or 0.0,), deltas or (delta or 0.0,), evaluation_epsilon)
    if delta is not None and deltas:
        raise InputError("give one delta for all agents or deltas for each, not both.")
    if not (paper_noise or recipe.as_printed):
        return TotalBudget(budgets)
    if len(budgets) > 1:
        raise InputError("the papers' noise is the same for all agents; give one epsilon and one delta.")
    return PaperNoise(budgets[0])


def _budgets(
    epsilons: tuple[float, ...], deltas: tuple[float, ...], evaluation_epsilon: float | None
) -> tuple[Budget, ...]:
    if len(deltas) not in (1, len(epsilons)):
        raise InputError(f"{len(deltas)} deltas for {len(epsilons)} epsilons: give one, or one for each.")
    least = min(epsilons)
    if evaluation_epsilon is not None and not 0.0 < evaluation_epsilon < least:
        raise InputError(f"evaluation_epsilon {evaluation_epsilon!r}: must be positive and below epsilon {least:g}.")
    pairs = zip(epsilons, deltas if len(deltas) > 1 else deltas * len(epsilons), strict=True)
    return tuple(Budget(epsilon - (evaluation_epsilon or 0.0), delta) for epsilon, delta in pairs)


def _said(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "ae" else f"a {name}"
