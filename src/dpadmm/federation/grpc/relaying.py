"""What neighbours on a graph tell each other, passed on by the coordinator, which can neither read nor change it.

An owner may tell others while they run the rounds of one graph together, a few letters at a time. Who has got one is
all that the sender hears of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from dpadmm.federation.frames import Frame, decode, encode, letters_in
from dpadmm.federation.grpc.line import Line

MOST = 4  # messages of one sender under way: one for each run that it takes part in
RUNS = 1000  # whose owners are known; the oldest are forgotten


class Relays:
    """Passes letters on between owners that run rounds together.

    Args:
        line: Finds an owner's stream.
    """

    def __init__(self, line: Callable[[str], Line | None]) -> None:
        self._line = line
        self._together: dict[str, frozenset[str]] = {}  # by run
        self._busy: dict[str, int] = {}
        self._lock = threading.Lock()

    def allow(self, calls: Mapping[str, Mapping[str, Any]]) -> None:
        """These owners were asked to run rounds together."""
        for run in {str(call["run"]) for call in calls.values()}:
            with self._lock:
                self._together.pop(run, None)
                self._together[run] = frozenset(name for name, call in calls.items() if call["run"] == run)
                while len(self._together) > RUNS:
                    del self._together[next(iter(self._together))]

    def pass_on(self, sender: Line, frame: Frame) -> None:
        """Passes a message on; the sender is answered when all receivers have, or cannot any more.

        Raises:
            FrameError: It is no such message.
        """
        run, round, letters, seconds = letters_in(decode(frame.body))
        with self._lock:
            allowed = self._together.get(run, frozenset())
            busy = self._busy.get(sender.name, 0)
            if busy >= MOST or sender.name not in allowed or not letters.keys() <= allowed - {sender.name}:
                letters = {}
            else:
                self._busy[sender.name] = busy + 1
        if not letters:
            sender.reply(frame.number, encode({"told": []}))
            return
        until = time.monotonic() + seconds
        message = _Message(letters, lambda told: self._done(sender, frame.number, told))
        for name, sealed in letters.items():
            body = encode({"run": run, "sender": sender.name, "round": round, "sealed": sealed})
            line = self._line(name)
            message.await_reply(name, None if line is None else line.request("hear", body, until))

    def _done(self, sender: Line, number: int, told: list[str]) -> None:
        with self._lock:
            left = self._busy.get(sender.name, 1) - 1
            self._busy[sender.name] = left
            if left <= 0:
                del self._busy[sender.name]
        sender.reply(number, encode({"told": told}))


class _Message:
    """Counts who has got a letter, and says so when all are accounted for."""

    def __init__(self, letters: Mapping[str, bytes], done: Callable[[list[str]], None]) -> None:
        self._left, self._done = set(letters), done
        self._told: list[str] = []
        self._lock = threading.Lock()

    def await_reply(self, name: str, reply: Future[bytes] | None) -> None:
        if reply is None:
            self._count(name, False)
        else:
            reply.add_done_callback(lambda future: self._count(name, _heard(future)))

    def _count(self, name: str, heard: bool) -> None:
        with self._lock:
            self._left.discard(name)
            if heard:
                self._told.append(name)
            over = not self._left
        if over:
            self._done(sorted(self._told))


def _heard(future: Future[bytes]) -> bool:
    try:
        reply = decode(future.result())
    except Exception:  # cancelled, or no message
        return False
    return isinstance(reply, dict) and "heard" in reply
