"""An interrupted simulation goes on exactly where it was, and only where it belongs."""

import csv
import json

import numpy as np
import pytest

from dpadmm.engine import run as module
from dpadmm.engine.cohort import SimulationState
from dpadmm.engine.output import checkpoint
from dpadmm.engine.run import train
from dpadmm.errors import InputError


class Interrupted(Exception):
    pass


def stop_at(run, round):
    def progress(first, reached, history):
        if (first, reached) == (run, round):
            raise Interrupted

    return progress


def interrupted(spec, out, run=0, round=8, every=3):
    with pytest.raises(Interrupted):
        train(spec, out=out, checkpoint_every=every, progress=stop_at(run, round))


CASES = pytest.mark.parametrize(
    "changes",
    [
        {"algorithm": "dp-admm"},
        {"algorithm": "dp-admm", "penalty": "l1"},
        {"algorithm": "pvp"},
        {"algorithm": "pvp", "penalty": "l1"},
        {"algorithm": "dvp"},
        {"algorithm": "dpsgd"},
        {"algorithm": "admm"},
        {"algorithm": "obj-g", "updates": 3},
        {"algorithm": "obj-g", "set": "ball:0.2", "rho_schedule": "growing:0.3:0.1:2"},
        {"algorithm": "obj-l", "rho": 0.5},
        {"algorithm": "out-g", "updates": 2, "set": "box:0.1"},
        {"algorithm": "local-updates", "updates": 3},
        {"algorithm": "dp-accelerated", "loss": "capped-logistic"},
        {"algorithm": "dp-accelerated", "momentum": 0.3, "set": "box:0.1"},
        {"algorithm": "accelerated"},
    ],
    ids=lambda changes: "-".join(map(str, changes.values())),
)


