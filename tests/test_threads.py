"""A process that must not outlive the one that started it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

psutil = pytest.importorskip("psutil", reason="needs the extra 'federation'")

CHILD = "from dpadmm._threads import end_with_parent; end_with_parent(0.05); print(1, flush=True); input()"
PARENT = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
    "child.stdout.readline()\n"
    "print(child.pid, flush=True)\n"
    "input()\n"
)


def test_a_process_ends_when_its_parent_was_killed() -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        time.sleep(0.3)
        assert child.is_running()  # as long as the parent lives
        parent.kill()
    child.wait(10.0)
