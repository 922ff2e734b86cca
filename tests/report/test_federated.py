"""A federation's run folder becomes a document, of what the coordinator knows and of nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import small_federation as federation

from dpadmm.engine.output import status
from dpadmm.report.document import Chart, Document
from dpadmm.report.gather import gather
from dpadmm.report.wording import SIMULATED, UNKNOWN


@pytest.fixture(scope="module")
def small_federation() -> ModuleType:
    """The federation in one process that the federation's own tests use."""
    return federation


def chart(document: Document, id: str) -> Chart:
    return next(each for each in document.charts if each.id == id)


def test_a_finished_run(small_federation: ModuleType, tmp_path: Path) -> None:
    lived = small_federation.SmallFederation(tmp_path, dry_run=None)
    folder = lived.folder()
    lived.run(folder)
    document = gather([folder.path])
    (run,) = document.runs
    assert (run.name, run.state, run.round) == ("study", "finished", 6)
    assert run.guarantee.accounted
    assert "every owner sent in all 6 rounds" in run.guarantee.plain
    assert not run.guarantee.simulated
    assert SIMULATED not in run.guarantee.notes
    assert "seeded" not in run.guarantee.exact
    facts = dict(run.facts)
    assert facts["owners"] == "3: ahorn, birke, eiche"
    assert facts["data"] == "with the owners"
    assert "seed" not in facts
    # Neither losses nor gradients of records: only what was released, agreed and counted.
    assert [each.id for each in document.charts] == ["residual", "budget", "coefficients-0"]
    assert not any(each.simulated for each in document.charts)
    budget = chart(document, "budget")
    assert "what an owner's own policy allows is known to that owner alone" in budget.about
    line, limit = budget.series
    assert line.name == "all 3 owners"
    assert (limit.name, list(line.x)) == ("limit 2", list(range(7)))


def test_dry_run_protects_nobody(small_federation: ModuleType, tmp_path: Path) -> None:
    lived = small_federation.SmallFederation(tmp_path)
    folder = lived.folder()
    lived.run(folder)
    (run,) = gather([folder.path]).runs
    assert run.guarantee.notes[0] == SIMULATED
    assert "dry_run" in run.warnings[0]


def test_persons_with_several_records(small_federation: ModuleType, tmp_path: Path) -> None:
    lived = small_federation.SmallFederation(tmp_path)
    folder = lived.folder()
    folder.agree(lived.terms(records_per_person=3))
    folder.tell("running", round=2, rounds=6)
    (run,) = gather([folder.path]).runs
    assert "every person at every owner, with all of up to 3 records" in run.guarantee.plain
    assert "up to round 2 of 6" in run.guarantee.plain


@pytest.mark.parametrize(
    ("told", "state", "error"),
    [
        ("submitted", "running", ""),
        ("waiting", "running", ""),
        ("interrupted", "interrupted", "birke did not answer"),
        ("refused", "crashed", "birke did not answer"),
        ("failed", "crashed", "birke did not answer"),
    ],
)
def test_what_a_run_is_doing(small_federation: ModuleType, tmp_path: Path, told: str, state: str, error: str) -> None:
    folder = small_federation.SmallFederation(tmp_path).folder()
    folder.tell(told, "birke did not answer")
    (run,) = gather([folder.path]).runs
    assert (run.state, run.error) == (state, error)
    assert run.guarantee == UNKNOWN  # nothing was agreed on


def test_a_coordinator_that_was_lost(small_federation: ModuleType, tmp_path: Path) -> None:
    folder = small_federation.SmallFederation(tmp_path).folder()
    folder.tell("running", round=3, rounds=6)
    assert gather([folder.path]).runs[0].state == "running"
    status = folder.status()
    (folder.path / "status.json").write_text(json.dumps({**status, "born": "before the power cut"}))
    assert gather([folder.path]).runs[0].state == "crashed"


def test_rounds_are_seen_while_they_go_on(
    small_federation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpadmm.federation.server import run_folder

    monkeypatch.setattr(run_folder, "INTERVAL", -1.0)
    lived, seen = small_federation.SmallFederation(tmp_path), []
    folder = lived.folder()
    keep = run_folder.RunFolder.keep

    def look(self: Any, *arguments: Any, **more: Any) -> None:
        keep(self, *arguments, **more)
        seen.append(len(chart(gather([self.path]), "residual").series[0].y))

    monkeypatch.setattr(run_folder.RunFolder, "keep", look)
    lived.run(folder)
    assert seen == [1, 2, 3, 4, 5, 6]


def test_the_folder_tells_of_releases_and_counts_only(small_federation: ModuleType, tmp_path: Path) -> None:
    """Whatever is in the coordinator's folder is the same for other records of as many people, but for releases."""
    lived = small_federation.SmallFederation(tmp_path, dry_run=None)
    folder = lived.folder()
    lived.run(folder)
    names = {path.name for path in folder.path.iterdir()}
    known = {"spec.toml", "columns.toml", "terms.json", "status.json", "history.csv", "model.json", "result.json"}
    assert names <= known | {"checkpoint.npz", "events.txt", "signatures.json"}
    head = (folder.path / "history.csv").read_text().splitlines()[0]
    assert head == "run,round,residual,epsilon,absent"
    result = json.loads((folder.path / "result.json").read_text())
    measured = ("train_loss", "train_loss_local", "objective", "augmented_objective", "test_error", "clipped_rows")
    assert {result[name] for name in measured} == {None}
    assert (result["fewest_records"], result["most_records"]) == (45, 80)  # which the terms say to everybody
    assert set(folder.status()) <= {"state", "message", "time", "round", *status.process()}
