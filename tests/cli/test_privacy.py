"""`dpadmm privacy`."""

from __future__ import annotations

import json
from typing import Any

import pytest


def _json(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    return dict(json.loads(result.stdout))


def test_spent_shows_the_accountants_side_by_side(dpadmm: Any) -> None:
    flags = ("privacy", "spent", "--noise-multiplier", 37.30631634838425, "--releases", 100, "--delta", 1e-5)
    found = _json(dpadmm(*flags, "--json"))
    assert found["exact"] == pytest.approx(1.0, abs=1e-9)
    assert found["exact"] <= found["pld"] * (1 + 1e-9)
    assert found["exact"] < found["zcdp"] <= found["rdp"]
    assert found["pure"] is None
    assert found["best"] == "exact"
    assert found["epsilon"] == found["exact"]
    text = dpadmm(*flags).stdout
    for part in ("exact Gaussian composition", "Rényi composition", "privacy loss distribution", "replace relation"):
        assert part in text


@pytest.mark.parametrize("mechanism", ["laplace", "gamma-norm"])
def test_pure_noise_needs_no_delta(dpadmm: Any, mechanism: str) -> None:
    flags = ("privacy", "spent", "--noise-multiplier", 50, "--releases", 100, "--mechanism", mechanism)
    found = _json(dpadmm(*flags, "--json"))
    assert (found["best"], found["delta"]) == ("pure", 0.0)
    assert found["pure"] == pytest.approx(2.0)
    assert found["exact"] is None
    at = _json(dpadmm(*flags, "--delta", 1e-6, "--relation", "zero-out", "--json"))
    assert at["epsilon"] < 2.0
    assert at["relation"] == "zero-out"


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace", "gamma-norm"])
def test_calibrate_and_spent_agree(dpadmm: Any, mechanism: str) -> None:
    flags = ("--releases", 10, "--delta", 1e-6, "--mechanism", mechanism)
    found = _json(dpadmm("privacy", "calibrate", "--epsilon", 0.5, *flags, "--json"))
    assert found["spent"] <= 0.5
    assert found["spent"] == pytest.approx(0.5, rel=1e-6)
    spent = _json(dpadmm("privacy", "spent", "--noise-multiplier", found["noise_multiplier"], *flags, "--json"))
    assert spent[found["accountant"]] == found["spent"]
    assert "noise multiplier" in dpadmm("privacy", "calibrate", "--epsilon", 0.5, *flags).stdout


def test_claims(dpadmm: Any) -> None:
    rows = _json(dpadmm("privacy", "claims", "--json"))["claims"]
    row = next(r for r in rows if (r["epsilon_step"], r["delta"], r["steps"]) == (0.2, 1e-6, 100))
    assert row["exact"] == pytest.approx(1.657, abs=5e-4)
    assert row["claimed"] == pytest.approx(1.984, abs=5e-4)
    assert row["holds"] is True
    assert {r["holds"] for r in rows} == {True, False}
    assert all(r["holds"] == (r["true_delta"] <= r["delta"] * (1 + 1e-9)) for r in rows)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_of_claims_fits_a_narrow_terminal(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = dpadmm("privacy", "claims").stdout
    for part in ("Mironov", "RDP", "exact", "true delta", "holds", "false", "DP-ADMM (000)"):
        assert part in text
    assert "…" not in text


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("spent", "--noise-multiplier", 0, "--releases", 1, "--delta", 1e-5), "--noise-multiplier 0"),
        (("spent", "--noise-multiplier", "nan", "--releases", 1, "--delta", 1e-5), "--noise-multiplier nan"),
        (("spent", "--noise-multiplier", 1, "--releases", 0, "--delta", 1e-5), "--releases 0"),
        (("spent", "--noise-multiplier", 1, "--releases", 1, "--delta", 1), "--delta 1"),
        (("spent", "--noise-multiplier", 1, "--releases", 1, "--delta", 0), "--delta 0"),
        (("spent", "--noise-multiplier", 1, "--releases", 1), "needs a --delta"),
        (("spent", "--noise-multiplier", 1, "--releases", 1, "--mechanism", "gausian"), "did you mean 'gaussian'?"),
        (
            ("spent", "--noise-multiplier", 1, "--releases", 1, "--delta", 1e-5, "--relation", "zero"),
            "did you mean 'zero-out'?",
        ),
        (("calibrate", "--epsilon", 0, "--delta", 1e-5, "--releases", 1), "epsilon"),
        (("calibrate", "--epsilon", 1, "--delta", 2, "--releases", 1), "--delta 2"),
        (("calibrate", "--epsilon", 1, "--delta", 1e-5, "--releases", 0), "got 0"),
        (("calibrate", "--epsilon", 1, "--delta", 0.1, "--releases", 1, "--mechanism", "x"), "unknown mechanism 'x'"),
    ],
)
def test_bad_input(dpadmm: Any, flags: tuple[object, ...], part: str) -> None:
    result = dpadmm("privacy", *flags, "--json")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr
