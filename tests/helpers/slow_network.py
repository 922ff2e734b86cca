"""Two hosts on one machine and a slow and lossy cable between them.

The hosts are network namespaces. The cable is a TUN device in either of them and this program, which carries every
packet from one to the other later, or not at all: `tc netem` would do the same, where the kernel has it.

    python network.py NAMESPACE NAMESPACE SECONDS SHARE_LOST
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

ADDRESSES = ("10.99.7.1", "10.99.7.2")
_SET_INTERFACE, _TUN_WITHOUT_HEADER, _NEW_NETWORK = 0x400454CA, 0x1001, 0x40000000


class Unavailable(Exception):
    """No such network can be had here; the message says why."""


def enter(network: str | None) -> None:
    """Moves this thread, and what it starts, into a network namespace."""
    if network is not None:
        with Path("/run/netns", network).open() as file:
            failed = ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEW_NETWORK)
            assert not failed, os.strerror(ctypes.get_errno())


@contextmanager
def two_hosts(delay: float, loss: float) -> Iterator[tuple[str, str]]:
    """The names of their namespaces; the first has the first address."""
    if os.geteuid() != 0 or not Path("/dev/net/tun").exists():
        raise Unavailable("network namespaces and TUN devices need root")
    names = tuple(f"dpadmm-{os.getpid()}-{place}" for place in ("a", "b"))
    with ExitStack() as undo:
        try:
            for name in names:
                subprocess.run(("ip", "netns", "add", name), check=True, capture_output=True)
                undo.callback(subprocess.run, ("ip", "netns", "del", name), capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"no network namespaces here: {error}") from None
        words = [sys.executable, __file__, *names, str(delay), str(loss)]
        cable = subprocess.Popen(words, stdout=subprocess.PIPE)
        undo.callback(cable.wait)
        undo.callback(cable.kill)
        assert cable.stdout is not None
        undo.callback(cable.stdout.close)
        if cable.stdout.readline() != b"ready\n":
            raise Unavailable("the cable could not be laid")
        yield names[0], names[1]


def _end_of_cable(network: str, address: str) -> int:
    """A TUN device inside a namespace, seen from here."""

    def make() -> int:
        end = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(end, _SET_INTERFACE, struct.pack("16sH", b"cable", _TUN_WITHOUT_HEADER))
        for words in (f"addr add {address}/24 dev cable", "link set cable up mtu 1400", "link set lo up"):
            subprocess.run(("ip", *words.split()), check=True)
        return end

    with ThreadPoolExecutor(1, initializer=enter, initargs=(network,)) as inside:
        return inside.submit(make).result()


def carry(networks: list[str], delay: float, loss: float) -> None:
    ends = [_end_of_cable(network, address) for network, address in zip(networks, ADDRESSES, strict=True)]
    under_way: list[tuple[float, int, int, bytes]] = []
    count = 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        ready, _, _ = select.select(ends, [], [], wait)
        for end in ready:
            packet = os.read(end, 65536)
            if random.random() >= loss:
                count += 1
                other = ends[1] if end == ends[0] else ends[0]
                heapq.heappush(under_way, (time.monotonic() + delay, count, other, packet))
        while under_way and under_way[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(under_way)
            os.write(end, packet)


if __name__ == "__main__":
    carry(sys.argv[1:3], float(sys.argv[3]), float(sys.argv[4]))
