"""Levels of a quantile regression in a spec: several at once, and in order if that is asked for."""

from __future__ import annotations

from dpadmm.errors import InputError
from dpadmm.problems.losses import Loss, Quantile, Quantiles, SmoothedQuantile
from dpadmm.problems.sets import ConvexSet, NonCrossing, Whole

FAMILY = (Quantile.name, SmoothedQuantile.name, Quantiles.name)


def with_levels(loss: str, levels: tuple[float, ...]) -> str:
    """The text of a quantile loss at these levels: `quantile` at 0.1 and 0.9 is `quantiles:0.1,0.9`."""
    name, *numbers = loss.split(":")
    if name not in FAMILY:
        raise InputError(f"tau is a level of a quantile regression; loss {loss!r} has none. Use loss 'quantile'.")
    if numbers:
        raise InputError(f"give the levels by tau or in the loss {loss!r}, not both.")
    listed = ",".join(f"{level:.17g}" for level in levels)
    width = f":{SmoothedQuantile.width:g}" if name == SmoothedQuantile.name else ""
    return f"{Quantiles.name if len(levels) > 1 or name == Quantiles.name else name}:{listed}{width}"


def ordered(loss: Loss, domain: ConvexSet, radius: float, intercept: bool) -> ConvexSet:
    """The set of models whose quantiles cross for no row up to the norm bound."""
    if not isinstance(loss, Quantiles) or len(loss.levels) < 2:
        raise InputError(
            f"non_crossing is about several quantile levels; loss {loss.name!r} has one. Give several tau."
        )
    if not intercept:
        raise InputError(
            "non_crossing needs an intercept: without one, all quantiles of the row 0 are 0, and no two levels could "
            "differ. Set intercept."
        )
    if not isinstance(domain, Whole):
        raise InputError(f"non_crossing is a set of its own; it does not go with the set {domain.name!r}.")
    return NonCrossing(len(loss.levels), radius)
