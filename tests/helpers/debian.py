"""Debian's packages for the tests that need one, installed where they are missing and we may.

No pytest here: a demonstration can load this too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Others may be installing too; apt waits for them for so many seconds.
_INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "--option", "DPkg::Lock::Timeout=600")
_UPDATE = ("apt-get", "update", "--option", "DPkg::Lock::Timeout=600")


class Unavailable(Exception):
    """Something cannot be had here; the message says why."""


def install(what: str, packages: list[str], there: Callable[[], bool]) -> None:
    """Installs packages, without the system services that come with them, unless what they bring is there."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(f"there is no {what} here, and only root on Debian can install it.")
    # One lock for all packages: tests in several processes come here at once, and apt serves one.
    with Path(tempfile.gettempdir(), "dpadmm-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if there():
            return
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        with _no_services():
            try:
                run([*_INSTALL, *packages], env=environment)
            except Unavailable:  # the lists of packages are missing or old
                run([*_UPDATE], env=environment)
                run([*_INSTALL, *packages], env=environment)


def run(command: list[Any], **options: Any) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Unavailable(f"{Path(command[0]).name} failed: {(done.stderr or done.stdout).strip()[-500:]}")


@contextlib.contextmanager
def _no_services() -> Iterator[None]:
    """Debian's own way to install without starting: a policy that forbids it (101)."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():  # somebody has a policy already; it is theirs
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
