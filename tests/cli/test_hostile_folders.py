"""Run folders, models and ledgers that somebody else sent: a verb says in one line what is wrong with them, or shows
them without obeying them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import hostile_files
import pytest

from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.sqlite import SqliteLedger


@pytest.fixture
def run(dpadmm: Any, records: Path, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    flags = ("--target", "ill", "--owner", "clinic", "--rounds", 3, "--epsilon", 50, "--delta", 1e-3)
    assert dpadmm("train", "--data", records, *flags, "--out", out).exit_code == 0
    return out


MODELS: dict[str, dict[str, Any]] = {
    "curve": {"encoder": {"curve": {"name": "x"}}},  # misc.py, as are the next two
    "bound": {"norm_bound": None},
    "loss": {"loss": "huber:nan"},
    "encoder as a list": {"encoder": []},
    "encoder as a text": {"encoder": "curve"},
    "column": {"encoder": {"columns": [5]}},
    "many functions": {
        "encoder": {"curve": {"columns": ["a", "b"], "times": [0, 1], "basis": "bspline:100000", "smoothing": 0}}
    },
    "divisors": {"encoder": {"columns": [{"name": "height"}, {"name": "weight"}], "divisors": ["x", "y"]}},
    "loss as a number": {"loss": 5},
    "one class": {"classes": ["b"]},
    "classes as a number": {"classes": 5},
    "classes as numbers": {"classes": [1, 2]},
    "three classes less": {"classes": None},
    "few coefficients": {"coefficients": [1.0]},
    "no coefficients": {"coefficients": None},
    "nested coefficients": {"coefficients": [[[[1.0]]]]},
    "infinite coefficients": {"coefficients": [1e999, 1.0]},
    "texts as coefficients": {"coefficients": ["a", "b"]},
    "intercept": {"intercept": "maybe"},
    "levels": {"tau": [0.1] * 1000},
    "levels as a number": {"tau": 5},
}


def test_models_of_strangers(dpadmm: Any, run: Path, records: Path, tmp_path: Path) -> None:
    """misc.py: tracebacks of `dpadmm predict`."""
    model = run / "model.json"
    given = json.loads(model.read_text())
    for name, changes in MODELS.items():
        model.write_text(json.dumps({**given, **changes}))
        result = dpadmm("predict", run, "--data", records)
        assert result.exit_code == 2, name
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
    for text in (
        "[" * 200_000,
        "[]",
        "5",
        "null",
        '"' + "x" * 1000,
        "{}",
        json.dumps({**given, "x": [[]] * 5_000_000}),
    ):
        model.write_text(text)
        assert dpadmm("predict", run, "--data", records).exit_code == 2
    given["classes"] = ["=cmd|' /C calc'!A0", "\x1b[2J"]
    model.write_text(json.dumps(given))
    for destination in ((), ("--output", tmp_path / "out.csv")):
        found = dpadmm("predict", run, "--data", records, *destination)
        text = found.stdout or (tmp_path / "out.csv").read_text()
        labels = {row["prediction"] for row in csv.DictReader(io.StringIO(text))}
        assert "'=cmd|' /C calc'!A0" in labels
        assert not any(label.startswith("=") for label in labels)
        assert found.exit_code == 0
    assert "\x1b" not in dpadmm("predict", run, "--data", records).stdout


def test_reports_of_strangers_folders(dpadmm: Any, run: Path, tmp_path: Path) -> None:
    """report_dos.py and misc.py: 600 kB for 12 GiB, and markup, which held."""
    page = tmp_path / "r.html"
    evil = "<img src=x onerror=alert(1)>"
    model = json.loads((run / "model.json").read_text())
    model["features"] = [evil, "</script><script>alert(1)</script>", *model["features"][2:]]
    named = shutil.copytree(run, tmp_path / evil)
    (named / "model.json").write_text(json.dumps(model))
    assert dpadmm("report", named, "-o", page).exit_code == 0
    assert evil not in page.read_text()
    assert "</script><script>alert" not in page.read_text()
    for name in ("history.csv", "result.json", "status.json", "plan.json", "spec.toml"):
        before = (run / name).read_text()
        (run / name).write_text("[" * 100_000)
        if name == "history.csv":
            hostile_files.sparse_history(run / name)
        result = dpadmm("report", run, "-o", tmp_path / "r2.html", "--force")
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
        assert name in result.stderr
        (run / name).write_text(before)
    assert dpadmm("report", run, "-o", tmp_path / "r2.html", "--force").exit_code == 0


def test_ledgers_of_strangers(dpadmm: Any, tmp_path: Path) -> None:
    """misc.py and misc2.py: a view hung `ledger show`, an entry of an unknown kind ended `ledger verify` in a
    traceback, and a data set's name reached the terminal as it was."""
    evil = hostile_files.recursive_view(tmp_path / "evil.ledger")
    for verb in ("show", "verify", "export", "confirm"):
        result = dpadmm("ledger", verb, evil)
        assert result.exit_code == 2
        assert "no plain table" in result.stderr
        assert result.stderr.count("\n") == 1
    for kind in ("book", "init__", "nonsense"):
        path = tmp_path / f"{kind}.ledger"
        ledger = SqliteLedger.create(path, "d\x1b[2Jx\u202e", "0" * 64, Relation.parse("replace"))
        with ledger._transaction():
            ledger._append(kind, "x", {"tally": []})
        ledger.close()
        shown = dpadmm("ledger", "show", path)
        assert "\x1b" not in shown.stdout + shown.stderr
        assert "\u202e" not in shown.stdout + shown.stderr
        verified = dpadmm("ledger", "verify", path)
        assert verified.exit_code in (1, 2)
        assert (verified.stdout + verified.stderr).count("\n") == 1
        assert "entry 2" in verified.stdout + verified.stderr


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0" + b"\xff" * 5000, b"\0" * 4096, b"text"])
def test_files_that_are_no_ledgers(dpadmm: Any, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.ledger"
    path.write_bytes(content)
    result = dpadmm("ledger", "show", path)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
