"""The audit looks at the bytes that agents answer with: leaks there are found, whatever the agent remembers of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpadmm.admm.setting import TotalBudget
from dpadmm.audit import noise_law
from dpadmm.audit.likelihood import explained
from dpadmm.audit.model_free import learned, written
from dpadmm.audit.run import IMPOSSIBLE, audit
from dpadmm.audit.scene import Scenario, scene
from dpadmm.audit.transcripts import heard
from dpadmm.owner.agent import Agent
from dpadmm.papers import ALGORITHMS
from dpadmm.privacy.calibration import Budget
from dpadmm.release import perturb

DELTA = 1e-5


def leaking(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """An agent that answers with change(values, first rows with the sign of their targets) in place of its releases,
    and remembers the true ones."""
    honest = Agent.answer

    def answer(agent: Agent, request: Any) -> Any:
        release = honest(agent, request)
        first = agent.shards.starts
        rows = agent.shards.features[first][:, : release.value.shape[1]] * np.sign(agent.shards.targets[first])[:, None]
        return replace(release, value=change(release.value.copy(), rows))

    monkeypatch.setattr(Agent, "answer", answer)


def in_the_last_bit(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint64)
    bits[:, 0] = bits[:, 0] & ~np.uint64(1) | (rows[:, 0] > 0.0)
    return values


def test_a_raw_record_in_place_of_a_release_is_found(monkeypatch):
    """The counterexample: 0.1.0 showed the same bound, 1.867 of 2, as of an honest agent."""
    leaking(monkeypatch, lambda values, rows: rows.astype(float))
    found = audit("dp-admm", 2.0, DELTA, transcripts=1_000, seed=1)
    assert found.violated
    assert found.wrong_noise


def test_a_record_in_the_last_bit_is_found_by_what_knows_nothing(monkeypatch):
    """Another instance: noise is as it should be, and no likelihood looks there."""
    leaking(monkeypatch, in_the_last_bit)
    found = audit("dp-admm", 1.0, DELTA, transcripts=1_000, seed=1)
    assert found.violated
    assert found.measured.statistic == "model-free"
    assert not found.wrong_noise


@pytest.mark.parametrize("name", ["dp-admm", "obj-l", "pvp"])
def test_honest_noise_looks_as_it_should(name):
    found = audit(name, 2.0, DELTA, transcripts=500, seed=1)
    assert not found.violated
    assert found.noise is not None
    assert not found.wrong_noise
    assert f"of the claimed {found.claimed:.4g}" in str(found)
    assert "looks like what it should be" in str(found)


def test_noise_that_two_numbers_share_is_found(monkeypatch):
    """Each number has the right law; together they have not. Along the way between the data sets nothing shows."""
    drawn = perturb.discrete_gaussian

    def shared(scales, dimension, stream):
        return np.repeat(drawn(scales, 1, stream), dimension, axis=1)

    monkeypatch.setattr(perturb, "discrete_gaussian", shared)
    found = audit("dp-admm", 2.0, DELTA, transcripts=500, seed=1)
    assert found.wrong_noise
    assert "is not what it should be" in str(found)


def test_residuals_are_integers_of_the_scale_that_was_drawn():
    """What a release has more than its noiseless integers is integers, exactly."""
    run = scene(ALGORITHMS["dpsgd"], TotalBudget((Budget(1.0, DELTA),)), Scenario(rounds=2))
    setting = run.plan.local
    mechanism = run.plan.noise_in(1).mechanism
    (scale,) = np.unique(perturb.noise_scales(mechanism, np.full(setting.agents, setting.sensitivity(2))))
    for message, sides in heard(run, 200, seed=1):
        noise = explained(message, sides[0])[1][:200] * scale
        assert np.abs(noise - np.rint(noise)).max() < 1e-2
        assert np.unique(np.rint(noise)).size > 390
        assert 0.8 < np.rint(noise).std() / scale < 1.25


@pytest.mark.parametrize("numbers", [1, 6])
def test_p_values_of_what_is_right_are_seldom_small_and_of_what_is_not_tiny(numbers):
    rng = np.random.default_rng(0)
    found = [noise_law.p_value(rng.random((500, numbers))) for _ in range(40)]
    assert min(found) > 1e-4
    assert noise_law.p_value(rng.random((500, numbers)) ** 1.5) < IMPOSSIBLE


def test_dependence_without_correlation_is_found():
    rng = np.random.default_rng(0)
    size, signs = rng.random((2_000, 1)), rng.choice([-1.0, 1.0], size=(2_000, 3))
    assert noise_law.p_value(0.5 + 0.5 * size * signs) < IMPOSSIBLE


def test_where_nothing_differs_nothing_is_learned():
    rng = np.random.default_rng(0)
    seen = written(rng.normal(size=(800 * 3, 2)), 2).reshape(2, 400, 3, 16)
    assert not learned(seen)(seen[0]).any()
    seen[1, :, 1, 3] = np.where(rng.random(400) < 0.5, 17, seen[1, :, 1, 3])
    statistic = learned(seen)
    assert statistic(seen[1]).mean() > statistic(seen[0]).mean() + 0.5
