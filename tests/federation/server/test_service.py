"""The coordinator's process: which runs it begins when, with whom, and what it does when a job ends early."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dpadmm.federation.server import service as module
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.service import Service, presence
from dpadmm.spec.toml import loads


class Network:
    """Owners that come and go as a test says."""

    def __init__(self, *names: str) -> None:
        self.heard: dict[str, float] = dict.fromkeys(names, time.time())
        self.owing: set[str] = set()
        self.sessions: list[tuple[str, ...]] = []

    @property
    def free(self) -> frozenset[str]:
        return frozenset(self.heard.keys() - self.owing)

    def session(self, names: Iterable[str]) -> Any:
        self.sessions.append(tuple(names))
        return self.sessions[-1]

    def back(self, name: str) -> None:
        self.owing.discard(name)


class Made:
    """A folder of runs, and a service whose jobs do what a test says."""

    def __init__(self, home: Path, federation: ModuleType) -> None:
        self.home, self.federation = home, federation
        self.network = Network(*federation.OWNERS)
        self.told: list[str] = []
        self.jobs: list[str] = []
        self.job: Callable[[RunFolder, Any], None] = lambda folder, session: self.finish(folder)
        self.service = Service(home, self.network, self._begin, self.told.append)

    def _begin(self, folder: RunFolder, session: Any) -> None:
        self.jobs.append(folder.path.name)
        self.job(folder, session)

    def finish(self, folder: RunFolder) -> None:
        (folder.path / "result.json").write_text("{}")
        folder.tell("finished", round=6)

    def submit(self, name: str = "study", **changes: Any) -> RunFolder:
        experiment = loads(self.federation.SPEC).changed(**changes)
        return RunFolder.create(self.home / name, experiment, self.federation.SCHEMA)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.service.look()
            self.service.wait(5.0)

    def until(self, condition: Callable[[], Any]) -> None:
        end = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < end
            self.service.look()
            time.sleep(0.01)


@pytest.fixture
def made(tmp_path: Path, small_federation: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Made:
    """All owners are there, and nobody rests between jobs."""
    monkeypatch.setattr(module, "_FIRST_REST", 0.0)
    return Made(tmp_path, small_federation)


def test_a_run_that_is_submitted_is_taken_up_once(made: Made) -> None:
    made.look()
    folder = made.submit()
    made.look(5)
    assert made.jobs == ["study"]
    assert made.network.sessions == [("ahorn", "birke", "eiche")]
    assert folder.status()["state"] == "finished"
    assert any("finished" in text for text in made.told)


def test_a_run_waits_for_all_its_owners_and_says_for_whom(made: Made) -> None:
    del made.network.heard["birke"], made.network.heard["eiche"]
    folder = made.submit()
    made.look(3)
    assert made.jobs == []
    assert folder.status()["message"] == "waiting for birke, eiche"
    assert folder.status()["state"] == "submitted"
    made.network.heard |= {"birke": time.time(), "eiche": time.time()}
    made.look(2)
    assert made.jobs == ["study"]


@pytest.mark.parametrize(("stragglers", "begins"), [("wait", False), ("reuse", True), ("skip", True)])
def test_a_run_that_can_do_without_some_goes_on_once_terms_are_agreed(
    made: Made, stragglers: str, begins: bool
) -> None:
    folder = made.submit(stragglers=stragglers, min_owners=2)
    del made.network.heard["eiche"]
    made.look()
    assert made.jobs == []
    (folder.path / "terms.json").write_text("{}")
    made.look()
    assert bool(made.jobs) == begins
    assert made.network.sessions == ([("ahorn", "birke")] if begins else [])


def test_fewer_owners_than_the_terms_need_are_waited_for(made: Made) -> None:
    folder = made.submit(stragglers="reuse", min_owners=2)
    (folder.path / "terms.json").write_text("{}")
    made.network.heard = {"ahorn": time.time()}
    made.look()
    assert made.jobs == []


def test_after_an_interruption_the_lost_owner_is_waited_for_until_it_owes_no_answer(made: Made) -> None:
    made.job = lambda folder, session: folder.tell("interrupted", "birke did not answer", lost=["birke"])
    made.network.owing.add("birke")
    folder = made.submit()
    made.look(4)
    assert made.jobs == ["study"]
    assert folder.status()["message"] == "waiting for birke"
    made.job = lambda folder, session: made.finish(folder)
    made.network.back("birke")
    made.look(2)
    assert made.jobs == ["study", "study"]
    assert folder.status()["state"] == "finished"
    assert "interrupted: birke did not answer" in (folder.path / "events.txt").read_text()


@pytest.mark.parametrize("state", ["refused", "failed"])
def test_a_run_that_is_over_is_left_alone_until_it_is_submitted_again(made: Made, state: str) -> None:
    made.job = lambda folder, session: folder.tell(state, "an owner said no")
    folder = made.submit()
    made.look(4)
    assert made.jobs == ["study"]
    folder.tell("submitted")
    made.look(2)
    assert made.jobs == ["study", "study"]


def test_a_run_whose_result_was_written_but_not_told_to_the_owners_is_taken_up(made: Made) -> None:
    folder = made.submit()
    (folder.path / "result.json").write_text("{}")
    folder.tell("running", round=6)
    made.look(2)
    assert made.jobs == ["study"]


def test_runs_that_another_process_left_are_taken_up(made: Made) -> None:
    for name, state in {"one": "running", "two": "joining", "three": "waiting", "four": "interrupted"}.items():
        made.submit(name).tell(state)
    made.look(3)
    assert sorted(made.jobs) == ["four", "one", "three", "two"]


def test_a_job_that_fails_in_an_unknown_way_fails_the_run(made: Made) -> None:
    def fail(folder: RunFolder, session: Any) -> None:
        raise KeyError("step")

    made.job = fail
    folder = made.submit()
    made.look(4)
    assert made.jobs == ["study"]
    assert folder.status()["state"] == "failed"
    assert "KeyError" in folder.status()["message"]


def test_a_folder_that_cannot_be_read_keeps_no_other_run_waiting(made: Made) -> None:
    broken = made.submit("broken")
    (broken.path / "spec.toml").write_text("= nothing")
    torn = made.submit("torn")
    (torn.path / "status.json").write_text("{")
    made.submit("whole")
    made.look(3)
    assert made.jobs == ["whole"]
    assert sum("cannot be taken up" in text for text in made.told) == 2


def test_a_run_that_gets_nowhere_is_tried_less_and_less_often(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_REST", 0.05)
    made.job = lambda folder, session: folder.tell("interrupted", "nothing came of it")
    made.submit()
    began = time.monotonic()
    made.until(lambda: len(made.jobs) == 4)
    assert time.monotonic() - began >= 0.1 + 0.2 + 0.4
    gained = iter(range(1, 100))
    made.job = lambda folder, session: folder.tell("interrupted", "after a round", round=next(gained))
    made.until(lambda: len(made.jobs) == 7)
    assert made.service._known["study"].tries == 0


class Running:
    """A job that goes on without an owner until it is asked to pause."""

    def __init__(self, made: Made) -> None:
        self.over, self.pauses, self.network = threading.Event(), 0, made.network
        made.job = self

    def __call__(self, folder: RunFolder, session: Any) -> None:
        self.network.owing.add("birke")
        folder.tell("running", round=3, silent=["birke"])
        while not self.over.wait(0.005):
            if folder.asked_to_pause:
                folder.pause(False)
                self.pauses += 1
                folder.tell("interrupted", "an owner is back", round=3)
                return
        folder.tell("refused", "the test ends here")


def test_a_job_is_asked_to_pause_when_an_owner_that_fell_silent_is_back(made: Made) -> None:
    folder = made.submit(stragglers="reuse")
    (folder.path / "terms.json").write_text("{}")
    running = Running(made)
    made.until(lambda: folder.status()["state"] == "running")
    for _ in range(5):
        made.service.look()
    assert running.pauses == 0
    made.network.back("birke")
    made.until(lambda: running.pauses == 1)
    made.until(lambda: len(made.jobs) == 2)
    running.over.set()
    made.look()


def test_an_owner_that_comes_and_goes_cannot_keep_a_run_from_going_on(made: Made) -> None:
    folder = made.submit(stragglers="skip")
    (folder.path / "terms.json").write_text("{}")
    running = Running(made)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        made.network.back("birke")
        made.service.look()
        time.sleep(0.005)
    assert running.pauses == 1
    running.over.set()
    made.look()


def test_at_most_a_few_jobs_run_at_the_same_time(made: Made) -> None:
    hold, inside, most = threading.Event(), [0], [0]

    def job(folder: RunFolder, session: Any) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        hold.wait(10.0)
        inside[0] -= 1
        made.finish(folder)

    made.job = job
    for number in range(7):
        made.submit(f"run-{number}")
    made.until(lambda: inside[0] == 4)
    made.service.look()
    hold.set()
    made.until(lambda: len(made.jobs) == 7)
    made.service.wait(5.0)
    assert most == [4]


def test_the_note_says_who_serves_and_who_is_connected(made: Made, tmp_path: Path) -> None:
    note, stop = tmp_path / module.NOTE, threading.Event()
    assert presence(note) is None
    thread = threading.Thread(target=made.service.serve, args=(note, "localhost:8002", stop))
    thread.start()
    made.until(lambda: presence(note) is not None)
    told: Mapping[str, Any] = presence(note) or {}
    assert (told["address"], set(told["owners"])) == ("localhost:8002", {"ahorn", "birke", "eiche"})
    stop.set()
    thread.join()
    assert presence(note) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"owners": {}, "pid": 1, "host": 3}', '{"owners": 3}'])
def test_a_note_that_is_none_is_not_believed(tmp_path: Path, text: str) -> None:
    (tmp_path / "note").write_text(text)
    found = presence(tmp_path / "note")
    assert found is None or found == json.loads(text)
