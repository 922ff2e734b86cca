"""A ledger for simulations: it counts what was released, and forgets everything when the process ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from dpadmm.errors import Refused
from dpadmm.privacy.accounting import Accounts
from dpadmm.privacy.events import Relation, Tally
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger.protocol import Seal, Step, Stored
from dpadmm.privacy.units import Unit


class MemoryLedger:
    """The ledger of a batch of simulated agents, for one run at a time. The latest release can be asked for again."""

    def __init__(self, agents: int, relation: Relation) -> None:
        self.relation = relation
        self.accounts = Accounts(agents, relation)
        self._latest: tuple[str, str, Stored] | None = None
        self._states: dict[str, Mapping[str, NDArray[Any]]] = {}

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
        """A simulation has no budget to hold."""

    def check_room(
        self, run: str, terms_digest: str, tallies: Sequence[Tally], cap: Cap, unit: Unit, hold: bool = True
    ) -> None:
        """There is always room in a simulation."""

    def terms(self, run: str) -> Mapping[str, Any] | None:
        return None

    def find(self, run: str, step: str) -> Stored | None:
        if self._latest is not None and self._latest[:2] == (run, step):
            return self._latest[2]
        return None

    def commit(self, step: Step, cap: Cap) -> Stored:
        stored = Stored(step.value, step.events, step.inputs, None)
        self.accounts.spend(step.events)
        self._latest = (step.run, step.name, stored)
        self._states[step.run] = step.state
        return stored

    def state(self, run: str) -> Mapping[str, NDArray[Any]] | None:
        return self._states.get(run)

    def position(self, run: str) -> int:
        """Nobody else writes here, so an agent's own state is always the last."""
        return 0

    def check_seal(self, *seals: Seal) -> None:
        raise Refused("a simulation has no seals.")

    def finish(self, run: str) -> None:
        self._states.pop(run, None)

    def refuse(self, reason: str) -> None:
        """Nobody reads a simulation's refusals."""
