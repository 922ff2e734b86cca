"""A coordinator that sends what it likes to an agent that has pinned its certificate."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import streams
from streams import Answers, keys

from dpadmm.federation.frames import Frame, encode
from dpadmm.federation.grpc import wire
from dpadmm.federation.grpc.agent import Party, serve
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
