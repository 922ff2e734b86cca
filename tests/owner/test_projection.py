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
    sample: ModuleType, tmp_path: Path, algorithm: str
) -> None:
    agent = sample.agent(tmp_path / "ledger")
    with pytest.raises(Refused, match="projection is a formula, and 'polyhedron' is not one"):
        agent.join("run", sample.agreement(algorithm, set=CONIC))
    assert agent.ledger.spent() == {}
    terms = sample.agreement(algorithm, set="ball:1")
    agent.join("run", terms)
    assert np.isfinite(agent.answer(sample.request(terms, 1)).value).all()


def test_noise_before_it_is_answered_and_the_release_is_feasible(sample: ModuleType, tmp_path: Path) -> None:
    agent, terms = sample.agent(tmp_path / "ledger"), sample.agreement("obj-g", set=CONIC)
    agent.join("run", terms)
    for round in (1, 2, 3):
        value = agent.answer(sample.request(terms, round)).value
        assert value.sum() <= 0.5 + 1e-9
