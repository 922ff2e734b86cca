"""What neighbours tell each other: passed on between owners of one run while it goes on, and otherwise not."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import streams
from streams import Answers, raw, until

from dpadmm.federation.frames import Frame, decode, encode
from dpadmm.federation.grpc import relaying, wire


def heard(method: str, given: Any) -> Any:
    return {"heard": given["round"]} if method == "hear" else {"running": given["run"]}


@pytest.fixture
def walking(made: streams.Federation) -> dict[str, Any]:
    """Ahorn and Birke run rounds together; Eiche is present, and not in that run."""
    found = {name: made.join(name, Answers(heard)) for name in made.owners}
    made.ask("run_rounds", {"run": "study"}, "ahorn", "birke")
    return found


def test_a_letter_reaches_its_receiver_with_the_senders_name(walking: dict[str, Any]) -> None:
    assert walking["ahorn"].relay("study", 3, {"birke": b"sealed"}, 5.0) == ["birke"]
    assert walking["birke"].asked[-1] == ("hear", {"run": "study", "sender": "ahorn", "round": 3, "sealed": b"sealed"})


@pytest.mark.parametrize(
    ("sender", "run", "receiver"),
    [
        ("ahorn", "study", "eiche"),
        ("eiche", "study", "birke"),
        ("ahorn", "other", "birke"),
        ("ahorn", "study", "ahorn"),
        ("ahorn", "study", "nobody"),
    ],
)
def test_nothing_is_passed_on_outside_a_run(walking: dict[str, Any], sender: str, run: str, receiver: str) -> None:
    before = {name: len(answers.asked) for name, answers in walking.items()}
    assert walking[sender].relay(run, 1, {receiver: b"x"}, 5.0) == []
    if receiver != "birke":
        assert walking[sender].relay(run, 1, {receiver: b"x", "birke": b"x"}, 5.0) == []
    assert {name: len(answers.asked) for name, answers in walking.items()} == before


def test_who_refuses_or_is_away_has_not_got_it(made: streams.Federation, walking: dict[str, Any]) -> None:
    walking["birke"]._answer = lambda method, given: {"refused": "no"}
    assert walking["ahorn"].relay("study", 1, {"birke": b"x"}, 5.0) == []
    walking["birke"]._answer = lambda method, given: "heard"
    assert walking["ahorn"].relay("study", 1, {"birke": b"x"}, 5.0) == []
    made.leave("birke")
    until(lambda: "birke" not in made.hub.present)
    assert walking["ahorn"].relay("study", 1, {"birke": b"x"}, 5.0) == []


def test_a_receiver_that_does_not_answer_is_waited_for_no_longer_than_asked(
    made: streams.Federation, walking: dict[str, Any]
) -> None:
    hold = threading.Event()
    walking["birke"]._answer = lambda method, given: {"heard": hold.wait(10.0)}
    with pytest.raises(OSError, match="Timeout"):
        walking["ahorn"].relay("study", 1, {"birke": b"x"}, 0.3)
    hold.set()
    until(lambda: made.hub._relays._busy == {})


def test_a_sender_that_does_not_wait_for_answers_is_held_to_a_few_letters(made: streams.Federation) -> None:
    hold = threading.Event()
    birke = made.join("birke", Answers(lambda method, given: {"heard": hold.wait(10.0)}))
    with raw(made, "ahorn") as stream:
        made.hub._relays.allow({"ahorn": {"run": "study"}, "birke": {"run": "study"}})
        letter = encode({"run": "study", "round": 1, "letters": {"birke": b"x"}, "timeout": 5.0})
        for number in range(1, 101):
            stream.send(Frame(number, wire.RELAY, letter).dumps())
        refused = [decode(Frame.loads(stream.receive()).body) for _ in range(100 - relaying.MOST)]
        assert refused == [{"told": []}] * (100 - relaying.MOST)
        hold.set()
        assert [decode(Frame.loads(stream.receive()).body) for _ in range(relaying.MOST)] == [
            {"told": ["birke"]}
        ] * relaying.MOST
    assert len(birke.asked) == relaying.MOST


def test_neighbours_may_tell_each_other_at_the_same_time(walking: dict[str, Any]) -> None:
    told: list[Any] = []

    def talk(sender: str, receiver: str) -> None:
        for round in range(1, 101):
            told.append(list(walking[sender].relay("study", round, {receiver: b"x" * 1000}, 10.0)) == [receiver])

    threads = [threading.Thread(target=talk, args=pair) for pair in (("ahorn", "birke"), ("birke", "ahorn"))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert told == [True] * 200


def test_an_agent_that_is_not_connected_says_so(made: streams.Federation, walking: dict[str, Any]) -> None:
    relay = walking["ahorn"].relay
    made.leave("ahorn")
    with pytest.raises(OSError, match="not connected"):
        relay("study", 1, {"birke": b"x"}, 5.0)
