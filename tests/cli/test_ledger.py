"""`dpadmm ledger`."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.owner.policy import Policy
from dpadmm.privacy import gaussian
from dpadmm.privacy.accounting import best
from dpadmm.privacy.events import GaussianDpEvent, PureDpEvent, Relation
from dpadmm.privacy.filter import Cap, Charge
from dpadmm.privacy.gdp import mu_of_pure
from dpadmm.privacy.ledger.protocol import Step
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import RECORD

GAUSSIAN, PURE = GaussianDpEvent(20.0), PureDpEvent(0.25)
CAP = Cap(4.0, 1e-6)
RECORDS = "d1" * 32
SECRET = 123.4375  # in every release and state


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two releases of a finished run, one of an open run that holds another, one refusal."""
    path = tmp_path / "patients.ledger"
    ledger = SqliteLedger.create(path, "patients", RECORDS, Relation.REPLACE)
    ledger.reserve("first", "a", [{GAUSSIAN: 3}], CAP, RECORD, {"algorithm": "dp-admm"})
    for step in ("1", "2"):
        _release(ledger, "first", step, GAUSSIAN)
    ledger.finish("first")
    ledger.reserve("second", "b", [{PURE: 2}], CAP, RECORD, {"algorithm": "dvp"})
    _release(ledger, "second", "1", PURE)
    ledger.refuse("round 7 is closed")
    ledger.close()
    return path


def _release(ledger: SqliteLedger, run: str, step: str, event: Any) -> None:
    value, state = np.full((1, 2), SECRET), {"dual": np.full((1, 2), SECRET)}
    ledger.commit(Step(run, step, "in", (event,), value, state, ledger.position(run)), CAP)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text('dataset = "patients"\nepsilon = 4\ndelta = 1e-5\n')
    return file


def _json(result: Any, code: int = 0) -> dict[str, Any]:
    assert result.exit_code == code
    assert result.stdout.count("\n") == 1
    return dict(json.loads(result.stdout))


