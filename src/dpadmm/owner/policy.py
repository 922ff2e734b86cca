"""What an owner allows. Written by the owner, read by its agent, never by anybody else.

dataset = "patients-2026"     # the budget belongs to the data set of this name
epsilon = 4.0                 # over its whole life, all runs together
delta = 1e-6
relation = "replace"
norm_bound = 1.0
algorithms = ["dp-admm", "pvp"]
losses = ["logistic"]
smallest_count = 100          # fewer records take part in nothing
reserve = true                # budget may be set aside for a whole run
records_per_person = 1        # several records of a person are protected together, up to this many
slack_share = 0.1             # of delta, for runs that are more than Gaussian noise; 0 for Gaussian runs only
approval = "policy"           # or "hand": in a federation every run waits for the owner's own word
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from dpadmm._fields import from_table
from dpadmm._files import read_toml
from dpadmm.errors import NOT_ALLOWED, InputError, Refused, unknown
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.events import Relation
from dpadmm.privacy.filter import SLACK_SHARE, Cap
from dpadmm.privacy.units import Unit
from dpadmm.problems.losses import LOSSES, STATISTICS

APPROVALS = ("policy", "hand")
_PRIVATE = tuple(name for name, recipe in ALGORITHMS.items() if recipe.private)


@dataclass(frozen=True)
class Policy:
    """An owner's terms; every private recipe and every loss unless named. Statistics, which are released as they are,
    must be named.

    Args:
        dataset: The name of the data set that the budget belongs to.
        epsilon: Of its whole life, all runs together; smaller is more private.
        delta: Likewise.
        relation: Which data sets count as neighbours.
        norm_bound: The longest row that a run may count on.
        algorithms: Recipes that are allowed.
        losses: Losses that are allowed.
        smallest_count: Fewer records take part in nothing.
        reserve: Whether budget may be set aside for a whole run.
        records_per_person: How many records of one person are protected together.
        approval: `policy`, or `hand` where every run waits for the owner's own word.
        slack_share: Of delta: what the delta0 of runs that are more than Gaussian noise may add up to.
    """

    dataset: str
    epsilon: float
    delta: float
    relation: str = "replace"
    norm_bound: float = 1.0
    algorithms: tuple[str, ...] = _PRIVATE
    losses: tuple[str, ...] = tuple(LOSSES)
    smallest_count: int = 1
    reserve: bool = True
    records_per_person: int = 1
    approval: str = "policy"
    slack_share: float = SLACK_SHARE

    def __post_init__(self) -> None:
        relation = Relation.parse(self.relation)
        for name in self.algorithms:
            if name not in ALGORITHMS:
                raise unknown("algorithm in the policy", name, ALGORITHMS)
            if name not in _PRIVATE:
                raise InputError(f"policy: algorithm {name!r} is not private and cannot be allowed.")
        for name in self.losses:
            if name not in LOSSES | STATISTICS:
                raise unknown("loss in the policy", name, LOSSES | STATISTICS)
        if not 0 < self.norm_bound < math.inf:
            raise InputError(f"policy: norm_bound {self.norm_bound!r} must be a positive number.")
        if self.smallest_count < 1 or self.records_per_person < 1:
            raise InputError("policy: smallest_count and records_per_person must be at least 1.")
        Cap(self.epsilon, self.delta, Unit(self.records_per_person, relation), self.slack_share)
        if self.approval not in APPROVALS:
            raise unknown("approval in the policy", self.approval, APPROVALS)

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return Unit(self.records_per_person, Relation.parse(self.relation))

    @property
    def cap(self) -> Cap:
        """What all runs together may come to."""
        return Cap(self.epsilon, self.delta, self.unit, self.slack_share)

    @classmethod
    def read(cls, path: Path) -> Policy:
        """The policy in a TOML file.

        Args:
            path: The file, with the keys above.

        Returns:
            The policy.

        Raises:
            InputError: The file cannot be read, or a key is unknown or wrong.
        """
        return from_table(cls, read_toml(path, "policy"), str(path))

    def tightened_by(self, other: Policy | None) -> Policy:
        """What both allow. A policy that is changed during a run binds that run only where it became stricter.

        Args:
            other: Today's policy; None for no other.

        Returns:
            The stricter of both in every field.

        Raises:
            Refused: They are for different data sets or relations.
        """
        if other is None or other == self:
            return self
        if (self.dataset, self.relation) != (other.dataset, other.relation):
            raise Refused(
                "the policy was changed to another data set or relation; this run cannot go on under it.",
                told=NOT_ALLOWED,
            )
        cap = self.cap.tightened_by(other.cap)
        return Policy(
            dataset=self.dataset,
            epsilon=cap.epsilon,
            delta=cap.delta,
            slack_share=cap.slack_share,
            relation=self.relation,
            norm_bound=min(self.norm_bound, other.norm_bound),
            algorithms=tuple(name for name in self.algorithms if name in other.algorithms),
            losses=tuple(name for name in self.losses if name in other.losses),
            smallest_count=max(self.smallest_count, other.smallest_count),
            reserve=self.reserve and other.reserve,
            records_per_person=max(self.records_per_person, other.records_per_person),
            approval="hand" if "hand" in (self.approval, other.approval) else "policy",
        )
