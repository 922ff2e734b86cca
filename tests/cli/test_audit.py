"""`dpadmm audit`."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpadmm.audit import Scenario, audit
from dpadmm.audit.summary import BEGIN, END
from dpadmm.cli.audit import audit as command
from dpadmm.papers import ALGORITHMS

SHORT = ("--transcripts", 500, "--seed", 1)


def test_defaults_are_those_of_the_library() -> None:
    shown = {name: each.default for name, each in inspect.signature(command).parameters.items()}
    known = {name: each.default for name, each in inspect.signature(audit).parameters.items()}
    for name in ("delta", "transcripts", "canaries", "confidence", "seed", "method"):
        assert shown[name] == known[name]
    assert shown["records"] == Scenario().records


def test_one_object_with_what_must_be_known(dpadmm: Any) -> None:
    arguments = ("audit", "--algorithm", "dp-admm", "--epsilon", 2, "--delta", 1e-5, *SHORT, "--json")
    told = json.loads(dpadmm(*arguments).stdout)
    assert told["claimed"] == pytest.approx(2.0)
    assert 0.0 <= told["lower_bound"] <= 2.0
    assert (told["confidence"], told["transcripts"], told["method"], told["seed"]) == (0.95, 500, "gdp", 1)
    assert (told["violated"], told["loss"], told["relation"], told["rounds"]) == (False, "quantile", "replace", 4)
    assert json.loads(dpadmm(*arguments).stdout) == told


def test_a_table_for_people(dpadmm: Any) -> None:
    result = dpadmm("audit", "--algorithm", "out-l", "--epsilon", "1,2", *SHORT)
    assert result.exit_code == 0
    assert result.stdout.count("out-l") == 2
    assert "clopper-pearson" in result.stdout
    assert "500 transcripts of each data set" in result.stdout


def test_a_paper_s_claim_is_refuted_and_strict_says_so(dpadmm: Any) -> None:
    arguments = ("audit", "--algorithm", "obj-g", "--epsilon", 1, "--delta", 1e-2, "--rounds", 100, "--paper-noise")
    result = dpadmm(*arguments, "--transcripts", 3000)
    assert result.exit_code == 0
    assert "refuted" in result.stdout
    assert "the claim is the paper's, the account says 11.92" in result.stdout
    assert dpadmm(*arguments, "--transcripts", 3000, "--strict").exit_code == 1


def test_parts_can_be_changed(dpadmm: Any) -> None:
    told = json.loads(
        dpadmm(
            "audit", "--algorithm", "obj-g", "--mechanism", "laplace", "--updates", 2, "--loss", "logistic",
            "--relation", "zero-out", "--rounds", 2, "--records", 5, "--epsilon", 1, "--confidence", 0.9, *SHORT,
            "--json",
        ).stdout
    )  # fmt: skip
    assert (told["method"], told["loss"], told["relation"]) == ("clopper-pearson", "logistic", "zero-out")
    assert (told["rounds"], told["confidence"]) == (2, 0.9)


def test_all_that_is_asked_for_reaches_the_attack(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("dpadmm.audit.run.audit", lambda *one, **more: (seen.update(more), audit(*one, **more))[1])
    dpadmm(
        "audit", "--algorithm", "dp-admm", "--epsilon", 4, "--delta", 1e-5, "--evaluation-epsilon", 1,
        "--records", 5, "--rounds", 2, "--loss", "logistic", "--relation", "zero-out", "--method", "clopper-pearson",
        "--canaries", 50, "--transcripts", 500, "--confidence", 0.9, "--seed", 2,
    )  # fmt: skip
    assert seen.pop("stage") == Scenario(
        loss="logistic", relation="zero-out", rounds=2, records=5, evaluation_epsilon=1.0
    )
    assert seen.pop("progress")
    assert seen == {
        "paper_noise": False, "method": "clopper-pearson", "transcripts": 500, "canaries": 50, "confidence": 0.9,
        "seed": 2,
    }  # fmt: skip


def test_one_refuted_claim_of_several_is_enough(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = audit("dp-admm", 2.0, 1e-5, transcripts=1000)
    monkeypatch.setattr("dpadmm.audit.run.audit", lambda _, epsilon, *a, **b: replace(found, claimed=epsilon))
    arguments = ("audit", "--algorithm", "dp-admm", "--epsilon", "0.1,9", "--delta", 1e-5, "--strict")
    shown, told = dpadmm(*arguments), dpadmm(*arguments, "--json")
    assert (shown.exit_code, told.exit_code) == (1, 1)
    assert shown.stdout.count("refuted") == 2  # in its row, and in the verdict
    assert "Verdict: refuted: dp-admm at epsilon 0.1." in shown.stdout
    assert [each["violated"] for each in json.loads(told.stdout)["audits"]] == [True, False]
    assert dpadmm("audit", "--algorithm", "dp-admm", "--epsilon", 9, "--strict").exit_code == 0


def test_a_document_is_looked_at_before_anything_is_attacked(dpadmm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.audit.run.audit", lambda *one, **more: pytest.fail("it is not"))
    result = dpadmm("audit", "--algorithm", "dp-admm", "--epsilon", 1, "--write", "no-such-file.md")
    assert result.exit_code == 2


def test_a_picture(dpadmm: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.svg"
    arguments = ("audit", "--algorithm", "dp-admm", "--epsilon", 1, "--delta", 1e-5, *SHORT)
    assert dpadmm(*arguments, "--picture", path).exit_code == 0
    assert "<svg" in path.read_text()
    refused = dpadmm(*arguments, "--picture", tmp_path / "audit.txt")
    assert refused.exit_code == 2
    assert "--picture" in refused.stderr


def test_one_run(dpadmm: Any) -> None:
    arguments = ("audit", "--algorithm", "dp-admm", "--epsilon", 8, "--delta", 1e-5, "--method", "one-run")
    told = json.loads(dpadmm(*arguments, "--canaries", 100, "--json").stdout)
    assert (told["method"], told["canaries"], told["transcripts"]) == ("one-run", 100, 1)
    assert "one run with 100 canaries" in dpadmm(*arguments, "--canaries", 100).stdout


def test_all_of_them_into_a_document(dpadmm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.audit.summary.ALGORITHMS", {n: ALGORITHMS[n] for n in ("admm", "dp-admm", "pvp")})
    document = tmp_path / "audit.md"
    document.write_text(f"{BEGIN}\n{END}\n")
    arguments = ("audit", "--algorithm", "all", "--epsilon", 1, "--delta", 1e-5, *SHORT, "--write", document)
    told = json.loads(dpadmm(*arguments, "--json").stdout)
    assert [each["algorithm"] for each in told["audits"]] == ["dp-admm", "pvp"]
    assert "| `pvp` | smoothed-hinge | replace | 1 |" in document.read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (("--epsilon", "1,x"), "must be numbers"),
        (("--algorithm", "admm"), "claims no privacy"),
        (("--algorithm", "nonsense"), "unknown algorithm"),
        (("--algorithm", "all", "--updates", "2"), "do not go with 'all'"),
        (("--method", "magic"), "unknown method"),
        (("--transcripts", "3"), "transcripts"),
        (("--write", "no-such-file.md"), "cannot be read"),
        (("--loss", "cubic"), "unknown loss"),
        (("--method", "one-run", "--picture", "audit.png"), "nothing to draw"),
        (("--algorithm", "all", "--epsilon", "1,2,3", "--picture", "audit.png"), "panels"),
        (("--algorithm", "all", "--paper-noise", "--method", "magic"), "unknown method"),
    ],
)
def test_bad_input(dpadmm: Any, changes: tuple[str, ...], said: str) -> None:
    result = dpadmm("audit", "--algorithm", "dp-admm", "--epsilon", 1, "--delta", 1e-5, *changes)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""