def _bad(result: Any, part: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr


def test_show_says_what_was_spent_by_whom(dpadmm: Any, path: Path) -> None:
    before = path.read_bytes()
    found = _json(dpadmm("ledger", "show", path, "--json"))
    assert (found["dataset"], found["relation"], found["delta"], found["locked"]) == ("patients", "replace", 1e-6, None)
    for field, pure in (("epsilon_spent", 1), ("epsilon_with_held", 2)):
        mu = math.sqrt(2 / 20.0**2 + pure * mu_of_pure(0.25) ** 2)
        assert found[field] == pytest.approx(gaussian.epsilon(mu, 1e-6), rel=1e-9)
    assert "not a guarantee by itself" in found["meaning"]["epsilon_spent"]
    assert (found["policy_epsilon"], found["epsilon_left"]) == (None, None)
    first, second = found["runs"]
    assert (first["run"], first["state"], first["holds"], first["releases"], first["agreed"]) == (
        "first", "finished", False, 2, 3,
    )  # fmt: skip
    assert (second["run"], second["state"], second["holds"], second["releases"]) == ("second", "open", True, 1)
    assert second["epsilon"] == pytest.approx(0.5)  # as agreed
    assert found["refusals"][0]["reason"] == "round 7 is closed"
    text = dpadmm("ledger", "show", path).stdout
    for part in ("patients: 3 releases in 2 runs", "first", "dp-admm", "open, holds", "round 7 is closed", "replace",
        "not a guarantee by itself", "own guarantee"):  # fmt: skip
        assert part in text
    assert "Locked" not in text
    assert path.read_bytes() == before


def test_show_with_a_policy_says_what_is_left(dpadmm: Any, path: Path, policy: Path) -> None:
    found = _json(dpadmm("ledger", "show", path, "--policy", policy, "--json"))
    assert (found["delta"], found["policy_epsilon"]) == (1e-5, 4.0)
    # A Gaussian run of that size still fits, and no larger one.
    cap, store = Policy.read(policy).cap, SqliteLedger.open(path)
    for factor, fits in ((1 - 1e-9, True), (1 + 1e-9, False)):
        more = GaussianDpEvent(1.0 / gaussian.mu(factor * found["epsilon_left"], 1e-5))
        assert cap.within(cap.total([*store.charges(held=True), Charge({more: 1}, RECORD)])) == fits
    text = dpadmm("ledger", "show", path, "--policy", policy).stdout
    assert "left, for a Gaussian run" in text
    assert "the cap, guaranteed" in text
    policy.write_text('dataset = "visits"\nepsilon = 4\ndelta = 1e-5\n')
    _bad(dpadmm("ledger", "show", path, "--policy", policy), "the policy is for data set 'visits'")
    policy.write_text("epsilom = 4")
    _bad(dpadmm("ledger", "show", path, "--policy", policy), "did you mean 'epsilon'?")


def test_show_at_another_delta_and_as_csv(dpadmm: Any, path: Path) -> None:
    at = _json(dpadmm("ledger", "show", path, "--delta", 0, "--json"))
    assert at["epsilon_spent"] is None  # gaussian noise has no finite epsilon there
    rows = list(csv.DictReader(io.StringIO(dpadmm("ledger", "show", path, "--csv", "--delta", 1e-3).stdout)))
    assert [row["run"] for row in rows] == ["first", "second"]
    assert float(rows[0]["epsilon"]) == best({GAUSSIAN: 3}, 1e-3, Relation.REPLACE).epsilon  # as agreed
    _bad(dpadmm("ledger", "show", path, "--delta", 1.5), "--delta 1.5")


def test_verify(dpadmm: Any, path: Path) -> None:
    good = dpadmm("ledger", "verify", path)
    assert (good.exit_code, good.stdout) == (0, "7 entries, all in order.\n")
    assert _json(dpadmm("ledger", "verify", path, "--json"))["ok"] is True
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE balances SET spent = 0")
    connection.close()
    bad = dpadmm("ledger", "verify", path)
    assert bad.exit_code == 1
    assert "balances" in bad.stdout
    found = _json(dpadmm("ledger", "verify", path, "--json"), code=1)
    assert found["ok"] is False
    assert len(found["problems"]) == 1


def test_verify_finds_changed_entries_and_export_does_not_choke(dpadmm: Any, path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE entries SET body = 'x' WHERE number = 3")
    connection.close()
    assert dpadmm("ledger", "verify", path).exit_code == 1
    _bad(dpadmm("ledger", "export", path), "dpadmm ledger verify")


@pytest.mark.parametrize("verb", ["show", "verify", "export", "confirm", "migrate"])
def test_what_is_no_ledger(dpadmm: Any, tmp_path: Path, verb: str) -> None:
    _bad(dpadmm("ledger", verb, tmp_path / "none.ledger"), "no ledger")
    text = tmp_path / "text.ledger"
    text.write_text("not a ledger" * 100)
    _bad(dpadmm("ledger", verb, text), "file is not a database")
    _bad(dpadmm("ledger", verb, tmp_path), "cannot be opened")


def test_export_has_every_entry_and_nothing_private(dpadmm: Any, path: Path) -> None:
    entries = [*SqliteLedger.open(path).entries()]
    text = dpadmm("ledger", "export", path).stdout
    assert dpadmm("ledger", "export", path, "--csv").stdout == text
    rows = list(csv.DictReader(io.StringIO(text)))
    found = _json(dpadmm("ledger", "export", path, "--json"))
    assert found["dataset"] == "patients"
    for row, entry, exported in zip(rows, entries, found["entries"], strict=True):
        assert (row["number"], row["kind"], row["run"]) == (str(entry["number"]), entry["kind"], entry["run"])
        assert row["head"] == exported["head"] == entry["head"]
    assert json.loads(rows[2]["detail"])["event"] == {"kind": "GaussianDpEvent", "noise_multiplier": 20.0}
    for output in (text, json.dumps(found)):
        assert RECORDS not in output
        assert str(SECRET) not in output
        assert "dual" not in output
    _bad(dpadmm("ledger", "export", path, "--csv", "--json"), "not both")


def test_a_copy_can_be_looked_at_and_confirmed(dpadmm: Any, path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.ledger"
    shutil.copyfile(path, copy)
    before = copy.read_bytes()
    assert "copy" in _json(dpadmm("ledger", "show", copy, "--json"))["locked"]
    assert "Locked: this file is a copy" in dpadmm("ledger", "show", copy).stdout
    looked = dpadmm("ledger", "verify", copy)
    assert looked.exit_code == 0
    assert "locked" in looked.stderr
    _bad(dpadmm("ledger", "confirm", copy), "confirm with --yes")
    assert copy.read_bytes() == before  # looking changed nothing
    assert SqliteLedger.open(copy).locked
    assert "copy" in _json(dpadmm("ledger", "confirm", copy, "--yes", "--json"))["was_locked"]
    assert SqliteLedger.open(copy).locked == ""
    assert dpadmm("ledger", "verify", copy).stdout == "9 entries, all in order.\n"
    assert "not locked" in dpadmm("ledger", "confirm", copy, "--yes").stdout
    _bad(dpadmm("ledger", "confirm", path), "older than what")  # its twin is the one that goes on


@pytest.mark.parametrize("verb", ["show", "verify", "export", "confirm", "migrate"])
def test_help_has_an_example(dpadmm: Any, verb: str) -> None:
    result = dpadmm("ledger", verb, "--help")
    assert result.exit_code == 0
    assert f"dpadmm ledger {verb} " in result.stdout
