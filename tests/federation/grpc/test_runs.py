"""Whole runs over streams: the same bits as in one process and as a simulation, and what a lost connection costs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from coordinated_runs import RING, all_once, coefficients
from dialled_federation import Town
from streams import until

from dpadmm.federation.client.dispatch import Dispatcher
from dpadmm.federation.frames import Frame


@pytest.fixture
def town(small_federation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Town]:
    """Three owners with ample budgets, all of them connected."""
    monkeypatch.setattr("dpadmm.federation.server.enrolment.POLL", 0.05)
    monkeypatch.setattr("dpadmm.federation.server.coordinator.GLANCE", 0.02)
    lived = small_federation.SmallFederation(tmp_path)
    for name in lived.owners:
        lived.allow(name, epsilon=400.0)
    with Town(lived) as made:
        for name in lived.owners:
            made.enter(name)
        yield made


@pytest.mark.parametrize("changes", [{}, {"algorithm": "pvp"}, RING], ids=["dp-admm", "pvp", "ring"])
def test_a_run_over_streams_equals_the_simulation_bit_for_bit(town: Town, changes: dict[str, Any]) -> None:
    folder = town.lived.folder(**changes)
    assert town.finish(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), town.lived.simulated(**changes).models[0])
    all_once(town.lived)


def test_a_run_in_one_process_and_one_over_streams_are_the_same(
    town: Town, small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = small_federation.SmallFederation(tmp_path_factory.mktemp("other"))
    for name in other.owners:
        other.allow(name, epsilon=400.0)
    direct, carried = other.folder(**RING), town.lived.folder(**RING)
    assert other.run(direct)["state"] == town.finish(carried)["state"] == "finished"
    assert np.array_equal(coefficients(direct), coefficients(carried))


@pytest.mark.parametrize("changes", [{"rounds": 40}, {**RING, "rounds": 40}], ids=["star", "ring"])
def test_an_owner_that_is_restarted_during_a_run_costs_no_release_twice(
    town: Town, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lived = town.lived.folder(**changes, timeout=2.0), town.lived
    answered = Dispatcher.answer

    def slowly(self: Dispatcher, method: str, given: Any) -> Any:
        if method in ("answer_step", "hear"):
            time.sleep(0.005)  # so that the restart falls into the run
        return answered(self, method, given)

    monkeypatch.setattr(Dispatcher, "answer", slowly)
    over = threading.Event()

    def restart() -> None:
        while len(lived.steps("birke")) < 10:
            time.sleep(0.005)
        town.leave("birke")
        town.enter("birke")
        over.set()

    thread = threading.Thread(target=restart)
    thread.start()
    status = town.finish(folder)
    thread.join()
    assert over.is_set()
    assert status["state"] == "finished", status
    assert np.array_equal(coefficients(folder), lived.simulated(**changes).models[0])
    all_once(lived, 40)


def test_a_coordinator_that_is_restarted_goes_on_from_its_checkpoint(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, lived = town.lived.folder(rounds=60), town.lived
    answered = Dispatcher.answer

    def slowly(self: Dispatcher, method: str, given: Any) -> Any:
        time.sleep(0.005 if method == "answer_step" else 0.0)
        return answered(self, method, given)

    monkeypatch.setattr(Dispatcher, "answer", slowly)
    first = town.serve()
    first.look()
    until(lambda: (folder.status().get("round") or 0) >= 5)
    town.hub.close()
    first.wait(10.0)
    assert folder.status()["state"] == "interrupted"
    town.open()
    assert town.finish(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), lived.simulated(rounds=60).models[0])
    all_once(lived, 60)


def test_the_coordinator_sees_no_release_of_a_graph_but_the_last_ones(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What neighbours tell each other passes through it, sealed."""
    passed: list[bytes] = []
    honest = Frame.loads.__func__  # type: ignore[attr-defined]

    def kept(cls: Any, data: Any) -> Frame:
        frame: Frame = honest(cls, data)
        if frame.method in ("relay", "hear", "reply"):
            passed.append(frame.body)
        return frame

    monkeypatch.setattr(Frame, "loads", classmethod(kept))
    heard: list[bytes] = []
    from dpadmm.federation.client.peer import Inbox

    put = Inbox.put
    monkeypatch.setattr(Inbox, "put", lambda self, *given: (heard.append(given[2]), put(self, *given))[1])
    folder = town.lived.folder(**RING)
    assert town.finish(folder)["state"] == "finished"
    assert len(heard) == 3 * 2 * 5  # nodes, neighbours, rounds but the last
    assert not any(value in body for value in heard for body in passed)


def test_an_owner_whose_card_is_removed_stops_the_run(town: Town) -> None:
    folder = town.lived.folder()
    town.pins = {name: pin for name, pin in town.pins.items() if name != "eiche"}
    until(lambda: "eiche" not in town.hub.present)
    service = town.serve()
    for _ in range(5):
        service.look()
    assert folder.status()["message"] == "waiting for eiche"
