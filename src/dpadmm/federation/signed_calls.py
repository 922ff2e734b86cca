"""A transport whose own word for who is asking an owner does not count: each call has the coordinator's signature.

FLARE's server, for instance, passes on what any of its clients sends, and a client can claim to be another. So an owner
believes the card that it has pinned. A call that was sent before, to somebody else or in another job is none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from dpadmm.federation.cards import REQUEST, Card, NotGenuine
from dpadmm.federation.client.dispatch import Dispatcher, encoded_answer
from dpadmm.federation.frames import FrameError, decode, encode, letters_in
from dpadmm.federation.identity import Identity

WAITING = 4  # requests that wait while one is answered

Send = Callable[[Mapping[str, bytes], float], Mapping[str, bytes]]
"""Sends each owner its bytes and waits so many seconds; the replies of those who answered in time."""


class Session:
    """The transport of one job: who is present, and how they are asked.

    Args:
        identity: The coordinator's.
        job: What the transport calls the job.
        present: The owners of this job.
        send: Carries bytes.
    """

    def __init__(self, identity: Identity, job: str, present: tuple[str, ...], send: Send) -> None:
        self._identity, self._job, self._send = identity, job, send
        self.present = present
        self.together: dict[str, frozenset[str]] = {}  # owners that were asked to run rounds together, by run
        self._last, self._lock = 0, threading.Lock()

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> dict[str, Any]:
        """Calls a method of several owners at once; a reply for everybody who answered in time."""
        if method == "run_rounds":
            self.together |= {str(call["run"]): frozenset(calls) for call in calls.values()}
        requests = {name: self._signed(name, method, call) for name, call in calls.items() if name in self.present}
        found = {}
        for name, data in self._send(requests, seconds).items():
            try:
                reply = decode(data)
            except FrameError:
                continue  # it answered what is no message, and is missing
            if isinstance(reply, dict):
                found[name] = reply
        return found

    def pass_on(self, sender: str, data: Any) -> bytes:
        """Passes letters on between owners that run rounds together, and says who has got one.

        Args:
            sender: Whose letters they are, as the transport says; the letters themselves are signed and sealed.
            data: What it sent.

        Returns:
            The reply, which `tell` reads.
        """
        told: list[str] = []
        with suppress(FrameError):
            run, round, letters, seconds = letters_in(decode(data))
            together = self.together.get(run, frozenset())
            if sender in together and letters.keys() <= together - {sender}:
                given = {"run": run, "sender": sender, "round": round}
                calls = {name: {**given, "sealed": sealed} for name, sealed in letters.items()}
                found = self.ask("hear", calls, seconds)
                told = [name for name in letters if "heard" in found.get(name, ())]
        return encode({"told": told})

    def _signed(self, owner: str, method: str, call: Mapping[str, Any]) -> bytes:
        with self._lock:
            self._last += 1
            number = self._last
        body = encode(call)
        signature = self._identity.sign(REQUEST, owner, self._job, str(number), method, body)
        return encode([number, method, body, signature])


class Desk:
    """An owner's answers in one job.

    Args:
        dispatcher: Answers.
        coordinator: The card that the owner has pinned.
        owner: Its own name.
        job: What the transport calls the job.
    """

    def __init__(self, dispatcher: Dispatcher, coordinator: Card, owner: str, job: str) -> None:
        self._dispatcher, self._card, self._owner, self._job = dispatcher, coordinator, owner, job
        self._seen: set[int] = set()
        self._room, self._turn = threading.BoundedSemaphore(WAITING + 1), threading.Lock()

    def answer(self, data: Any) -> bytes:
        """The reply to what arrived, whatever it is and whoever sent it."""
        if not self._room.acquire(blocking=False):
            return _refused("too many requests wait.")
        try:
            with self._turn:
                method, body = self._opened(data)
                return encoded_answer(self._dispatcher, method, body)
        except (FrameError, NotGenuine):
            return _refused("this is no request of the coordinator in this job.")
        finally:
            self._room.release()

    def _opened(self, data: Any) -> tuple[str, bytes]:
        found = decode(data)
        if type(found) is not list or [type(part) for part in found] != [int, str, bytes, bytes]:
            raise FrameError("a request is a number, a method, a call and a signature")
        number, method, body, signature = found
        self._card.verify(REQUEST, signature, self._owner, self._job, str(number), method, body)
        if number in self._seen:
            raise NotGenuine("this request was sent before")
        self._seen.add(number)  # only the coordinator's own signatures make it longer
        return method, body


def tell(
    carry: Callable[[bytes, float], Any], run: str, round: int, letters: Mapping[str, bytes], seconds: float
) -> Collection[str]:
    """Tells neighbours through the coordinator.

    Args:
        carry: Takes bytes to the coordinator's `Session.pass_on` within so many seconds, and brings its reply.
        run: The run's name.
        round: The round that the letters are of.
        letters: A letter for each neighbour.
        seconds: How long they may take.

    Returns:
        Who has got its letter.

    Raises:
        OSError: The coordinator cannot be reached.
    """
    try:
        body = encode({"run": run, "round": round, "letters": dict(letters), "timeout": float(seconds)})
        told = decode(carry(body, float(seconds)))["told"]
        return [name for name in letters if name in told]
    except (FrameError, KeyError, TypeError) as error:
        raise OSError(type(error).__name__) from None


def _refused(why: str) -> bytes:
    return encode({"refused": why})
