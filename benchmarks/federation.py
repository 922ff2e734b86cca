"""What a federated call costs beside a bare one: three owners as processes of their own on loopback, mutual TLS.

    python benchmarks/federation.py --json

Adult over three owners, d = 104, DP-ADMM with real noise and ledgers on disk. A bare call is a message of a release's
size to three processes and back, over gRPC streams with mutual TLS and nothing else. A federated call is what the
coordinator waits for in a round: three owners check the request, compute, debit, write to disk, sign and answer.
`ratio` is its median over that of a bare call plus the slowest owner's own time in the same round (inside its
dispatcher). All owners share this machine's cores and its disk, which they would not elsewhere. `many` is the time of
100 rounds with thirty owners as processes, with 50 records each.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dpadmm.datasets import ADULT_ENCODER, adult_table
from dpadmm.federation.cards import COORDINATOR, OWNER
from dpadmm.federation.certificates import TLS_NAME
from dpadmm.federation.identity import Identity
from dpadmm.spec.columns import Schema
from timing import arguments, show

OWNERS = ("one", "two", "three")
SPEC = """
[run]
algorithm = "dp-admm"
rounds = {rounds}
epsilon = 1.0
delta = 1e-6

[federation]
timeout = 120
"""
# What the processes load at their start: clocks around calls and answers.
CLOCKS = """
import os

if os.environ.get("DPADMM_BENCH"):
    import atexit, json, time
    from dpadmm.federation.client.dispatch import Dispatcher
    from dpadmm.federation.grpc.session import Session

    def timed(kind, call):
        times = []

        def clocked(self, method, given, *rest):
            began = time.perf_counter()
            reply = call(self, method, given, *rest)
            if method == "answer_step":
                times.append(time.perf_counter() - began)
            elif method == "finish":
                with open(os.path.join(os.environ["DPADMM_BENCH"], f"{kind}-{os.getpid()}.json"), "w") as file:
                    json.dump(times, file)
            return reply

        return clocked

    Dispatcher.answer = timed("answer", Dispatcher.answer)
    Session.ask = timed("call", Session.ask)
"""
ECHO = """
import queue, sys
from pathlib import Path
import grpc

home, port, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
key, mine, root = (home / "key").read_bytes(), (home / "certificate").read_bytes(), (home / "root").read_bytes()
options = [("grpc.ssl_target_name_override", name)]
channel = grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(root, key, mine), options=options)
out = queue.SimpleQueue()
for data in channel.stream_stream("/bare/stream")(iter(out.get, None)):
    out.put(data)
