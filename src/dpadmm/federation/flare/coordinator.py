"""The coordinator's end: one FLARE job is one attempt at a run, as far as the owners who are there allow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from dpadmm._private_files import locked
from dpadmm.federation.flare import ASK, READY, RELAY
from dpadmm.federation.server.coordinator import Coordinator
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.signed_calls import Session

_START = 60.0  # seconds that owners' processes may take to begin


class RunController(Controller):
    """Takes a submitted run of a federation as far as one job gets.

    Args:
        federation: The federation's folder.
        run: The run's name.
    """

    def __init__(self, federation: str, run: str) -> None:
        super().__init__()
        self._folder, self._run = Path(federation), run
        self._engine: Any = None
        self._session: Session | None = None

    def start_controller(self, fl_ctx: FLContext) -> None:
        self._engine = fl_ctx.get_engine()
        self._engine.register_aux_message_handler(topic=RELAY, message_handle_func=self._relay)

    def stop_controller(self, fl_ctx: FLContext) -> None: ...

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None: ...

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        home, job = Federation.open(self._folder), str(fl_ctx.get_job_id())
        folder = RunFolder(home.runs / self._run)
        with locked((self._folder / "keys" / "lock").absolute()) as mine:
            if not mine:
                self.system_panic("another process already serves this federation", fl_ctx)
                return
            present = self._gather(abort_signal)
            folder.note(f"FLARE's job {job} with {', '.join(present)}")
            self._session = Session(home.identity(), job, present, partial(self._send, abort_signal, ASK))
            Coordinator(self._run, folder, self._session, home.pins).run()
        status = folder.status()
        if status["state"] != "finished":
            self.system_panic(f"the run is {status['state']}: {status.get('message')}; submit it again", fl_ctx)

    def _gather(self, abort: Signal) -> tuple[str, ...]:
        """The owners of this job whose agents have begun."""
        names, ready = sorted(client.name for client in self._engine.get_clients()), set[str]()
        until = time.monotonic() + _START
        while len(ready) < len(names) and time.monotonic() < until and not abort.triggered:
            ready |= self._send(abort, READY, {name: b"" for name in names if name not in ready}, 2.0).keys()
            time.sleep(0.1)
        return tuple(name for name in names if name in ready)

    def _send(self, abort: Signal, topic: str, requests: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        def one(name: str) -> bytes | None:
            asked = Shareable({"body": requests[name]})
            with self._engine.new_context() as fl_ctx:
                found = self._engine.send_aux_request([name], topic, asked, float(seconds), fl_ctx, optional=True)
            reply = found.get(name)
            return reply.get("body", b"") if reply and reply.get_return_code() == ReturnCode.OK else None

        if not requests or abort.triggered:
            return {}
        with ThreadPoolExecutor(len(requests)) as all_at_once:
            found = zip(requests, all_at_once.map(one, requests), strict=True)
            return {name: body for name, body in found if body is not None}

    def _relay(self, topic: str, request: Shareable, fl_ctx: FLContext) -> Shareable:
        sender = fl_ctx.get_peer_context().get_identity_name()
        return Shareable({"body": self._session.pass_on(sender, request.get("body")) if self._session else b""})
