"""What a fit has spent, by whom, and what it gave away besides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpadmm.privacy.accounting import Guarantee

_SHOWN = 10  # owners that are printed one by one


class PrivacyLeakWarning(UserWarning):
    """Something was taken from the records that no epsilon covers, or a budget permits more than it should."""


@dataclass(frozen=True)
class OwnerSpent:
    """One owner's part."""

    name: str
    records: int
    guarantee: Guarantee

    def __str__(self) -> str:
        return f"{self.name}: {self.records:,} records, {self.guarantee}"


@dataclass(frozen=True)
class Privacy:
    """What a fit cost. A record lives at one owner, so epsilon is the worst owner's."""

    epsilon: float
    delta: float
    relation: str
    algorithm: str
    loss: str
    rounds: int
    secure: bool  # whether the noise came from the operating system, or of a seed
    owners: tuple[OwnerSpent, ...]
    leaked: tuple[str, ...] = ()  # what was taken from the records and is covered by no epsilon
    public: tuple[str, ...] = ()  # what is held to be known to everybody
    warnings: tuple[str, ...] = ()

    @property
    def private(self) -> bool:
        """Whether the noise protects: not seeded, and epsilon covers everything that was done with the records."""
        return self.secure and not self.leaked

    def __str__(self) -> str:
        lines = [
            f"(epsilon {self.epsilon:#.4g}, delta {self.delta:g}) total, {self.relation} relation; "
            f"{self.algorithm}, loss {self.loss}, {self.rounds} rounds, {len(self.owners)} owner(s)",
            *(f"  {owner}" for owner in self.owners[:_SHOWN]),
        ]
        if len(self.owners) > _SHOWN:
            lines.append(f"  and {len(self.owners) - _SHOWN} more")
        lines.append(f"noise: {_SECURE if self.secure else _SEEDED}")
        lines += [f"leaked: {text}" for text in self.leaked] or ["leaked: nothing"]
        lines += [f"public: {text}" for text in self.public]
        lines += [f"warning: {text}" for text in self.warnings]
        return "\n".join(lines)


_SECURE = "from the operating system's generator, exact and discrete."
_SEEDED = "seeded. Seeded noise protects nobody: whoever knows the seed can subtract it."