"""


def main() -> None:
    given = arguments(__doc__ or "", rounds=200, repeats=1)
    bare = bare_call(given.rounds)
    found = {"bare_milliseconds": 1e3 * bare}
    for records in (15_000, 1_000):
        figures = measured(records, given.rounds, bare)
        found |= {f"{name}_with_{records}_records": value for name, value in figures.items()}
    found["many_seconds"] = many(30, 100)
    show(found, given.json)


# -- a bare call -------------------------------------------------------------------------------------------------------


def bare_call(rounds: int, size: int = 1000) -> float:
    """The median time of a message to three processes and back."""
    server, client = Identity.create("bench", COORDINATOR), Identity.create("owner", OWNER)
    arrived: SimpleQueue[bytes] = SimpleQueue()
    outs: list[SimpleQueue[bytes | None]] = []

    def stream(arriving: Iterator[bytes], context: Any) -> Iterator[bytes]:
        out: SimpleQueue[bytes | None] = SimpleQueue()
        threading.Thread(target=lambda: [arrived.put(data) for data in arriving], daemon=True).start()
        outs.append(out)
        yield from iter(out.get, None)

    credentials = grpc.ssl_server_credentials(
        [(server.tls_key_pem, server.tls_certificate_pem)], client.tls_certificate_pem, require_client_auth=True
    )
    hub = grpc.server(ThreadPoolExecutor(8), handlers=[_Handler(stream)])
    port = hub.add_secure_port("localhost:0", credentials)
    hub.start()
    with tempfile.TemporaryDirectory() as place:
        for name, data in (
            ("key", client.tls_key_pem),
            ("certificate", client.tls_certificate_pem),
            ("root", server.tls_certificate_pem),
        ):
            (Path(place) / name).write_bytes(data)
        command = [sys.executable, "-c", ECHO, place, str(port), TLS_NAME]
        processes = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in OWNERS]
        try:
            while len(outs) < len(OWNERS):
                time.sleep(0.05)
            times = []
            for _ in range(rounds):
                began = time.perf_counter()
                for out in outs:
                    out.put(bytes(size))
                for _ in outs:
                    arrived.get()
                times.append(time.perf_counter() - began)
        finally:
            for out in outs:
                out.put(None)
            for process in processes:
                process.kill()
            hub.stop(0).wait()
    return float(np.median(times[10:]))


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, stream: Any) -> None:
        self._handler = grpc.stream_stream_rpc_method_handler(stream)

    def service(self, details: Any) -> Any:
        return self._handler


# -- federated ---------------------------------------------------------------------------------------------------------


def measured(records: int, rounds: int, bare: float) -> dict[str, float]:
    """Times of one run with so many records at each owner."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        table = adult_table()
        parts = np.array_split(np.random.default_rng(0).permutation(table.num_rows), len(OWNERS))
        for name, rows in zip(OWNERS, parts, strict=True):
            parquet.write_table(table.take(pa.array(rows[:records])), home / f"{name}.parquet")
        (home / "sitecustomize.py").write_text(CLOCKS)
        (home / "times").mkdir()
        clocks = {"PYTHONPATH": os.pathsep.join([str(home), *filter(None, [os.environ.get("PYTHONPATH")])])}
        federated(home, OWNERS, rounds, {**clocks, "DPADMM_BENCH": str(home / "times")})
        (call,) = [json.loads(path.read_text()) for path in (home / "times").glob("call-*.json")]
        answers = np.array([json.loads(path.read_text()) for path in (home / "times").glob("answer-*.json")])
    settled = slice(5, None)  # the first ones compile and warm up
    calls, slowest = np.array(call)[settled], answers.max(axis=0)[settled]
    return {
        "ratio": float(np.median(calls / (bare + slowest))),
        "call_milliseconds": 1e3 * float(np.median(calls)),
        "answer_milliseconds": 1e3 * float(np.median(slowest)),
    }


def many(owners: int, rounds: int) -> float:
    """Seconds of a run with so many owners as processes."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        table = adult_table()
        names = [f"owner-{number}" for number in range(owners)]
        order = np.random.default_rng(0).permutation(table.num_rows)
        for number, name in enumerate(names):
            rows = pa.array(order[50 * number : 50 * (number + 1)])
            parquet.write_table(table.take(rows), home / f"{name}.parquet")
        return federated(home, names, rounds, {})


def federated(home: Path, names: Any, rounds: int, environment: dict[str, str]) -> float:
    """A run from nothing to its end, by the commands that people give; the seconds that `submit` took."""
    surroundings = {**os.environ, **environment, "DPADMM_STATE": str(home / "state")}
    surroundings |= dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    study, columns, spec = home / "study", home / "columns.toml", home / "bench.toml"
    columns.write_text(Schema.of(ADULT_ENCODER, "income", ("<=50K", ">50K")).dumps())
    spec.write_text(SPEC.format(rounds=rounds))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])

    def run(*words: Any) -> None:
        done = subprocess.run(command(*words), env=surroundings, cwd=home, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)

    run("federation", "init", study, "--host", "localhost", "--port", port, "--columns", columns)
    for name in names:
        (home / f"{name}.toml").write_text(f'dataset = "{name}"\nepsilon = 2.0\ndelta = 1e-6\n')
        given = ("--policy", home / f"{name}.toml", "--data", home / f"{name}.parquet")
        run("agent", "init", name, "--invitation", study / "invitation.json", *given)
    run("federation", "add", study, *(f"{name}.card.json" for name in names))
    with contextlib.ExitStack() as stack:
        stack.enter_context(kept(surroundings, home, "coordinator", "start", study))
        for name in names:
            stack.enter_context(kept(surroundings, home, "agent", "start", name))
        began = time.monotonic()
        run("submit", spec, "--federation", study, "--limit", "300", "--json")
        return time.monotonic() - began


@contextlib.contextmanager
def kept(environment: dict[str, str], home: Path, *words: Any) -> Iterator[None]:
    """One of our commands, in the background until the end, which is Ctrl-C."""
    process = subprocess.Popen(
        command(*words), env=environment, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()


def command(*words: Any) -> list[str]:
    return [sys.executable, "-c", "from dpadmm.cli.main import main; main()", *map(str, words)]


if __name__ == "__main__":
    main()
