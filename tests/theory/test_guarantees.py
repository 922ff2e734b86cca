"""The table of guarantees: every claim has a lemma and a test that exist, and says what stands behind it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
STATUSES = {"proved here", "published", "checked numerically", "assumed"}
COLUMNS = ["claim", "assumption", "lemma", "test", "status"]
PROMISED = """Every row/read alone/slope/contributes/k records of a person/Sums are exact/lattice/discrete Gaussian/
discrete Laplace/Random bits/Gradient noise/Mini-batches/One uniform record/exact minimiser/Objective perturbation/
Noise on a step's result/projection/post-processing/Nothing leaves/
Pre-processing: standardising/Pre-processing: components/Evaluation/
Gaussian composition/Privacy loss distributions/Rényi composition/All runs together/run alone/Changed policies/Groups/
second ledger/Migration/Rollback/Estimators/Graphs/Recycled rounds/Power flow"""


def rows_of(page: str, columns: list[str]) -> list[dict[str, str]]:
    """The rows of all tables with these columns."""
    found, at = [], False
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")] if line.startswith("|") else []
        if cells == columns:
            at = True
        elif not cells:
            at = False
        elif at and set("".join(cells)) != {"-", "|"}:
            found.append(dict(zip(columns, (cell.strip(" |") for cell in cells), strict=True)))
    return found


ROWS = rows_of("guarantees.md", COLUMNS)
WRONG = rows_of("what_we_got_wrong.md", ["claim", "what was false", "now", "test"])


def anchors(page: Path) -> set[str]:
    """What MkDocs makes of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found = [heading.replace("`", "") for heading in re.findall(r"^#+ (.*)$", text, flags=re.M)]
    plain = [re.sub(r"[^\w\s-]", "", heading.encode("ascii", "ignore").decode()).strip().lower() for heading in found]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


def names(file: Path) -> set[str]:
    """A file's tests, those of classes with the class before them."""
    found = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["claim"][:40])
def test_every_claim_has_a_lemma_and_a_test_that_exist_and_one_of_four_statuses(row: dict[str, str]) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", row["lemma"])
    assert links
    for page, anchor in links:
        assert not anchor or anchor in anchors(DOCS / page)
    check_tests(row["test"])
    assert row["status"] in STATUSES
    assert row["assumption"]


def check_tests(cell: str) -> None:
    listed = re.findall(r"`([^`]+)`", cell)
    assert listed
    for each in listed:
        file, _, test = each.partition("::")
        assert test.split("::")[-1].startswith("test_")
        assert test in names(DOCS.parent / file), each


def test_every_promise_is_in_the_table() -> None:
    claims = [row["claim"] for row in ROWS]
    assert len(claims) == len(set(claims)) >= 40
    assert {row["status"] for row in ROWS} == STATUSES
    for promise in PROMISED.replace("\n", "").split("/"):
        assert any(promise in claim for claim in claims), promise


def test_fourteen_claims_of_0_1_0_were_false_and_each_has_a_test() -> None:
    assert len(WRONG) == 14
    for row in WRONG:
        check_tests(row["test"])
        assert re.search(r"\d", row["what was false"]), "a figure says how false it was"


def test_headings_become_the_anchors_that_mkdocs_makes() -> None:
    assert {"1-row", "exact-minimisers", "4-noise"} <= anchors(DOCS / "theory" / "release.md")
    assert {"66-gaussian-noise-in-an-objective", "64-recycled-rounds"} <= anchors(DOCS / "theory" / "graphs.md")
    assert "105-units-and-relations" in anchors(DOCS / "theory" / "ledger.md")
