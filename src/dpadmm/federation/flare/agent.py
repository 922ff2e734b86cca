"""An owner's end: what FLARE's process for a job runs. The owner's own site names it; nothing that arrives does."""

from __future__ import annotations

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

from dpadmm._threads import end_with_parent, one_thread_pool
from dpadmm.errors import InputError
from dpadmm.federation.client.dispatch import Dispatcher
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.owner_folder import OwnerFolder
from dpadmm.federation.flare import ASK, READY, RELAY
from dpadmm.federation.signed_calls import Desk, tell


class AgentExecutor(Executor):
    """One owner in one job; `folder` is the state of the owner's agent, as `dpadmm agent init` made it."""

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
        end_with_parent()  # FLARE's job processes outlive a site that is killed
        self._open.enter_context(self._owner.running())
        self._open.enter_context(one_thread_pool())
        engine = fl_ctx.get_engine()
        dispatcher = Dispatcher(partial(Handler, self._owner), partial(tell, partial(_carry, engine)))
        self._open.callback(dispatcher.close)
        desk = Desk(dispatcher, self._owner.coordinator(), self._owner.name, str(fl_ctx.get_job_id()))
        engine.register_aux_message_handler(topic=READY, message_handle_func=lambda **_: make_reply(ReturnCode.OK))
        engine.register_aux_message_handler(
            topic=ASK, message_handle_func=lambda request, **_: Shareable({"body": desk.answer(request.get("body"))})
        )


def _carry(engine: Any, body: bytes, seconds: float) -> Any:
    with engine.new_context() as fl_ctx:
        found = engine.send_aux_request(["server"], RELAY, Shareable({"body": body}), seconds, fl_ctx)
    return found["server"].get("body")
