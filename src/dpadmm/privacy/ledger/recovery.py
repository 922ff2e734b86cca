"""What the log of a ledger knows was released and the ledger does not count: what an older copy forgot.

A log keeps the lines of abandoned copies, too: what they released has left. So both are compared run by run, as
multisets of events, with what a ledger has already counted for the sake of its log.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from dpadmm.privacy.events import DpEvent, canonical, event_from_dict
from dpadmm.privacy.ledger.protocol import Account
from dpadmm.privacy.ledger.record import Line


def forgotten(log: Iterable[Line], entries: Iterable[Line]) -> dict[str, dict[DpEvent, int]]:
    """What was released and is not counted, by run.

    Args:
        log: The lines of the log.
        entries: The entries of the ledger, as such lines.

    Returns:
        Events and how often, for the runs that have any.
    """
    known, counted = _released(log, False), _released(entries, True)
    found: dict[str, dict[DpEvent, int]] = {}
    for (run, event), times in (known - counted).items():
        found.setdefault(run, {})[event_from_dict(json.loads(event))] = times
    return found


def accounts_in(lines: Iterable[Line]) -> dict[str, Account]:
    """How each run is debited, as far as the lines say."""
    found: dict[str, Account] = {}
    for line in lines:
        if "account" in line.counted:
            found[line.run] = Account.from_dict(line.counted["account"])
        for run, account in line.counted.get("accounts", {}).items():
            found[run] = Account.from_dict(account)
    return found


def _released(lines: Iterable[Line], with_recovered: bool) -> Counter[tuple[str, str]]:
    """Events by run; what was counted for the sake of a log belongs to the run that it was released in, and counts
    on the ledger's side only: the log has the releases themselves."""
    total: Counter[tuple[str, str]] = Counter()
    for line in {line.head: line for line in lines}.values():
        if line.kind == "debit":
            total[line.run, canonical(line.counted["event"])] += 1
        elif line.kind == "lost":
            of = line.counted.get("of")
            if of is None or with_recovered:
                for event, times in line.counted["tally"]:
                    total[of or line.run, canonical(event)] += times
    return total
