"""How jobs are run, remembered and gone on with; settings by formula; how loud noise is."""

from __future__ import annotations

import itertools
import json
import platform
import subprocess
import sys

import numpy as np
import pytest

from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.reproducing import run as running
from dpadmm.reproducing.formulas import applied, of_power_flow, of_training, variance
from dpadmm.reproducing.outcome import Outcome
from dpadmm.reproducing.run import digest, run, run_all
from dpadmm.reproducing.target import Job
from dpadmm.spec.declare import Experiment

SETTINGS = {
    "source": "synthetic",
    "algorithm": "dp-admm",
    "agents": 4,
    "rounds": 6,
    "repeats": 2,
    "paper_noise": True,
    "epsilon": 0.5,
    "delta": 1e-3,
}


def job(**changes):
    return Job("train", "a curve", {}, {**SETTINGS, **changes})


@pytest.fixture
def calls(monkeypatch):
    """What is asked of `train`: one entry for each call."""
    found = []

    def noted(**settings):
        found.append(settings)
        return train(**settings)

    monkeypatch.setattr(running, "train", noted)
    return found


def same(one: Outcome, other: Outcome) -> None:
    """All but the time it took."""
    assert {**vars(one), "seconds": 0.0, "tracks": None} == {**vars(other), "seconds": 0.0, "tracks": None}
    assert set(one.tracks) == set(other.tracks)
    for metric in set(one.tracks) - {"seconds"}:
        np.testing.assert_equal(one.tracks[metric].mean, other.tracks[metric].mean)
        np.testing.assert_equal(one.tracks[metric].most, other.tracks[metric].most)


# -- remembering -------------------------------------------------------------------------------------------------------


def test_what_is_remembered_is_not_run_again(tmp_path, calls):
    (first,) = (found for _, found in run_all([job()], tmp_path))
    (again,) = (found for _, found in run_all([job()], tmp_path))
    assert len(calls) == 1
    np.testing.assert_equal(again.to_dict(), first.to_dict())
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]


@pytest.mark.parametrize("change", [{"epsilon": 0.6}, {"rounds": 5}, {"seed": 1}])
def test_changed_settings_are_run_anew(tmp_path, calls, change):
    list(run_all([job()], tmp_path))
    (found,) = (found for _, found in run_all([job(**change)], tmp_path))
    assert len(calls) == 2
    same(found, run(job(**change)))


def test_another_version_runs_it_anew(tmp_path, calls, monkeypatch):
    run(job(), tmp_path)
    monkeypatch.setattr(running, "__version__", "0.0.0")
    list(run_all([job()], tmp_path))
    assert len(calls) == 2


def test_the_last_round_of_a_power_flow_is_measured():
    pytest.importorskip("scs", reason="needs the extra 'power'")
    settings = {"case": "case14", "algorithm": "none", "rounds": 5, "measure_every": 2}
    found = run(Job("power-flow", "quiet", {}, settings))
    assert found.rounds == (2, 4, 5)
    assert len(found.tracks["objective"].mean) == 3


def test_a_broken_memory_is_run_anew(tmp_path, calls):
    list(run_all([job()], tmp_path))
    (tmp_path / f"{digest(job())}.json").write_text('{"rounds": [')
    list(run_all([job()], tmp_path))
    assert len(calls) == 2


class Interrupted(Exception):
    pass


def test_an_interrupted_job_goes_on_where_it_was(tmp_path, monkeypatch):
    seen = []

    def stopping(**settings):
        def stop(_, round, history):
            seen.append(round)
            if seen == [1, 2, 3, 4, 5]:
                raise Interrupted

        return train(progress=stop, **settings)

    monkeypatch.setattr(running, "CHECKPOINT_EVERY", 2)
    monkeypatch.setattr(running, "train", stopping)
    with pytest.raises(Interrupted):
        run(job(), tmp_path)
    found = run(job(), tmp_path)
    assert seen == [1, 2, 3, 4, 5, 5, 6]
    assert not (tmp_path / f"{digest(job())}.run").exists()
    monkeypatch.undo()
    same(found, run(job()))


def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path):
    folder = tmp_path / f"{digest(job())}.run"
    train(out=folder, **SETTINGS)
    kept = sorted(folder.iterdir())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        (folder / "status.json").write_text(json.dumps({"state": "running", "pid": other.pid, "host": platform.node()}))
        with pytest.raises(InputError, match=f"process {other.pid} is running the same"):
            run(job(), tmp_path)
        assert sorted(folder.iterdir()) == kept
        other.communicate(b"\n")
    same(run(job(), tmp_path), run(job()))


