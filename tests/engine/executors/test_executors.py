"""Engines by name: wrong ones are refused before anything runs, and say what to do."""

import inspect
import json
import socket
from importlib import util

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.engine import executors as module
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.run import train
from dpadmm.errors import InputError


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ray", r"unknown engine 'ray'; there are: local, dask, .*tcp://HOST:8786"),
        ("", "unknown engine ''"),
        ("local:2", "unknown engine 'local:2'"),
        ("dask:", "after 'dask:' comes a number of workers"),
        ("dask:0", "after 'dask:' comes a number of workers"),
        ("dask:-1", "after 'dask:' comes a number of workers"),
        ("dask:²", "after 'dask:' comes a number of workers"),
        ("dask:many", "after 'dask:' comes a number of workers"),
        ("dask:http://host:80", "after 'dask:' comes a number of workers"),
        ("dask:tcp://host", "'tcp://host' is no address"),
        ("dask:tcp://:8786", "'tcp://:8786' is no address"),
        ("dask:tcp://host:99999", "'tcp://host:99999' is no address"),
    ],
)
def test_a_wrong_name_is_refused_before_any_data_is_read(name, message, monkeypatch, tmp_path):
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    monkeypatch.setattr("dpadmm.engine.run.prepare", None)
    with pytest.raises(InputError, match=message):
        train(engine=name, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("package", ["dask", "distributed"])
def test_without_the_extra_it_says_how_to_get_it(package, monkeypatch):
    found = util.find_spec
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == package else found(name))
    with pytest.raises(InputError, match=rf"needs the package '{package}'.*pip install 'dpadmm\[cluster\]'"):
        train(engine="dask")


def test_local_is_the_default_and_needs_nothing(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with module.open_executor("local") as executor:
        assert isinstance(executor, InProcessExecutor)
    assert inspect.signature(train).parameters["engine"].default == "local"
    (option,) = (o for o in get_command(app).commands["train"].params if "--engine" in o.opts)
    assert option.default == "local"
    assert option.show_default


@pytest.fixture
def short(monkeypatch):
    module = pytest.importorskip("dpadmm.engine.executors.dask.cluster", reason="needs the extra 'cluster'")
    monkeypatch.setattr(module, "TIMEOUT", 0.5)
    return module


@pytest.mark.parametrize("listens", [False, True], ids=["nobody", "a stranger"])
def test_a_scheduler_that_is_not_there_is_named(listens, short, experiment, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        if listens:  # and never says a word
            free.listen()
        port = free.getsockname()[1]
        with pytest.raises(
            InputError, match=rf"'dask:tcp://127.0.0.1:{port}': no scheduler answered within .* seconds"
        ):
            train(experiment(), engine=f"dask:tcp://127.0.0.1:{port}", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_scheduler_without_workers_is_refused(short, experiment):
    distributed = pytest.importorskip("distributed")
    nobody = distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=":0")
    with nobody, pytest.raises(InputError, match=r"has no workers; start some with 'dask worker tcp://"):
        train(experiment(), engine=f"dask:{nobody.scheduler_address}")


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            {"numpy": "1.0"},
            r"E: worker W could compute other numbers: numpy 1.0 there, 2.0 here. Install the same there",
        ),
        ({"sources": "abc"}, "sources abc there, def here"),
        ({"dpadmm": None}, "dpadmm None there"),
        (
            ModuleNotFoundError("No module named 'dpadmm'"),
            r"cannot run dpadmm \(ModuleNotFoundError: No .*dpadmm\[cluster\] 3",
        ),
    ],
    ids=str,
)
def test_workers_that_could_compute_other_numbers_are_refused(told, message, short):
    mine = {"dpadmm": "3", "numpy": "2.0", "sources": "def"}
    assert short.fitting("E", {"A": dict(mine), "B": OSError("left"), "C": mine}, mine) == ["A", "C"]
    theirs = mine | told if isinstance(told, dict) else told
    with pytest.raises(InputError, match=message):
        short.fitting("E", {"A": mine, "W": theirs}, mine)


def test_what_must_be_the_same_is_told_by_real_workers(short, cluster, dask):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster, set_as_default=False) as client:
        told = client.run(short.facts)
    assert set(map(str, told.values())) == {str(short.facts())}
    assert {"Python", "dpadmm", "numpy", "numba", "sources of dpadmm"} < set(short.facts())


def test_workers_of_our_own_are_started_and_ended(experiment, same):
    """One for each core, or as many as asked for; nothing of them is left."""
    pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    spec = experiment(rounds=2)
    me = pytest.importorskip("psutil").Process()
    before, seen = set(me.children(recursive=True)), set()

    def look_around(*_):
        seen.update(set(me.children(recursive=True)) - before)

    same(train(spec), train(spec, engine="dask:1", progress=look_around))
    assert seen
    left = [
        process for process in seen if process.is_running() and "resource_tracker" not in "".join(process.cmdline())
    ]
    assert left == []


def test_workers_are_started_once_for_all_groups_of_runs(experiment, same, short, monkeypatch):
    monkeypatch.setattr("dpadmm.engine.run.NUMBERS_AT_ONCE", 1)
    started, cluster = [], short.LocalCluster

    def counted(**given):
        started.append(given["n_workers"])
        return cluster(**given)

    monkeypatch.setattr(short, "LocalCluster", counted)
    spec, groups = experiment(rounds=2, repeats=3), set()
    same(train(spec), train(spec, engine="dask:1", progress=lambda first, *_: groups.add(first)))
    assert groups == {0, 1, 2}
    assert started == [1]


def test_nothing_is_started_for_a_spec_that_cannot_run(experiment, short, monkeypatch):
    monkeypatch.setattr(short, "LocalCluster", None)
    with pytest.raises(InputError, match="rounds"):
        train(experiment(), rounds=0, engine="dask:1")


def test_the_command_line_says_it_in_one_line():
    result = CliRunner().invoke(app, ["train", "--engine", "ray"], catch_exceptions=False)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: unknown engine 'ray'")


def test_the_command_line_runs_on_workers(short, dask):
    options = ["train", "--data", "tiny", "--agents", "5", "--rounds", "3", "--algorithm", "admm", "--json"]
    local, there = (
        json.loads(CliRunner().invoke(app, [*options, *more], catch_exceptions=False).stdout)
        for more in ([], ["--engine", dask])
    )
    assert local.pop("seconds") > 0
    assert there.pop("seconds") > 0
    assert there == local
