"""A projection that may fail must not look at records first: its failure would be a free answer about them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dpadmm.errors import Refused

CONIC = '{"polyhedron": {"rows": [[1, 1, 1]], "limits": [0.5]}}'


@pytest.mark.parametrize("algorithm", ["out-g", "out-l"])
def test_noise_after_a_projection_by_a_solver_is_refused_at_joining(
    parties: ModuleType, tmp_path: Path, algorithm: str
) -> None:
    agent = parties.agent(tmp_path / "ledger")
    with pytest.raises(Refused, match="projection is a formula, and 'polyhedron' is not one"):
        agent.join("run", parties.agreement(algorithm, set=CONIC))
    assert agent.ledger.spent() == {}
    terms = parties.agreement(algorithm, set="ball:1")
    agent.join("run", terms)
    assert np.isfinite(agent.answer(parties.request(terms, 1)).value).all()


def test_noise_before_it_is_answered_and_the_release_is_feasible(parties: ModuleType, tmp_path: Path) -> None:
    agent, terms = parties.agent(tmp_path / "ledger"), parties.agreement("obj-g", set=CONIC)
    agent.join("run", terms)
    for round in (1, 2, 3):
        value = agent.answer(parties.request(terms, round)).value
        assert value.sum() <= 0.5 + 1e-9
