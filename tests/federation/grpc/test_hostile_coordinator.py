"""What a coordinator whose certificate is pinned may send to an agent, and who else can pose as the coordinator."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
import streams
from streams import Answers, keys, until

from dpadmm.federation.client.dispatch import METHODS
from dpadmm.federation.frames import LARGEST, Frame, decode, encode
from dpadmm.federation.grpc import wire
from dpadmm.federation.grpc.agent import WAITING, Party, serve
from dpadmm.federation.messages import VERSION

WELCOME = Frame(0, wire.WELCOME, encode({"version": VERSION})).dumps()


class Evil:
    """A server that sends what it likes to whoever dials in, and keeps what that one answers."""

    def __init__(self, *sends: bytes, shown: streams.Keys | None = None) -> None:
        self.mine, self.owner = keys("coordinator"), keys("ahorn")
        self.sends, self.shown = sends, shown or self.mine
        self.got: list[Frame] = []
        self.streams = 0
        self.asked = Answers()
        self.told: list[str] = []
        self._stop, self._over = threading.Event(), threading.Event()

    def __enter__(self) -> Evil:
        credentials = grpc.ssl_server_credentials(
            [(self.shown.key, self.shown.certificate)], self.owner.certificate, require_client_auth=True
        )
        self._server = grpc.server(ThreadPoolExecutor(4), handlers=[_Handler(self._stream)])
        port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self._server.start()
        party = Party(
            self.owner.key, self.owner.certificate, self.mine.certificate, streams.SERVER_NAME, f"127.0.0.1:{port}"
        )
        self._agent = threading.Thread(target=serve, args=(party, self.asked, self._stop, self.told.append))
        self._agent.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._over.set()
        self._agent.join(10.0)
        assert not self._agent.is_alive()
        self._server.stop(0).wait()

    def _stream(self, arriving: Iterator[bytes], context: Any) -> Iterator[bytes]:
        self.streams += 1
        threading.Thread(target=self._read, args=(arriving,), daemon=True).start()
        yield from self.sends
        self._over.wait()

    def _read(self, arriving: Iterator[bytes]) -> None:
        try:
            for data in arriving:
                self.got.append(Frame.loads(data))
        except Exception:  # the stream is over
            return


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(self._stream)


def request(number: int, method: str, body: bytes | None = None) -> bytes:
    return Frame(number, method, encode({}) if body is None else body).dumps()


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
