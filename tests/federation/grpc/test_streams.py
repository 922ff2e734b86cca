"""The two functions of the adapter: who is present, and what they answer when they are asked."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import streams
from streams import Answers, until

from dpadmm.federation.frames import LARGEST, FrameError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def test_nobody_is_present_before_an_agent_has_dialled_in(made: streams.Federation) -> None:
    assert made.hub.present == ()
    assert made.ask("introduce", {}, seconds=1.0) == {}
    made.join("birke")
    assert made.hub.present == ("birke",)
    assert abs(made.hub.heard["birke"] - time.time()) < 5.0
    made.leave("birke")
    until(lambda: made.hub.present == ())


def test_everybody_who_is_present_is_asked_and_answers(made: streams.Federation) -> None:
    for name in made.owners:
        made.join(name, Answers(lambda method, given, name=name: {"who": name, "given": given, "method": method}))
    given = {
        "run": "study",
        "digest": "d",
        "step": 3,
        "inputs": b"\0" * 120_000,
        "missed_inputs": {},
        "last_used": None,
    }
    found = made.ask("answer_step", given)
    assert found == {name: {"who": name, "given": given, "method": "answer_step"} for name in made.owners}
    calls = {"ahorn": {"run": "a"}, "eiche": {"run": "b"}}
    found = made.hub.session(calls).ask("finish", calls, 10.0)
    assert {name: reply["given"] for name, reply in found.items()} == calls


def test_who_answers_too_late_is_missing_and_its_late_answer_is_dropped(made: streams.Federation) -> None:
    hold = threading.Event()
    made.join("ahorn", Answers(lambda method, given: {"held": hold.wait(20.0)}))
    made.join("birke")
    assert made.hub.free == {"ahorn", "birke"}
    assert list(made.ask("introduce", {}, "ahorn", "birke", seconds=0.3)) == ["birke"]
    assert made.hub.free == {"birke"}
    hold.set()
    until(lambda: "ahorn" in made.hub.free)  # by which the coordinator knows that it is back
    assert made.ask("finish", {"run": "x"}, "ahorn") == {"ahorn": {"held": True}}


def test_an_owner_that_answers_nothing_is_not_asked_for_ever(made: streams.Federation) -> None:
    hold = threading.Event()
    answers = made.join("ahorn", Answers(lambda method, given: {"held": hold.wait(20.0)}))
    for _ in range(40):
        assert made.ask("introduce", {}, "ahorn", seconds=0.0) == {}
    hold.set()
    until(lambda: made.ask("finish", {"run": "x"}, "ahorn", seconds=5.0))
    assert len(answers.asked) < 20


def test_requests_are_answered_one_after_the_other(made: streams.Federation) -> None:
    inside, most = [0], [0]

    def slowly(method: str, given: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        return {}

    made.join("ahorn", Answers(slowly))
    asking = [threading.Thread(target=made.ask, args=("introduce", {}, "ahorn")) for _ in range(8)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert most == [1]


def test_a_call_that_is_longer_than_a_frame_is_not_sent(made: streams.Federation) -> None:
    made.join("ahorn")
    with pytest.raises(FrameError, match="exceeds"):
        made.ask("answer_step", {"inputs": b"\0" * LARGEST}, "ahorn")
    assert made.ask("introduce", {}, "ahorn")


@pytest.mark.parametrize(
    "reply",
    [{"value": b"\0" * LARGEST}, {"refused": "\ud800"}, {"value": object()}, float("nan")],
    ids=["too long", "no text", "an object", "not a number"],
)
def test_a_reply_that_cannot_be_sent_becomes_a_refusal(made: streams.Federation, reply: Any) -> None:
    made.join("ahorn", Answers(lambda method, given: reply))
    assert made.ask("introduce", {}, "ahorn") == {"ahorn": {"refused": "this owner's reply cannot be sent."}}


def test_no_exception_of_an_agent_leaves_it(made: streams.Federation) -> None:
    def fail(method: str, given: Any) -> Any:
        raise ValueError("record 17 holds 61.8")

    made.join("ahorn", Answers(fail))
    assert made.ask("introduce", {}, "ahorn") == {"ahorn": {"refused": "this owner's reply cannot be sent."}}


def test_agents_are_back_soon_after_the_server_was_restarted(made: streams.Federation) -> None:
    for name in made.owners:
        made.join(name)
    made.hub.close()
    time.sleep(0.5)
    began = time.monotonic()
    made.open()
    until(lambda: len(made.hub.present) == 3)
    assert time.monotonic() - began < 5.0
    assert len(made.ask("introduce", {})) == 3


def test_an_owner_that_connects_again_is_asked_on_its_new_stream(made: streams.Federation) -> None:
    """As one whose connection broke without a word does."""
    old = made.join("ahorn")
    new = Answers()
    with streams.raw(made, "ahorn") as stream:
        until(lambda: any("has replaced" in text for text in made.told))
        assert made.hub.present == ("ahorn",)
        del stream
    made.leave("ahorn")
    made.join("ahorn", new)
    made.ask("introduce", {}, "ahorn")
    assert (old.asked, len(new.asked)) == ([], 1)


def test_a_job_asks_an_owner_on_the_stream_that_it_had_when_the_job_began(made: streams.Federation) -> None:
    """One that was started again meanwhile has joined nothing, and must not refuse in the job's name."""
    made.join("ahorn")
    job = made.hub.session(["ahorn", "birke"])
    assert job.present == ("ahorn",)
    assert job.ask("introduce", {"ahorn": {}}, 5.0)
    made.leave("ahorn")
    until(lambda: made.hub.present == ())
    again = made.join("ahorn")
    assert job.ask("introduce", {"ahorn": {}}, 5.0) == {}
    assert again.asked == []
    assert made.hub.session(["ahorn"]).ask("introduce", {"ahorn": {}}, 5.0)


def test_an_agent_that_is_stopped_has_answered_what_it_was_asked(made: streams.Federation) -> None:
    begun = threading.Event()

    def slowly(method: str, given: Any) -> Any:
        begun.set()
        time.sleep(0.3)
        return {}

    made.join("ahorn", Answers(slowly))
    asking = threading.Thread(target=made.ask, args=("introduce", {}, "ahorn"))
    asking.start()
    begun.wait(10.0)
    made.leave("ahorn")
    asking.join(5.0)
    assert not asking.is_alive()
