"""The noise of releases: fresh every time, integers on a lattice, of the agreed scale, and debited for every update."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ledgers import amount
from owners import LOCAL, PRIVATE, play, several

from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import Relation, SelfComposedDpEvent
from dpadmm.privacy.ledger.verify import verify
from dpadmm.release import perturb
from dpadmm.release.noise import LARGEST_SCALE, SMALLEST_SCALE


@dataclass(frozen=True)
class Drawn:
    """Noise that was drawn: integers, their scale, and the first of the bits they were made of."""

    noise: np.ndarray
    scale: int
    words: bytes


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Drawn]:
    """All noise, in the order in which it is drawn."""
    made: list[Drawn] = []
    for name in ("discrete_gaussian", "discrete_laplace"):
        plain = getattr(perturb, name)

        def spy(scales: Any, dimension: int, stream: Any, plain: Any = plain) -> Any:
            noise = plain(scales, dimension, stream)
            made.append(Drawn(noise, int(scales[0]), stream.words(0, 4).tobytes()))
            return noise

        monkeypatch.setattr(perturb, name, spy)
    return made


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The lattices on which answers were put before their noise."""
    made: list[float] = []
    plain = perturb.spacing

    def spy(*given: Any) -> Any:
        made.append(float(plain(*given)[0]))
        return plain(*given)

    monkeypatch.setattr(perturb, "spacing", spy)
    return made


@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp"])
def test_protecting_three_records_triples_the_noise_for_the_same_event(
    sample: ModuleType, path: Path, drawn: list[Drawn], cells: list[float], algorithm: str
) -> None:
    found = []
    for size in (1, 3):
        persons = [number // size for number in range(sample.RECORDS)]
        book = path.with_name(str(size))
        terms = sample.agreement(algorithm, records_per_person=size)
        agent = sample.agent(book, sample.policy(records_per_person=size), sample.Repeatable(), persons=persons)
        play(agent, terms, range(1, 2))
        plan = agent._joined["run"].plan
        claimed = plan.noise[0].mechanism.noise_multiplier * plan.setting.gradient_sensitivity()
        found.append((drawn[-1].scale * (cells[-1] if cells else 1.0), claimed, agent.ledger.spent()))
    (scale, claimed, spent), (larger, three_times, same) = found
    assert spent == same
    np.testing.assert_allclose(three_times, 3 * claimed, rtol=1e-6)  # but for rounding to the lattice
    np.testing.assert_allclose(larger, 3 * scale, rtol=1e-5)


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
        spent = amount(reopened)
        assert spent == pytest.approx(best({step: 3 * round}, 1e-6, Relation.REPLACE).epsilon, rel=1e-12)
    assert spent == pytest.approx(2.0, rel=1e-6)
    assert spent <= 2.0
    assert verify(agent.ledger) == []


@pytest.mark.parametrize("algorithm", LOCAL)
def test_every_local_update_has_noise_of_its_own(
    sample: ModuleType, path: Path, drawn: list[Drawn], cells: list[float], algorithm: str
) -> None:
    # Bits that repeat unless they are asked for by another name: the system's would always differ.
    agent = sample.agent(path, None, sample.Repeatable())
    terms = sample.agreement(algorithm, **several(algorithm))
    (value,) = play(agent, terms, range(1, 2))
    assert len(drawn) == 3
    assert len({each.words for each in drawn}) == 3
    assert len({each.noise.tobytes() for each in drawn}) == 3
    assert all(SMALLEST_SCALE <= each.scale < LARGEST_SCALE for each in drawn)
    if algorithm.startswith("out"):  # each of them on a lattice; the last is where the next round goes on
        last = agent.state("run").memory.point / cells[-1]
        np.testing.assert_array_equal(last, np.rint(last))
        assert not np.array_equal(value, agent.state("run").memory.point)  # what is sent is their mean


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
    sample: ModuleType, path: Path, drawn: list[Drawn], cells: list[float], algorithm: str
) -> None:
    """Every release has one draw of integers; an answer is a whole number of lattice points."""
    terms = sample.agreement(algorithm, evaluation_epsilon=0.2)
    agent = sample.agent(path)
    values = play(agent, terms, range(1, 4))
    estimate = agent.answer(sample.request(terms, "evaluation")).value
    draws = [each for each in drawn if each.noise.shape[1] == 1 or algorithm != "dvp"]
    assert len(draws) == (4 if algorithm != "dvp" else 1)
    assert all(each.noise.dtype == np.int64 for each in drawn)
    assert all(SMALLEST_SCALE <= each.scale < LARGEST_SCALE for each in drawn)
    for value, cell in zip(values, cells, strict=False):
        np.testing.assert_array_equal(value / cell, np.rint(value / cell))
    counted = estimate[0, 0] * sample.RECORDS * 2.0**30
    assert counted == pytest.approx(round(counted), abs=1e-4)
    if algorithm == "pvp":
        assert len(cells) == 3
