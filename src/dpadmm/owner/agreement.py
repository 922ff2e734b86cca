"""The terms that all owners of a run agree on: the spec and the public facts it needs. Its digest names it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dpadmm._fields import from_table, names, typed
from dpadmm._files import json_value
from dpadmm.admm.algorithm import Plan
from dpadmm.errors import InputError
from dpadmm.owner.request import is_name
from dpadmm.privacy.events import Relation, canonical, digest
from dpadmm.privacy.units import Unit
from dpadmm.spec import resolve
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import SKIP, STRAGGLERS, WAIT, RunSpec
from dpadmm.spec.part import refuse_own_parts
from dpadmm.spec.resolve import ResolvedRun

LARGEST = 10**9  # of any whole number in the terms
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TUPLES = ("counts", "owners", "identities")


@dataclass(frozen=True)
class Agreement:
    """Everything an agent needs to compute its own schedule, sensitivity and noise; nothing of it depends on data.

    Args:
        run: The spec of the run.
        counts: Records of each agent, in the order of the agents.
        width: Columns, with the intercept's.
        classes: Of the targets; 0 where they are numbers.
        stragglers: What happens in a round that an owner does not answer.
        records_per_person: How many records of one person are protected together.
        owners: Who the agents are, where they are far away.
        identities: The fingerprints of their cards, in the same order.
        schema: What their columns are, likewise.
    """

    run: RunSpec
    counts: tuple[int, ...]  # records of each agent, in the order of the agents
    width: int  # columns, with the intercept's
    classes: int
    stragglers: str = WAIT  # what happens in a round that an owner does not answer
    records_per_person: int = 1
    owners: tuple[str, ...] = ()  # who the agents are, where they are far away
    identities: tuple[str, ...] = ()  # the fingerprints of their cards, in the same order
    schema: Schema | None = None  # what their columns are, likewise

    def checked(self) -> Agreement:
        """The terms in plain types.

        NumPy's numbers become Python's, under the same digest. So does 5.0 where a whole number belongs, under
        another one: what is asked under the first is refused.

        Returns:
            Equal terms.

        Raises:
            InputError: A field is not of its kind: terms come from others.
        """
        if not isinstance(self.run, RunSpec):
            raise InputError("the terms have no run.")
        refuse_own_parts(self.run, "the terms of a federation")
        run = replace(self.run, **{name: _plain(name, getattr(self.run, name)) for name in names(RunSpec)})
        for name in ("width", "classes", "records_per_person"):
            _whole(name, getattr(self, name), 0 if name == "classes" else 1)
        if any(type(value) is not tuple for value in (self.counts, self.owners, self.identities)):
            raise InputError("the terms need counts, owners and identities as tuples.")
        if type(self.stragglers) is not str or self.stragglers not in STRAGGLERS:
            raise InputError(f"the terms: stragglers must be one of {', '.join(STRAGGLERS)}.")
        for count in self.counts:
            _whole("count", count, 1)
        self._check_parties()
        return replace(self, run=run)

    def _check_parties(self) -> None:
        """Where terms say who takes part with which columns, that must go with the rest of them."""
        if not all(is_name(name) for name in self.owners) or len(set(self.owners)) < len(self.owners):
            raise InputError("the terms: owners must be names, each of them once.")
        if self.owners and len(self.owners) != len(self.counts):
            raise InputError(f"the terms: {len(self.counts)} counts for {len(self.owners)} owners.")
        if not all(type(entry) is str and _DIGEST.fullmatch(entry) for entry in self.identities):
            raise InputError("the terms: identities must be fingerprints.")
        if self.identities and not len(set(self.identities)) == len(self.identities) == len(self.owners):
            raise InputError("the terms: every owner needs an identity of its own.")
        if self.schema is None:
            return
        if not isinstance(self.schema, Schema):
            raise InputError("the terms: the columns are not described.")
        if self.width != self.schema.width + bool(self.run.intercept) or self.classes != len(self.schema.classes):
            raise InputError("the terms: width and classes are not those of the columns.")

    @cached_property
    def digest(self) -> str:
        return digest(self.dumps())

    def dumps(self) -> str:
        """As text, the same for the same terms.

        Returns:
            JSON, which `loads` reads.
        """
        return canonical(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Agreement:
        """The terms that a text says.

        Args:
            text: As `dumps` writes it.

        Returns:
            Checked terms.

        Raises:
            InputError: It says none.
        """
        try:
            entries = json_value(text)
        except ValueError:
            raise InputError("the terms cannot be read.") from None
        if not isinstance(entries, dict) or sorted(entries) != sorted(names(cls)):
            raise InputError("the terms are not complete.")
        run, schema = entries["run"], entries["schema"]
        if not isinstance(run, Mapping) or sorted(run) != sorted(names(RunSpec)):
            raise InputError("the terms have no run, or one of another version.")
        lists = {name: tuple(v) if isinstance(v := entries[name], list) else v for name in _TUPLES}
        parts = {"run": from_table(RunSpec, run, "the terms"), "schema": schema and Schema.from_fields(schema)}
        return cls(**{**entries, **lists, **parts}).checked()

    @property
    def unit(self) -> Unit:
        """What the run's events protect."""
        return Unit(self.records_per_person, Relation.parse(self.run.relation))

    @cached_property
    def resolved(self) -> ResolvedRun:
        """The run with its parts, which are registry names' where the terms came from somebody else."""
        return resolve.resolved(self.run)

    def plan(self) -> Plan:
        """The plan of all agents.

        Returns:
            Every number of the run.

        Raises:
            InputError: The terms cannot be met.
        """
        return self._plan

    @cached_property
    def _plan(self) -> Plan:
        counts = np.asarray(self.counts, dtype=np.int64)
        for name, recipe in (("components", "private-components"), ("standardise", "private-column-moments")):
            if getattr(self.run, name) is not None:
                raise InputError(f"{name} is a run of its own, {recipe!r}, before the one on the rows it leads to.")
        consensus = self.resolved.recipe.consensus
        if self.stragglers != WAIT and consensus.decentralised:
            raise InputError("on a graph no round can be missed: a node's neighbours cannot go on without its release.")
        if self.stragglers == SKIP and not consensus.can_skip:
            raise InputError(
                f"algorithm {self.run.algorithm!r}: its server counts on the duals of all agents, and cannot combine a "
                f"round without one; choose stragglers = 'reuse' or 'wait'."
            )
        return self.resolved.plan(counts, self.width, self.classes, self.records_per_person)

    def describe(self) -> dict[str, Any]:
        """For the ledger: what was run, in a few words.

        Returns:
            Plain values by name.
        """
        run = {name: value for name, value in asdict(self.run).items() if value is not None}
        return {"agents": len(self.counts), "width": self.width, "classes": self.classes, **run}


def _plain(name: str, value: Any) -> Any:
    """A field of the run in the type it has in the terms' text."""
    kept = typed(RunSpec, name, value, "the terms")
    return value if type(value) is int else kept  # 1 stays 1 where 1.0 would do: its digest is that of 1


def _whole(name: str, value: Any, least: int) -> None:
    if type(value) is not int or not least <= value <= LARGEST:
        raise InputError(f"the terms: {name} must be a whole number from {least} to {LARGEST}.")
