"""An owner's end: what FLARE's process for a job runs. The owner's own site names it; nothing that arrives does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from dpadmm._threads import one_thread_pool
from dpadmm.errors import InputError
from dpadmm.federation.client.dispatch import Dispatcher
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.owner_folder import OwnerFolder
from dpadmm.federation.flare import ASK, READY, RELAY
from dpadmm.federation.frames import FrameError, decode, encode
from dpadmm.federation.signed_calls import Desk


class AgentExecutor(Executor):
    """One owner in one job.

    Args:
        folder: The state of the owner's agent, as `dpadmm agent init` made it.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._owner = OwnerFolder(Path(folder))
        self._open = ExitStack()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        if event_type == EventType.START_RUN:
            try:
                self._begin(fl_ctx)
            except InputError as error:  # the owner's own affair: its log says what, FLARE's only that
                self._owner.note("error", asked="begin", reason=str(error))
                self.system_panic("the owner's agent cannot begin; its log says why", fl_ctx)
        elif event_type == EventType.END_RUN:
            self._open.close()

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """FLARE's tasks are none of ours."""
        return make_reply(ReturnCode.TASK_UNKNOWN)

    def _begin(self, fl_ctx: FLContext) -> None:
        if fl_ctx.get_identity_name() != self._owner.name:
            raise InputError(f"FLARE's name of this site must be the owner's, {self._owner.name!r}.")
        self._open.enter_context(self._owner.running())
        self._open.enter_context(one_thread_pool())
        engine = fl_ctx.get_engine()
        dispatcher = Dispatcher(partial(Handler, self._owner), partial(_relay, engine))
        self._open.callback(dispatcher.close)
        desk = Desk(dispatcher, self._owner.coordinator(), self._owner.name, str(fl_ctx.get_job_id()))
        engine.register_aux_message_handler(topic=READY, message_handle_func=lambda **_: make_reply(ReturnCode.OK))
        engine.register_aux_message_handler(
            topic=ASK, message_handle_func=lambda request, **_: Shareable({"body": desk.answer(request.get("body"))})
        )


def _relay(engine: Any, run: str, round: int, letters: Mapping[str, bytes], seconds: float) -> Collection[str]:
    """Tells neighbours through the coordinator; who has got its letter."""
    try:
        body = encode({"run": run, "round": round, "letters": dict(letters), "timeout": float(seconds)})
        with engine.new_context() as fl_ctx:
            found = engine.send_aux_request(["server"], RELAY, Shareable({"body": body}), float(seconds), fl_ctx)
        told = decode(found["server"].get("body"))
        return [name for name in letters if name in told["told"]]
    except (FrameError, KeyError, TypeError) as error:
        raise OSError(type(error).__name__) from None
