"""A set for each agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpadmm._arrays import FloatArray, IntArray
from dpadmm.errors import InputError
from dpadmm.problems.sets.base import ConvexSet
from dpadmm.problems.sets.conic.cone import Cone
from dpadmm.problems.sets.intersection import Intersection, conflict, simplest
from dpadmm.problems.sets.values import ByValue


@dataclass(frozen=True, eq=False)
class Each(ByValue, ConvexSet):
    """Row i of a batch belongs to member i."""

    members: Sequence[ConvexSet]

    name = "each"
    about = "one set for each agent"

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", tuple(self.members))
        if not self.members:
            raise InputError("set 'each' has no members; give one set for each agent.")
        for agent, member in enumerate(self.members):
            if not isinstance(member, ConvexSet) or isinstance(member, Each):
                raise InputError(f"set 'each', agent {agent}: {type(member).__name__} is not one agent's set.")

    @cached_property
    def groups(self) -> dict[ConvexSet, IntArray]:
        """The distinct members, and the agents of each."""
        agents: dict[ConvexSet, list[int]] = {}
        for agent, member in enumerate(self.members):
            agents.setdefault(member, []).append(agent)
        return {member: np.array(them) for member, them in agents.items()}

    @property
    def separable(self) -> bool:  # type: ignore[override]
        return all(member.separable for member in self.groups)

    @property
    def tolerance(self) -> float:  # type: ignore[override]
        return max(member.tolerance for member in self.groups)

    def check(self, dimension: int) -> None:
        for member, agents in self.groups.items():
            try:
                member.check(dimension)
            except InputError as error:
                raise InputError(f"set 'each', {_named(agents)}: {error}") from None
        among = conflict([*self.groups], dimension) if len(self.groups) > 1 else []
        try:
            self.shared()  # intervals exclude each other by less than the solver sees
        except InputError:
            among = among or [*range(len(self.groups))]
        if among:
            agents = np.sort(np.concatenate([[*self.groups.values()][at] for at in among]))
            raise InputError(
                f"set 'each': the agents' sets have no point in common ({_named(agents)}), so no model suits all; "
                "relax one of them."
            )

    def project(self, x: FloatArray) -> FloatArray:
        self._match(x)
        out = np.empty(x.shape)
        for member, agents in self.groups.items():
            out[agents] = member.project(x[agents])
        return out

    def project_always(self, x: FloatArray) -> FloatArray:
        self._match(x)
        out = np.empty(x.shape)
        for member, agents in self.groups.items():
            out[agents] = member.project_always(x[agents])
        return out

    def error(self, size: FloatArray, dimension: int) -> FloatArray:
        self._match(size[:, None])
        out = np.empty(size.shape)
        for member, agents in self.groups.items():
            out[agents] = member.error(size[agents], dimension)
        return out

    def contains(self, x: FloatArray, tolerance: float = 1e-9) -> NDArray[Any]:
        self._match(x)
        out = np.empty(x.shape[:-1], dtype=bool)
        for member, agents in self.groups.items():
            out[agents] = member.contains(x[agents], tolerance)
        return out

    def diameter(self, dimension: int) -> float:
        return max(member.diameter(dimension) for member in self.groups)

    def cone(self, dimension: int) -> Cone:
        if len(self.groups) > 1:
            raise InputError("set 'each' has no cone, as its members differ; ask for one agent's, or for shared().")
        return self.members[0].cone(dimension)

    def take(self, agents: Any) -> Each:
        """These agents' sets, in this order; an agent may be named twice."""
        every = np.empty(len(self.members), dtype=object)
        every[:] = self.members
        return Each(tuple(np.atleast_1d(every[agents])))

    def shared(self) -> ConvexSet:
        return self._shared

    @cached_property
    def _shared(self) -> ConvexSet:
        return simplest(Intersection([*self.groups])) if len(self.groups) > 1 else self.members[0]

    def _match(self, x: FloatArray) -> None:
        if x.ndim < 2 or x.shape[0] != len(self.members):
            raise InputError(
                f"set 'each' has {len(self.members)} member(s) and the batch has {x.shape[0] if x.ndim > 1 else 1} "
                "row(s); take() the agents of the batch first."
            )


def _named(agents: IntArray) -> str:
    few = ", ".join(str(agent) for agent in agents[:10])
    return f"agent{'s' if agents.size > 1 else ''} {few}{' and others' if agents.size > 10 else ''}"
