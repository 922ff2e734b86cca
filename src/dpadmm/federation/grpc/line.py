"""One owner's stream, as the coordinator holds it: what it was asked, and what it has not answered yet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from dpadmm.federation.frames import Frame, FrameError
from dpadmm.federation.grpc import wire

GREETING = 10.0  # seconds that an owner may take to greet
GRACE = 2.0  # seconds that a stream has to end by itself; one whose owner does not read cannot
MOST = 16  # requests that an owner has not answered, with those that nobody waits for any more


class Line:
    """The requests to one owner and their replies; all methods may be called from any thread.

    Args:
        name: The owner.
        certificate: What it has shown (DER).
        cut: Ends the stream at once.
    """

    def __init__(self, name: str, certificate: bytes, cut: Callable[[], object]) -> None:
        self.name, self.certificate = name, certificate
        self.outbox = wire.Outbox(2 * MOST)
        self.reason = ""  # why we ended it, if we did
        self.ready = False  # whether it has greeted, and is not over
        self.heard = 0.0
        self._cut = cut
        self._asked: dict[int, tuple[Future[bytes], float]] = {}  # by number, with the time until which it is awaited
        self._late: set[int] = set()  # numbers that nobody waits for any more
        self._last = 0
        self._began = time.monotonic()
        self._lock = threading.Lock()

    def greet(self, body: bytes) -> None:
        self.outbox.put(Frame(0, wire.WELCOME, body).dumps(), wait=False)
        self.heard_now()
        with self._lock:
            self.ready = not self.outbox.over

    @property
    def free(self) -> bool:
        """Whether the owner is there and has answered all that it was asked."""
        with self._lock:
            return self.ready and not self._asked and not self._late

    def heard_now(self) -> None:
        self.heard = time.time()

    def request(self, method: str, body: bytes, until: float) -> Future[bytes] | None:
        """Asks; None where the owner has too much to answer already, or the stream is over.

        Args:
            method: What is asked.
            body: The arguments, encoded.
            until: How long the reply is awaited (`time.monotonic`).

        Returns:
            The reply to come, which is cancelled if the stream ends.
        """
        future: Future[bytes] = Future()
        with self._lock:
            if not self.ready or len(self._asked) + len(self._late) >= MOST:
                return None
            self._last += 1
            number = self._last
            frame = Frame(number, method, body).dumps()
            self._asked[number] = future, until
            sent = self.outbox.put(frame, wait=False)
        if not sent:
            self.end("it does not read what it is sent")
        return future

    def reply(self, number: int, body: bytes) -> None:
        """Answers what an agent has sent under a number of its own."""
        if not self.outbox.put(Frame(number, wire.REPLY, body).dumps(), wait=False):
            self.end("it does not read what it is sent")

    def answered(self, frame: Frame) -> None:
        """A reply has come. One that is late is dropped; one that nobody asked for is no message of an agent."""
        self.heard_now()
        with self._lock:
            future, _ = self._asked.pop(frame.number, (None, 0.0))
            if future is None:
                if frame.number not in self._late:
                    raise FrameError("it answered what it was not asked")
                self._late.remove(frame.number)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_result(frame.body)

    def expire(self) -> None:
        """Gives up what is not awaited any more."""
        now = time.monotonic()
        if self.heard == 0.0 and now - self._began > GREETING:
            self.end("it did not greet")
        with self._lock:
            over = {number: future for number, (future, until) in self._asked.items() if until < now}
            for number in over:
                del self._asked[number]
            self._late |= over.keys()
        for future in over.values():
            future.cancel()

    def end(self, reason: str) -> None:
        """Ends the stream; the first reason counts."""
        with self._lock:
            if self.outbox.over:
                return
            self.ready, self.reason = False, reason
            asked, self._asked = self._asked, {}
            self.outbox.end()
        for future, _ in asked.values():
            future.cancel()
        cut = threading.Timer(GRACE, self._cut)
        cut.daemon = True
        cut.start()
