"""Nodes without a server: what they take from whom, and that a walk which was lost ends with the same bits."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from handlers import handler, join, log

from dpadmm.engine.output.model import Model
from dpadmm.errors import NOT_ALLOWED, InputError, Refused
from dpadmm.federation.client.peer import Inbox, PeerRuns, Turns
from dpadmm.federation.messages import to_bytes
from dpadmm.privacy.ledger.verify import verify

RING = {"algorithm": "private-r-admm", "topology": "ring:3"}
PATH = {"algorithm": "private-r-admm", "topology": "path:3"}
ONES = np.ones(4)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.federation.server.coordinator.GLANCE", 0.005)


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    made = small_federation.SmallFederation(tmp_path)
    for name in small_federation.OWNERS:
        made.allow(name, epsilon=400.0)
    return made


@pytest.fixture
def inbox(lived: Any) -> Inbox:
    """Of Birke, between Ahorn and Eiche."""
    return Inbox("birke", lived.terms(**PATH))


# -- the inbox ---------------------------------------------------------------------------------------------------------


def test_an_inbox_hears_its_neighbours_and_nobody_else(lived: Any, inbox: Inbox) -> None:
    assert inbox.neighbours == {"ahorn": 0, "eiche": 2}
    end = Inbox("eiche", lived.terms(**PATH))
    assert end.neighbours == {"birke": 1}
    for sender in ("birke", "linde", "server", "", None, 1):
        with pytest.raises(Refused, match="is no neighbour here"):
            inbox.put(sender, 1, to_bytes(ONES))  # type: ignore[arg-type]
    with pytest.raises(Refused, match="ahorn is no neighbour here"):
        end.put("ahorn", 1, to_bytes(ONES))
    with pytest.raises(InputError, match="no neighbours"):
        Inbox("birke", lived.terms())


@pytest.mark.parametrize("round", [0, -1, 7, 10**30, True, 1.0, "1", None, [1]])
def test_there_are_no_other_rounds_than_those_agreed_on(inbox: Inbox, round: Any) -> None:
    with pytest.raises(Refused, match="no such round"):
        inbox.put("ahorn", round, to_bytes(ONES))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (None, "no release"),
        ("1" * 32, "no release"),
        (ONES, "no release"),
        (b"", "0 numbers, not 4"),
        (to_bytes(ONES)[:-1], "numbers, not 4"),
        (to_bytes(np.ones(5)), "5 numbers, not 4"),
        (to_bytes(ONES * np.nan), "not finite"),
        (to_bytes(ONES * -np.inf), "not finite"),
        (to_bytes(ONES * 1e30), "has norm"),
        (to_bytes(ONES * 1e308), "has norm"),
    ],
)
def test_nonsense_is_not_kept(inbox: Inbox, data: Any, said: str) -> None:
    with pytest.raises(Refused, match=f"ahorn, round 2: .*{said}"):
        inbox.put("ahorn", 2, data)
    inbox.put("eiche", 2, to_bytes(ONES))
    with pytest.raises(Refused, match="ahorn did not tell its release of round 2 within 0 s"):
        inbox.wait(2, 0.0)


def test_a_neighbour_tells_one_release_of_a_round(inbox: Inbox) -> None:
    inbox.put("ahorn", 1, to_bytes(ONES))
    inbox.put("ahorn", 1, to_bytes(ONES))
    with pytest.raises(Refused, match="ahorn has told two different releases of round 1"):
        inbox.put("ahorn", 1, to_bytes(ONES + 1e-15))
    inbox.put("ahorn", 2, to_bytes(2.0 * ONES))
    inbox.put("eiche", 1, to_bytes(3.0 * ONES))
    np.testing.assert_array_equal(inbox.wait(1, 0.0), [ONES, 0.0 * ONES, 3.0 * ONES])


def test_who_is_late_is_named(inbox: Inbox) -> None:
    with pytest.raises(Refused, match=r"ahorn, eiche did not tell its release of round 1 within 0.01 s\."):
        inbox.wait(1, 0.01)
    inbox.put("ahorn", 1, to_bytes(ONES))
    with pytest.raises(Refused, match=r"^eiche did not tell its release of round 1"):
        inbox.wait(1, 0.01)


def test_a_release_that_comes_while_it_is_waited_for_is_taken(inbox: Inbox) -> None:
    inbox.put("ahorn", 1, to_bytes(ONES))
    with ThreadPoolExecutor(1) as other:
        waited = other.submit(inbox.wait, 1, 30.0)
        inbox.put("eiche", 1, to_bytes(ONES))
        assert waited.result(timeout=30.0).shape == (3, 4)


def test_what_was_used_is_forgotten_but_for_the_last_round(inbox: Inbox) -> None:
    for round in range(1, 5):
        for name in ("ahorn", "eiche"):
            inbox.put(name, round, to_bytes(round * ONES))
        inbox.wait(round, 0.0)
    assert sorted(inbox._kept) == [3, 4]
    np.testing.assert_array_equal(inbox.wait(3, 0.0)[0], 3.0 * ONES)


# -- runs that are under way -------------------------------------------------------------------------------------------


def test_run_is_started_once_and_asked_about() -> None:
    runs, gate, begun = PeerRuns(), threading.Event(), []

    def run_rounds() -> dict[str, Any]:
        begun.append(1)
        assert gate.wait(30.0)
        return {"value": b"end"}

    assert "not under way" in runs.end("study")["refused"]  # type: ignore[index]
    for _ in range(3):
        assert runs.begin("study", run_rounds) == {"running": "study"}
        assert runs.end("study") is None
    gate.set()
    assert runs._begun["study"].result(30.0) == {"value": b"end"}
    assert runs.end("study") == {"value": b"end"}
    assert len(begun) == 1
    runs.begin("study", lambda: {"refused": "again"})
    runs._begun["study"].result(30.0)
    assert runs.end("study") == {"refused": "again"}


def _here(call: Callable[[], Any]) -> Any:
    """A turn in this thread."""
    return call()


# -- runs that are lost ------------------------------------------------------------------------------------------------


def stops_telling(line: Any, last: dict[str, int]) -> None:
    """The nodes of `last` tell no release after that round: they are gone, and their neighbours wait."""
    plain: Callable[..., bool] = line.carry
    line.carry = lambda sender, receiver, run, round, sealed: (
        round <= last.get(sender, 10**9) and plain(sender, receiver, run, round, sealed)
    )


@pytest.mark.parametrize("changes", [RING, PATH], ids=["ring", "path"])
@pytest.mark.parametrize("last", [{"birke": 2}, {"ahorn": 0}, {"ahorn": 3, "eiche": 1}])
def test_nodes_at_different_rounds_begin_again_at_the_lowest_and_end_with_the_same_bits(
    lived: Any, small_federation: ModuleType, changes: dict[str, Any], last: dict[str, int]
) -> None:
    folder, line = lived.folder(timeout=0.3, **changes), lived.line()
    stops_telling(line, last)
    status = lived.run(folder, line)
    assert status["state"] == "interrupted"
    for desk in line.desks.values():
        desk._peer_runs._begun["study"].result(30.0)
    reached = {name: len(lived.steps(name)) for name in small_federation.OWNERS}
    assert min(reached.values()) < 6
    line = lived.line()
    assert lived.run(folder, line)["state"] == "finished"
    starts = {call["start"] for _, method, call in line.calls if method == "run_rounds"}
    assert starts == {min(reached.values())}
    assert np.array_equal(Model.load(folder.path).coefficients, lived.simulated(**changes).models[0])
    for name in small_federation.OWNERS:
        assert lived.steps(name) == ["1", "2", "3", "4", "5", "6"]
        assert verify(lived.ledger(name)) == []


def test_a_node_that_never_tells_stops_the_run_with_its_name(lived: Any, small_federation: ModuleType) -> None:
    folder, line = lived.folder(timeout=0.2, **RING), lived.line()
    plain = line.carry
    line.carry = lambda sender, *letter: sender == "eiche" or plain(sender, *letter)  # the coordinator lies
    status = lived.run(folder, line)
    assert status["state"] == "interrupted"
    assert "eiche did not tell its release of round 1 within 0.2 s" in status["message"]
    assert {name: lived.steps(name) for name in ("ahorn", "birke")} == {"ahorn": ["1"], "birke": ["1"]}


def test_a_node_that_tells_its_neighbours_different_releases_stops_the_run(lived: Any) -> None:
    """Whoever believed the first in one job does not believe the second in the next, and releases nothing for it."""
    folder, line = lived.folder(timeout=0.3, **RING), lived.line()
    letters: list[Any] = []

    def carry(sender: str, receiver: str, run: str, round: int, sealed: bytes) -> bool:
        if sender == "eiche":
            mine = line.desks[sender]._handler._letters[run][1]
            told = line.desks[receiver]._handler._letters[run][1].opened(sender, round, sealed)
            sealed = mine.sealed(receiver, round, to_bytes(np.frombuffer(told) + 1.0))
        letters.append(sealed)
        return bool(line.hear(sender, receiver, run, round, sealed))

    line.carry = carry
    line.reaches = lambda name, method, call: method != "rounds_status"
    lived.run(folder, line)
    for desk in line.desks.values():
        desk._peer_runs._begun["study"].result(30.0)
    before = lived.steps("ahorn")
    assert len(before) > 1
    # As after a crash that set everybody back to the first round: the truth is now told to who has heard a lie.
    terms = lived.terms(**RING)
    desks = {name: handler(lived, name) for name in lived.owners}
    for desk in desks.values():
        join(lived, desk, "study", terms)
    digest = terms.digest
    for name in ("birke", "eiche"):
        value = lived.ledger(name).find("study", "1").value
        sealed = desks[name]._letters["study"][1].sealed("ahorn", 1, to_bytes(value))
        assert desks["ahorn"].hear("study", name, 1, sealed) == {"heard": 1}
    reply = desks["ahorn"].run_rounds("study", digest, 0, 0.1, lambda run, round, sent, timeout: list(sent), _here)
    assert "answered for other inputs" in reply["refused"]
    assert lived.steps("ahorn") == before


def test_a_node_whose_budget_does_not_suffice_is_named_before_anything_is_spent(
    lived: Any, small_federation: ModuleType
) -> None:
    lived.allow("eiche", epsilon=2.9)  # of the 3 that the terms have for it
    spec = small_federation.SPEC.replace("epsilon = 2.0\ndelta = 1e-6", "epsilons = [1.0, 2.0, 3.0]\ndelta = 1e-6")
    line = lived.line()
    status = lived.run(lived.folder(spec, **RING), line)
    assert status["state"] == "refused"
    assert status["message"] == f"eiche: {NOT_ALLOWED}"
    assert [lived.steps(name) for name in lived.owners] == [[]] * 3
    assert [lived.ledger(name).spent() for name in lived.owners] == [{}] * 3
    assert [bool(lived.ledger(name).runs()) for name in lived.owners] == [True, True, False]
    for name in ("ahorn", "birke"):  # what was set aside can be had back
        assert lived.ledger(name).committed()
        assert line.ask("finish", {name: {"run": "study", "seals": {}}}, 1.0)[name]["finished"] == "study"
        assert lived.ledger(name).committed() == {}
    status = lived.run(lived.folder(spec, "again", **RING))
    assert status["message"] == f"eiche: {NOT_ALLOWED}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"epsilon": 0.5}, "its owner allows 0.5"),
        ({"algorithms": ["pvp"]}, "algorithm 'private-r-admm' is not allowed"),
    ],
)
def test_policy_made_stricter_while_rounds_go_on_holds_at_once(lived: Any, change: dict[str, Any], said: str) -> None:
    folder, line = lived.folder(timeout=0.5, **RING), lived.line()
    plain = line.carry

    def carry(sender: str, receiver: str, run: str, round: int, sealed: bytes) -> bool:
        if (sender, round) == ("eiche", 2):
            lived.allow("eiche", **change)
        return bool(plain(sender, receiver, run, round, sealed))

    line.carry = carry
    assert lived.run(folder, line)["state"] == "interrupted"
    for desk in line.desks.values():
        desk._peer_runs._begun["study"].result(30.0)
    assert lived.steps("eiche") == ["1", "2"]
    assert max(len(lived.steps(name)) for name in lived.owners) <= 3
    assert any(entry["kind"] == "refused" and said in entry["reason"] for entry in log(lived, "eiche"))


def test_nodes_say_how_far_they_are(lived: Any) -> None:
    folder, line = lived.folder(**RING), lived.line()
    seen: list[dict[str, Any]] = []

    def tamper(name: str, method: str, reply: Any) -> Any:
        if method == "rounds_status":
            seen.append(json.loads((folder.path / "status.json").read_text()))
        return reply

    line.tamper = tamper
    assert lived.run(folder, line)["state"] == "finished"
    assert {status["state"] for status in seen} == {"running"}
    assert {status["rounds"] for status in seen} == {6}
    with (folder.path / "nodes.csv").open() as file:
        assert len(file.readlines()) == 4
    assert line.ask("rounds_status", {name: {"run": "study"} for name in line.desks}, 1.0).keys() == line.desks.keys()
    assert {desk._handler._inbox("study").round for desk in line.desks.values()} == {6}


def test_turns_are_taken_in_one_thread() -> None:
    with ThreadPoolExecutor(1) as thread:
        turn = Turns(thread)
        assert turn(threading.get_ident) == turn(threading.get_ident) != threading.get_ident()
        with pytest.raises(Refused, match="no"):
            turn(lambda: (_ for _ in ()).throw(Refused("no")))
