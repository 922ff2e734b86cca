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

from dpadmm.federation.desk import Desk, Reply
from dpadmm.federation.site import Site
from dpadmm.federation.walking import Turns, Walks


class AgentApp:
    """One owner in one job."""

    def __init__(self) -> None:
        self._turns = Turns(ThreadPoolExecutor(1, thread_name_prefix="agent"))
        self._walks = Walks()
        self._desk: Desk | None = None

    @collab.init
    def open(self) -> None:
        self._desk = Desk(Site(Path(collab.workspace.get_root_dir())), collab.site_name)

    @collab.publish
    def introduce(self) -> Reply:
        return self._turn("introduce")

    @collab.publish
    def join(self, run: str, terms: str, seen: Any) -> Reply:
        return self._turn("join", run, terms, seen)

    @collab.publish
    def answer(self, run: str, digest: str, step: Any, inputs: bytes, missed: Any, counted: Any) -> Reply:
        return self._turn("answer", run, digest, step, inputs, missed, counted)

    @collab.publish
    def finish(self, run: str) -> Reply:
        return self._turn("finish", run)

    @collab.publish
    def walk(self, run: str, digest: str, start: int, patience: float) -> Reply:
        """In a thread of its own: it waits for neighbours, and takes its turns in the agent's."""
        context, caller = get_call_context(), collab.caller

        def tell(names: list[str], round: int, value: bytes) -> None:
            set_call_context(context)
            found = collab.get_clients(names)(timeout=patience, secure=True).hear(run, round, value)
            failed = [*found.failures, *(name for name, reply in found if "heard" not in reply)]
            if failed:
                raise OSError(", ".join(failed))

        desk, turns = self._opened(), self._turns
        return self._walks.begin(run, lambda: desk.walk(caller, run, digest, start, tell, patience, turns))

    @collab.publish
    def walked(self, run: str) -> Reply:
        return self._opened().walked(collab.caller, run, self._walks.end(run))

    @collab.publish
    def hear(self, run: str, round: int, value: bytes) -> Reply:
        return self._opened().hear(collab.caller, run, round, value)

    def _opened(self) -> Desk:
        assert self._desk is not None
        return self._desk

    def _turn(self, method: str, *given: Any) -> Reply:
        caller = collab.caller  # FLARE knows it in its own thread only
        return self._turns(lambda: getattr(self._opened(), method)(caller, *given))
