"""Clusters: workers on this machine that are started and ended here, or those of somebody's scheduler."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from distributed.comm import get_address_host_port

from dpadmm.engine.executors.dask.actor import facts
from dpadmm.errors import InputError

TIMEOUT = 5.0  # seconds for a scheduler to answer


@contextmanager
def own_workers(count: int | None = None) -> Iterator[Client]:
    """One single-threaded process for each core, unless another number is asked for: then they share the cores."""
    number = count or CPU_COUNT
    # No limit of memory: what a worker holds is what this process would hold, and a worker that is ended at its limit
    # comes back to the same batch.
    with (
        LocalCluster(
            n_workers=number, threads_per_worker=max(1, CPU_COUNT // number), processes=True,
            memory_limit=None, dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster, set_as_default=False, direct_to_workers=True) as client,
    ):  # fmt: skip
        try:
            yield client
        finally:
            with suppress(OSError, RuntimeError, ValueError):  # from here on they could only complain of their end
                client.run(_be_quiet, on_error="ignore")


@contextmanager
def workers_of(address: str) -> Iterator[Client]:
    """The workers that a scheduler has; they must run the same code as we do, and go on when we are done."""
    try:
        _greeted_by(address)
        client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise _silent(address, error) from None
    with client:
        try:
            _check(address, client)
        except (OSError, TimeoutError) as error:
            raise _silent(address, error) from None
        yield client


def _silent(address: str, error: BaseException) -> InputError:
    return InputError(
        f"engine 'dask:{address}': no scheduler answered within {TIMEOUT:.0f} seconds ({_line(error)}); start one with "
        "'dask scheduler', or use --engine dask for workers on this machine."
    )


def _check(address: str, client: Client) -> None:
    """Before anything runs: there are workers, and they would compute what we would."""
    told = client.run(facts, on_error="return")
    workers = fitting(f"engine 'dask:{address}'", told, facts())
    if not workers:
        raise InputError(
            f"engine 'dask:{address}': the scheduler has no workers; start some with 'dask worker {address}'."
        )
    client.direct_to_workers = all(map(_reachable, workers))  # else the scheduler passes everything on


def fitting(engine: str, told: Mapping[str, Any], mine: Mapping[str, str]) -> list[str]:
    """The workers, by what they told of themselves; an `InputError` if one of them does not fit."""
    found = []
    for worker, theirs in told.items():
        if isinstance(theirs, OSError):  # it has just left
            continue
        if isinstance(theirs, BaseException):
            raise InputError(
                f"{engine}: worker {worker} cannot run dpadmm ({_line(theirs)}); install dpadmm[cluster] "
                f"{mine['dpadmm']} there."
            )
        other = [
            f"{name} {theirs.get(name)} there, {mine[name]} here" for name in mine if theirs.get(name) != mine[name]
        ]
        if other:
            raise InputError(
                f"{engine}: worker {worker} could compute other numbers: {'; '.join(other)}. Install the same there, "
                "and start the worker again."
            )
        found.append(worker)
    return found


def _greeted_by(address: str) -> None:
    """A scheduler speaks first. Dask would wait for ever for a stranger on the port to do so."""
    with socket.create_connection(get_address_host_port(address), timeout=TIMEOUT) as line:
        if address.startswith("tcp://") and not line.recv(1):
            raise ConnectionError("it hung up")


def _reachable(worker: str) -> bool:
    try:
        socket.create_connection(get_address_host_port(worker), timeout=1.0).close()
    except (OSError, ValueError):
        return False
    return True


def _be_quiet() -> None:
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("distributed."):
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(": ")
