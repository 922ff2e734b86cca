"""An owner's end: the agent dials out to the coordinator whose certificate it has pinned, and answers what it is asked.

It listens nowhere and starts no process. What arrives is decoded into plain values, named by a method of a fixed list,
and handed to the dispatcher, one request after the other. As long as requests wait, nothing more is read, so that a
coordinator can fill a few frames of memory and no more.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

import grpc

from dpadmm.federation.client.dispatch import METHODS, UNSENT, Dispatcher, encoded_answer
from dpadmm.federation.frames import Frame, FrameError, decode, encode
from dpadmm.federation.grpc import wire
from dpadmm.federation.messages import VERSION

WAITING = 4  # requests that wait while one is answered; coordinators have a few runs at most
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0  # seconds before the next attempt to connect
_STEADY = 10.0  # seconds after which a connection counts as one that has worked


class Party(NamedTuple):
    """Who dials, whom it trusts, and where that one is.

    Args:
        key: The owner's private key for TLS (PEM).
        certificate: Its certificate (PEM).
        coordinator: The one certificate that is trusted (PEM).
        server_name: The name in that certificate; the address plays no part in trust.
        address: HOST:PORT.
    """

    key: bytes
    certificate: bytes
    coordinator: bytes
    server_name: str
    address: str


def serve(party: Party, dispatcher: Dispatcher, stop: threading.Event, tell: Callable[[str], None]) -> None:
    """Takes part until `stop` is set; connects again whenever the connection is lost.

    Args:
        party: Who dials whom.
        dispatcher: Answers.
        stop: Ends it, once the request under way is answered.
        tell: Told when the connection comes and goes, and why.
    """
    said, pause = "", _FIRST_PAUSE
    while not stop.is_set():
        connection = Connection(party, dispatcher, stop)
        dispatcher.relay = connection.relay
        began = time.monotonic()
        reason = connection.run(lambda: tell("connected to the coordinator"))
        if stop.is_set():
            return
        if connection.welcomed:
            said, pause = "", pause if time.monotonic() - began < _STEADY else _FIRST_PAUSE
        if reason != said:
            tell(f"not connected: {reason}; trying again")
            said = reason
        longest = _LONGEST_PAUSE if reason != wire.REPLACED else 6 * _LONGEST_PAUSE
        stop.wait(pause * random.uniform(0.5, 1.0))
        pause = min(2.0 * pause, longest)


class Connection:
    """One connection, from dialling to its end."""

    def __init__(self, party: Party, dispatcher: Dispatcher, stop: threading.Event) -> None:
        self._party, self._dispatcher, self._stop = party, dispatcher, stop
        self._outbox = wire.Outbox(WAITING)
        self._requests: queue.Queue[Frame | None] = queue.Queue(WAITING)  # None: there is nothing more to wait for
        self._told: dict[int, Future[Any]] = {}
        self._letters = 0
        self._last = 0
        self._lock = threading.Lock()
        self.welcomed = False

    def run(self, connected: Callable[[], None]) -> str:
        """Until the connection ends; why it did, for the owner."""
        party = self._party
        credentials = grpc.ssl_channel_credentials(party.coordinator, party.key, party.certificate)
        options = [*wire.CHANNEL_OPTIONS, ("grpc.ssl_target_name_override", party.server_name)]
        over = threading.Event()
        with grpc.secure_channel(party.address, credentials, options=options) as channel:
            self._outbox.put(Frame(0, wire.HELLO, encode({"version": VERSION})).dumps(), wait=False)
            call = channel.stream_stream(wire.PATH)(iter(self._outbox))
            helpers = [
                threading.Thread(target=self._answer, name="answer", daemon=True),
                threading.Thread(target=self._cut, args=(call, over), name="stop", daemon=True),
            ]
            for each in helpers:
                each.start()
            try:
                self._read(call, connected)
                reason = "the coordinator has closed the connection"
            except FrameError as error:
                reason = f"the coordinator sent what is no message ({error})"
            except grpc.RpcError as error:
                reason = _reason(error)
            finally:
                self._end()
                over.set()
                call.cancel()
                for each in helpers:
                    each.join()
        return reason

    def relay(self, run: str, round: int, letters: Mapping[str, bytes], seconds: float) -> Collection[str]:
        """Tells neighbours; who has got its letter. Raises `OSError` where the coordinator cannot be reached."""
        with self._lock:
            if self._outbox.over:
                raise OSError("not connected")
            self._letters += 1
            number = self._letters
            future = self._told[number] = Future()
        try:
            body = encode({"run": run, "round": round, "letters": dict(letters), "timeout": float(seconds)})
            if not self._outbox.put(Frame(number, wire.RELAY, body).dumps(), wait=True):
                raise OSError("not connected")
            told = future.result(seconds)
        except (TimeoutError, FrameError) as error:
            raise OSError(type(error).__name__) from None
        finally:
            with self._lock:
                self._told.pop(number, None)
        if type(told) is not dict or type(told.get("told")) is not list:
            raise OSError("the coordinator did not say who has got the release")
        return [name for name in letters if name in told["told"]]

    # -- threads ---------------------------------------------------------------------------------------------------

    def _read(self, call: Any, connected: Callable[[], None]) -> None:
        """What the coordinator sends. Requests wait in a queue that has room for a few; nothing is read meanwhile."""
        for data in call:
            frame = Frame.loads(data)
            if not self.welcomed:
                if frame.method != wire.WELCOME or frame.body != encode({"version": VERSION}):
                    raise FrameError("it did not greet as coordinators of this version do")
                self.welcomed = True
                connected()
            elif frame.method == wire.REPLY:
                self._received(frame)
            elif frame.method in METHODS and frame.number > self._last:
                self._last = frame.number
                self._put(frame)
            else:
                raise FrameError("an unknown method, or a number that is not the next")

    def _put(self, frame: Frame) -> None:
        while not self._outbox.over:
            with suppress(queue.Full):
                self._requests.put(frame, timeout=0.5)
                return

    def _received(self, frame: Frame) -> None:
        with self._lock:
            future = self._told.pop(frame.number, None)
        if future is not None:
            future.set_result(decode(frame.body))

    def _answer(self) -> None:
        """Answers one request after the other; what this connection did not get to, the next one will be asked."""
        while not self._outbox.over:
            frame = self._requests.get()
            if frame is not None and not self._outbox.over:
                self._outbox.put(_reply(self._dispatcher, frame), wait=True)

    def _cut(self, call: Any, over: threading.Event) -> None:
        """Ends the connection when the agent shall stop."""
        while not over.is_set():
            if self._stop.wait(0.1):
                self._end()
                call.cancel()
                return

    def _end(self) -> None:
        self._outbox.end()
        with suppress(queue.Full):
            self._requests.put_nowait(None)
        with self._lock:
            told, self._told = self._told, {}
        for future in told.values():
            future.set_exception(OSError("not connected"))


def _reply(dispatcher: Dispatcher, frame: Frame) -> bytes:
    """The frame that answers a request."""
    body = encoded_answer(dispatcher, frame.method, frame.body)
    try:
        return Frame(frame.number, wire.REPLY, body).dumps()
    except FrameError:  # body and head together are larger than a frame
        return Frame(frame.number, wire.REPLY, encode(UNSENT)).dumps()


def _reason(error: Any) -> str:
    """Why there is no connection, in words of our own; what the other end said is shown if it is one of them."""
    details = str(error.details())
    if details in (wire.REPLACED, wire.UNKNOWN, wire.OTHER_VERSION):
        return details
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return "the coordinator cannot be reached, or does not accept this owner's certificate"
    return f"the connection ended ({error.code().name.lower()})"
