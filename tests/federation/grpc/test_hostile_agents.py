"""What an owner that holds a pinned key may send to the coordinator: nothing of it raises there, or disturbs others."""

from __future__ import annotations

import threading
import time
from typing import Any

import grpc
import pytest
import streams
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from streams import Answers, raw, until

from dpadmm.federation.frames import LARGEST, Frame, decode, encode
from dpadmm.federation.grpc import line, wire
from dpadmm.federation.messages import VERSION

GREETING = Frame(0, wire.HELLO, encode({"version": VERSION})).dumps()


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET / HTTP/1.1",
        Frame(0, wire.REPLY, encode({})).dumps(),
        Frame(0, wire.HELLO, b"").dumps(),
        Frame(0, wire.HELLO, encode({})).dumps(),
        Frame(0, wire.HELLO, encode({"version": VERSION, "name": "birke"})).dumps(),
        Frame(0, wire.HELLO, encode({"version": VERSION + 1})).dumps(),
        Frame(0, wire.HELLO, encode({"version": True})).dumps(),
    ],
    ids=["nothing", "http", "a reply", "no body", "no version", "another name", "a later version", "a bool"],
)
def test_a_stream_that_begins_without_the_greeting_is_ended(made: streams.Federation, first: bytes) -> None:
    with raw(made, "ahorn", greet=False) as stream:
        stream.send(first)
        assert stream.end() is grpc.StatusCode.FAILED_PRECONDITION
    assert made.hub.present == ()


def test_a_stream_that_does_not_greet_is_ended(made: streams.Federation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line, "GREETING", 0.1)
    with raw(made, "ahorn", greet=False) as stream:
        assert stream.end() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\xff" * 1000,
        GREETING,
        Frame(1, wire.REPLY, b"").dumps(),  # to nothing that was asked
        Frame(1, "answer_step", encode({})).dumps(),
        Frame(1, wire.RELAY, b"").dumps(),
        Frame(1, wire.RELAY, encode({"run": "study", "round": 1, "letters": {}, "timeout": 1.0})).dumps(),
        Frame(1, wire.RELAY, encode({"run": "s", "round": True, "letters": {"birke": b""}, "timeout": 1.0})).dumps(),
        Frame(1, wire.RELAY, encode({"run": "s", "round": 1, "letters": {"birke": ""}, "timeout": 1.0})).dumps(),
        Frame(1, wire.RELAY, encode({"run": "s", "round": 1, "letters": {"birke": b""}, "timeout": 0.0})).dumps(),
        encode([1, wire.REPLY, b"", b""]),
    ],
    ids=range(11),
)
def test_what_is_no_message_of_an_agent_ends_its_stream_and_no_others(made: streams.Federation, sent: bytes) -> None:
    made.join("birke")
    with raw(made, "ahorn") as stream:
        stream.send(sent)
        assert stream.end() is grpc.StatusCode.FAILED_PRECONDITION
    until(lambda: made.hub.present == ("birke",))
    assert list(made.ask("introduce", {}, "ahorn", "birke")) == ["birke"]


def test_a_message_longer_than_a_frame_ends_the_stream(made: streams.Federation) -> None:
    with raw(made, "ahorn") as stream:
        stream.send(b"N" * (LARGEST + 1))
        assert stream.end() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED)
    until(lambda: made.hub.present == ())


@given(st.lists(st.binary(max_size=60), min_size=1, max_size=4))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_bytes_end_the_stream(made: streams.Federation, sent: list[bytes]) -> None:
    with raw(made, "ahorn") as stream:
        for data in sent:
            stream.send(data)
        assert stream.end() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    "body", [b"", b"\xff" * 100, encode({})[:-1], b"l\0\0\0\1" * 9 + b"N"], ids=["nothing", "junk", "torn", "deep"]
)
def test_a_reply_that_is_no_message_is_missing(made: streams.Federation, body: bytes) -> None:
    made.join("birke")
    with raw(made, "ahorn") as stream:

        def reply() -> None:
            stream.send(Frame(Frame.loads(stream.receive()).number, wire.REPLY, body).dumps())

        threading.Thread(target=reply).start()
        assert list(made.ask("introduce", {}, "ahorn", "birke")) == ["birke"]
        until(lambda: made.hub.present == ("birke",))


