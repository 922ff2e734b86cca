"""What a run says of itself while it goes on, and what is found of one that cannot say anything any more."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from dpadmm.engine import run as module
from dpadmm.engine.output.history import History
from dpadmm.engine.output.status import StatusWriter, alive, process
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import ConvergenceError, InputError
from dpadmm.spec.projected_cost import described


class Stop(Exception):
    pass


def table(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def status(folder):
    return json.loads((folder / "status.json").read_text())


@pytest.fixture
def chatty(monkeypatch):
    """Every round is told of at once."""
    monkeypatch.setattr("dpadmm.engine.output.status.INTERVAL", 0.0)


@pytest.mark.parametrize("algorithm", ["dp-admm", "private-r-admm"])
def test_what_was_appended_is_what_is_written_in_the_end(algorithm, experiment, tmp_path, chatty, monkeypatch):
    """Of every round when it is over, in groups of runs that go one after the other, and the same rows."""
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 1)
    out, seen = tmp_path / "run", []
    names = ["history.csv"] + (["nodes.csv"] if algorithm == "private-r-admm" else [])

    def look(first, round, history):
        if round > 1:  # the row of this one is appended when it is over
            last = table(out / "history.csv")[-1]
            seen.append((int(last[0]), int(last[1])))
            assert status(out)["state"] == "running"
            assert (status(out)["run"], status(out)["round"]) == (first, round - 1)

    finish = module.Folder.finish
    appended = {}

    def keep(folder, result):
        appended.update({name: table(out / name) for name in names})
        finish(folder, result)

    monkeypatch.setattr(module.Folder, "finish", keep)
    train(experiment(algorithm, repeats=2), out=out, progress=look)
    assert seen == [(run, round) for run in range(2) for round in range(1, 12)]
    for name in names:
        assert appended[name] == table(out / name)
    assert (status(out)["state"], status(out)["round"], status(out)["rounds"]) == ("finished", 12, 12)


def test_runs_side_by_side_are_appended_round_by_round_and_written_run_by_run(experiment, tmp_path, chatty):
    out, lengths = tmp_path / "run", []

    def look(first, round, history):
        if round > 1:
            lengths.append(len(table(out / "history.csv")))

    train(experiment(repeats=3), out=out, progress=look)
    assert lengths == [1 + 3 * k for k in range(1, 12)]
    rows = table(out / "history.csv")[1:]
    assert [row[:2] for row in rows] == [[str(run), str(round)] for run in range(3) for round in range(1, 13)]


def test_few_words_a_second(experiment, tmp_path, monkeypatch):
    """Twelve rounds take no time at all: a word in the beginning, one after the last round, one in the end."""
    told = []
    monkeypatch.setattr(
        "dpadmm.engine.output.status.write_json", lambda path, value: told.append((value["state"], value["round"]))
    )
    monkeypatch.setattr("dpadmm.engine.output.status.INTERVAL", 60.0)
    train(experiment(), out=tmp_path / "run")
    assert told == [("running", 0), ("running", 0), ("running", 12), ("finished", 12)]


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (KeyboardInterrupt(), "interrupted", ""),
        (InputError("the set is empty."), "crashed", "InputError: the set is empty."),
        (ConvergenceError("stuck"), "crashed", "ConvergenceError: stuck"),
        (ValueError("record 17: Mr Smith, HIV positive"), "crashed", "ValueError"),
    ],
)
def test_how_a_run_ended(error, state, words, experiment, same, tmp_path):
    spec, out = experiment(), tmp_path / "run"

    def progress(first, round, history):
        if round == 5:
            raise error

    with pytest.raises(type(error)):
        train(spec, out=out, progress=progress, checkpoint_every=2)
    said = status(out)
    assert (said["state"], said["error"], said["round"]) == (state, words, 4)
    assert "Smith" not in (out / "status.json").read_text()
    assert [row[1] for row in table(out / "history.csv")[1:]] == ["1", "2", "3", "4", "5"]
    resumed = train(spec, out=out, resume=True)
    same(train(spec), resumed)
    assert status(out)["state"] == "finished"
    assert [row[1] for row in table(out / "history.csv")[1:]] == [str(k) for k in range(1, 13)]


def test_a_resumed_run_begins_its_table_anew(experiment, tmp_path, chatty):
    """What was measured after the last checkpoint is measured again, and stands once."""
    out, seen = tmp_path / "run", []

    def stop(first, round, history):
        if round == 6:
            raise Stop

    with pytest.raises(Stop):
        train(experiment(), out=out, progress=stop, checkpoint_every=4)
    assert len(table(out / "history.csv")) == 7

    def look(first, round, history):
        seen.append([row[1] for row in table(out / "history.csv")[1:]])

    train(experiment(), out=out, resume=True, progress=look)
    assert seen[0] == ["1", "2", "3", "4"]
    assert seen[-1] == [str(k) for k in range(1, 12)]


def test_without_a_folder_nothing_is_said(experiment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(experiment())
    assert not list(tmp_path.iterdir())


def test_a_full_disk_does_not_hide_what_ended_the_run(tmp_path):
    def run():
        with StatusWriter(tmp_path, 3, 1):
            (tmp_path / "status.json").unlink()
            tmp_path.rmdir()
            raise Stop

    with pytest.raises(Stop):
        run()


def test_processes():
    assert alive(process())
    assert alive({})
    assert alive({"pid": 2**22 + 1, "host": "another machine"})
    assert not alive({**process(), "born": "in another life"})
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    told = {**process(), "pid": child.pid}
    del told["born"]
    assert alive(told)
    os.kill(child.pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while alive(told) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(told)  # although nobody has looked at what became of it yet
    child.wait()
    assert not alive(told)


def test_rows_of_no_metrics():
    assert list(History([1, 2]).rows()) == []


# -- what is known before the first round ------------------------------------------------------------------------------


def test_costs_after_each_round_are_the_accounts(experiment):
    """Of agents that differ, on penalties that grow: the slow way gives the same."""
    spec = experiment("m-admm-penalty", rho_schedule="geometric:1.1", epsilon=None, epsilons=(0.5, 1, 2, 2, 4))
    prepared = prepare(spec)
    told = described(prepared.plan, prepared.experiment.run, prepared.shards.names)["privacy"]["budgets"]
    assert told["rounds"] == [1, 3, 5, 8, 10, 12]  # rounds that all differ are costly to account for
    members = [agent for group in told["of"] for agent in group["agents"]]
    assert sorted(members) == list(range(5))
    for group in told["of"]:
        for agent in group["agents"]:
            assert group["limit"] == spec.run.epsilons[agent]
            slow = [prepared.plan.accounts(round).guarantee(agent, 1e-5).epsilon for round in told["rounds"]]
            assert group["epsilon"] == pytest.approx(slow, rel=1e-9)


def test_many_rounds_and_agents_are_told_of_in_part(experiment):
    prepared = prepare(
        experiment(rounds=400, agents=150, epsilon=None, epsilons=tuple(1 + k / 100 for k in range(150)))
    )
    told = described(prepared.plan, prepared.experiment.run, prepared.shards.names)["privacy"]["budgets"]
    assert (len(told["of"]), told["left_out"]) == (100, 50)
    assert len(told["rounds"]) == 10
    assert told["rounds"][-1] == 400
    limits = [group["limit"] for group in told["of"]]
    assert (min(limits), max(limits)) == (1.0, 2.49)
    for group in told["of"]:
        assert 0.99 * group["limit"] < group["epsilon"][-1] <= group["limit"]


def test_rounds_that_are_told_of_are_measured_ones(experiment):
    prepared = prepare(experiment(rounds=100))
    told = described(prepared.plan, prepared.experiment.run, prepared.shards.names, every=7)["privacy"]["budgets"]
    assert told["rounds"] == [*range(7, 100, 7), 100]


def test_nothing_is_claimed_where_there_is_no_noise(experiment):
    prepared = prepare(experiment(noise_multiplier=0.0, delta=1e-5))
    told = described(prepared.plan, prepared.experiment.run, prepared.shards.names)["privacy"]
    assert told["total"]["epsilon"] is None
    assert set(told["budgets"]["of"][0]["epsilon"]) == {None}
    prepared = prepare(experiment("admm"))
    assert described(prepared.plan, prepared.experiment.run, prepared.shards.names)["privacy"] is None
