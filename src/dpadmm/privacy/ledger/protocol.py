"""The interface that an agent uses to reserve, debit and look up releases, on disk or in memory."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpadmm.privacy.events import DpEvent, Relation, Tally, flatten
from dpadmm.privacy.filter import Bound, Cap, Charge
from dpadmm.privacy.units import RECORD, Unit


@dataclass(frozen=True, eq=False)
class Step:
    """One step that was computed and has not left yet: what it answers, what it costs, and the state after it.

    `position` is the entry of the ledger that the state before it is of; a run that has moved on is noticed by it.
    """

    run: str
    name: str
    inputs: str
    events: tuple[DpEvent, ...]
    value: NDArray[np.float64]
    state: Mapping[str, NDArray[Any]]
    position: int


@dataclass(frozen=True, eq=False)
class Stored:
    """A release as it is kept: the value, its events, the digest of the inputs it answered, the ledger's seal, and the
    number of its entry, which stays with the owner."""

    value: NDArray[np.float64]
    events: tuple[DpEvent, ...]
    inputs: str
    seal: Seal | None
    entry: int = 0


@dataclass(frozen=True)
class Account:
    """How a run is debited, which is settled when it is joined.

    Attributes:
        unit: What its events protect.
        whole: The run as one bound; None where every event enters by itself.
        alone: Whether it was permitted by its own guarantee, and so nothing of it is given back.
        claimed: The version that wrote its entries, where they were migrated.
    """

    unit: Unit = RECORD
    whole: Bound | None = None
    alone: bool = False
    claimed: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As plain JSON."""
        bound = None if self.whole is None else {"mu": self.whole.mu, "delta0": self.whole.delta0}
        return {"unit": self.unit.as_dict(), "whole": bound, "alone": self.alone, "claimed": self.claimed}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Account:
        """What `as_dict` wrote."""
        whole = None if kept["whole"] is None else Bound(**kept["whole"])
        return cls(Unit.from_dict(kept["unit"]), whole, bool(kept["alone"]), str(kept["claimed"]))


@dataclass(frozen=True)
class Run:
    """A run as the ledger knows it: what was agreed, what is held for it, what it spent."""

    name: str
    terms_digest: str
    terms: Mapping[str, Any]
    holds: bool  # whether the budget of all its steps is set aside
    finished: bool
    agreed: dict[DpEvent, int]
    spent: dict[DpEvent, int]
    account: Account

    @property
    def held(self) -> dict[DpEvent, int]:
        """Set aside and not yet spent."""
        return dict(Counter(self.agreed) - Counter(self.spent)) if self.holds and not self.finished else {}

    def charge(self, held: bool) -> Charge | None:
        """What it is debited with: what was released, or with `held` what is set aside for it as well.

        A run that entered as a whole, or alone, is debited in full with its first release; before that it told nothing.
        """
        account = self.account
        in_full = bool(flatten(self.spent)) and (account.whole is not None or account.alone)
        tally = self.agreed if in_full or (held and self.held) else self.spent
        return Charge(tally, account.unit, account.whole, account.claimed) if flatten(tally) else None


class Ledger(Protocol):
    """What an agent asks of a ledger, on disk or in memory: one event and one tally per agent of its batch."""

    @property
    def relation(self) -> Relation: ...

    def reserve(
        self,
        run: str,
        terms_digest: str,
        tallies: Sequence[Tally],
        cap: Cap,
        unit: Unit,
        terms: Mapping[str, Any],
        hold: bool = True,
    ) -> None:
        """Notes that a run was agreed to, and sets its budget aside; a second time for the same terms changes nothing.

        Args:
            run: The run's name.
            terms_digest: Names the terms.
            tallies: What the whole run will cost each agent.
            cap: All that may ever be spent.
            unit: What the run's events protect.
            terms: The terms, to be kept.
            hold: Whether the cost of the whole run is set aside; otherwise each step must find its own.

        Raises:
            Refused: The cap does not permit it, or the name belongs to other terms.
        """

    def check_room(
        self, run: str, terms_digest: str, tallies: Sequence[Tally], cap: Cap, unit: Unit, hold: bool = True
    ) -> None:
        """Asks what `reserve` asks, and changes nothing.

        Args:
            run: The run's name.
            terms_digest: Names the terms.
            tallies: What the whole run will cost each agent.
            cap: All that may ever be spent.
            unit: What the run's events protect.
            hold: Whether the cost of the whole run would be set aside.

        Raises:
            Refused: `reserve` would refuse it now.
        """

    def terms(self, run: str) -> Mapping[str, Any] | None:
        """The terms of a run.

        Args:
            run: The run's name.

        Returns:
            What was kept by `reserve`; None for a run that is not known.
        """

    def find(self, run: str, step: str) -> Stored | None:
        """A release that was made before.

        Args:
            run: The run's name.
            step: The round's number, or the evaluation's name.

        Returns:
            The release as it left; None if the step was not answered.
        """

    def commit(self, step: Step, cap: Cap) -> Stored:
        """Debits a step and keeps its release and state, all or nothing, before the release leaves.

        Args:
            step: What was computed.
            cap: All that may ever be spent.

        Returns:
            The release that stands: this one, or that of another process that was faster.

        Raises:
            Refused: The step would exceed the budget, or the run is not open.
        """

    def state(self, run: str) -> Mapping[str, NDArray[Any]] | None:
        """The agent's state after the last step of a run.

        Args:
            run: The run's name.

        Returns:
            Named arrays; None before the first step.
        """

    def position(self, run: str) -> int:
        """Where a run stands, so that another process's step is noticed.

        Args:
            run: The run's name.

        Returns:
            The number of the entry of its last step; 0 before the first.
        """

    def check_seal(self, *seals: Seal) -> None:
        """Whether this ledger wrote these seals and still has what they are of.

        Args:
            seals: As they came with a request.

        Raises:
            Refused: It did not, so the ledger is an older copy or another one.
        """

    def finish(self, run: str) -> None:
        """Closes a run; what it did not use is free again, unless it entered as a whole or alone.

        Args:
            run: The run's name.

        Raises:
            Refused: The run is not known.
        """

    def refuse(self, reason: str) -> None:
        """Notes that something was refused.

        Args:
            reason: Why, for the owner.
        """


_HASH = re.compile("[0-9a-f]{64}")
_SIGNATURE = re.compile("([0-9a-f]{128})?")


@dataclass(frozen=True)
class Seal:
    """A head of the chain, and the proof that this ledger wrote it. It shows nothing else: no count, no kind.

    Attributes:
        head: Of an entry.
        mark: What only the ledger's key makes of it, and only the ledger can check.
        signature: Of the owner's card, in hex, which others can check; empty outside a federation.
    """

    head: str
    mark: str
    signature: str = ""

    @property
    def well_formed(self) -> bool:
        """Whether its parts are what they should be; a seal in a request is anybody's."""
        texts = (self.head, self.mark)
        return (
            all(type(text) is str and _HASH.fullmatch(text) for text in texts)
            and type(self.signature) is str
            and _SIGNATURE.fullmatch(self.signature) is not None
        )
