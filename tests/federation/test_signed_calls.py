"""Calls that carry the coordinator's signature: the same run bit for bit, and nothing from anybody else."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from coordinated_runs import all_once, coefficients

from dpadmm.federation.cards import REQUEST, TERMS
from dpadmm.federation.frames import decode, encode
from dpadmm.federation.server.coordinator import Coordinator
from dpadmm.federation.signed_calls import WAITING, Desk, Session, tell

JOB = "43397a13-7292-4051-a8a9-b36a7df80a35"


class Echo:
    """A dispatcher that says what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.go = threading.Event()
        self.go.set()

    def answer(self, method: str, given: Any) -> Any:
        self.asked.append((method, given))
        self.go.wait(10.0)
        return {"said": method}


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    return small_federation.SmallFederation(tmp_path)


@pytest.fixture
def sent(lived: Any) -> dict[str, bytes]:
    """What a session of this job sends to each owner that is asked to introduce itself."""
    kept: dict[str, bytes] = {}

    def send(requests: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        kept.update(requests)
        return {}

    Session(lived.coordinator, JOB, lived.owners, send).ask("introduce", {name: {} for name in lived.owners}, 1.0)
    return kept


def desk(lived: Any, owner: str = "ahorn", job: str = JOB) -> tuple[Echo, Desk]:
    echo = Echo()
    return echo, Desk(echo, lived.coordinator.card, owner, job)  # type: ignore[arg-type]


def test_a_run_by_signed_calls_equals_the_simulation_bit_for_bit(lived: Any) -> None:
    dispatchers = lived.desks()
    desks = {name: Desk(each, lived.coordinator.card, name, JOB) for name, each in dispatchers.items()}
    session = Session(
        lived.coordinator, JOB, lived.owners, lambda requests, _: {n: desks[n].answer(d) for n, d in requests.items()}
    )
    folder = lived.folder()
    Coordinator("study", folder, session, lived.pins).run()
    assert folder.status()["state"] == "finished"
    assert np.array_equal(coefficients(folder), lived.simulated().models[0])
    all_once(lived)
    for each in dispatchers.values():
        each.close()


def test_a_call_is_answered_once_by_the_owner_it_is_for_and_in_its_job(lived: Any, sent: dict[str, bytes]) -> None:
    echo, here = desk(lived)
    assert decode(here.answer(sent["ahorn"])) == {"said": "introduce"}
    others = (desk(lived, job="another job"), desk(lived, owner="birke"))
    for asked, place in ((echo, here), *others):
        assert list(decode(place.answer(sent["ahorn"]))) == ["refused"]
        assert len(asked.asked) == (asked is echo)


def test_nobody_else_can_ask_an_owner(lived: Any) -> None:
    """Neither with the key of another owner, nor with a signature of the coordinator for another purpose."""
    echo, here = desk(lived)
    parts = ("ahorn", JOB, "1", "introduce", encode({}))
    forged = [each.sign(REQUEST, *parts) for each in lived.identities.values()]
    forged += [lived.coordinator.sign(TERMS, *parts), b"", bytes(64)]
    for signature in forged:
        reply = decode(here.answer(encode([1, "introduce", encode({}), signature])))
        assert list(reply) == ["refused"]
    assert echo.asked == []


@pytest.mark.parametrize("part", [0, 1, 2])
def test_a_call_that_was_changed_on_the_way_is_refused(lived: Any, sent: dict[str, bytes], part: int) -> None:
    echo, here = desk(lived)
    found = decode(sent["ahorn"])
    found[part] = (2, "finish", encode({"run": "study"}))[part]
    assert list(decode(here.answer(encode(found)))) == ["refused"]
    assert echo.asked == []


@pytest.mark.parametrize("data", [None, 7, "introduce", b"", b"PK\x03\x04", encode([1, "introduce"]), bytes(10_000)])
def test_what_is_no_call_is_refused(lived: Any, data: Any) -> None:
    echo, here = desk(lived)
    assert list(decode(here.answer(data))) == ["refused"]
    assert echo.asked == []


def test_so_many_requests_wait_and_no_more(lived: Any) -> None:
    echo, here = desk(lived)
    echo.go.clear()
    kept: list[bytes] = []
    session = Session(lived.coordinator, JOB, ("ahorn",), lambda requests, _: kept.extend(requests.values()) or {})
    for _ in range(WAITING + 3):
        session.ask("introduce", {"ahorn": {}}, 1.0)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda data=each: found.append(decode(here.answer(data)))) for each in kept]
    for each in threads:
        each.start()
    for each in threads[: WAITING + 3]:
        each.join(0.2)
    assert [reply for reply in found if "refused" in reply] == found
    assert len(found) == 2
    echo.go.set()
    for each in threads:
        each.join(10.0)
    assert sum("said" in reply for reply in found) == WAITING + 1
    assert len(echo.asked) == WAITING + 1


