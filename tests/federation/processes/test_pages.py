"""Every command of docs/federation.md and docs/owner.md, as the pages have them and in their order, with the installed
wheel, in an empty folder that holds only the files that the pages speak of."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]
PORT = 8002  # that the commands of docs/federation.md have


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", (ROOT / "docs" / page).read_text(), flags=re.M | re.S)


def commands(block: str) -> list[str]:
    return [line for line in block.splitlines() if line.strip() and not line.startswith("#")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the wheel of this checkout was installed, and nothing else."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    made = subprocess.run([*pip, "wheel", "--no-deps", "-w", str(place), str(ROOT)], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no wheel can be built here: {made.stderr[-300:]}")
    (built,) = place.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(place / "site"), str(built)], check=True)
    return place / "site"


class Shell:
    """Where somebody gives commands: a folder, a state of its own, and processes in the background."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.home = home / "folder"
        self.home.mkdir()
        threads = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        paths = [str(wheel / "bin"), str(Path(sys.executable).parent), "/usr/bin", "/bin"]
        self.environment = {"PATH": os.pathsep.join(paths), "PYTHONPATH": str(wheel), "HOME": str(home), **threads}

    def run(self, command: str, seconds: float = 180.0) -> str:
        """What a command prints. One that ends in '&' goes on in the background, as it does in a shell, and prints
        into the same file, which is why each command has its own."""
        with tempfile.TemporaryFile("w+", dir=self.home.parent) as said:
            given = ["bash", "-c", command]
            done = subprocess.run(given, cwd=self.home, env=self.environment, stdout=said, stderr=said, timeout=seconds)
            said.seek(0)
            text = said.read()
        assert done.returncode == 0, f"$ {command}\n{text}"
        return text

    def json(self, command: str) -> Any:
        return json.loads(self.run(f"{command} --json 2> /dev/null"))

    def close(self) -> None:
        """Ends what was started here and is still in the background."""
        for path in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if path.resolve() == self.home.resolve():
                    os.kill(int(path.parent.name), signal.SIGTERM)
            except OSError:
                continue


@pytest.fixture
def shell(tmp_path: Path, wheel: Path) -> Iterator[Shell]:
    """An empty folder and the command `dpadmm` of the wheel."""
    made = Shell(tmp_path, wheel)
    yield made
    made.close()


def people(path: Path, seed: int, count: int = 150, columns: tuple[str, ...] = ("age", "sex", "ill")) -> None:
    draw = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(columns)
        for _ in range(count):
            age = float(draw.uniform(0, 110))
            table.writerow([age, draw.choice(["f", "m"]), "yes" if age + draw.normal() * 20 > 60 else "no"])


def until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_the_federation_page_leads_from_nothing_to_a_finished_run_in_ten_commands(shell: Shell) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            pytest.skip(f"something listens at port {PORT} of this machine")
    columns, policy, spec = blocks("federation.md", "toml")
    (shell.home / "columns.toml").write_text(columns)
    (shell.home / "spec.toml").write_text(spec)
    for seed, name in enumerate(("north", "south", "west")):
        (shell.home / f"{name}.toml").write_text(policy.replace("north", name))
        people(shell.home / f"{name}.csv", seed)
    people(shell.home / "public.csv", 9)
    given = [line for block in blocks("federation.md", "sh") for line in commands(block)]
    submit = [number for number, line in enumerate(given, 1) if line.startswith("dpadmm submit")]
    assert submit == [10]
    said = {line: shell.run(line) for line in given}
    result = json.loads((shell.home / "study" / "runs" / "spec" / "result.json").read_text())
    assert result["private"] is True
    assert result["epsilon"] <= 1.0
    assert result["agents"] == 3
    status = shell.json("dpadmm agent status west")
    assert status["running"] is True
    assert status["spending"]["releases"] == result["rounds"]
    assert "finished" in said["dpadmm federation status study"]
    for name in ("south", "west"):
        assert shell.run(f"dpadmm agent stop {name}")
    until(lambda: not shell.json("dpadmm agent status west")["running"])


def test_the_owner_page_can_be_followed_while_somebody_else_proposes_a_run(shell: Shell, tmp_path: Path) -> None:
    """What the coordinator does meanwhile is done in a folder of its own."""
    other = Shell.__new__(Shell)
    other.home, other.environment = tmp_path / "coordinator", shell.environment
    other.home.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (other.home / "columns.toml").write_text(blocks("federation.md", "toml")[0])
    run = 'algorithm = "dp-admm"\nrounds = 5\nepsilon = 1.0\ndelta = 1e-6\n'
    (other.home / "trial.toml").write_text(f"[run]\n{run}")
    other.run(f"dpadmm federation init study --host localhost --port {port} --columns columns.toml")
    people(shell.home / "patients.csv", 0)
    (shell.home / "policy.toml").write_text(blocks("owner.md", "toml")[0])
    (shell.home / "invitation.json").write_bytes((other.home / "study" / "invitation.json").read_bytes())
    (python,) = [block for block in blocks("owner.md", "python") if "TemporaryDirectory" in block]
    ledger = python.replace('Path(home) / "ledger.db"', 'Path("ledger.db")')
    subprocess.run([sys.executable, "-c", ledger], cwd=shell.home, env=shell.environment, check=True, timeout=120)

    def added() -> None:
        other.run(f"dpadmm federation add study {shell.home / 'north.card.json'}")
        other.run("dpadmm coordinator start study &")
        other.run("dpadmm submit trial.toml --federation study --json > result.json &")

    def asked() -> None:
        until(lambda: shell.json("dpadmm agent status north")["waiting"])

    def joined() -> None:
        until(lambda: (other.home / "result.json").read_text())
        assert json.loads((other.home / "result.json").read_text())["epsilon"] <= 1.0

    meanwhile = {"agent init": added, "agent status": asked, "agent approve": joined}
    try:
        for block in blocks("owner.md", "sh"):
            for line in commands(block):
                shell.run(line)
                for beginning, happens in meanwhile.items():
                    if beginning in line:
                        happens()
        until(lambda: not shell.json("dpadmm agent status north")["running"])
        assert shell.json("dpadmm agent status north")["spending"]["releases"] == 5
    finally:
        other.close()
