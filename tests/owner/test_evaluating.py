"""An agent estimates the error of a model: one more release, with its own noise and cost."""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from ledgers import amount
from owners import play, refused

from dpadmm.errors import Refused
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import LaplaceDpEvent, Relation
from dpadmm.problems.array_files import ArrayBlocks
from dpadmm.problems.losses import LOSSES
from dpadmm.problems.shards import Shards, gather
from dpadmm.problems.stored_shards import gather_blocks


def test_an_evaluation_is_a_release_like_any_other(sample: ModuleType, path: Path) -> None:
    terms = sample.agreement(evaluation_epsilon=0.5)
    agent = sample.agent(path)
    values = play(agent, terms, range(1, 3))
    model = np.array([[0.5, -0.5, 0.5]])
    scores = agent.shards.real_rows @ model[0]
    share = float(np.mean(np.sign(scores) != agent.shards.targets))
    asked = sample.request(terms, "evaluation", inputs=model)
    release = agent.answer(asked)
    assert release.value.shape == (1, 1)
    scale = (1 / 60) / 0.5
    assert abs(release.value[0, 0] - share) < 25 * scale  # beyond it with probability e^-25
    assert release.value[0, 0] != share
    assert release.events == (LaplaceDpEvent(2.0),)
    gaussian = agent._joined["run"].plan.events(1)[0]
    assert agent.ledger.spent() == {gaussian: 2, LaplaceDpEvent(2.0): 1}
    total = amount(agent.ledger, held=True)
    assert total == best({gaussian: 6, LaplaceDpEvent(2.0): 1}, 1e-6, Relation.REPLACE).epsilon
    assert total == pytest.approx(2.0, rel=1e-9)  # the agreed epsilon covers both
    spent = agent.ledger.spent()
    restarted = sample.agent(path)
    restarted.join("run", terms)
    for again in (agent, restarted):
        assert again.answer(asked).value.tobytes() == release.value.tobytes()
        with refused(again, "answered for other inputs"):
            again.answer(replace(asked, inputs=model + 1.0))
        with refused(again, "missed rounds"):
            again.answer(replace(asked, missed_inputs={1: model}))
    assert agent.ledger.spent() == spent
    assert restarted.answer(sample.request(terms, 2)).value.tobytes() == values[1].tobytes()
    restarted.answer(sample.request(terms, 3))


def test_an_evaluations_noise_has_the_agreed_scale(sample: ModuleType, path: Path) -> None:
    """Many owners of the same records: the spread of their answers is that of Laplace noise of scale 1/(m epsilon)."""
    terms = sample.agreement(evaluation_epsilon=0.5)
    values = []
    for number in range(100):
        agent = sample.agent(path.with_name(str(number)))
        agent.join("run", terms)
        values.append(float(agent.answer(sample.request(terms, "evaluation")).value[0, 0]))
    assert np.std(values) == pytest.approx(math.sqrt(2) / (60 * 0.5), rel=0.35)


@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "softmax"])
@pytest.mark.parametrize("width", [3, 17, 33, 104, 301])
def test_equal_records_are_all_right_or_all_wrong(loss: str, width: int) -> None:
    """A record's class does not depend on where its row lies, for models whose margins round to either side of zero.

    In 0.1.0 a product of matrices rounded the last three of 1,003 rows differently, so that 1, 2, 3 or 1,000 of 1,003
    equal records counted as mistakes. A record that sorts to another place could move the count by 1,000; paid was 1.
    """
    known, classes, count = LOSSES[loss](), 3 if loss == "softmax" else 2, 1003
    for seed in range(12):
        draw = np.random.default_rng(seed)
        rows = np.tile(draw.normal(size=width) / width, (count, 1))
        targets = known.encode(np.ones(count, dtype=np.int64), classes)
        records = gather(rows, targets, np.zeros(count, dtype=np.int64), norm_bound=1.0, names=["owner"])
        row, models = records.real_rows[0], draw.normal(size=(width, 3 if loss == "softmax" else 1))
        models -= np.outer(row, row @ models) / (row @ row)  # at right angles to the records
        assert known.mistakes(records, models.reshape(1, -1)).tolist() in ([0], [count])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "smoothed-hinge", "softmax"])
def test_records_that_do_not_count_are_no_mistakes_either(loss: str, stored: bool, tmp_path: Path) -> None:
    """A person's records beyond the first had rows of zeros but kept their targets, and each was a mistake or none: at
    a claimed epsilon of 0.5, 400 records of one person moved the count by 400, which is 200 noise scales."""
    classes = 3 if loss == "softmax" else 2
    found, rng = LOSSES[loss](), np.random.default_rng(5)
    features, counts = rng.normal(size=(40, 3)), np.arange(40) % 4 == 0
    told = []
    for other in range(classes):
        targets = np.where(counts, np.arange(40) % classes, other)
        encode = partial(found.encode, classes=classes)
        if stored:
            names = [tmp_path / f"{other}.{name}.npy" for name in ("rows", "targets")]
            for name, values in zip(names, (features, targets), strict=True):
                np.save(name, values)
            shards: Shards = gather_blocks([ArrayBlocks.of(*names, classes)], encode, norm_bound=1.0)
        else:
            shards = gather(features, encode(targets), np.zeros(40, dtype=int), norm_bound=1.0, names=["me"])
        used = shards.enforced(partial(found.admit, classes=classes), counts)
        model = np.random.default_rng(1).normal(size=(1, found.dimension(3, classes)))
        told.append([int(found.mistakes(used, point)[0]) for point in (0.0 * model, model, -model)])
    assert all(each == told[0] for each in told)
    assert max(told[0]) <= 10


def test_an_evaluation_that_fails_is_paid_for_and_not_tried_again(
    sample: ModuleType, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms, tried = sample.agreement(evaluation_epsilon=0.5), []

    def fail(*given: object) -> None:
        tried.append(given)
        raise FloatingPointError("0.123")

    agent = sample.agent(path)
    agent.join("run", terms)
    monkeypatch.setattr("dpadmm.owner.answering.release_error", fail)
    for _ in range(2):
        with pytest.raises(Refused, match=r"could not be computed\. It is paid for") as refusal:
            agent.answer(sample.request(terms, "evaluation", inputs=np.zeros((1, 3))))
        assert "0.123" not in str(refusal.value)
    assert len(tried) == 1
    assert agent.ledger.spent() == {LaplaceDpEvent(2.0): 1}
