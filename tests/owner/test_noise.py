"""The noise of releases: fresh every time, on a lattice, of the agreed scale, and debited for every update."""

import math
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from owners import LOCAL, PRIVATE, play, several

from dpadmm.admm.rounds import begin, solve_and_perturb
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import Relation, SelfComposedDpEvent
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.mechanisms import Mechanism


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp"])
def test_protecting_three_records_triples_the_noise_for_the_same_event(
    sample: ModuleType, path: Path, algorithm: str
) -> None:
    found = []
    for size in (1, 3):
        persons = [number // size for number in range(sample.RECORDS)]
        book = path.with_name(str(size))
        terms = sample.agreement(algorithm, records_per_person=size)
        agent = sample.agent(book, sample.policy(records_per_person=size), sample.Repeatable(), persons=persons)
        (value,) = play(agent, terms, range(1, 2))
        plan = agent._joined["run"].plan
        scale = plan.noise[0].mechanism.scale(plan.setting.gradient_sensitivity(), 3)
        found.append((value, scale, agent.ledger.spent()))
    (one, scale, spent), (three, larger, same) = found
    assert spent == same
    np.testing.assert_allclose(larger, 3 * scale, rtol=1e-9)  # but for what sums may lose
    if algorithm == "pvp":  # noise on the answer: the answer is where 3 * one - three are apart
        plan = sample.agreement("pvp").plan().take(np.array([0]))
        random_bits = np.zeros((1, 3), np.uint64)
        exact, _ = solve_and_perturb(
            _silent(plan), begin(plan), sample.shards(), sample.inputs(1), 1, lambda *_: random_bits
        )
        np.testing.assert_allclose(three - exact.value, 3 * (one - exact.value), rtol=1e-6)


def _silent(plan: Any) -> Any:
    mute = tuple(
        replace(noise, mechanism=replace(noise.mechanism, noise_multiplier=np.zeros(1))) for noise in plan.noise
    )
    return replace(plan, noise=mute)


@pytest.mark.parametrize("algorithm", LOCAL)
def test_every_local_update_is_debited(sample: ModuleType, path: Path, algorithm: str) -> None:
    """A round is three events of the mechanism: in the ledger, after a restart, and in the total that was agreed."""
    terms = sample.agreement(algorithm, **several(algorithm))
    agent = sample.agent(path)
    agent.join("run", terms)
    plan = terms.plan()
    step = plan.noise[0].mechanism.events()[0]
    three = SelfComposedDpEvent(step, 3)
    assert agent.ledger.committed() == {three: 6}
    for round in range(1, 7):
        assert agent.answer(sample.request(terms, round)).events == (three,)
        reopened = sample.ledger(path)
        assert reopened.spent() == {three: round}
        spent = reopened.guarantee(1e-6)
        assert spent == plan.accounts(round).guarantee(0, 1e-6) == best({step: 3 * round}, 1e-6, Relation.REPLACE)
    assert spent.epsilon == pytest.approx(2.0, rel=1e-6)
    assert spent.epsilon <= 2.0
    assert verify(agent.ledger) == []


@pytest.mark.parametrize("algorithm", LOCAL)
def test_every_local_update_has_noise_of_its_own_on_a_lattice(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    made: list[tuple[np.ndarray, np.ndarray, float]] = []
    plain = Mechanism.add

    def spy(self: Mechanism, value: Any, sensitivity: Any, random_bits: Any) -> Any:
        noisy = plain(self, value, sensitivity, random_bits)
        scale = float(self.scale(sensitivity, value.shape[1])[0])
        made.append((noisy, random_bits, 2.0 ** (math.floor(math.log2(scale)) - 32)))
        return noisy

    monkeypatch.setattr(Mechanism, "add", spy)
    # Words that repeat unless they are asked for by another name: the system's would always differ.
    agent = sample.agent(path, None, sample.Repeatable())
    terms = sample.agreement(algorithm, **several(algorithm))
    (value,) = play(agent, terms, range(1, 2))
    assert len(made) == 3
    assert len({random_bits.tobytes() for _, random_bits, _ in made}) == 3
    for noisy, _, step in made:
        assert np.array_equal(noisy / step, np.rint(noisy / step))
    if algorithm.startswith("out"):  # what is sent is their mean, and the last is where the next round goes on
        np.testing.assert_allclose(value, np.mean([noisy for noisy, _, _ in made], axis=0), rtol=1e-14)
        np.testing.assert_array_equal(agent.state("run").memory.point, made[-1][0])


def test_real_releases_are_never_alike(sample: ModuleType, path: Path) -> None:
    """Same records, same terms, same requests: the noise differs everywhere."""
    terms = sample.agreement("pvp", evaluation_epsilon=0.2)
    values = []
    for number in range(4):
        agent = sample.agent(path.with_name(str(number)))
        values.append(np.concatenate(play(agent, terms, range(1, 4))).ravel())
        values[-1] = np.append(values[-1], agent.answer(sample.request(terms, "evaluation")).value)
    for column in np.array(values).T:
        assert np.unique(column).size == 4


@pytest.mark.parametrize("algorithm", PRIVATE)
def test_real_releases_are_on_a_lattice(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    made: list[tuple[np.ndarray, float]] = []
    plain = Mechanism.add

    def spy(self: Mechanism, value: Any, sensitivity: Any, random_bits: Any) -> Any:
        noisy = plain(self, value, sensitivity, random_bits)
        scale = float(self.scale(sensitivity, value.shape[1])[0])
        made.append((noisy, 2.0 ** (math.floor(math.log2(scale)) - 32)))
        return noisy

    monkeypatch.setattr(Mechanism, "add", spy)
    terms = sample.agreement(algorithm, evaluation_epsilon=0.2)
    agent = sample.agent(path)
    values = play(agent, terms, range(1, 4))
    values.append(agent.answer(sample.request(terms, "evaluation")).value)
    assert len(made) == len(values) == 4
    for (noisy, step), value in zip(made, values, strict=True):
        assert np.array_equal(noisy / step, np.rint(noisy / step))
        if algorithm != "dp-admm" or value.size == 1:  # its release is a step along the noisy gradient
            np.testing.assert_array_equal(noisy, value)
