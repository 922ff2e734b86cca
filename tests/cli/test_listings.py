"""The verbs that list what exists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dpadmm.cli.listings import LISTINGS

WITHOUT_KINKS = (
    "logistic or softmax or squared or smoothed-hinge or smoothed-quantile or capped-logistic or capped-softmax"
)


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
    assert rows["pvp"]["needs"] == f"loss {WITHOUT_KINKS}; penalty none or l1 or l2 or elastic-net; set whole"
    assert rows["f-admm"]["needs"] == "penalty none or l1 or l2 or elastic-net; set whole or box or range"
    assert rows["fdp-admm"]["needs"] == "any loss, penalty and set"
    assert rows["private-components"]["needs"] == "loss second-moment"
    assert "penalty none or l2" in rows["dvp"]["needs"]
    assert rows["admm"]["private"] is False


def test_a_loss_says_its_constants(dpadmm: Any) -> None:
    row = _rows(dpadmm("losses", "--json"), "losses")["logistic"]
    assert (row["gradient_bound"], row["curvature_bound"], row["task"]) == (1.0, 0.25, "binary")
    assert (row["sensitivity_replace"], row["sensitivity_zero-out"]) == (2.0, 1.0)


def test_a_perturbation_says_which_parts_go_with_it(dpadmm: Any) -> None:
    rows = _rows(dpadmm("perturbations", "--json"), "perturbations")
    assert rows["objective"]["solvers"] == "exact"
    assert rows["objective"]["mechanisms"] == rows["penalty"]["mechanisms"] == "gaussian, gamma-norm"
    assert rows["free"]["solvers"] == "recycled"
    assert "exact" not in rows["gradient"]["solvers"]


def test_penalties_by_round_are_listed(dpadmm: Any) -> None:
    from dpadmm.admm.rho import RHO_SCHEDULES

    rows = _rows(dpadmm("rho-schedules", "--json"), "rho-schedules")
    assert list(rows) == list(RHO_SCHEDULES)
    assert {name: row["about"] for name, row in rows.items()} == {n: r.about for n, r in RHO_SCHEDULES.items()}
    assert "growing:2:5:10000" in dpadmm("rho-schedules").stdout


def test_sets_that_numbers_can_make_are_listed_and_the_hint_tells_of_the_others(dpadmm: Any) -> None:
    from dpadmm.problems.sets import SETS
    from dpadmm.problems.sets.text import parse

    rows = _rows(dpadmm("sets", "--json"), "sets")
    assert set(rows) == set(SETS) >= {"whole", "box", "range", "ball", "simplex"}
    for name in rows:
        assert parse(name).name == name
    text = " ".join(dpadmm("sets").stdout.split())
    for part in ("box:0.1,ball:2", "JSON", "docs/sets.md"):
        assert part in text


def test_the_page_that_a_hint_names_exists() -> None:
    assert (Path(__file__).parents[2] / "docs" / "sets.md").is_file()


@pytest.mark.parametrize("name", ["obj-g", "obj-l", "out-g", "out-l"])
def test_ryu_and_kims_recipes_say_their_parts(dpadmm: Any, name: str) -> None:
    row = _rows(dpadmm("algorithms", "--json"), "algorithms")[name]
    assert (row["consensus"], row["solver"], row["schedule"]) == ("server-first", "local-updates", "ryu-kim")
    assert (row["rho"], row["weighting"], row["twin"]) == ("growing", "records", "local-updates")
    assert row["perturbation"] == ("gradient" if name.startswith("obj") else "output")
    assert row["mechanism"] == ("gaussian" if name.endswith("g") else "laplace")
    assert row["needs"] == "any loss, penalty and set"
    assert "Ryu & Kim" in row["paper"]


SETS = "set box or ball or simplex"
NEEDS = {
    "ryu-kim": "any loss, penalty and set",
    "theorem-5.3": f"loss {WITHOUT_KINKS}; penalty none or l2; {SETS}",
    "free-5.3": f"loss {WITHOUT_KINKS}; penalty none or l2; {SETS}",
    "theorem-5.4": SETS,
    "theorem-5.5": f"penalty l2 or elastic-net; {SETS}",
}


@pytest.mark.parametrize(("name", "needs"), NEEDS.items())
def test_a_schedule_says_what_it_needs(dpadmm: Any, name: str, needs: str) -> None:
    assert _rows(dpadmm("schedules", "--json"), "schedules")[name]["needs"] == needs
