"""The owners of one job: those that were present when it began, on the streams that they had then.

An owner that connects again may be another process, which has joined nothing yet. So its new stream belongs to the next
job, and to this one it is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from dpadmm.federation.frames import FrameError, decode, encode
from dpadmm.federation.grpc.line import Line

Replies = dict[str, Any]


class Session:
    """The transport of one job.

    Args:
        lines: The owners' streams.
        together: Told which owners are asked to run rounds together.
    """

    def __init__(self, lines: Mapping[str, Line], together: Callable[[Mapping[str, Mapping[str, Any]]], None]) -> None:
        self._lines, self._together = dict(lines), together

    @property
    def present(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def ask(self, method: str, calls: Mapping[str, Mapping[str, Any]], seconds: float) -> Replies:
        """Calls a method of several owners at once.

        Args:
            method: What is asked.
            calls: The arguments, by owner.
            seconds: How long to wait for replies.

        Returns:
            A reply for everybody who answered in time.

        Raises:
            FrameError: A call is no message: too long, for instance.
        """
        until = time.monotonic() + seconds
        if method == "run_rounds":
            self._together(calls)
        bodies: dict[int, bytes] = {}  # calls are often one and the same, which is encoded once
        asked: dict[str, tuple[Line, Future[bytes]]] = {}
        for name, call in calls.items():
            body = bodies[id(call)] = bodies.get(id(call)) or encode(call)
            line = self._lines.get(name)
            future = None if line is None else line.request(method, body, until)
            if line is not None and future is not None:
                asked[name] = line, future
        found = {}
        for name, (line, future) in asked.items():
            try:
                found[name] = decode(future.result(max(0.0, until - time.monotonic())))
            except FrameError:
                line.end("it answered what is no message")
            except Exception:  # cancelled or too late: it is missing
                continue
        return found
