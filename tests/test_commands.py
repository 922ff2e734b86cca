"""Every command that README and docs show is run, in a folder that holds what its page speaks of."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from documented_package import installed
from typer.main import get_command
from typer.testing import CliRunner

from dpadmm import open_folder, write_folder
from dpadmm._private_files import private_folder
from dpadmm.cli import browser
from dpadmm.cli.main import app
from dpadmm.datasets.adult import ADULT_ENCODER
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.policy import Policy
from dpadmm.owner.request import Request
from dpadmm.privacy.ledger.record import default_folder
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.problems.losses import Logistic
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import RunSpec
from dpadmm.spec.toml import loads

ROOT = Path(__file__).parents[1]
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
}

# What a command has in it, and where else it is run.
ELSEWHERE = {
    "dpadmm federation": "processes of their own: tests/federation",
    "dpadmm coordinator": "processes of their own: tests/federation",
    "dpadmm agent": "processes of their own: tests/federation",
    "dpadmm submit": "processes of their own: tests/federation",
    "report study/": "the folder of a federation: tests/report/test_federated.py",
    "dask:tcp": "the workers of a scheduler elsewhere: tests/engine/executors/dask/test_cluster.py",
    "--scale paper": "hours; its small scale: tests/reproducing",
    "compare --data adult": "hours; with less of everything: tests/cli/test_compare.py",
}
# What a command is given besides what is shown.
BESIDES = {
    "dpadmm reproduce": "--out figures",  # and not into the checkout
    "dpadmm watch": "--patience 0",  # nobody looks
    "dpadmm audit": "--transcripts 4000",  # of 20,000: whether it runs, not what it finds
}


def lines(text: str) -> list[str]:
    """Of all shell blocks: whole commands without their remarks."""
    joined = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, flags=re.M | re.S)).replace("\\\n", " ")
    return [line for line in (each.split(" #")[0].split("\t#")[0].strip() for each in joined.splitlines()) if line]


RUNS = ("dpadmm ", "python -c ")
COMMANDS = {name: [line for line in lines(text) if line.startswith(RUNS)] for name, text in DOCUMENTS.items()}


# -- what pages speak of -----------------------------------------------------------------------------------------------


def people(place: Path) -> None:
    """Two that are not in Adult."""
    row = {column.name: getattr(column, "low", None) for column in ADULT_ENCODER.columns}
    row |= {column.name: column.values[0] for column in ADULT_ENCODER.columns if hasattr(column, "values")}
    _table(place / "people.csv", [row | {"age": 40}, row | {"age": 70}])


def spectra(place: Path) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for record in range(120):
        height = rng.normal(size=2)
        curve = {f"nm{t}": height[0] + height[1] * np.cos(np.pi * (t - 850) / 200) for t in range(850, 1051, 5)}
        rows.append({**curve, "fat": height[1] + 0.1 * rng.normal(), "lab": "ab"[record % 2]})
    _table(place / "spectra.csv", rows)
    _table(place / "new.csv", [{name: value for name, value in row.items() if name != "fat"} for row in rows[:3]])


def books(place: Path) -> None:
    """An owner's ledger after a round, and the policy that docs/owner.md shows."""
    (block,) = re.findall(r"^```toml\n(.*?)^```", DOCUMENTS["docs/owner.md"], flags=re.M | re.S)
    (place / "policy.toml").write_text(block)
    _folder(place / "mine", ("me",))
    shards = open_folder(place / "mine").shards(lambda targets: Logistic().encode(targets, 2), norm_bound=1.0)
    terms = Agreement(RunSpec("dp-admm", rounds=5, epsilon=1.0, delta=1e-6), (200, 300), 5, 2)
    policy = Policy.read(place / "policy.toml")
    agent = Agent.open(shards, policy, place / "ledger.db", registry=LedgerRegistry(place / "registry"))
    agent.join("first", terms)
    agent.answer(Request("first", terms.digest, 1, np.zeros((1, 5))))
    for path in (place / "registry").glob("*.*"):  # key and log, where commands look for them
        if path.suffix in (".key", ".log"):
            shutil.copy2(path, private_folder(default_folder()))


def hospitals(place: Path) -> None:
    _folder(place / "hospitals", ("bern", "oslo"))


def limits(place: Path) -> None:
    (place / "limits.json").write_text(json.dumps({"ball": {"radius": 2}}))


def second(place: Path) -> None:
    run("dpadmm train --epsilon 2 --delta 1e-5 --out runs/second")