def test_replies_out_of_order_are_taken_and_a_second_one_is_not(made: streams.Federation) -> None:
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        found[number] = made.ask("finish", {"run": str(number)}, "ahorn")

    with raw(made, "ahorn") as stream:
        asking = [threading.Thread(target=ask, args=(number,)) for number in range(2)]
        for each in asking:
            each.start()
        frames = [Frame.loads(stream.receive()) for _ in asking]
        for frame in reversed(frames):
            stream.send(Frame(frame.number, wire.REPLY, encode(decode(frame.body)["run"])).dumps())
        for each in asking:
            each.join()
        assert found == {0: {"ahorn": "0"}, 1: {"ahorn": "1"}}
        stream.send(Frame(frames[0].number, wire.REPLY, encode("another")).dumps())
        assert stream.end() is grpc.StatusCode.FAILED_PRECONDITION


def test_an_owner_that_does_not_read_holds_up_nobody(made: streams.Federation) -> None:
    made.join("birke")
    with raw(made, "ahorn"):
        big = {"inputs": b"\0" * 1_000_000}
        for _ in range(line.MOST):
            made.ask("answer_step", big, "ahorn", seconds=0.02)
        began = time.monotonic()
        assert list(made.ask("introduce", {}, "ahorn", "birke", seconds=5.0)) == ["birke"]
        assert time.monotonic() - began < 2.0  # it is not even asked any more


def test_only_the_newest_stream_of_an_owner_is_kept(made: streams.Federation) -> None:
    with raw(made, "ahorn") as first, raw(made, "ahorn"):
        assert first.end() is grpc.StatusCode.FAILED_PRECONDITION
        assert made.hub.present == ("ahorn",)


def test_a_flood_of_streams_leaves_one(made: streams.Federation) -> None:
    made.join("birke")
    party = made.party("ahorn")
    credentials = grpc.ssl_channel_credentials(party.coordinator, party.key, party.certificate)
    options = [("grpc.ssl_target_name_override", streams.SERVER_NAME)]
    with grpc.secure_channel(party.address, credentials, options=options) as channel:
        outboxes = [wire.Outbox(1) for _ in range(40)]
        for each in outboxes:
            each.put(GREETING, wait=False)
        calls = [channel.stream_stream(wire.PATH)(iter(each)) for each in outboxes]
        until(lambda: "ahorn" in made.hub.present)
        assert list(made.ask("introduce", {}, "birke")) == ["birke"]
        assert sum(thread.name == "read ahorn" for thread in threading.enumerate()) < 10
        for call, each in zip(calls, outboxes, strict=True):
            each.end()
            call.cancel()


def test_other_services_are_not_there(made: streams.Federation) -> None:
    party = made.party("ahorn")
    credentials = grpc.ssl_channel_credentials(party.coordinator, party.key, party.certificate)
    options = [("grpc.ssl_target_name_override", streams.SERVER_NAME)]
    with grpc.secure_channel(party.address, credentials, options=options) as channel:
        for path in ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/dpadmm.Federation/Other"):
            with pytest.raises(grpc.RpcError) as error:
                channel.unary_unary(path)(b"", timeout=5.0)
            assert error.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_what_an_honest_agent_answers_is_not_disturbed_by_all_that(made: streams.Federation) -> None:
    """One owner sends junk as fast as it can, and connects again; the other answers all it is asked."""
    made.join("birke", Answers(lambda method, given: given))
    over = threading.Event()

    def annoy() -> None:
        while not over.is_set():
            with raw(made, "ahorn", greet=False) as stream:
                stream.send(GREETING)
                stream.send(b"junk")
                stream.end()

    thread = threading.Thread(target=annoy)
    thread.start()
    for number in range(50):
        assert made.ask("finish", {"run": str(number)}, "birke") == {"birke": {"run": str(number)}}
    over.set()
    thread.join()
