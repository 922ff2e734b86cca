"""What FLARE runs at the coordinator: one job of one run. A job names this class and ships no code."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from dpadmm.federation.server.coordinator import Coordinator
from dpadmm.federation.server.enrolment import Replies
from dpadmm.federation.server.run_folder import RunFolder


class CoordinatorApp:
    """The job's properties say which run it is and where that is written down."""

    @collab.main
    def run(self) -> None:
        folder = RunFolder(Path(collab.get_app_prop("folder")))
        Coordinator(collab.get_app_prop("run"), folder, _FlareLine()).run()


class _FlareLine:
    """The owners of a job. Who fails or does not answer in time is missing from the replies."""

    def __init__(self) -> None:
        self._clients = {client.name: client for client in collab.clients}
        self._threads = ThreadPoolExecutor(max(1, len(self._clients)))

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(self._clients)

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> Replies:
        contents = list(calls.values())
        if all(content == contents[0] for content in contents[1:]):  # one call to all of them, as FLARE likes it
            group = collab.get_clients(list(calls))(timeout=seconds)
            return dict(getattr(group, method)(**contents[0]))
        found = self._threads.map(lambda name: self._one(name, method, calls[name], seconds), calls)
        return {name: reply for name, reply in zip(calls, found, strict=True) if reply is not None}

    def _one(self, name: str, method: str, call: Mapping[str, Any], seconds: float) -> Any:
        # An optional call that fails answers None.
        return getattr(self._clients[name](timeout=seconds, optional=True), method)(**call)