FILES: dict[str, tuple[Callable[[Path], None], ...]] = {
    "README.md": (people,),
    "docs/functional.md": (spectra,),
    "docs/guarantees.md": (books,),
    "docs/out_of_core.md": (hospitals,),
    "docs/owner.md": (books,),
    "docs/report.md": (second,),
    "docs/sets.md": (limits,),
}


def _folder(path: Path, owners: tuple[str, ...]) -> None:
    features = np.random.default_rng(0).normal(size=(200, 5))
    block = features, (features[:, 0] > 0).astype(int)
    write_folder(path, [(owner, iter([block])) for owner in owners], classes=["well", "ill"])


def _table(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


# -- running -----------------------------------------------------------------------------------------------------------


def run(line: str) -> str:
    if line.startswith("python -c "):
        exec(compile(shlex.split(line)[2], line, "exec"), {})
        return line
    besides = next((words for start, words in BESIDES.items() if line.startswith(start)), "")
    result = CliRunner().invoke(app, shlex.split(f"{line} {besides}")[1:], catch_exceptions=False)
    assert result.exit_code == 0, f"{line}\n{result.stderr}"
    return result.stdout + result.stderr


def runs_here(line: str) -> bool:
    if "mnist" in line and "DPADMM_DATA" not in os.environ:
        return False
    return not any(part in line for part in ELSEWHERE)


@pytest.mark.parametrize("document", [name for name, found in COMMANDS.items() if any(map(runs_here, found))])
def test_the_commands_of_a_page_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(browser, "opened", lambda address: not opened.append(address))
    for make in FILES.get(document, ()):
        make(tmp_path)
    shown = 0
    python = re.findall(r"^```python\n(.*?)^```", DOCUMENTS[document], flags=re.M | re.S)
    for line in filter(runs_here, COMMANDS[document]):
        with installed(python, tmp_path):
            assert run(line), f"{line} says nothing"
        shown += "--open" in line or (line.startswith("dpadmm watch") and "--no-open" not in line)
        for name in re.findall(r"--(?:out|draw|picture|output) (\S+)", line):
            assert (tmp_path / name).exists(), line
    assert len(opened) == shown


@pytest.mark.parametrize("line", [line for found in COMMANDS.values() for line in found if not runs_here(line)])
def test_a_command_that_is_run_elsewhere_has_these_options(line: str) -> None:
    command = get_command(app)
    words = shlex.split(line)[1:]
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"no verb {words[0]!r}"
        command = command.commands[words.pop(0)]
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    used = {word.split("=")[0] for word in words if word.startswith("--")}
    assert used <= known | {"--help"}, f"unknown options {used - known}"


def test_what_is_run_elsewhere_is_shown_somewhere() -> None:
    """Otherwise the list above excuses what nobody does."""
    everything = [line for found in COMMANDS.values() for line in found]
    for part in (*ELSEWHERE, *BESIDES):
        assert any(part in line for line in everything), part


def test_make_targets_and_extras_that_pages_name_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    others = [(name, line) for name, text in DOCUMENTS.items() for line in lines(text) if not line.startswith(RUNS)]
    assert others
    for name, line in others:
        words = shlex.split(line)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", makefile, flags=re.M), f"{name}: {line}"
        else:
            assert words[:2] == ["pip", "install"], f"{name}: {line}"
            (extra,) = re.findall(r"^dpadmm\[(\w+)\]$", words[2])
            assert extra in extras, f"{name}: {line}"


def test_toml_blocks_are_what_they_are_said_to_be(tmp_path: Path) -> None:
    found = {name: re.findall(r"^```toml\n(.*?)^```", text, flags=re.M | re.S) for name, text in DOCUMENTS.items()}
    assert {name: len(blocks) for name, blocks in found.items() if blocks} == {
        "docs/federation.md": 3,
        "docs/owner.md": 1,
    }
    columns, mine, spec = found["docs/federation.md"]
    assert Schema.loads(columns).width == 3
    assert loads(spec).federation.stragglers == "reuse"
    (tmp_path / "north.toml").write_text(mine)
    assert Policy.read(tmp_path / "north.toml").approval == "policy"
    (policy,) = found["docs/owner.md"]
    (tmp_path / "policy.toml").write_text(policy)
    known = Policy.read(tmp_path / "policy.toml")
    assert (known.approval, known.smallest_count) == ("hand", 100)
    named = re.sub(r"^# (\w+ = )", r"\1", policy, flags=re.M)  # what is left out by default
    (tmp_path / "policy.toml").write_text(named)
    assert Policy.read(tmp_path / "policy.toml").algorithms == ("dp-admm", "pvp")
