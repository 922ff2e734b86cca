"""What FLARE runs beside an owner's records: the methods others may call, and nothing a job can configure.

A job names this class and ships no code; the owner's kit allows no other (`kits.guard_owner`). Calls arrive in threads
of FLARE's; the ledger belongs to one thread, so all work of the agent is done in one. Who calls is what FLARE has
authenticated, never what a caller says of itself.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab
from nvflare.collab.api.context import get_call_context, set_call_context

from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.client.handler import Handler, Reply
from dpadmm.federation.client.peer import PeerRuns, Turns


class AgentApp:
    """One owner in one job."""

    def __init__(self) -> None:
        self._turns = Turns(ThreadPoolExecutor(1, thread_name_prefix="agent"))
        self._walks = PeerRuns()
        self._desk: Handler | None = None

    @collab.init
    def open(self) -> None:
        self._desk = Handler(OwnerFiles(Path(collab.workspace.get_root_dir())), collab.site_name)

    @collab.publish
    def introduce(self) -> Reply:
        return self._turn("introduce")

    @collab.publish
    def join(self, run: str, terms: str, seen: Any) -> Reply:
        return self._turn("join", run, terms, seen)

    @collab.publish
    def answer_step(self, run: str, digest: str, step: Any, inputs: bytes, missed_inputs: Any, last_used: Any) -> Reply:
        return self._turn("answer_step", run, digest, step, inputs, missed_inputs, last_used)

    @collab.publish
    def finish(self, run: str) -> Reply:
        return self._turn("finish", run)

    @collab.publish
    def run_rounds(self, run: str, digest: str, start: int, timeout: float) -> Reply:
        """In a thread of its own: it waits for neighbours, and takes its turns in the agent's."""
        context, caller = get_call_context(), collab.caller

        def tell(names: list[str], round: int, value: bytes) -> None:
            set_call_context(context)
            found = collab.get_clients(names)(timeout=timeout, secure=True).hear(run, round, value)
            failed = [*found.failures, *(name for name, reply in found if "heard" not in reply)]
            if failed:
                raise OSError(", ".join(failed))

        handler, turns = self._opened(), self._turns
        return self._walks.begin(run, lambda: handler.run_rounds(caller, run, digest, start, tell, timeout, turns))

    @collab.publish
    def rounds_status(self, run: str) -> Reply:
        return self._opened().rounds_status(collab.caller, run, self._walks.end(run))

    @collab.publish
    def hear(self, run: str, round: int, value: bytes) -> Reply:
        return self._opened().hear(collab.caller, run, round, value)

    def _opened(self) -> Handler:
        assert self._desk is not None
        return self._desk

    def _turn(self, method: str, *given: Any) -> Reply:
        caller = collab.caller  # FLARE knows it in its own thread only
        return self._turns(lambda: getattr(self._opened(), method)(caller, *given))
