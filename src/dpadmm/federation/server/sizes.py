"""Whether all messages of a run fit into frames: asked before any owner is asked to join."""

from __future__ import annotations

from dpadmm.errors import InputError
from dpadmm.federation.cards import LARGEST_CARD
from dpadmm.federation.frames import LARGEST
from dpadmm.federation.messages import LARGEST_TEXT
from dpadmm.owner.agreement import Agreement
from dpadmm.spec.declare import WAIT

_BESIDE = 4096  # bytes of a message beside what is counted
_ROW = 64  # bytes of a row beside its numbers: its round, a signature or a seal
_NUMBER = 8


def check_sizes(agreement: Agreement) -> None:
    """Checks the longest messages that a run can have.

    Args:
        agreement: The drafted terms.

    Raises:
        InputError: One of them would exceed a frame; the message says which and what to change.
    """
    plan = agreement.plan()
    rows, beside = 1, _ROW
    what, remedy = "a release", "choose fewer features"
    if plan.setting.graph is not None:
        rows = max(len(plan.setting.graph.neighbours(agent)) for agent in range(plan.setting.agents))
        beside = 3 * _ROW
        what, remedy = f"a node's release for {rows} neighbours", "choose a topology of lower degree"
    elif agreement.stragglers != WAIT:
        rows = plan.setting.rounds + 1
        what, remedy = "what an owner can miss in all rounds", "choose stragglers = 'wait' or fewer rounds"
    needed = rows * (_NUMBER * plan.setting.dimension + beside) + _BESIDE
    if needed > LARGEST:
        raise InputError(
            f"{what}, of {plan.setting.dimension:,} numbers each, takes {needed:,} bytes, and a message has at most "
            f"{LARGEST:,}; {remedy}."
        )
    terms = len(agreement.dumps())
    if terms > LARGEST_TEXT:
        raise InputError(f"the terms have {terms:,} letters, at most {LARGEST_TEXT:,} can be sent; name fewer columns.")
    cards = len(agreement.owners) * (LARGEST_CARD + _ROW)
    if cards + _BESIDE > LARGEST:
        raise InputError(f"the cards of {len(agreement.owners):,} owners do not fit into a message; ask fewer.")
