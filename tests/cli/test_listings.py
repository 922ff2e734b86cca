"""The verbs that list what exists."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dpadmm.cli.listings import LISTINGS


def _rows(result: Any, verb: str) -> dict[str, dict[str, Any]]:
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert list(found) == [verb]
    return {row["name"]: row for row in found[verb]}


@pytest.mark.parametrize("listing", LISTINGS, ids=lambda listing: listing.verb)
@pytest.mark.parametrize("width", [80, 120])
def test_every_member_is_shown_whole(dpadmm: Any, monkeypatch: pytest.MonkeyPatch, listing: Any, width: int) -> None:
    rows = _rows(dpadmm(listing.verb, "--json"), listing.verb)
    assert rows
    assert all(row["about"] for row in rows.values())
    monkeypatch.setenv("COLUMNS", str(width))
    text = dpadmm(listing.verb).stdout
    assert all(name in text for name in rows)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width


def test_the_registries_are_listed(dpadmm: Any) -> None:
    from dpadmm.admm.schedules import SCHEDULES
    from dpadmm.papers import ALGORITHMS
    from dpadmm.privacy.mechanisms import MECHANISMS

    assert set(_rows(dpadmm("algorithms", "--json"), "algorithms")) == set(ALGORITHMS)
    assert set(_rows(dpadmm("schedules", "--json"), "schedules")) == set(SCHEDULES)
    assert set(_rows(dpadmm("mechanisms", "--json"), "mechanisms")) == set(MECHANISMS)


def test_an_algorithm_says_what_it_is_made_of_and_needs(dpadmm: Any) -> None:
    rows = _rows(dpadmm("algorithms", "--json"), "algorithms")
    assert rows["dp-admm"]["solver"] == "linearised"
    assert rows["dp-admm"]["perturbation"] == "gradient"
    assert rows["dp-admm"]["twin"] == "linearised-admm"
    assert rows["dp-admm"]["private"] is True
    assert rows["pvp"]["needs"] == "set whole"
    assert "penalty none or l2" in rows["dvp"]["needs"]
    assert rows["admm"]["private"] is False


def test_a_loss_says_its_constants(dpadmm: Any) -> None:
    row = _rows(dpadmm("losses", "--json"), "losses")["logistic"]
    assert (row["gradient_bound"], row["curvature_bound"], row["task"]) == (1.0, 0.25, "binary")
    assert (row["sensitivity_replace"], row["sensitivity_zero-out"]) == (2.0, 1.0)


def test_a_perturbation_says_which_parts_go_with_it(dpadmm: Any) -> None:
    rows = _rows(dpadmm("perturbations", "--json"), "perturbations")
    assert rows["objective"]["solvers"] == "exact"
    assert rows["objective"]["mechanisms"] == "gamma-norm"
    assert "exact" not in rows["gradient"]["solvers"]
