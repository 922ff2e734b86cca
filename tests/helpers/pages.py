"""Runs the commands of a page as a reader would: literally, in order, in a folder with nothing but the page's files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Unavailable(Exception):
    """No wheel can be built here; the message says why."""


def wheel(place: Path) -> Path:
    """The wheel of this checkout, installed into a folder of its own; what it needs comes from this environment."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    words = [*pip, "wheel", "--no-deps", "-w", str(place), str(ROOT)]
    made = subprocess.run(words, capture_output=True, text=True, timeout=300)
    if made.returncode != 0:
        raise Unavailable(made.stderr[-500:])
    (built,) = place.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place / "site"), str(built)], check=True, timeout=300)
    return place / "site"


def blocks(page: str, kind: str) -> list[str]:
    """The blocks of a kind in a page of the documentation."""
    return re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / page).read_text(), flags=re.M | re.S)


def commands(page: str) -> list[str]:
    """The lines of all shell blocks."""
    joined = "\n".join(blocks(page, "sh")).replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip()]


class Shell:
    """A folder and what runs in it."""

    def __init__(self, folder: Path, wheel: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        own = {"DPADMM_STATE": str(folder / "state"), "COLUMNS": "200", "PYTHONPATH": str(wheel)}
        own["PATH"] = f"{wheel / 'bin'}:{os.environ['PATH']}"
        threads = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        self.environment = {**os.environ, **threads, **own, **environment}
        self.background: list[subprocess.Popen[bytes]] = []
        self.said: dict[str, str] = {}

    def run(self, line: str, seconds: float = 120.0) -> str:
        """One line; in the background where it ends in an ampersand."""
        whole = {"cwd": self.folder, "env": self.environment, "stdin": subprocess.DEVNULL}
        if line.endswith("&"):
            log = self.folder / f"log-{len(self.background)}.txt"
            with log.open("wb") as file:
                self.background.append(
                    subprocess.Popen(["bash", "-c", f"exec {line[:-1]}"], stdout=file, stderr=file, **whole)  # type: ignore[call-overload]
                )
            return ""
        found = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=seconds, **whole)  # type: ignore[call-overload]
        logs = "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("log-*.txt")))
        assert found.returncode == 0, f"{line}\n{found.stdout}{found.stderr}\n{logs}"
        self.said[line] = found.stdout
        return str(found.stdout)

    def page(self, page: str, before: Mapping[str, Callable[[], None]] | None = None) -> dict[str, str]:
        """All commands of a page; `before` says what happens outside of it before a command that begins so."""
        for line in commands(page):
            for beginning, call in (before or {}).items():
                if line.startswith(beginning):
                    call()
            self.run(line)
        return self.said

    def end(self) -> None:
        for process in self.background:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in self.background:
            try:
                process.wait(20.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def shell(folder: Path, wheel: Path, **environment: str) -> Iterator[Shell]:
    made = Shell(folder, wheel, environment)
    try:
        yield made
    finally:
        made.end()


def until(condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)
