"""The commands of a federation, as far as they go without one; the rest is in tests/federation."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.engine.output.status import process
from dpadmm.errors import InputError
from dpadmm.federation.client.files import AgentSettings, OwnerFiles
from dpadmm.federation.flare.provisioning import Federation
from dpadmm.federation.flare.service import kept_running, noted, words
from dpadmm.federation.flare.submit import prepare
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.spec.declare import Experiment

COLUMNS = """
target = "ill"
classes = ["no", "yes"]

[[columns]]
name = "age"
low = 0
high = 100
"""


@pytest.fixture
def study(dpadmm: Any, tmp_path: Path) -> Path:
    """A federation of two that was made by the command."""
    (tmp_path / "columns.toml").write_text(COLUMNS)
    options = ["--host", "localhost", "--owner", "north", "--owner", "south", "--columns", tmp_path / "columns.toml"]
    result = dpadmm("federation", "init", tmp_path / "study", *options, "--port", "1", "--json")
    assert result.exit_code == 0, result.output
    made = json.loads(result.stdout)
    assert made["server"] == "localhost:1"
    assert sorted(made["kits"]) == ["north", "south"]
    return tmp_path / "study"


@pytest.fixture
def owner(tmp_path: Path) -> dict[str, Path]:
    """Records and a policy."""
    records, policy = tmp_path / "patients.csv", tmp_path / "policy.toml"
    draw = np.random.default_rng(0)
    rows = [f"{age:.1f},{'yes' if age > 50 else 'no'}" for age in draw.uniform(0, 100, 40)]
    records.write_text("\n".join(["age,ill", *rows]) + "\n")
    policy.write_text('dataset = "patients"\nepsilon = 4.0\ndelta = 1e-6\nsmallest_count = 30\n')
    return {"records": records, "policy": policy}


def test_a_federation_is_made_once_and_holds_what_everybody_needs(dpadmm: Any, study: Path, tmp_path: Path) -> None:
    found = Federation.open(study)
    assert found.owners == ("north", "south")
    for place in (study / "coordinator", study / "owners" / "north", study / "owners" / "south"):
        assert "ill" in (place / "columns.toml").read_text()
    again = dpadmm(
        "federation", "init", study, "--host", "localhost", "--owner", "x", "--columns", tmp_path / "columns.toml"
    )
    assert again.exit_code == 2
    assert "not empty" in again.stderr


def test_columns_that_cannot_be_read_make_no_federation(dpadmm: Any, tmp_path: Path) -> None:
    (tmp_path / "columns.toml").write_text('target = "ill"\n')
    result = dpadmm(
        "federation", "init", tmp_path / "study", "--host", "h", "--owner", "a", "--columns", tmp_path / "columns.toml"
    )
    assert result.exit_code == 2
    assert not (tmp_path / "study").exists()


def test_an_owner_is_added_and_keys_are_renewed(dpadmm: Any, study: Path) -> None:
    key = study / "owners" / "north" / "startup" / "client.key"
    before = key.read_bytes()
    assert json.loads(dpadmm("federation", "add", study, "east", "--json").stdout)["owner"] == "east"
    assert (study / "owners" / "east" / "columns.toml").exists()
    renewed = json.loads(dpadmm("federation", "renew", study, "--owner", "north", "--json").stdout)["renewed"]
    assert renewed == [str(study / "owners" / "north")]
    assert key.read_bytes() != before


def test_a_server_that_is_not_there_is_said_to_be_so(dpadmm: Any, study: Path) -> None:
    found = json.loads(dpadmm("federation", "status", study, "--json").stdout)
    assert (found["running"], found["reachable"], found["runs"]) == (False, False, [])
    assert [each["name"] for each in found["owners"]] == ["north", "south"]
    shown = dpadmm("federation", "status", study).stdout
    assert "not reachable" in shown
    assert "not connected" in shown


def test_an_agent_is_checked_before_anybody_is_connected(dpadmm: Any, study: Path, owner: dict[str, Path]) -> None:
    given = (study / "owners" / "north", "--policy", owner["policy"], "--data", owner["records"])
    found = json.loads(dpadmm("agent", "check", *given, "--json").stdout)
    assert (found["agent"], found["records"], found["columns"]) == ("north", 40, ["age"])
    assert found["ledger"].endswith("north/agent/patients.ledger")
    text = dpadmm("agent", "check", *given).stdout
    assert "40 records" in text
    assert "classes no, yes" in text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("policy", "smallest_count = 30", "smallest_count = 50"), "40 records; the policy takes part with 50"),
        (("policy", "epsilon = 4.0", ""), "lacks epsilon"),
        (("records", "age,ill", "years,ill"), "'age'"),
    ],
    ids=["too few", "no policy", "no such column"],
)
def test_what_does_not_go_together_is_told_to_the_owner(
    dpadmm: Any, study: Path, owner: dict[str, Path], change: tuple[str, str, str], said: str
) -> None:
    which, old, new = change
    owner[which].write_text(owner[which].read_text().replace(old, new))
    result = dpadmm(
        "agent", "start", study / "owners" / "north", "--policy", owner["policy"], "--data", owner["records"]
    )
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not (study / "owners" / "north" / "agent" / "agent.json").exists()


def test_records_that_cannot_be_used_are_counted_and_one_is_explained_to_the_owner(
    dpadmm: Any, study: Path, owner: dict[str, Path]
) -> None:
    """They count as zero, and keep nobody out: whether an agent starts must not tell of its records."""
    lines = owner["records"].read_text().splitlines()
    lines[2], lines[5] = lines[2].replace("yes", "perhaps").replace("no", "perhaps"), "old," + lines[5].split(",")[1]
    owner["records"].write_text("\n".join([*lines, ""]))
    given = (study / "owners" / "north", "--policy", owner["policy"], "--data", owner["records"])
    found = json.loads(dpadmm("agent", "check", *given, "--json").stdout)
    assert (found["records"], found["unusable"]) == (40, 2)
    assert "'old' in column 'age', row 5 is not a number" in found["first_unusable"]
    text = " ".join(dpadmm("agent", "check", *given).stdout.split())
    assert "2 of them have a value that cannot be used and count as zero; nobody else is told. 'old' in column" in text


def test_the_coordinators_kit_is_no_owners(dpadmm: Any, study: Path, owner: dict[str, Path]) -> None:
    kit = study / "coordinator" / "server"
    columns = study / "coordinator" / "columns.toml"
    result = dpadmm(
        "agent", "check", kit, "--policy", owner["policy"], "--data", owner["records"], "--columns", columns
    )
    assert result.exit_code == 2
    assert "the coordinator's kit" in result.stderr


def test_the_status_of_an_agent_shows_spending_and_what_waits(
    dpadmm: Any, study: Path, owner: dict[str, Path], tmp_path: Path
) -> None:
    kit = study / "owners" / "north"
    assert dpadmm("agent", "status", kit).exit_code == 2  # there is none yet
    site = OwnerFiles(kit)
    ledger = tmp_path / "patients.ledger"
    settings = AgentSettings(
        str(owner["policy"]), str(kit / "columns.toml"), str(ledger), {"place": str(owner["records"])}
    )
    site.save(settings)
    assert json.loads(dpadmm("agent", "status", kit, "--json").stdout)["spending"] is None
    SqliteLedger.create(ledger, "patients", "d" * 64, Relation.REPLACE).close()
    site.ask("ab" * 32, {"run": "trial", "sentence": "Run 'trial' asks you for much."})
    found = json.loads(dpadmm("agent", "status", kit, "--json").stdout)
    assert (found["running"], found["spending"]["epsilon_left"]) == (False, 4.0)
    assert list(found["waiting"]) == ["ab" * 32]
    shown = dpadmm("agent", "status", kit).stdout
    assert "Run 'trial' asks you for much." in shown
    assert "dpadmm agent approve KIT abababababab" in shown


def test_the_owners_word(dpadmm: Any, study: Path) -> None:
    kit = study / "owners" / "north"
    site = OwnerFiles(kit)
    for digest in ("ab" * 32, "cd" * 32):
        site.ask(digest, {"run": "trial", "sentence": "..."})
    assert dpadmm("agent", "approve", kit, "ef").exit_code == 2
    assert json.loads(dpadmm("agent", "approve", kit, "abab", "--json").stdout) == {
        "digest": "ab" * 32,
        "approved": True,
    }
    assert "Declined" in dpadmm("agent", "approve", kit, "cd", "--decline").stdout
    assert site.approved("ab" * 32, "trial")
    assert site.declined("cd" * 32)
    assert site.waiting() == {}


def test_a_run_without_a_server_gives_up_and_can_be_taken_up_again(dpadmm: Any, study: Path, tmp_path: Path) -> None:
    spec = tmp_path / "trial.toml"
    spec.write_text('[run]\nalgorithm = "dp-admm"\nrounds = 3\nepsilon = 1.0\ndelta = 1e-6\n')
    for _ in range(2):
        result = dpadmm("submit", spec, "--federation", study, "--limit", "0", "--json")
        assert result.exit_code == 2
        assert "cannot be reached" in result.stderr
    runs = json.loads(dpadmm("federation", "status", study, "--json").stdout)["runs"]
    assert [(run["run"], run["state"]) for run in runs] == [("trial", "submitted")]
    spec.write_text(spec.read_text().replace("rounds = 3", "rounds = 4"))
    assert "holds another run" in " ".join(dpadmm("submit", spec, "--federation", study).stderr.split())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('owners = ["north", "east"]', "east"),
        ('stragglers = "maybe"', "maybe"),
        ('public_test = "nowhere.csv"', "nowhere.csv"),
        ("patience = 0", "patience"),
    ],
)
def test_a_spec_that_cannot_be_run_is_refused_before_anything_is_written(
    dpadmm: Any, study: Path, tmp_path: Path, table: str, said: str
) -> None:
    spec = tmp_path / "bad.toml"
    spec.write_text(f"[run]\nepsilon = 1.0\ndelta = 1e-6\n[federation]\n{table}\n")
    result = dpadmm("submit", spec, "--federation", study)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (study / "coordinator" / "runs").exists()


def test_a_finished_run_is_not_run_again(dpadmm: Any, study: Path, tmp_path: Path) -> None:
    spec = tmp_path / "done.toml"
    spec.write_text("[run]\nepsilon = 1.0\ndelta = 1e-6\n")
    folder = prepare(Federation.open(study), Experiment().changed(epsilon=1.0, delta=1e-6), "done")
    (folder.path / "result.json").write_text("{}")
    folder.tell("finished")
    result = dpadmm("submit", spec, "--federation", study)
    assert result.exit_code == 2
    assert "is finished" in result.stderr


class _Ended:
    """A process that ends by itself, the first time."""

    count = 0

    def __init__(self) -> None:
        type(self).count += 1
        self.returncode = 3
        self._code = 3 if self.count == 1 else None
        self.pid = 0

    def poll(self) -> int | None:
        return self._code


def test_a_process_that_ends_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.federation.flare.service._RESTS", (0.0,))
    monkeypatch.setattr("dpadmm.federation.flare.service._PAUSE", 0.0)
    stopped: list[Any] = []
    monkeypatch.setattr("dpadmm.federation.flare.service.stop", stopped.append)
    told: list[str] = []
    with kept_running(_Ended, tmp_path, told.append) as look:
        for _ in range(3):
            look()
        assert (tmp_path / "pid").exists()
        with pytest.raises(InputError, match=f"process {os.getpid()} on .* already runs this kit"):
            kept_running(_Ended, tmp_path, told.append).__enter__()
    assert _Ended.count == 2
    assert len(told) == 1
    assert "code 3" in told[0]
    assert len(stopped) == 1
    assert not (tmp_path / "pid").exists()


@pytest.mark.parametrize("note", ["", "{", "17", "{}", None, {"born": "in another life"}])
def test_note_of_a_process_that_is_gone_is_no_process(tmp_path: Path, note: Any) -> None:
    """Its number may belong to another process by now."""
    if note is not None:
        (tmp_path / "pid").write_text(note if isinstance(note, str) else json.dumps({**process(), **note}))
    assert noted(tmp_path) is None
    (tmp_path / "pid").write_text(json.dumps(process()))
    assert noted(tmp_path) == process()


@pytest.mark.parametrize("kind", ["waiting", "asked", "refused", "error", "joined", "finished", "approved"])
def test_every_event_has_words(kind: str) -> None:
    event = {"kind": kind, "run": "trial", "digest": "ab" * 32, "sentence": "s", "reason": "r", "asked": "a", "by": "b"}
    assert words({**event, "round": 3})
