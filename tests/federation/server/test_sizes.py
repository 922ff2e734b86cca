"""A run whose messages would not fit into frames is refused when its terms are drafted, and no other is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.federation.frames import LARGEST, Frame, encode
from dpadmm.federation.server.sizes import check_sizes
from dpadmm.owner.agreement import Agreement
from dpadmm.spec.declare import RunSpec


def terms(width: int, rounds: int = 10, owners: int = 3, stragglers: str = "wait", **run: Any) -> Agreement:
    given = {"algorithm": "dp-admm", "epsilon": 1.0, "delta": 1e-6, "rounds": rounds, **run}
    names = tuple(f"owner-{i}" for i in range(owners))
    return Agreement(RunSpec(**given), (50,) * owners, width, 2, stragglers, owners=names)


@pytest.mark.parametrize(
    ("fits", "does_not", "said"),
    [
        (terms(1_000_000), terms(1_100_000), "fewer features"),
        (terms(1000, 500, stragglers="reuse"), terms(1000, 1500, stragglers="reuse"), "'wait' or fewer rounds"),
        (terms(1000, 1500), terms(10_000, 120, stragglers="reuse"), "'wait' or fewer rounds"),
        (
            terms(100_000, owners=20, algorithm="private-r-admm", topology="ring:20"),
            terms(100_000, owners=20, algorithm="private-r-admm", topology="complete:20"),
            "lower degree",
        ),
        (terms(10, owners=900), terms(10, owners=1200), "ask fewer"),
    ],
    ids=["a release", "missed rounds", "missed rows", "neighbours", "owners"],
)
def test_a_run_is_refused_where_a_message_would_exceed_a_frame(fits: Agreement, does_not: Agreement, said: str) -> None:
    check_sizes(fits)
    with pytest.raises(InputError, match=said):
        check_sizes(does_not)


def test_the_longest_step_of_a_run_that_is_allowed_fits() -> None:
    agreement = terms(1000, 1000, stragglers="reuse")
    check_sizes(agreement)
    row = np.zeros(agreement.plan().setting.dimension).tobytes()
    missed = {str(round): row for round in range(1, 1001)}
    call = {"run": "r" * 100, "digest": "d" * 64, "step": 1000, "inputs": row, "missed_inputs": missed, "last_used": 1}
    assert len(Frame(2**62, "answer_step", encode(call)).dumps()) <= LARGEST
