"""Which methods a coordinator may call, and the handler's answer to such a call, whatever transport brought it.

A call and its reply are values as `frames` encodes them. Calls come one after the other. What works with the ledger
does so in one thread, which the ledger belongs to; rounds on a graph have a thread of their own, which takes its turns
in that one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dpadmm.federation.client.handler import Handler, Reply
from dpadmm.federation.client.letters import Relay
from dpadmm.federation.client.peer import PeerRuns, Turns
from dpadmm.federation.frames import FrameError, decode, encode

METHODS: Mapping[str, frozenset[str]] = {
    "introduce": frozenset(),
    "join": frozenset({"run", "terms", "seen"}),
    "confirm": frozenset({"run", "cards", "signatures"}),
    "answer_step": frozenset({"run", "digest", "step", "inputs", "missed_inputs", "last_used"}),
    "finish": frozenset({"run"}),
    "run_rounds": frozenset({"run", "digest", "start", "timeout"}),
    "rounds_status": frozenset({"run"}),
    "hear": frozenset({"run", "sender", "round", "sealed"}),
}
UNSENT: Mapping[str, Any] = {"refused": "this owner's reply cannot be sent."}
_WITHOUT_LEDGER = frozenset({"rounds_status", "hear"})


class Dispatcher:
    """One owner's answers, by the names of methods.

    Args:
        handler: Makes the handler; called in the thread that works with the ledger.
        relay: Sends what a node tells its neighbours.
    """

    def __init__(self, handler: Callable[[], Handler], relay: Relay) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agent")
        self._turns = Turns(self._thread)
        self._peer_runs = PeerRuns()
        self._handler: Handler = self._turns(handler)
        self.relay = relay

    def answer(self, method: str, given: Any) -> Reply:
        """The reply to a call; a call that is none is refused like any other that cannot be answered."""
        expected = METHODS.get(method)
        if expected is None or not isinstance(given, dict) or given.keys() != expected:
            return {"refused": "there is no such call."}
        if method == "run_rounds":
            return self._run_rounds(given)
        call = getattr(self._handler, method)
        if method == "rounds_status":
            run = given["run"]
            end = self._peer_runs.end(run) if type(run) is str else {"refused": "that run is not under way here."}
            return dict(call(**given, end=end))
        if method in _WITHOUT_LEDGER:
            return dict(call(**given))
        return dict(self._turns(lambda: call(**given)))

    def close(self) -> None:
        """Waits for the call under way, and answers no more."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _run_rounds(self, given: Mapping[str, Any]) -> Reply:
        run, handler = given["run"], self._handler
        known = handler.rounds_status(run, None)
        if "refused" in known:  # nothing is kept of runs that were not joined
            return known
        return self._peer_runs.begin(run, lambda: handler.run_rounds(**given, relay=self._tell, turn=self._turns))

    def _tell(self, run: str, round: int, letters: Mapping[str, bytes], timeout: float) -> Collection[str]:
        """By the connection that there is when it is told."""
        return self.relay(run, round, letters, timeout)


def encoded_answer(dispatcher: Dispatcher, method: str, body: bytes) -> bytes:
    """The reply to an encoded call, encoded. No exception gets further than here: its text could hold a record."""
    try:
        reply: Any = dispatcher.answer(method, decode(body))
    except FrameError:
        reply = {"refused": "what was asked is no message."}
    except Exception:
        reply = UNSENT
    try:
        return encode(reply)
    except FrameError:  # terms may hold text that cannot be sent back, and a model may be larger than a frame
        return encode(UNSENT)
