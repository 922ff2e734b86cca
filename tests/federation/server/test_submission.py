"""A submitted run: what is refused before anything is written, and what whoever watches it is told."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dpadmm._files import write_json
from dpadmm.engine.output.status import process
from dpadmm.errors import ClusterError, InputError
from dpadmm.federation.cards import OWNER
from dpadmm.federation.identity import Identity
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.service import NOTE
from dpadmm.federation.server.submission import follow, submit
from dpadmm.spec.toml import loads

RUN = '[run]\nalgorithm = "dp-admm"\nrounds = 6\nepsilon = 1.0\ndelta = 1e-6\n'


@pytest.fixture
def study(tmp_path: Path, small_federation: ModuleType) -> Federation:
    """A federation of two owners."""
    made = Federation.create(tmp_path / "study", host="localhost", columns=small_federation.SCHEMA)
    for name in ("north", "south"):
        made.add(Identity.create(name, OWNER).card)
    return made


def begin(study: Federation, text: str = RUN, name: str = "trial", base: Path | None = None) -> RunFolder:
    return submit(study, loads(text), name, base or study.folder)


def test_all_owners_take_part_unless_some_are_named(study: Federation) -> None:
    assert begin(study).experiment.federation.owners == ("north", "south")
    some = begin(study, RUN + '[federation]\nowners = ["south"]\n', "some")
    assert some.experiment.federation.owners == ("south",)
    assert some.status()["state"] == "submitted"


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (RUN + '[federation]\nowners = ["north", "east"]\n', "trial", "east"),
        (RUN + '[federation]\npublic_test = "nowhere.csv"\n', "trial", "nowhere.csv"),
        (RUN.replace("dp-admm", "no-admm"), "trial", "no-admm"),
        (RUN, "", "run name"),
        (RUN, "../other", "run name"),
        (RUN, ".hidden", "run name"),
        (RUN, "x" * 101, "run name"),
        (RUN, "two\nlines", "run name"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_anything_is_written(
    study: Federation, text: str, name: str, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        begin(study, text, name)
    assert list(study.runs.iterdir()) == []


def test_a_federation_without_owners_says_how_to_add_them(study: Federation) -> None:
    for name in ("north", "south"):
        study.remove(name)
    with pytest.raises(InputError, match="dpadmm federation add"):
        begin(study)


def test_paths_in_a_spec_start_from_its_folder(study: Federation, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "public.csv").write_text("age\n")
    monkeypatch.chdir(tmp_path)
    folder = begin(study, RUN + '[federation]\npublic_test = "public.csv"\n', base=Path("specs"))
    assert folder.experiment.federation.public_test == str(tmp_path / "specs" / "public.csv")


def test_the_same_command_again_takes_up_the_same_run(study: Federation) -> None:
    folder = begin(study)
    folder.tell("running", round=3, rounds=6)
    assert begin(study).status()["round"] == 3
    assert folder.status()["state"] == "running"
    for state in ("refused", "failed"):
        folder.tell(state, "an owner said no", round=3)
        again = begin(study).status()
        assert (again["state"], again["round"]) == ("submitted", 3)
    with pytest.raises(InputError, match="holds another run"):
        begin(study, RUN.replace("rounds = 6", "rounds = 7"))
    (folder.path / "result.json").write_text("{}")
    folder.tell("finished")
    with pytest.raises(InputError, match="is finished"):
        begin(study)


def test_whoever_watches_is_told_every_change_and_the_end(study: Federation) -> None:
    folder, told = begin(study), []
    write_json(study.folder / NOTE, {"address": "localhost:1", "owners": {}, **process()})
    thread = threading.Thread(
        target=lambda: told.append(follow(study, folder, lambda s: told.append(s["state"]), 60.0))
    )
    thread.start()
    for state in ("joining", "running", "finished"):
        time.sleep(0.4)
        if state == "finished":
            (folder.path / "result.json").write_text("{}")
        folder.tell(state)
    thread.join(10.0)
    assert told[:-1] == ["submitted", "joining", "running", "finished"]
    assert told[-1]["state"] == "finished"


def test_it_is_said_where_no_coordinator_runs(study: Federation) -> None:
    folder, told = begin(study), []
    with pytest.raises(ClusterError, match="dpadmm coordinator start"):
        follow(study, folder, told.append, 0.3)
    assert "dpadmm coordinator start" in told[-1]["message"]
    note = {"address": "localhost:1", "owners": {}, **process(), "pid": 2**22 + os.getpid()}  # nobody's
    write_json(study.folder / NOTE, note)
    with pytest.raises(ClusterError, match="dpadmm coordinator start"):
        follow(study, folder, told.append, 0.0)
    assert json.loads((folder.path / "status.json").read_text())["state"] == "submitted"  # it goes on when it can


def test_jobs_that_begin_and_end_without_a_round_are_no_progress(study: Federation) -> None:
    folder, over = begin(study), threading.Event()

    def restless() -> None:
        while not over.wait(0.05):
            folder.tell("interrupted", "again", round=2)
            folder.tell("joining", round=2)

    thread = threading.Thread(target=restless)
    thread.start()
    with pytest.raises(ClusterError, match="nothing has moved"):
        follow(study, folder, lambda status: None, 1.0)
    over.set()
    thread.join()
