"""Owners who find principal components together and then a regression on them: two runs, one ledger, one budget."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from ledgers import amount

from dpadmm.engine.preprocessing.components import Rule, components
from dpadmm.errors import Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request
from dpadmm.privacy import gaussian
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.problems.losses.statistics import unpack
from dpadmm.problems.shards import Shards, gather
from dpadmm.spec.declare import RunSpec

COUNTS, WIDTH, ROUNDS, DELTA = (400, 300), 5, 4, 1e-5
MOMENTS = RunSpec("private-components", rounds=1, penalty="none", strength=0.0, noise_multiplier=8.0, delta=DELTA)
REGRESSION = RunSpec("fdp-admm", rounds=ROUNDS, noise_multiplier=20.0, delta=DELTA, tau=(0.3,))


def owners() -> list[Shards]:
    draw = np.random.default_rng(3)
    rows = [draw.normal(size=(count, WIDTH)) * [0.5, 0.3, 0.1, 0.02, 0.02] for count in COUNTS]
    return [
        gather(r, draw.normal(size=len(r)), np.zeros(len(r), dtype=int), norm_bound=1.0, names=["me"]) for r in rows
    ]


def policy(**changes: object) -> Policy:
    terms = {"dataset": "spectra", "epsilon": 3.0, "delta": DELTA, "losses": ("quantile", "second-moment")}
    return Policy(**{**terms, **changes})  # type: ignore[arg-type]


def test_two_runs_cost_what_both_cost_together(tmp_path: Path) -> None:
    shards, moments = owners(), Agreement(MOMENTS, COUNTS, WIDTH, 0)
    agents = [
        Agent.open(each, policy(), tmp_path / f"{i}.ledger", member=i, registry=LedgerRegistry(tmp_path / f"shelf{i}"))
        for i, each in enumerate(shards)
    ]
    released = []
    for agent in agents:
        agent.join("moments", moments)
        release = agent.answer(Request("moments", moments.digest, 1, np.zeros((1, WIDTH * (WIDTH + 1) // 2))))
        released.append(unpack(release.value)[0])
        agent.finish("moments")
    for matrix, each, agent in zip(released, shards, agents, strict=True):
        exact = each.real_rows.T @ each.real_rows / len(each.features)
        # Two neighbours' matrices are at most sqrt(2)/m apart; of 25 entries some stray by three deviations.
        s = 8.0 * math.sqrt(2.0) / len(each.features) / math.sqrt(2.0)
        assert 0.2 * s < np.abs(matrix - exact).max() < 6.0 * s
        assert agent.randomness.simulated is False
    found = components(np.mean(released, axis=0), 0.0, Rule(count=3))
    regression = Agreement(REGRESSION, COUNTS, 3, 0)
    for i, each in enumerate(shards):
        rows = found.rows(each, intercept=False)
        agent = Agent.open(
            rows, policy(), tmp_path / f"{i}.ledger", member=i, registry=LedgerRegistry(tmp_path / f"shelf{i}"),
            data_digest=each.digest(),  # other coordinates, the same records, the same budget
        )  # fmt: skip
        agent.join("regression", regression)
        for step in range(1, ROUNDS + 1):
            agent.answer(Request("regression", regression.digest, step, np.zeros((1, 3))))
        spent = amount(agent.ledger, DELTA)  # type: ignore[arg-type]
        assert spent == pytest.approx(gaussian.epsilon(math.hypot(1 / 8.0, math.sqrt(ROUNDS) / 20.0), DELTA), rel=1e-9)


def test_an_owner_who_did_not_name_the_statistic_refuses_it(tmp_path: Path) -> None:
    agent = Agent.open(
        owners()[0], policy(losses=("quantile",)), tmp_path / "ledger", registry=LedgerRegistry(tmp_path / "shelf")
    )
    with pytest.raises(Refused, match="second-moment"):
        agent.join("moments", Agreement(MOMENTS, COUNTS, WIDTH, 0))
    default = Policy("other", 3.0, DELTA)
    assert "second-moment" not in default.losses


def test_terms_with_components_in_them_are_refused(tmp_path: Path) -> None:
    agent = Agent.open(owners()[0], policy(), tmp_path / "ledger", registry=LedgerRegistry(tmp_path / "shelf"))
    terms = RunSpec("fdp-admm", rounds=2, epsilon=1.0, delta=DELTA, components="3")
    with pytest.raises(Refused, match="a run of its own"):
        agent.join("regression", Agreement(terms, COUNTS, WIDTH, 0))


def test_the_statistic_goes_with_no_other_recipe(tmp_path: Path) -> None:
    agent = Agent.open(owners()[0], policy(), tmp_path / "ledger", registry=LedgerRegistry(tmp_path / "shelf"))
    for terms in (
        RunSpec("dp-admm", loss="second-moment", rounds=1, epsilon=1.0, delta=DELTA),
        RunSpec("private-components", loss="quantile", rounds=1, epsilon=1.0, delta=DELTA),
    ):
        with pytest.raises(Refused, match="does not go with"):
            agent.join("run", Agreement(terms, COUNTS, WIDTH, 0))


@pytest.mark.parametrize("algorithm", ["pvp", "dvp"])
def test_an_owner_solves_no_loss_with_a_kink_exactly(tmp_path: Path, algorithm: str) -> None:
    agent = Agent.open(owners()[0], policy(), tmp_path / "ledger", registry=LedgerRegistry(tmp_path / "shelf"))
    terms = RunSpec(algorithm, loss="quantile:0.3", rounds=1, epsilon=1.0, delta=DELTA, tolerance=1e-6)
    with pytest.raises(Refused, match=r"kink|twice differentiable"):
        agent.join("run", Agreement(terms, COUNTS, WIDTH, 0))