@CASES
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(changes, experiment, same, tmp_path):
    spec = experiment(repeats=2, **changes)
    whole = train(spec, out=tmp_path / "whole")
    interrupted(spec, tmp_path / "parts")
    assert (tmp_path / "parts" / "checkpoint-0.npz").exists()
    told = []
    resumed = train(
        spec, out=tmp_path / "parts", resume=True, progress=lambda first, round, history: told.append(round)
    )
    assert told[0] == 7  # from the checkpoint of round 6, not from the start
    same(whole, resumed)
    files = {path.name for path in (tmp_path / "parts").iterdir()}
    assert files == {"spec.toml", "plan.json", "status.json", "history.csv", "model.json", "result.json"}
    for name in ("spec.toml", "history.csv", "model.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    summaries = [json.loads((tmp_path / part / "result.json").read_text()) for part in ("whole", "parts")]
    for summary in summaries:
        del summary["seconds"], summary["out"]
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize("part", ["server.dual", "agents.dual", "agents.point", "server.common"])
def test_what_a_server_first_run_keeps_is_all_needed(part, experiment, same, tmp_path):
    """Without any of it the rest would be another run: so the test above would notice if it were lost."""
    spec = experiment("obj-g", updates=3, repeats=2)
    whole = train(spec)
    interrupted(spec, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-0.npz"
    with np.load(path) as file:
        arrays = dict(file)
    assert arrays["server.dual"].shape == arrays["server.common"].shape == whole.models.shape
    assert (np.abs(arrays[part]) > 0).any()
    np.savez(path, **arrays | {part: np.zeros_like(arrays[part])})
    resumed = train(spec, out=tmp_path / "run", resume=True)
    assert (resumed.models != whole.models).all()
    assert resumed.history.rounds == whole.history.rounds


@pytest.mark.parametrize("part", ["server.common", "server.point", "server.mean"])
def test_what_an_accelerated_run_keeps_is_all_needed(part, experiment, tmp_path):
    spec = experiment("dp-accelerated", repeats=2)
    whole = train(spec)
    interrupted(spec, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-0.npz"
    with np.load(path) as file:
        arrays = dict(file)
    np.testing.assert_array_equal(arrays["model"], arrays["server.mean"])
    assert (np.abs(arrays[part]) > 0).all()
    np.savez(path, **arrays | {part: np.zeros_like(arrays[part])})
    assert (train(spec, out=tmp_path / "run", resume=True).models != whole.models).all()


def test_a_servers_mean_dual_is_that_of_its_agents_after_resuming(experiment, tmp_path):
    """Kept on both sides and sent by nobody, also across an interruption."""
    spec = experiment("obj-g", updates=3, repeats=2)
    interrupted(spec, tmp_path / "run", round=11, every=5)
    with np.load(tmp_path / "run" / "checkpoint-0.npz") as file:
        server, agents = file["server.dual"], file["agents.dual"]
    assert np.abs(server).max() > 1e-4
    np.testing.assert_allclose(server, agents.reshape(2, 5, -1).mean(axis=1), rtol=1e-9, atol=1e-13)


def test_every_group_of_runs_resumes_from_its_own_checkpoint(experiment, same, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 1)
    spec = experiment("pvp", repeats=3)
    whole = train(spec)
    interrupted(spec, tmp_path / "run", run=1)
    assert {path.name for path in (tmp_path / "run").glob("*.npz")} == {"checkpoint-0.npz", "checkpoint-1.npz"}
    told = []
    resumed = train(
        spec, out=tmp_path / "run", resume=True, progress=lambda first, round, history: told.append((first, round))
    )
    same(whole, resumed)
    assert told == [(1, k) for k in range(7, 13)] + [(2, k) for k in range(1, 13)]


def test_interrupted_before_the_first_checkpoint_starts_again(experiment, same, tmp_path):
    spec = experiment()
    interrupted(spec, tmp_path / "run", round=2)
    same(train(spec), train(spec, out=tmp_path / "run", resume=True))


def test_interrupted_after_the_last_round_finishes(experiment, same, tmp_path, monkeypatch):
    spec = experiment()

    def failing(*_):
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(module, "_result", failing)
        with pytest.raises(Interrupted):
            train(spec, out=tmp_path / "run")
    same(train(spec), train(spec, out=tmp_path / "run", resume=True))


def test_another_spec_is_refused(experiment, tmp_path):
    interrupted(experiment(), tmp_path / "run")
    for changes in ({"rounds": 13}, {"seed": 8}, {"measure_every": 2}, {"epsilon": 1.0}):
        with pytest.raises(InputError, match="another spec"):
            train(experiment(**changes), out=tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_spec_is_refused(experiment, tmp_path):
    """Even where somebody put it into the right folder."""
    interrupted(experiment(), tmp_path / "one")
    interrupted(experiment(seed=8), tmp_path / "two")
    (tmp_path / "two" / "checkpoint-0.npz").replace(tmp_path / "one" / "checkpoint-0.npz")
    with pytest.raises(InputError, match=r"checkpoint-0.npz' belongs to another spec"):
        train(experiment(), out=tmp_path / "one", resume=True)


def damaged(kind, data):
    if kind == "truncated":
        return data[: len(data) // 2]
    if kind == "empty":
        return b""
    if kind == "garbage":
        return b"not a checkpoint" * 20
    if kind == "headless":
        return b"PK\x03\x04" + b"\0" * 200
    middle = data.index(b"NUMPY") + 200  # inside an array's numbers
    return data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]


@pytest.mark.parametrize("kind", ["truncated", "empty", "garbage", "headless", "flipped"])
def test_a_damaged_checkpoint_is_refused_by_name(kind, experiment, tmp_path):
    spec = experiment()
    interrupted(spec, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-0.npz"
    path.write_bytes(damaged(kind, path.read_bytes()))
    with pytest.raises(InputError, match=r"checkpoint '.*checkpoint-0.npz' cannot be read"):
        train(spec, out=tmp_path / "run", resume=True)


def test_a_checkpoint_with_something_missing_is_refused_by_name(experiment, tmp_path):
    spec = experiment()
    interrupted(spec, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-0.npz"
    np.savez(path, other=np.ones(3))
    with pytest.raises(InputError, match=r"checkpoint '.*checkpoint-0.npz' cannot be read"):
        train(spec, out=tmp_path / "run", resume=True)


def test_a_checkpoint_of_another_series_of_numbers_is_refused_with_the_reason(experiment, tmp_path):
    """0.1.0 wrote no series: its noise and sums were others."""
    spec = experiment()
    interrupted(spec, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint-0.npz"
    with np.load(path) as file:
        kept = dict(file)
    for series, said in (
        (None, r"was made with 0\.1\.0; noise and sums have changed"),
        (3, "was made with a later version"),
    ):
        arrays = {name: array for name, array in kept.items() if name != "series"}
        np.savez(path, **(arrays if series is None else {**arrays, "series": np.array(series)}))
        with pytest.raises(InputError, match=said):
            train(spec, out=tmp_path / "run", resume=True)


def test_a_finished_folder_is_refused(experiment, tmp_path):
    train(experiment(), out=tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for resume in (False, True):
        with pytest.raises(InputError, match="holds a finished run"):
            train(experiment(), out=tmp_path / "run", resume=resume)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_folder_with_something_else_in_it_is_refused(experiment, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not empty"):
        train(experiment(), out=tmp_path)
    with pytest.raises(InputError, match="no interrupted run to resume"):
        train(experiment(), out=tmp_path, resume=True)
    with pytest.raises(InputError, match="is a file"):
        train(experiment(), out=tmp_path / "thesis.tex")
    interrupted(experiment(), tmp_path / "run")
    with pytest.raises(InputError, match="not empty"):
        train(experiment(), out=tmp_path / "run")


def test_checkpoints_count_rounds(experiment):
    with pytest.raises(InputError, match="checkpoint_every 0"):
        train(experiment(), checkpoint_every=0)


def test_history_reads_back_exactly(experiment, tmp_path):
    result = train(experiment(repeats=2), out=tmp_path / "run")
    with (tmp_path / "run" / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert list(rows[0]) == ["run", "round", *result.history.metrics]
    for name in result.history.metrics:
        table = np.array([float(row[name]) for row in rows]).reshape(2, 12).T
        np.testing.assert_array_equal(table, result.history[name])
    assert [int(row["round"]) for row in rows[:12]] == result.history.rounds


def test_the_saved_model_is_the_first_run_s(experiment, tmp_path):
    result = train(experiment(repeats=2, intercept=True), out=tmp_path / "run")
    model = json.loads((tmp_path / "run" / "model.json").read_text())
    assert model["coefficients"] == result.models[0].tolist()
    assert model["features"] == ["x0", "x1", "x2", "x3", "(intercept)"]
    assert (model["fully_accounted"], model["simulated"], model["private"]) == (True, True, False)
    assert result.out == str(tmp_path / "run")


def test_a_checkpoint_that_lacks_something_is_refused_by_name(tmp_path):
    path = tmp_path / "checkpoint.npz"
    with path.open("wb") as file:
        np.savez(file, digest=np.array("d"), series=np.array(2), round=np.array(1))
    with pytest.raises(InputError, match="lacks 'released'; start the run again"):
        checkpoint.load(path, "d", SimulationState.from_arrays)