def test_what_another_run_left_is_begun_anew(tmp_path):
    train(out=tmp_path / f"{digest(job())}.run", **{**SETTINGS, "epsilon": 2.0})
    same(run(job(), tmp_path), run(job()))


def test_workers_find_the_same_numbers(tmp_path):
    jobs = [job(), job(algorithm="dpsgd")]
    alone = {digest(each): found for each, found in run_all(jobs, None)}
    together = {digest(each): found for each, found in run_all(jobs, tmp_path, workers=2)}
    assert len(together) == 2
    for name, found in together.items():
        same(found, alone[name])


def test_where_agents_send_gradients_all_have_the_model_of_the_server():
    found = run(job(algorithm="dpsgd"))
    assert found.tracks["train_loss_local"] == found.tracks["train_loss"]
    local = run(job())
    assert local.tracks["train_loss_local"] != local.tracks["train_loss"]


def test_an_outcome_says_what_is_claimed_and_what_is_true():
    found, quiet = (
        run(job()),
        run(Job("train", "", {}, {"source": "synthetic", "algorithm": "admm", "rounds": 1, "agents": 2})),
    )
    assert (found.private, found.repeats, found.delta, found.rounds) == (True, 2, 1e-3, (1, 2, 3, 4, 5, 6))
    assert found.claimed == pytest.approx(0.5 * np.sqrt(6 * np.log(1e3) / np.log(1250.0)))
    assert found.epsilon == pytest.approx(found.tracks["epsilon"].end)
    assert (quiet.private, quiet.epsilon, quiet.claimed) == (False, None, None)


# -- formulas ----------------------------------------------------------------------------------------------------------


# (penalty, agents, tau, epsilon, delta), then multiplier and radius, as the tables of 004 were once made with
CELLS = [
    ("zhou-xiang", ("l1", 10, 0.5, 0.1, 1e-6), 35.32535017900316, 1.7695757181176164),
    ("zhou-xiang", ("l2", 50, 0.9, 0.8, 1e-3), 1.7483701540088177, 3.202500678128606),
    ("zhou-xiang", ("l1", 20, 0.25, 0.3, 1e-3), 5.594784492828218, 2.6571108505904424),
    ("zhou-xiang", ("l2", 10, 0.1, None, 1e-3), None, 3.202808165793891),
    ("zhou-xiang-no-root", ("l1", 10, 0.5, 0.1, 1e-6), 3369.2769862268356, 4.128808833051393),
    ("zhou-xiang-no-root", ("l2", 50, 0.9, 0.8, 1e-3), 118.84831383827242, 3.4208966697415883),
    ("zhou-xiang-no-root", ("l1", 20, 0.25, 0.3, 1e-3), 380.3146042824718, 2.94657158689692),
]


@pytest.mark.parametrize(("formula", "cell", "multiplier", "radius"), CELLS)
def test_zhou_and_xiangs_noise_and_steps(formula, cell, multiplier, radius):
    penalty, agents, tau, epsilon, delta = cell
    given = {
        "formula": formula, "penalty": penalty, "agents": agents, "tau": tau, "epsilon": epsilon, "delta": delta,
        "basis": "cosine:10",
        "norm_bound": 3.0, "records": 100_000, "strength": 0.05 / agents,
    }  # fmt: skip
    made = applied({name: value for name, value in given.items() if value is not None})
    assert made.get("noise_multiplier") == (None if multiplier is None else pytest.approx(multiplier, rel=1e-12))
    assert made["radius"] == pytest.approx(radius, rel=1e-12)
    assert not {"formula", "epsilon", "records"} & set(made)


def test_zhangs_units_are_divided_by_what_its_records_weigh():
    plain = {"formula": "zhang", "topology": "complete:5", "rho": 0.22, "eta": 0.5}
    ours = {"topology": "complete:5", "strength": 0.22 / 8750.0, "rho": 0.5 / 1750.0}
    assert applied(plain) == pytest.approx(ours)
    made = applied(dict(plain, gamma=0.5, growth=1.02, alpha=2.0))
    assert made == ours | {"damping": 0.5 / 1750.0, "rho_schedule": "geometric:1.02", "alpha": (3500.0,)}


def test_zhangs_alpha_costs_what_its_paper_prints():
    """P(T) = K 2 C / B (alpha + 1.4 c_1 / (rho / N + 2 eta V)), theorem V.1, at 2,000 records for each of five."""
    settings = {
        "formula": "zhang", "source": "synthetic", "topology": "complete:5", "algorithm": "private-r-admm", "test": 0,
        "rounds": 4, "mechanism": "gamma-norm",
        "rho": 0.22, "eta": 1.0, "gamma": 0.5, "alpha": 2.0,
    }  # fmt: skip
    found = run(Job("train", "", {}, settings))
    assert found.claimed == pytest.approx(2 * 3500.0 / 2000.0 * (2.0 + 1.4 * 0.25 / (0.22 / 5 + 8.0)))


