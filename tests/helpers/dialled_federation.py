"""A small federation whose owners dial in to a hub of this process, and a service that takes its runs up."""

from __future__ import annotations

from functools import partial
from typing import Any

import streams
from streams import until

from dpadmm.federation.certificates import TLS_NAME
from dpadmm.federation.client.dispatch import Dispatcher
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.grpc.agent import Party
from dpadmm.federation.server.coordinator import Coordinator
from dpadmm.federation.server.service import Service


class Town(streams.Federation):
    """A small federation whose owners dial in to a hub, and a service that takes their runs up."""

    def __init__(self, lived: Any) -> None:
        super().__init__()
        self.lived = lived
        self.dispatchers: dict[str, Dispatcher] = {}
        self.coordinator = streams.Keys(lived.coordinator.tls_key_pem, lived.coordinator.tls_certificate_pem)
        self.pins = {name: card.certificate for name, card in lived.pins().items()}
        (lived.home / "runs").mkdir()

    def party(self, name: str, *_: Any) -> Party:
        mine = self.lived.identities[name]
        keys = mine.tls_key_pem, mine.tls_certificate_pem
        return Party(*keys, self.lived.coordinator.tls_certificate_pem, TLS_NAME, f"127.0.0.1:{self.port}")

    def enter(self, name: str) -> None:
        """An owner's agent begins, as a process of its own would."""
        self.dispatchers[name] = Dispatcher(partial(Handler, self.lived.owner(name)), lambda *_: ())
        self.join(name, self.dispatchers[name])

    def serve(self) -> Service:
        return Service(self.lived.home / "runs", self.hub, self._job, self.told.append)

    def _job(self, folder: Any, session: Any) -> None:
        Coordinator(folder.path.name, folder, session, self.lived.pins).run()

    def finish(self, folder: Any, seconds: float = 15.0) -> dict[str, Any]:
        service = self.serve()

        def over() -> bool:
            service.look()
            return folder.status()["state"] in ("finished", "failed", "refused")

        try:
            until(over, seconds)
        except AssertionError:
            raise AssertionError(
                (folder.status(), self.told, self.noted, (folder.path / "events.txt").read_text())
            ) from None
        return dict(folder.status())
