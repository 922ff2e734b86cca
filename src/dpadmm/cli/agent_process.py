"""The agent's process: one connection to the coordinator, one thread that answers, and files for its owner's orders."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from dpadmm.errors import InputError
from dpadmm.federation.client.decisions import Decisions
from dpadmm.federation.client.owner_folder import OwnerFolder

_LOOK = 0.5  # seconds between looks at the owner's orders, and at the log


def serve(folder: OwnerFolder, tell: Callable[[str], None], show: Callable[[dict[str, Any]], None]) -> None:
    """Takes part until the owner stops it, by Ctrl-C, SIGTERM or a signed order.

    Args:
        folder: The owner's state.
        tell: Told about the connection.
        show: Told what was asked, agreed and refused.

    Raises:
        InputError: The agent runs already, or the extra is not installed.
    """
    from dpadmm.federation.certificates import TLS_NAME
    from dpadmm.federation.client.dispatch import Dispatcher
    from dpadmm.federation.client.handler import Handler

    try:
        from dpadmm.federation.grpc.agent import Party
        from dpadmm.federation.grpc.agent import serve as connect
    except ModuleNotFoundError as error:
        raise InputError(
            f"'agent start' needs the package {error.name!r}, which comes with an extra: "
            f"pip install 'dpadmm[federation]'."
        ) from None
    os.umask(0o077)  # whatever this process writes is its owner's
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with folder.running() as process:
        identity, coordinator = folder.identity(), folder.coordinator()
        seen = len(folder.events(10**9))
        watch = threading.Thread(
            target=_watch, args=(folder, folder.decisions(identity.card), process, stop, show, seen), daemon=True
        )
        watch.start()
        dispatcher = Dispatcher(lambda: Handler(folder), lambda *_: ())
        address = folder.settings().address
        keys = identity.tls_key_pem, identity.tls_certificate_pem
        try:
            tell(
                f"Connecting to {coordinator.name} at {address}. Ctrl-C, or 'dpadmm agent stop {folder.name}', ends it."
            )
            connect(Party(*keys, coordinator.certificate_pem, TLS_NAME, address), dispatcher, stop, tell)
        finally:
            stop.set()
            dispatcher.close()
            watch.join()


def _watch(
    folder: OwnerFolder,
    decisions: Decisions,
    process: str,
    stop: threading.Event,
    show: Callable[[dict[str, Any]], None],
    seen: int,
) -> None:
    """Looks for an order to stop, and shows what is new in the log."""
    log, size = folder.path / "events.jsonl", -1
    while not stop.wait(_LOOK):
        try:
            if decisions.use_stop(process):
                folder.note("stopped")
                stop.set()
            found = log.stat().st_size if log.exists() else 0
        except (InputError, OSError):  # the folder is not in order; requests are refused for that
            continue
        if found != size:
            size, events = found, folder.events(10**9)
            for event in events[seen:] if len(events) >= seen else events:
                show(event)
            seen = len(events)