@pytest.mark.parametrize("algorithm", ["obj-g", "obj-l", "out-g", "out-l"])
def test_ryu_and_kims_own_noise_is_half_of_that_for_a_record_replaced_and_steps_are_the_same(algorithm):
    settings = {
        "source": "synthetic", "algorithm": algorithm, "agents": 4, "rounds": 3, "set": "box:0.5",
        "schedule": "ryu-kim", "epsilon": 0.3, "delta": 1e-5, "paper_noise": True,
    }  # fmt: skip
    ours, theirs = (
        prepare(Experiment().changed(**applied(each))).plan for each in (settings, settings | {"formula": "ryu-kim"})
    )
    scale = ours.noise[0].mechanism.noise_multiplier
    assert theirs.noise[0].mechanism.noise_multiplier == pytest.approx(scale / 2.0, rel=1e-6)
    for k in (1, 3):
        np.testing.assert_allclose(theirs.eta(k), ours.eta(k), rtol=1e-12)
    assert theirs.accounts().worst(1e-5).epsilon > 1.9 * ours.accounts().worst(1e-5).epsilon


def test_settings_without_a_formula_are_as_they_were_and_an_unknown_one_is_refused():
    assert applied({"rho": 1.0}) == {"rho": 1.0}
    with pytest.raises(InputError, match="unknown formula 'zang'"):
        applied({"formula": "zang"})


# -- how loud noise is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["obj-g", "obj-l", "out-g", "out-l"])
def test_the_expected_magnitude_is_that_of_drawn_noise(algorithm):
    """What a first step's result is beside its twin's is the noise, or the noise on the gradient times the gain."""
    rho, eta, runs = 0.5, 2.0, 300
    common = {"source": "synthetic", "agents": 4, "rounds": 1, "rho": rho, "schedule": f"fixed:{eta}", "set": "whole"}
    noisy = prepare(Experiment().changed(**common, algorithm=algorithm, epsilon=1.0, delta=1e-3, paper_noise=True))
    quiet = prepare(Experiment().changed(**common, algorithm="local-updates"))
    released = [
        next(rounds(cohort, SimulationState.of(cohort), InProcessExecutor())).agents.released.reshape(
            -1, 4, noisy.plan.setting.dimension
        )
        for cohort in (
            Cohort.of(noisy.plan, noisy.shards, range(runs), SeededRandomness(3)),
            Cohort.of(quiet.plan, quiet.shards, range(1), SeededRandomness(3)),
        )
    ]
    gain = 1.0 if algorithm.startswith("out") else 1.0 / (rho + 1.0 / eta)
    drawn = np.abs(released[0] - released[1]).mean(axis=2).sum(axis=1).mean() / gain
    (expected,) = of_training(noisy.plan, [1])
    assert drawn == pytest.approx(expected, rel=0.03)
    assert of_training(quiet.plan, [1]) is None


@pytest.mark.parametrize(("algorithm", "updates", "noise_on"), [("obj-g", 1, None), ("obj-l", 2, "loads")])
def test_the_expected_magnitude_in_power_flow_is_that_of_drawn_noise(algorithm, updates, noise_on):
    pytest.importorskip("scs", reason="needs the extra 'power'")
    from dpadmm.applications.power_flow.formulation import Formulation
    from dpadmm.applications.power_flow.terms import Terms

    decomposition, none, draws = running._zones("case14", 3), np.zeros(1, dtype=np.int64), itertools.count()
    terms = Terms(algorithm=algorithm, epsilon=0.5, delta=1e-2, paper_noise=True, updates=updates, noise_on=noise_on)
    protection = terms.protection()

    def noise(zone):
        bits = SeededRandomness(0).stream(none, none, next(draws), "noise")
        problem = Formulation.of(zone, "slack")
        found = protection.gradient(problem, np.zeros(problem.size), lambda _: bits)
        return found if noise_on is None else found[problem.entered]

    drawn = [np.concatenate([noise(zone) for zone in decomposition.zones]) for _ in range(60)]
    assert updates * np.abs(drawn).sum(axis=1).mean() == pytest.approx(of_power_flow(decomposition, terms), rel=0.05)
    assert np.var(drawn) == pytest.approx(variance(terms), rel=0.1)
