"""FLARE's two ends of a run without FLARE's processes: an engine that hands on what the real one would carry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from coordinated_runs import RING, all_once, coefficients
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_constant import ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from dpadmm.federation.client.setup import read_invitation
from dpadmm.federation.flare import ASK, RELAY
from dpadmm.federation.flare.agent import AgentExecutor
from dpadmm.federation.flare.coordinator import RunController
from dpadmm.federation.frames import decode, encode
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.spec.columns import Schema

JOB = "43397a13-7292-4051-a8a9-b36a7df80a35"


class Engine:
    """One party's engine; all of them know each other."""

    def __init__(self, name: str, parties: dict[str, Engine]) -> None:
        self.name, self.parties = name, parties
        self.topics: dict[str, Callable[..., Shareable]]
        parties[name] = self
        self.deploy(JOB)

    def deploy(self, job: str) -> None:
        """A further job, which FLARE gives processes of its own."""
        self.topics = {}
        self.manager = FLContextManager(engine=self, identity_name=self.name, job_id=job)

    def new_context(self) -> FLContext:
        return self.manager.new_context()

    def get_clients(self) -> list[Any]:
        return [SimpleNamespace(name=name) for name in self.parties if name != "server"]

    def register_aux_message_handler(self, topic: str, message_handle_func: Callable[..., Shareable]) -> None:
        self.topics[topic] = message_handle_func

    def send_aux_request(
        self,
        targets: list[str],
        topic: str,
        request: Shareable,
        timeout: float,
        fl_ctx: FLContext,
        optional: bool = False,
    ) -> dict[str, Shareable]:
        found = {}
        for name in targets:
            handler = self.parties[name].topics.get(topic)
            with self.parties[name].new_context() as theirs:
                peer = FLContext()
                peer.set_prop(ReservedKey.IDENTITY_NAME, self.name, private=False)
                theirs.set_peer_context(peer)
                unknown = make_reply(ReturnCode.TOPIC_UNKNOWN)
                found[name] = handler(topic=topic, request=request, fl_ctx=theirs) if handler else unknown
        return found

    def fire_event(self, event: str, fl_ctx: FLContext) -> None:
        self.fired = event


class Town:
    """A coordinator's folder, and an executor for each owner."""

    def __init__(self, lived: Any, home: Path, columns: Schema) -> None:
        self.lived = lived
        self.federation = Federation.create(home / "federation", host="localhost", columns=columns)
        self.parties: dict[str, Engine] = {}
        self.executors = {}
        self.server = Engine("server", self.parties)
        for name in lived.owners:
            owner = lived.owner(name)
            owner.trust(read_invitation(self.federation.invitation))
            self.federation.add(lived.identities[name].card)
            self.executors[name] = AgentExecutor(str(owner.path))
            Engine(name, self.parties)

    def begin(self, name: str) -> None:
        with self.parties[name].new_context() as fl_ctx:
            self.executors[name].handle_event(EventType.START_RUN, fl_ctx)

    def end(self, name: str) -> None:
        with self.parties[name].new_context() as fl_ctx:
            self.executors[name].handle_event(EventType.END_RUN, fl_ctx)

    def folder(self, **changes: Any) -> RunFolder:
        experiment = self.lived.experiment(**changes)
        return RunFolder.create(self.federation.runs / "study", experiment, self.federation.schema)

    def job(self, abort: Signal | None = None) -> None:
        controller = RunController(str(self.federation.folder), "study")
        with self.server.new_context() as fl_ctx:
            controller.start_controller(fl_ctx)
            controller.control_flow(abort or Signal(), fl_ctx)


@pytest.fixture
def town(small_federation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    monkeypatch.setattr("dpadmm.federation.server.enrolment.POLL", 0.05)
    monkeypatch.setattr("dpadmm.federation.server.coordinator.GLANCE", 0.02)
    monkeypatch.setattr("dpadmm.federation.flare.coordinator._START", 2.0)
    lived = small_federation.SmallFederation(tmp_path)
    for name in lived.owners:
        lived.allow(name, epsilon=400.0)
    made = Town(lived, tmp_path, small_federation.SCHEMA)
    for name in lived.owners:
        made.begin(name)
    yield made
    for name in lived.owners:
        made.end(name)


@pytest.mark.parametrize("changes", [{}, {"algorithm": "pvp"}, RING], ids=["dp-admm", "pvp", "ring"])
def test_a_run_over_flares_messages_equals_the_simulation_bit_for_bit(town: Town, changes: dict[str, Any]) -> None:
    folder = town.folder(**changes)
    town.job()
    assert folder.status()["state"] == "finished", folder.status()
    assert np.array_equal(coefficients(folder), town.lived.simulated(**changes).models[0])
    all_once(town.lived)


def test_a_job_that_is_aborted_is_followed_by_one_that_goes_on(town: Town) -> None:
    folder, abort = town.folder(rounds=40), Signal()
    answered = town.parties["ahorn"].topics[ASK]
    count = 0

    def slowly(**given: Any) -> Shareable:
        nonlocal count
        count += 1
        if count == 20:
            abort.trigger(True)
        return answered(**given)

    town.parties["ahorn"].topics[ASK] = slowly
    town.job(abort)
    assert folder.status()["state"] == "interrupted"
    assert town.server.fired == EventType.FATAL_SYSTEM_ERROR  # FLARE shows the job as failed
    for name, engine in town.parties.items():
        if name != "server":
            town.end(name)
        engine.deploy("another job")
    for name in town.lived.owners:
        town.begin(name)
    town.job()
    assert folder.status()["state"] == "finished", folder.status()
    assert np.array_equal(coefficients(folder), town.lived.simulated(rounds=40).models[0])
    all_once(town.lived, 40)


def test_an_owner_whose_site_has_another_name_does_not_begin(town: Town) -> None:
    town.end("ahorn")
    other = Engine("linde", town.parties)
    with other.new_context() as fl_ctx:
        town.executors["ahorn"].handle_event(EventType.START_RUN, fl_ctx)
    assert other.topics == {}
    assert other.fired == EventType.FATAL_SYSTEM_ERROR
    assert "must be the owner's" in town.lived.owner("ahorn").events(1)[0]["reason"]


def test_an_agent_that_runs_elsewhere_does_not_begin_here(town: Town) -> None:
    town.end("ahorn")
    with town.lived.owner("ahorn").running():
        town.parties["ahorn"].topics.clear()
        town.begin("ahorn")
        assert town.parties["ahorn"].topics == {}


def test_tasks_of_flare_are_not_done(town: Town) -> None:
    with town.parties["ahorn"].new_context() as fl_ctx:
        reply = town.executors["ahorn"].execute("train", Shareable(), fl_ctx, Signal())
    assert reply.get_return_code() == ReturnCode.TASK_UNKNOWN


def test_letters_of_owners_that_run_nothing_together_are_not_passed_on(town: Town) -> None:
    town.folder(**RING)
    town.job()
    heard = threading.Event()
    town.parties["birke"].topics[ASK] = lambda **_: heard.set() or Shareable()
    for run, receivers in (("other", {"birke": b"x"}), ("study", {"linde": b"x"})):
        body = encode({"run": run, "round": 1, "letters": receivers, "timeout": 1.0})
        with town.parties["ahorn"].new_context() as fl_ctx:
            found = town.parties["ahorn"].send_aux_request(["server"], RELAY, Shareable({"body": body}), 1.0, fl_ctx)
        assert decode(found["server"]["body"]) == {"told": []}
    assert not heard.is_set()
