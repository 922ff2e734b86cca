"""What a coordinator whose certificate is pinned may send to an agent, and who else can pose as the coordinator."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import streams
from evil_coordinator import WELCOME, Evil, request
from streams import keys, until

from dpadmm.federation.client.dispatch import METHODS
from dpadmm.federation.frames import LARGEST, Frame, decode, encode
from dpadmm.federation.grpc import wire
from dpadmm.federation.grpc.agent import WAITING
from dpadmm.federation.messages import VERSION


@pytest.mark.parametrize(
    "sends",
    [
        (b"",),
        (b"junk",),
        (request(1, "introduce"),),  # before it has greeted
        (Frame(0, wire.WELCOME, encode({"version": VERSION + 1})).dumps(),),
        (Frame(0, wire.WELCOME, b"").dumps(),),
        (WELCOME, b"junk"),
        (WELCOME, request(1, "execute")),
        (WELCOME, request(1, "__init__")),
        (WELCOME, request(1, "_join")),
        (WELCOME, request(1, "close")),
        (WELCOME, request(1, "relay")),
        (WELCOME, request(0, "introduce")),
        (WELCOME, b"N" * (LARGEST + 1)),
        (WELCOME, Frame(1, wire.REPLY, b"").dumps(), b"junk"),
    ],
    ids=[
        *("nothing", "junk", "no greeting", "a later version", "no version", "junk later", "execute", "dunder"),
        *("private", "close", "relay", "number 0", "too long", "a reply to nothing"),
    ],
)
def test_what_is_no_request_ends_the_stream_and_reaches_nobody(sends: tuple[bytes, ...]) -> None:
    with Evil(*sends) as evil:
        until(lambda: evil.streams > 1)  # it dials again
        assert evil.asked.asked == []
        assert {frame.method for frame in evil.got} <= {wire.HELLO}


def test_the_same_number_twice_ends_the_stream() -> None:
    with Evil(WELCOME, request(3, "introduce"), request(3, "introduce")) as evil:
        until(lambda: evil.streams > 1)


def test_a_body_that_is_no_message_is_refused() -> None:
    with Evil(WELCOME, request(1, "introduce", b"\xff"), request(2, "introduce")) as evil:
        until(lambda: len(evil.got) >= 3)
        assert evil.asked.asked == [("introduce", {})]
        said = {frame.number: decode(frame.body) for frame in evil.got[1:]}
        assert said[1] == {"refused": "what was asked is no message."}


def test_a_flood_of_requests_waits_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    hold = threading.Event()
    many = [request(number, "answer_step", encode({"inputs": b"\0" * 500_000})) for number in range(1, 101)]
    with Evil(WELCOME, *many) as evil:
        evil.asked._answer = lambda method, given: {"held": hold.wait(10.0)}
        until(lambda: len(evil.asked.asked) == 1)
        read = [0]
        honest = Frame.loads.__func__  # type: ignore[attr-defined]

        def counted(cls: Any, data: Any) -> Frame:
            read[0] += 1
            return honest(cls, data)

        monkeypatch.setattr(Frame, "loads", classmethod(counted))
        threading.Event().wait(1.0)
        assert read[0] <= WAITING + 2
        hold.set()
        until(lambda: len(evil.asked.asked) == 100)
        until(lambda: [frame.number for frame in evil.got] == list(range(101)))


@pytest.mark.parametrize(
    "who", ["another key of the same name", "an owner", "the same owner", "a certificate it signed"]
)
def test_nobody_else_can_pose_as_the_coordinator(who: str) -> None:
    """0.1.0 took any certificate of the federation for the server's."""
    shown = keys("coordinator") if who == "another key of the same name" else keys("birke")
    with Evil(WELCOME, request(1, "introduce")) as evil:
        pass
    if who == "the same owner":
        shown = evil.owner
    if who == "a certificate it signed":
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        signed = keys("coordinator", issuer=("coordinator", load_pem_private_key(evil.mine.key, None)))
        shown = streams.Keys(signed.key, signed.certificate + evil.mine.certificate)
    other = Evil(WELCOME, request(1, "introduce"), shown=shown)
    other.mine, other.owner = evil.mine, evil.owner
    with other:
        until(lambda: any("cannot be reached" in text for text in other.told))
        threading.Event().wait(0.3)
        assert other.streams == 0
        assert other.asked.asked == []


def test_the_list_of_methods_is_the_whole_of_what_can_be_asked() -> None:
    assert set(METHODS) == {
        *("introduce", "join", "confirm", "answer_step", "finish", "run_rounds", "rounds_status", "hear")
    }