def test_who_answers_what_is_no_message_is_missing(lived: Any) -> None:
    answers = {"ahorn": b"nonsense", "birke": encode([]), "eiche": encode({"said": 1})}
    session = Session(lived.coordinator, JOB, lived.owners, lambda *_: answers)
    assert session.ask("introduce", {name: {} for name in lived.owners}, 1.0) == {"eiche": {"said": 1}}


# -- letters between neighbours ----------------------------------------------------------------------------------------


@pytest.fixture
def together(lived: Any) -> tuple[Session, list[str]]:
    """A session in which Ahorn and Birke run the rounds of a graph together, and who was told something."""
    told: list[str] = []

    def send(requests: Mapping[str, bytes], seconds: float) -> Mapping[str, bytes]:
        told.extend(requests)
        return dict.fromkeys(requests, encode({"heard": 1}))

    session = Session(lived.coordinator, JOB, lived.owners, send)
    session.ask("run_rounds", {name: {"run": "study"} for name in ("ahorn", "birke")}, 1.0)
    told.clear()
    return session, told


def test_a_letter_reaches_a_neighbour_and_its_sender_hears_of_that(together: tuple[Session, list[str]]) -> None:
    session, told = together
    assert tell(lambda data, _: session.pass_on("ahorn", data), "study", 1, {"birke": b"sealed"}, 5.0) == ["birke"]
    assert told == ["birke"]


@pytest.mark.parametrize(
    ("sender", "run", "receivers"),
    [
        ("ahorn", "other", ["birke"]),
        ("ahorn", "study", ["eiche"]),
        ("ahorn", "study", ["birke", "eiche"]),
        ("ahorn", "study", ["ahorn"]),
        ("eiche", "study", ["birke"]),
        ("linde", "study", ["birke"]),
    ],
)
def test_letters_go_only_between_owners_that_run_rounds_together(
    together: tuple[Session, list[str]], sender: str, run: str, receivers: list[str]
) -> None:
    session, told = together
    letters = dict.fromkeys(receivers, b"sealed")
    assert tell(lambda data, _: session.pass_on(sender, data), run, 1, letters, 5.0) == []
    assert told == []


@pytest.mark.parametrize("data", [None, b"", b"nonsense", encode([]), encode({"run": "study"})])
def test_what_is_no_letter_is_passed_on_to_nobody(together: tuple[Session, list[str]], data: Any) -> None:
    session, told = together
    assert decode(session.pass_on("ahorn", data)) == {"told": []}
    assert told == []


@pytest.mark.parametrize("reply", [None, b"", b"nonsense", encode([]), encode({}), encode({"told": 7})])
def test_a_coordinator_that_does_not_say_who_was_told_is_out_of_reach(reply: Any) -> None:
    with pytest.raises(OSError, match="Error"):
        tell(lambda *_: reply, "study", 1, {"birke": b"sealed"}, 5.0)
