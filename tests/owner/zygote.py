"""A process in which everything is imported and compiled, and that forks owners' processes from there.

Commands come as JSON lines on stdin: [name, [arguments of one child], ...]. The answer is a line with the children's
process numbers, then, when all have ended, one with their wait statuses. Children of one command wait for each other
before they begin.

Forking a process whose compiled loops have started threads is safe with Numba's "workqueue" only, so whoever starts
this must set NUMBA_THREADING_LAYER.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))
import owners as sample

from dpadmm.errors import InputError, Refused
from dpadmm.privacy.events import GaussianDpEvent, Relation
from dpadmm.privacy.filter import Cap
from dpadmm.privacy.ledger import record
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import Unit


def play(path: str, out: str, algorithm: str, rounds: int, crash: int = 0, first: int = 1, last: int = 0) -> None:
    """Answers the rounds of a run, and notes every release after `answer` has returned: that is what left the process.

    With `crash`, the process ends before the so-manieth SQL statement after joining.
    """
    terms = sample.agreement(algorithm, rounds=rounds)
    agent = sample.agent(Path(path), sample.policy(epsilon=2.0), fast=False)
    agent.join("run", terms)
    left = [crash]

    def count(_: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            os._exit(7)

    if crash:
        agent.ledger._connection.set_trace_callback(count)
    sent = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for round in range(first, (last or rounds) + 1):
        release = agent.answer(sample.request(terms, round))
        os.write(sent, f"{round} {hashlib.sha256(release.value.tobytes()).hexdigest()}\n".encode())


def die(path: str, out: str, algorithm: str, rounds: int, crash: int, first: int, note_of_step: str) -> None:
    """As `play`, of one round, and killed before the so-manieth step: of joining, of the answer, of the debit (every
    statement of the file, every write and sync of its log), or of sending. The step is noted before the kill.
    With a `crash` of 0 it is not killed."""
    left = [crash]

    def step(what: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            Path(note_of_step).write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)

    def before(call: Any, what: str) -> Any:
        def counted(*arguments: Any) -> Any:
            step(what)
            return call(*arguments)

        return counted

    record.os.pwrite = before(os.pwrite, "log: write")
    record.os.fdatasync = before(os.fdatasync, "log: sync")
    record.os.fsync = before(os.fsync, "state: sync")
    terms = sample.agreement(algorithm, rounds=rounds)
    agent = sample.agent(Path(path), sample.policy(epsilon=2.0), fast=False)
    agent.ledger._connection.set_trace_callback(lambda text: step(f"file: {' '.join(text.split()[:3])}"))
    agent.join("run", terms)
    release = agent.answer(sample.request(terms, first))
    step("send")
    line = f"{first} {hashlib.sha256(release.value.tobytes()).hexdigest()}\n".encode()
    sent = os.open(out, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(sent, line)
    step("sent")


def join(path: str, out: str, run: str) -> None:
    """Tries to join a run that leaves no room for another one."""
    agent = sample.agent(Path(path), sample.policy(epsilon=2.5), fast=False)
    barrier()
    with contextlib.suppress(Refused):
        agent.join(run, sample.agreement())
        note(out, run)


def create(path: str, out: str, run: str) -> None:
    """Tries to make the ledger."""
    barrier()
    with contextlib.suppress(InputError):
        made = SqliteLedger.create(Path(path), "patients", "d" * 64, Relation.REPLACE)
        made.reserve(run, "terms", [{GaussianDpEvent(50.0): 1}], Cap(2.0, 1e-6), Unit(), {})
        note(out, run)


def step(path: str, out: str, run: str) -> None:
    """Tries a step that takes all that is left, in a run that holds nothing."""
    agent = sample.agent(Path(path), sample.policy(epsilon=2.5, reserve=False), fast=False)
    terms = sample.agreement(rounds=1)
    agent.join(run, terms)
    barrier()
    with contextlib.suppress(Refused):
        agent.answer(sample.request(terms, 1, run))
        note(out, run)


def together(path: str, out: str, rounds: int) -> None:
    """Answers all rounds of one run, which another process answers at the same time."""
    terms = sample.agreement("pvp", rounds=rounds)
    agent = sample.agent(Path(path), fast=False)
    agent.join("run", terms)
    barrier()
    for round in range(1, rounds + 1):
        release = agent.answer(sample.request(terms, round))
        note(out, f"{round} {hashlib.sha256(release.value.tobytes()).hexdigest()}")


def note(out: str, text: str) -> None:
    with Path(out).open("a") as file:
        file.write(f"{text}\n")


def barrier() -> None:
    """Until every child of this command is here."""
    os.write(READY[1], b"x")
    os.read(GO[0], 1)


READY: tuple[int, int]
GO: tuple[int, int]


def fork(name: str, arguments: list[Any]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        os.close(GO[1])
        os.close(READY[0])
        globals()[name](*arguments)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        with contextlib.suppress(OSError):
            os.write(READY[1], b"x")  # the others need not wait
        os._exit(3)


def main() -> None:
    global READY, GO
    with tempfile.TemporaryDirectory() as folder:  # compile all that children will need
        for algorithm in ("dp-admm", "pvp"):
            play(f"{folder}/{algorithm}", f"{folder}/out", algorithm, 2)
    print("warm", flush=True)
    for line in sys.stdin:
        name, *children = json.loads(line)
        READY, GO = os.pipe(), os.pipe()
        numbers = [fork(name, arguments) for arguments in children]
        os.close(READY[1])
        os.close(GO[0])
        print(json.dumps(numbers), flush=True)
        if len(children) > 1:
            arrived = 0
            while arrived < len(children) and (more := os.read(READY[0], 1)):
                arrived += len(more)
        os.close(GO[1])  # they read the end of file at once
        os.close(READY[0])
        print(json.dumps([os.waitpid(number, 0)[1] for number in numbers]), flush=True)


if __name__ == "__main__":
    main()
