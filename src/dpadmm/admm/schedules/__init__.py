"""Step sizes. Adding a rule: a class in one of the files, and a line here."""

from __future__ import annotations

from dpadmm.admm.schedules.base import (
    Averaged,
    Constant,
    Constant3,
    Constant4,
    Fixed,
    Horizon,
    InverseRoot,
    Schedule,
    Stable,
    Theorem,
    Theorem3,
    Theorem4,
)
from dpadmm.admm.schedules.ryu_kim import Free53, RyuKim, Theorem53, Theorem54, Theorem55

SCHEDULES: dict[str, type[Schedule]] = {
    rule.name: rule
    for rule in (
        *(Theorem, Constant, Theorem3, Theorem4, Constant3, Constant4),
        *(RyuKim, Theorem53, Free53, Theorem54, Theorem55),
        *(Averaged, Stable),
        *(InverseRoot, Fixed, Horizon),
    )
}
"""The rules for step sizes, by name."""

__all__ = [
    "SCHEDULES",
    "Averaged",
    "Constant",
    "Constant3",
    "Constant4",
    "Fixed",
    "Free53",
    "Horizon",
    "InverseRoot",
    "RyuKim",
    "Schedule",
    "Stable",
    "Theorem",
    "Theorem3",
    "Theorem4",
    "Theorem53",
    "Theorem54",
    "Theorem55",
]
