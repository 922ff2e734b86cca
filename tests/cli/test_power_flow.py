"""`dpadmm power-flow`, on a network of five buses that the test writes itself."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.privacy import classic_multiplier, gaussian

pytest.importorskip("scs", reason="needs the extra 'power'")

CASE = """function mpc = five
mpc.version = '2';
mpc.baseMVA = 100;
mpc.bus = [
  1 3  0  0 0 0 1 1 0 100 1 1.1 0.9;
  2 1 20 10 0 0 1 1 0 100 1 1.1 0.9;
  3 1 30  5 0 0 1 1 0 100 1 1.1 0.9;
  4 2 10  5 0 0 1 1 0 100 1 1.1 0.9;
  5 1 15  5 0 0 1 1 0 100 1 1.1 0.9;
];
mpc.gen = [
  1 0 0 100 -100 1 100 1 200 0;
  4 0 0  50  -50 1 100 1 100 0;
];
mpc.branch = [
  1 2 0.01 0.1 0.02 0 0 0 0 0 1 -360 360;
  2 3 0.01 0.1 0.02 0 0 0 0 0 1 -360 360;
  3 4 0.01 0.1 0.02 0 0 0 0 0 1 -360 360;
  4 5 0.01 0.1 0.02 0 0 0 0 0 1 -360 360;
  5 1 0.01 0.1 0.02 0 0 0 0 0 1 -360 360;
];
"""


@pytest.fixture
def case(tmp_path: Path) -> Path:
    path = tmp_path / "five.m"
    path.write_text(CASE)
    return path


def run(dpadmm: Any, case: Path, *more: object) -> dict[str, Any]:
    result = dpadmm("power-flow", "--case", case, "--zones", 2, "--rounds", 30, *more, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_without_noise_the_loads_are_supplied(dpadmm: Any, case: Path) -> None:
    found = run(dpadmm, case, "--algorithm", "none")
    assert found["objective"] < 1e-8
    assert found["pooled_objective"] < 1e-8
    assert found["residual"] < 1e-3
    assert (found["buses"], found["lines"], found["zones"]) == (5, 5, 2)
    assert found["fully_accounted"] is False
    assert found["epsilon"] is None


@pytest.mark.parametrize("algorithm", ["input", "obj-g", "obj-l", "out-g", "out-l"])
def test_every_private_algorithm_spends_its_budget(dpadmm: Any, case: Path, algorithm: str) -> None:
    budget = ("--epsilon", 1, "--delta", 1e-2)
    found = run(dpadmm, case, "--algorithm", algorithm, *budget, "--seed", 1)
    assert 0.999 < found["epsilon"] <= 1.0
    assert found["delta"] == 1e-2
    assert (found["fully_accounted"], found["simulated"], found["private"]) == (True, True, False)
    assert found["simulated"] is True
    assert found["seconds"] > 0
    assert {"objective", "residual", "claimed_epsilon", "neighbours"} <= set(found)
    again = run(dpadmm, case, "--algorithm", algorithm, *budget, "--seed", 1)
    assert again["objective"] == found["objective"]
    assert run(dpadmm, case, "--algorithm", algorithm, *budget, "--seed", 2)["objective"] != found["objective"]


def test_the_default_is_noise_on_the_loads_once(dpadmm: Any, case: Path) -> None:
    found = run(dpadmm, case, "--epsilon", 1, "--delta", 1e-2)
    assert found["algorithm"] == "input"
    longer = dpadmm(
        "power-flow", "--case", case, "--zones", 2, "--rounds", 90, "--epsilon", 1, "--delta", 1e-2, "--json"
    )
    more = json.loads(longer.stdout)
    assert more["noise_multiplier"] == found["noise_multiplier"]
    assert more["epsilon"] == found["epsilon"]
    assert more["objective"] == pytest.approx(found["objective"], rel=1e-3)


def test_paper_noise_says_what_it_claims_and_what_is_true(dpadmm: Any, case: Path) -> None:
    paper = ("--epsilon", 0.1, "--delta", 1e-2, "--paper-noise", "--one-load", "--steps", "paper")
    found = run(dpadmm, case, "--algorithm", "obj-g", *paper)
    assert found["claimed_epsilon"] == pytest.approx(0.1 * np.sqrt(30 * np.log(100) / np.log(125)), rel=1e-9)
    mu = np.sqrt(30) / classic_multiplier(0.1, 1e-2)
    assert found["epsilon"] == pytest.approx(gaussian.epsilon(mu, 1e-2), rel=1e-6)  # 2 beta is right in slack form
    other = run(dpadmm, case, "--algorithm", "obj-g", *paper, "--formulation", "eliminated")
    longest = np.sqrt(3)  # bus 4: two lines and a generator
    assert other["epsilon"] == pytest.approx(gaussian.epsilon(longest * mu, 1e-2), rel=1e-6)
    assert "a load of one bus" in found["neighbours"]
    shown = dpadmm("power-flow", "--case", case, "--zones", 2, "--rounds", 5, "--algorithm", "obj-g", *paper)
    assert "By its paper's formula the total would be epsilon" in " ".join(shown.stdout.split())


def test_noise_on_all_entries_leaves_more_unmet_load_at_the_same_price(dpadmm: Any, case: Path) -> None:
    asked = ("--algorithm", "obj-g", "--epsilon", 1, "--delta", 1e-2, "--steps", "paper")
    loads, everywhere = (run(dpadmm, case, *asked, "--noise-on", place) for place in ("loads", "all"))
    assert loads["epsilon"] == everywhere["epsilon"]
    assert loads["objective"] < everywhere["objective"]
    assert run(dpadmm, case, *asked)["objective"] == loads["objective"]


def test_a_person_is_told_what_came_out(dpadmm: Any, case: Path) -> None:
    shown = dpadmm("power-flow", "--case", case, "--zones", 2, "--rounds", 10, "--epsilon", 1, "--delta", 0.1)
    assert shown.exit_code == 0
    for words in ("Simulated", "epsilon 1.000", "load not supplied", "disagreement of the copies", "voltages"):
        assert words in shown.stdout
    assert shown.stderr.startswith("warning: delta 0.1 is above 1/(10 m)")


def test_zones_may_be_given(dpadmm: Any, case: Path, tmp_path: Path) -> None:
    given = tmp_path / "zones.json"
    given.write_text("[[1, 5], [2, 3], [4]]")
    found = run(dpadmm, case, "--partition", given, "--algorithm", "none")
    assert (found["zones"], found["cut_lines"]) == (3, 3)
    given.write_text("[[1, 5], [2, 3]]")
    missed = dpadmm("power-flow", "--case", case, "--partition", given, "--algorithm", "none")
    assert missed.exit_code == 2
    assert "4" in missed.stderr
    given.write_text("[[1, 5")
    assert dpadmm("power-flow", "--case", case, "--partition", given, "--algorithm", "none").exit_code == 2


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_picture_is_drawn(dpadmm: Any, case: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"flow.{kind}"
    found = run(dpadmm, case, "--algorithm", "none", "--picture", path)
    assert found["picture"] == str(path)
    assert path.read_bytes()[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    if kind == "svg":
        assert path.read_text().count("<path") > 20


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--algorithm", "input"), ("private", "epsilon")),
        (("--algorithm", "none", "--epsilon", 1), ("not private",)),
        (("--algorithm", "imput"), ("'imput'", "'input'")),
        (("--algorithm", "input", "--updates", 3, "--epsilon", 1, "--delta", 1e-2), ("local updates",)),
        (("--algorithm", "input", "--epsilon", 1), ("delta",)),
        (("--algorithm", "none", "--rounds", 0), ("rounds 0",)),
        (("--algorithm", "none", "--zones", 9), ("9",)),
        (("--algorithm", "none", "--formulation", "slac"), ("'slac'", "'slack'")),
        (("--algorithm", "out-g", "--noise-on", "all", "--epsilon", 1, "--delta", 1e-2), ("noise-on", "obj")),
        (("--algorithm", "none", "--picture", "flow.txt"), (".png",)),
        (("--algorithm", "none", "--picture", "no/such/folder/flow.png"), ("folder",)),
        (("--algorithm", "obj-g", "--epsilon", 1, "--delta", 1e-2, "--beta", -1), ("beta",)),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_what_cannot_be_is_one_line(dpadmm: Any, case: Path, given: Any, said: Any) -> None:
    result = dpadmm("power-flow", "--case", case, *given)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert all(words in result.stderr for words in said), result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_missing_file_is_named(dpadmm: Any, tmp_path: Path) -> None:
    result = dpadmm("power-flow", "--case", tmp_path / "none.m", "--algorithm", "none")
    assert result.exit_code == 2
    assert "none.m" in result.stderr


def test_a_missing_extra_is_named(dpadmm: Any, case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "dpadmm.applications.power_flow.rounds":
            raise ModuleNotFoundError("No module named 'scs'", name="scs")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    result = dpadmm("power-flow", "--case", case, "--algorithm", "none")
    assert result.exit_code == 2
    assert "'scs'" in result.stderr
    assert "dpadmm[power]" in result.stderr
