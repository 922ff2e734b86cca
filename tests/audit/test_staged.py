"""A run with a stage, attacked as a whole: what was released of the columns, and the rounds on rows that depend on it.

The rounds are attacked on the rows that each transcript's own release lets be seen, so that what is audited is the
composition of both parts within one budget, and not either of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.admm.solvers.base import Randomness
from dpadmm.audit.attacks import trained
from dpadmm.audit.bounds import BOUNDS, GAUSSIAN
from dpadmm.audit.likelihood import RATIO, evidence
from dpadmm.audit.observed import Message, messages
from dpadmm.audit.transcripts import SideBySide
from dpadmm.datasets import Dataset
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import Prepared, prepare
from dpadmm.engine.preprocessing import stage
from dpadmm.engine.preprocessing.stage import Stage
from dpadmm.engine.preprocessing.standardise import BOUND, Standard, standard
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian
from dpadmm.privacy.events import GaussianDpEvent
from dpadmm.privacy.randomness import derived
from dpadmm.problems.losses.capped import CAP
from dpadmm.problems.shards import Shards, gather
from dpadmm.release import rows
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment

EPSILON, DELTA, SHARE, CONFIDENCE = 2.0, 1e-5, 0.2, 0.95
ROUNDS, RECORDS, TRANSCRIPTS, FEWER = 3, 40, 10_000, 6_000
LARGE = 0.8  # a share at which mistakes in the first release show
OVER = 8.0  # rows are handed in too long: that they are clipped is audited as well

CANARY = np.array([1.0, 0.0])
INSTEAD = -CANARY  # means and gradients move as far as they can; squares stay, and could hardly move as well
OTHERS = 0.2 * np.random.default_rng(5).normal(size=(RECORDS - 1, 2))


@dataclass(frozen=True, eq=False)
class Pair:
    """A run, and the records of two neighbouring data sets for it, as they come in."""

    prepared: Prepared
    sides: tuple[Shards, Shards]

    @property
    def stage(self) -> Stage:
        assert self.prepared.stage is not None
        return self.prepared.stage

    @property
    def claimed(self) -> float:
        """The epsilon of the account, of both parts."""
        return self.prepared.plan.accounts().guarantee(0, DELTA).epsilon


def prepared(rows: FloatArray, targets: Any, classes: int = 2, **changes: Any) -> Prepared:
    """Standardised rows of one agent, and noisy gradients of them."""
    data = Dataset(
        "the records", rows, np.asarray(targets), tuple(map(str, range(classes))), tuple("uvwxyz"[: rows.shape[1]])
    )
    usual: dict[str, Any] = {
        "algorithm": "dp-accelerated", "loss": "capped-logistic", "standardise": SHARE, "intercept": True, "agents": 1,
        "rounds": ROUNDS, "epsilon": EPSILON, "delta": DELTA, "norm_bound": 1.0,
    }  # fmt: skip
    return prepare(Experiment().changed(**(usual | changes)), dataset=data)


def pair(relation: str, **changes: Any) -> Pair:
    """Replaced, the canary becomes another row; zeroed out, it counts for nothing, and its weight is still 1/m."""
    targets = np.arange(RECORDS) % 2
    one = prepared(np.vstack([OVER * CANARY, OTHERS]), targets, relation=relation, **changes)
    if relation == "replace":
        return Pair(one, (one.shards, prepared(np.vstack([OVER * INSTEAD, OTHERS]), targets, **changes).shards))
    fewer = {name: getattr(one.shards, name)[1:] for name in ("features", "targets")}
    return Pair(one, (one.shards, replace(one.shards, **fewer, stops=one.shards.stops - 1)))


# Transcripts


@dataclass(frozen=True, eq=False)
class Transcripts:
    """Of one of two data sets: messages of both parts, a row each, and the view that the first one gave."""

    first: Message
    views: list[Standard]
    rest: list[Message]
    evidence: FloatArray  # (transcripts, 1 + rounds, kinds)

    @property
    def ratio(self) -> FloatArray:
        """ln p(transcript | second) - ln p(transcript | first)."""
        return np.asarray(self.evidence[:, :, RATIO].sum(axis=1))


def played(run: Pair, side: int, each: int, source: Callable[[int], Randomness], seed: int = 0) -> Transcripts:
    """What `Prepared.turned` and `rounds` do with one run, done with all of them at once."""
    stage, victims = run.stage, np.arange(each)
    records = [stage.records(shards) for shards in run.sides]
    cohort = Cohort.of(stage.plan, records[side], range(each), source(derived(seed, stage.purpose)))
    (first,) = messages(cohort, SimulationState.of(cohort), victims)
    found = [evidence(first, (records[0].tile(each), records[1].tile(each)))]
    views: list[Any] = [stage.view(released[None], stage.deviation) for released in first.release]

    seen = [as_seen(shards, views) for shards in run.sides]
    plan = stage.planned(seen[0].width)
    agents = np.zeros(each, dtype=np.int64)
    cohort = Cohort(plan, plan.take(agents), seen[side], victims, agents, source(seed))
    rest = []
    for message in messages(cohort, SimulationState.of(cohort), victims):
        rest.append(message)
        found.append(evidence(message, (seen[0], seen[1])))
    return Transcripts(first, views, rest, np.stack(found, axis=1))


def as_seen(shards: Shards, views: Sequence[Standard]) -> Shards:
    """The same records in every view, an agent for each; the views differ in centres and scales, row by row."""
    count, each = len(shards.targets), {name: [getattr(view, name) for view in views] for name in ("centre", "scale")}
    assert {(view.length, view.constant) for view in views} == {(views[0].length, views[0].constant)}
    stops = np.arange(1, len(views) + 1) * count
    many = replace(
        shards, features=np.tile(shards.features, (len(views), 1)), targets=np.tile(shards.targets, len(views)),
        starts=stops - count, stops=stops, names=shards.names * len(views),
    )  # fmt: skip
    return replace(views[0], **{name: np.repeat(values, count, axis=0) for name, values in each.items()}).rows(
        many, True
    )


def of_both(run: Pair, seed: int, each: int = TRANSCRIPTS) -> tuple[Transcripts, Transcripts]:
    source = [lambda seed, side=side: SideBySide(derived(seed, f"side {side}"), 1) for side in (0, 1)]
    return played(run, 0, each, source[0], seed), played(run, 1, each, source[1], seed)


def reached(run: Pair, trial: tuple[Transcripts, Transcripts] | None = None, each: int = TRANSCRIPTS) -> float:
    """The lower bound on epsilon, by an attack that was fixed on other transcripts."""
    training = np.stack([side.evidence for side in of_both(run, seed=1, each=each)])
    attack = trained(training, BOUNDS[GAUSSIAN], CONFIDENCE, DELTA)
    found = of_both(run, seed=2, each=each) if trial is None else trial
    return attack.reaches(np.stack([side.evidence for side in found]), CONFIDENCE, DELTA)


def information(run: Pair, found: Transcripts) -> FloatArray:
    """mu² of every transcript: squares of how far the two data sets' answers lie apart, in units of the noise.

    Written out for the two records that differ, from the numbers of the view alone.
    """
    records = [(s.real_rows[0, :-1], s.targets[0]) for s in run.sides]
    weights = [1.0, 0.0 if len(run.sides[1].targets) < RECORDS else 1.0]
    plan = found.first.plan
    moments = sum(
        sign * w * np.concatenate([a, a**2]) for (a, _), w, sign in zip(records, weights, (1, -1), strict=True)
    )
    noise = plan.noise[0].mechanism.noise_multiplier[0] * plan.local.gradient_sensitivity()[0]
    total = np.full(len(found.views), float((moments**2).sum()) / (RECORDS * noise) ** 2)
    for message in found.rest:
        noise = message.plan.noise[0].mechanism.noise_multiplier[0] * message.plan.local.gradient_sensitivity()[0]
        apart = np.zeros_like(message.release)
        for (row, target), w, sign in zip(records, weights, (1, -1), strict=True):
            rows = np.stack([(row - view.centre) * view.scale for view in found.views])
            longest = np.array([[view.length] for view in found.views])
            rows *= longest / np.maximum(longest, np.linalg.norm(rows, axis=1, keepdims=True))
            rows = np.hstack([rows, [[view.constant] for view in found.views]])
            pull = np.minimum(expit(-target * (rows * message.common).sum(axis=1)), CAP)
            apart -= sign * w * target * pull[:, None] * rows
        total += (apart**2).sum(axis=1) / (RECORDS * noise) ** 2
    return total


RELATIONS = ["zero-out", "replace"]


@pytest.fixture(scope="module", params=RELATIONS)
def run(request):
    return pair(request.param)


@pytest.fixture(scope="module")
def trial(run):
    return of_both(run, seed=2)


# A run as it is


def test_a_batch_of_transcripts_is_what_runs_one_by_one_release(run):
    together = played(run, 0, 4, SeededRandomness, seed=run.prepared.experiment.simulation.seed)
    for number in range(4):
        turned = run.prepared.turned(number)
        assert vars(turned.view).keys() == vars(together.views[number]).keys()
        for name, value in vars(turned.view).items():
            np.testing.assert_array_equal(getattr(together.views[number], name), value)
        cohort = Cohort.of(
            turned.plan, turned.shards, [number], SeededRandomness(run.prepared.experiment.simulation.seed)
        )
        alone = [state.agents.released[0] for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor())]
        np.testing.assert_allclose([message.release[number] for message in together.rest], alone, rtol=1e-12)


def test_the_account_is_of_both_parts_and_no_more_than_the_budget(run):
    plan = run.prepared.plan
    events = [event for event, count in plan.accounts().tally(0).items() for _ in range(count)]
    assert len(events) == 1 + ROUNDS
    assert all(isinstance(event, GaussianDpEvent) for event in events)
    mu = np.sqrt(sum(event.noise_multiplier**-2 for event in events))
    assert mu <= gaussian.mu(EPSILON, DELTA)
    assert mu == pytest.approx(gaussian.mu(EPSILON, DELTA), rel=1e-6)
    assert run.claimed == pytest.approx(EPSILON, rel=1e-6)


def test_the_likelihood_ratio_has_mean_one(trial):
    for found, sign in zip(trial, (1.0, -1.0), strict=True):
        ratios = np.exp(sign * found.ratio)
        assert abs(ratios.mean() - 1.0) <= 4.5 * ratios.std() / np.sqrt(ratios.size)


def test_no_transcript_says_more_than_the_account_and_its_evidence_is_what_theory_says(run, trial):
    """Given the past, the ratio of a message is N(±s/2, s) with s its part of mu²; all parts of a transcript together
    never exceed the mu² of the account, whatever was released first."""
    mu = gaussian.mu(EPSILON, DELTA)
    for found, sign in zip(trial, (-1.0, 1.0), strict=True):
        known = information(run, found)
        assert known.max() <= mu**2 * (1.0 + 1e-6)  # of rows clipped in doubles; integer ones are as little shorter
        assert known.mean() >= 0.85 * mu**2
        apart = found.ratio - sign * known / 2.0
        assert abs(apart.mean()) <= 4.5 * apart.std() / np.sqrt(apart.size)
        assert apart.var() == pytest.approx(known.mean(), rel=4.5 * np.sqrt(2.0 / apart.size))


def test_the_total_is_not_refuted_and_most_of_it_is_reached(run, trial):
    lower = reached(run, trial)
    assert lower <= run.claimed
    theory = np.sqrt(np.mean([information(run, found).mean() for found in trial]))
    assert gaussian.mu(lower, DELTA) > 0.8 * theory


# Mistakes


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_release_that_is_not_counted_is_refuted(relation, monkeypatch):
    """The rounds have the whole budget, as if nothing had come before them."""
    parts = stage._parts
    monkeypatch.setattr(stage, "_parts", lambda budget, *more: (parts(budget, *more)[0], budget))
    with pytest.raises(InputError, match="the run would cost"):  # unless the account is lied to as well
        pair(relation, standardise=LARGE)
    counts = np.array([RECORDS])
    monkeypatch.setattr(Stage, "planned", lambda stage, width: stage.rest.plan(counts, width, stage.classes))
    broken = pair(relation, standardise=LARGE)
    assert broken.claimed <= EPSILON
    assert reached(broken, each=FEWER) > broken.claimed


def test_so_large_a_share_that_is_counted_is_not():
    sound = pair("zero-out", standardise=LARGE)
    assert reached(sound, each=FEWER) <= sound.claimed


def unclipped(view: Standard, shards: Shards, intercept: bool) -> Shards:
    """The standardised rows as integers, however long they are."""
    seen = view.shown(shards, intercept)
    return replace(seen, features=np.rint(seen.real_rows / rows.cell(BOUND)).astype(np.float32), norm_bound=BOUND)


@pytest.mark.parametrize("relation", RELATIONS)
def test_standardised_rows_that_are_not_clipped_are_refuted(relation, monkeypatch):
    monkeypatch.setattr(Standard, "rows", unclipped)
    monkeypatch.setattr(rows, "enforce", lambda table: (table, 0))
    broken = pair(relation)
    assert broken.claimed <= EPSILON
    assert reached(broken, each=FEWER) > broken.claimed


@pytest.mark.parametrize("relation", RELATIONS)
def test_rows_that_are_not_clipped_count_as_zero(relation, monkeypatch):
    """The agent looks at the rows that a run hands it, whoever made them."""
    monkeypatch.setattr(Standard, "rows", unclipped)
    safe = pair(relation)
    assert reached(safe, each=FEWER) <= safe.claimed


@pytest.mark.parametrize("relation", RELATIONS)
def test_half_the_noise_in_the_first_release_is_refuted(relation):
    sound = pair(relation, standardise=LARGE)
    (noise,) = sound.stage.plan.noise
    quiet = replace(noise, mechanism=replace(noise.mechanism, noise_multiplier=noise.mechanism.noise_multiplier / 2.0))
    stage = replace(sound.stage, plan=replace(sound.stage.plan, noise=(quiet,)))
    broken = replace(sound, prepared=replace(sound.prepared, stage=stage, plan=stage.planned(3)))
    assert broken.claimed <= EPSILON
    assert reached(broken, each=FEWER) > broken.claimed


def test_a_constant_that_the_bound_does_not_count_makes_no_row_longer(monkeypatch):
    """A column of ones beside rows that are already as long as the bound: what is added up keeps to it in integers."""
    monkeypatch.setattr(
        stage, "standard", lambda *told, **more: replace(standard(*told, **more), length=BOUND, constant=BOUND)
    )
    safe = pair("zero-out")
    assert reached(safe, each=FEWER) <= safe.claimed


# The second part, whatever was released in the first


LOSSES = {"capped-logistic": 2, "capped-softmax": 3}
WIDTH, FEW = 3, 4


@functools.cache
def planned(loss: str, **changes: Any) -> Plan:
    """Of the rounds after a release, for rows as any view shows them."""
    classes = LOSSES[loss]
    rows = np.random.default_rng(1).normal(size=(FEW, WIDTH))
    made = prepared(rows, np.arange(FEW) % classes, classes, loss=loss, **changes)
    assert made.stage is not None
    return made.stage.planned(WIDTH + changes["intercept"])


numbers = st.floats(-2.0, 2.0)


@given(
    data=st.data(),
    loss=st.sampled_from(sorted(LOSSES)),
    relation=st.sampled_from(RELATIONS),
    intercept=st.booleans(),
    bound=st.sampled_from([0.1, 1.0, 37.0]),
)
@settings(max_examples=300)
def test_no_release_lets_a_record_move_the_rounds_further_than_their_noise_covers(
    data, loss, relation, intercept, bound
):
    """Views of any released numbers, rows of any direction and length, models of any size."""
    plan = planned(loss, relation=relation, intercept=intercept, norm_bound=bound)
    released = data.draw(arrays(float, 2 * WIDTH, elements=st.floats(-1e3, 1e3))) * bound**2
    deviation = data.draw(st.sampled_from([0.0, 1e-6, 0.05, 0.5, 30.0])) * bound**2
    view = standard(released, deviation, bound, intercept, tight=data.draw(st.booleans()))
    rows = data.draw(arrays(float, (FEW, WIDTH), elements=numbers)) * bound
    other = data.draw(arrays(float, WIDTH, elements=numbers)) * bound
    targets, label = data.draw(arrays(int, FEW, elements=st.integers(0, LOSSES[loss] - 1))), data.draw(st.booleans())

    def shards(rows: FloatArray, targets: Any) -> Shards:
        encoded = plan.setting.problem.loss.encode(targets, LOSSES[loss])
        owners = np.zeros(len(rows), dtype=np.int64)
        return gather(rows, encoded, owners, norm_bound=bound, intercept=intercept, names=["one"])

    sides = [shards(rows, targets)]
    if relation == "replace":
        sides.append(shards(np.vstack([other, rows[1:]]), np.append(int(label), targets[1:])))
    else:
        sides.append(shards(rows[1:], targets[1:]))
    seen = [view.rows(side, intercept) for side in sides]
    assert (seen[0].norm_bound, seen[0].width) == (plan.setting.norm_bound, plan.setting.width)
    model = data.draw(arrays(float, (1, plan.setting.dimension), elements=st.floats(-30.0, 30.0)))
    setting = plan.local
    counts = [setting.query.total(side, model).rounded(setting.bounds.shift) for side in seen]
    assert np.linalg.norm((counts[0] - counts[1]).astype(float)) <= setting.sensitivity()
