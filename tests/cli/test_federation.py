"""The coordinator's commands, as far as they go without a process; the rest is in tests/federation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpadmm.federation.cards import OWNER, Card
from dpadmm.federation.identity import Identity
from dpadmm.federation.invitation import Invitation
from dpadmm.federation.server.federation import Federation
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.spec.declare import Experiment


def card(path: Path, identity: Identity) -> Path:
    path.write_text(identity.card.dumps())
    return path


def groups(fingerprint: str) -> str:
    return " ".join(re.findall("....", fingerprint))


def test_federation_is_made_once_and_says_its_fingerprint(dpadmm: Any, state: Path, tmp_path: Path) -> None:
    columns = tmp_path / "columns.toml"
    columns.write_text('target = "ill"\nclasses = ["no", "yes"]\n[[columns]]\nname = "age"\nlow = 0\nhigh = 1\n')
    options = ("--host", "fl.example.org", "--columns", columns)
    found = json.loads(dpadmm("federation", "init", tmp_path / "one", *options, "--json").stdout)
    assert (found["federation"], found["server"]) == ("one", "fl.example.org:8002")
    invitation = Invitation.loads(Path(found["invitation"]).read_bytes())
    assert invitation.card.fingerprint == found["fingerprint"]
    text = dpadmm("federation", "init", tmp_path / "two", *options).stdout
    assert groups(Federation.open(tmp_path / "two").identity().card.fingerprint) in text
    again = dpadmm("federation", "init", tmp_path / "two", *options)
    assert (again.exit_code, "not empty" in again.stderr) == (2, True)


def test_columns_that_cannot_be_read_make_no_federation(dpadmm: Any, tmp_path: Path) -> None:
    (tmp_path / "columns.toml").write_text('target = "ill"\n')
    result = dpadmm("federation", "init", tmp_path / "study", "--host", "h", "--columns", tmp_path / "columns.toml")
    assert result.exit_code == 2
    assert not (tmp_path / "study").exists()


def test_cards_are_added_replaced_and_removed(dpadmm: Any, study: Path, tmp_path: Path) -> None:
    mine, other = Identity.create("north", OWNER), Identity.create("south", OWNER)
    paths = [card(tmp_path / "a.json", mine), card(tmp_path / "b.json", other)]
    text = dpadmm("federation", "add", study, *paths).stdout
    assert all(groups(each.card.fingerprint) in text for each in (mine, other))
    stranger = dpadmm("federation", "add", study, card(tmp_path / "c.json", Identity.create("north", OWNER)))
    assert stranger.exit_code == 2
    assert "another card" in stranger.stderr
    assert f"dpadmm federation remove {study} north" in " ".join(stranger.stderr.split())
    new = mine.renewed()
    found = json.loads(dpadmm("federation", "add", study, card(tmp_path / "d.json", new), "--json").stdout)
    assert found["added"] == [{"owner": "north", "fingerprint": new.card.fingerprint, "replaced": True}]
    assert json.loads(dpadmm("federation", "remove", study, "south", "--json").stdout)["removed"] == "south"
    assert list(Federation.open(study).pins()) == ["north"]
    assert dpadmm("federation", "remove", study, "south").exit_code == 2


@pytest.mark.parametrize("text", ["", "{}", "not a card", None])
def test_files_that_are_no_cards_add_nobody(dpadmm: Any, study: Path, tmp_path: Path, text: str | None) -> None:
    good, bad = card(tmp_path / "good.json", Identity.create("north", OWNER)), tmp_path / "bad.json"
    if text is not None:
        bad.write_text(text)
    result = dpadmm("federation", "add", study, good, bad)
    assert (result.exit_code, "bad.json" in result.stderr) == (2, True)
    assert dict(Federation.open(study).pins()) == {}


def test_status_shows_who_is_trusted_where_no_process_runs(dpadmm: Any, study: Path, north: dict[str, Any]) -> None:
    dpadmm("federation", "add", study, north["card"])
    found = json.loads(dpadmm("federation", "status", study, "--json").stdout)
    assert (found["running"], found["runs"]) == (False, [])
    assert found["owners"] == [
        {
            "name": "north",
            "fingerprint": north["fingerprint"],
            "valid_until": north["valid_until"],
            "last_heard_of": None,
        }
    ]
    shown = dpadmm("federation", "status", study).stdout
    assert "not running" in shown
    assert "not connected" in shown


def test_new_keys_of_the_coordinator_are_accepted_by_owners_because_the_old_ones_signed_them(
    dpadmm: Any,
    study: Path,
    north: dict[str, Any],
    tmp_path: Path,
) -> None:
    made = json.loads(dpadmm("federation", "renew", study, "--json").stdout)
    found = json.loads(dpadmm("agent", "trust", "north", "--invitation", made["invitation"], "--json").stdout)
    assert found["coordinator_fingerprint"] == made["fingerprint"] != north["coordinator_fingerprint"]
    other = dpadmm(
        "federation", "init", tmp_path / "x" / "study", "--host", "h", "--columns", tmp_path / "columns.toml", "--json"
    )
    stranger = json.loads(other.stdout)
    result = dpadmm("agent", "trust", "north", "--invitation", stranger["invitation"])
    assert result.exit_code == 2
    assert "not the coordinator that 'north' trusts" in result.stderr
    found = json.loads(
        dpadmm("agent", "trust", "north", "--invitation", stranger["invitation"], "--another", "--json").stdout
    )
    assert (found["coordinator_fingerprint"], found["server"]) == (stranger["fingerprint"], "h:8002")


def test_no_owners_key_is_below_the_coordinators_folder(
    dpadmm: Any,
    study: Path,
    north: dict[str, Any],
    state: Path,
) -> None:
    dpadmm("federation", "add", study, north["card"])
    secrets = json.loads((state / "agents" / "north" / "keys.json").read_text())
    keys = [line for name in ("identity", "sealing", "tls") for line in secrets[name].splitlines()[1:-1]]
    assert keys
    for path in (path for path in study.rglob("*") if path.is_file()):
        text = path.read_text()
        assert not any(key in text for key in keys), path
    assert "PRIVATE" not in Path(north["card"]).read_text()
    assert Card.loads(Path(north["card"]).read_text()).fingerprint == north["fingerprint"]


# -- submitting --------------------------------------------------------------------------------------------------------


@pytest.fixture
def trusted(dpadmm: Any, study: Path, north: dict[str, Any]) -> Path:
    """A federation with one owner."""
    assert dpadmm("federation", "add", study, north["card"]).exit_code == 0
    return study


def test_run_without_a_coordinator_gives_up_and_can_be_taken_up_again(
    dpadmm: Any, trusted: Path, tmp_path: Path
) -> None:
    spec = tmp_path / "trial.toml"
    spec.write_text('[run]\nalgorithm = "dp-admm"\nrounds = 3\nepsilon = 1.0\ndelta = 1e-6\n')
    for _ in range(2):
        result = dpadmm("submit", "trial.toml", "--federation", "study", "--limit", "0", "--json")
        assert result.exit_code == 2
        assert "dpadmm coordinator start study" in " ".join(result.stderr.split())
    runs = json.loads(dpadmm("federation", "status", trusted, "--json").stdout)["runs"]
    assert [(run["run"], run["state"]) for run in runs] == [("trial", "submitted")]
    spec.write_text(spec.read_text().replace("rounds = 3", "rounds = 4"))
    assert "holds another run" in " ".join(dpadmm("submit", spec, "--federation", trusted).stderr.split())


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('owners = ["north", "east"]', "east"),
        ('stragglers = "maybe"', "maybe"),
        ('public_test = "nowhere.csv"', "nowhere.csv"),
        ("patience = 0", "patience"),
    ],
)
def test_spec_that_cannot_be_run_is_refused_before_anything_is_written(
    dpadmm: Any, trusted: Path, tmp_path: Path, table: str, said: str
) -> None:
    spec = tmp_path / "bad.toml"
    spec.write_text(f"[run]\nepsilon = 1.0\ndelta = 1e-6\n[federation]\n{table}\n")
    result = dpadmm("submit", spec, "--federation", trusted)
    assert result.exit_code == 2
    assert said in result.stderr
    assert list((trusted / "runs").iterdir()) == []


def test_finished_run_is_not_run_again(dpadmm: Any, trusted: Path, tmp_path: Path) -> None:
    spec = tmp_path / "done.toml"
    spec.write_text("[run]\nepsilon = 1.0\ndelta = 1e-6\n")
    experiment = Experiment().changed(epsilon=1.0, delta=1e-6, owners=["north"])
    folder = RunFolder.create(trusted / "runs" / "done", experiment, Federation.open(trusted).schema)
    (folder.path / "result.json").write_text("{}")
    folder.tell("finished")
    result = dpadmm("submit", spec, "--federation", trusted)
    assert result.exit_code == 2
    assert "is finished" in result.stderr
