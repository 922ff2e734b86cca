"""What both ends of a stream know: its name, the limits of gRPC below it, and what agents and coordinator send.

An agent begins with "hello", and the coordinator answers "welcome". Then the coordinator sends requests, whose methods
are those of `client.dispatch`, and the agent sends "reply" under the request's number. On a graph the agent sends
"relay", what it tells its neighbours, under numbers of its own, and gets "reply".
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from dpadmm.federation.frames import LARGEST

PATH = "/dpadmm.Federation/Stream"
HELLO, WELCOME, REPLY, RELAY = "hello", "welcome", "reply", "relay"
REPLACED = "another connection of the same owner has replaced this one"
UNKNOWN = "the coordinator has not pinned this certificate"
OTHER_VERSION = "agent and coordinator need the same version of dpadmm"

_BOTH: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", LARGEST),
    ("grpc.max_send_message_length", LARGEST),
    ("grpc.max_metadata_size", 8192),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none: what arrives is as long as it says
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),  # pings may go on while an owner computes
]
SERVER_OPTIONS = [
    *_BOTH,
    ("grpc.so_reuseport", 0),  # two servers at one port would be given half of the calls each
    ("grpc.max_concurrent_streams", 4),
    ("grpc.max_connection_idle_ms", 60_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.server_handshake_timeout_ms", 10_000),
]
CHANNEL_OPTIONS = [
    *_BOTH,
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),  # nothing that name servers say changes how we connect
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # gRPC's time for one attempt to connect
    ("grpc.max_reconnect_backoff_ms", 2_000),
]


class Outbox:
    """Frames on their way out, as gRPC takes them: so many at most, and none after the end."""

    def __init__(self, most: int) -> None:
        self._frames: deque[bytes] = deque()
        self._most, self.over = most, False
        self._changed = threading.Condition()

    def end(self) -> None:
        with self._changed:
            self.over = True
            self._frames.clear()
            self._changed.notify_all()

    def put(self, frame: bytes, wait: bool) -> bool:
        """Whether a frame was taken; with `wait`, room is waited for, until the end."""
        with self._changed:
            while wait and not self.over and len(self._frames) >= self._most:
                self._changed.wait()
            if self.over or len(self._frames) >= self._most:
                return False
            self._frames.append(frame)
            self._changed.notify_all()
            return True

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with self._changed:
                while not self._frames and not self.over:
                    self._changed.wait()
                if self.over:
                    return
                frame = self._frames.popleft()
                self._changed.notify_all()
            yield frame
