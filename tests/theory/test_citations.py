"""What the theory pages name exists, and what the code cites is there."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
THEORY = ROOT / "docs" / "theory"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
TESTS = sorted({found for page in DOCS for found in re.findall(r"`(tests/[\w/]+\.py::\w+)`", page.read_text("utf-8"))})
NAMES = sorted({found for page in DOCS for found in re.findall(r"`(dpadmm(?:\.\w+)+)`", page.read_text("utf-8"))})


def headings(page: str) -> list[str]:
    return re.findall(r"^#+ (.*)$", (THEORY / page).read_text(encoding="utf-8"), flags=re.M)


@pytest.mark.parametrize("name", TESTS)
def test_a_test_that_is_named_exists(name):
    path, _, function = name.partition("::")
    assert re.search(rf"^\s*def {function}\(", (ROOT / path).read_text(encoding="utf-8"), flags=re.M)


@pytest.mark.parametrize("name", NAMES)
def test_a_function_that_is_named_exists(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    raise AssertionError(name)


def test_many_are_named():
    assert len(TESTS) > 40
    assert len(NAMES) > 15


SOURCES = [*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), *DOCS]


def cited(pattern: str) -> set[str]:
    return {found for path in SOURCES for found in re.findall(pattern, path.read_text(encoding="utf-8"))}


def test_what_is_cited_as_claims_is_a_heading_of_the_claims():
    there = {heading.split()[0] for heading in headings("claims.md")}
    found = cited(r"claims ([A-E]\d)\b")
    assert len(found) > 10
    assert found <= there


def test_what_is_cited_as_theory_is_a_heading_of_the_theory():
    there = {heading.split()[0] for page in THEORY.glob("*.md") for heading in headings(page.name)}
    found = cited(r"theory (?:section )?(\d(?:\.\d)?)\b")
    assert len(found) > 15
    assert found <= there


def test_what_is_cited_as_a_formula_is_in_the_table(table):
    there = {row[""] for row in table("formulas.md", "9 Formulas that tests check")}
    assert there == {f"F{number}" for number in range(1, 14)}
    assert cited(r"\b(F(?:1[0-3]|[1-9]))\b") <= there


def test_every_heading_of_the_claims_is_in_its_table():
    page = (THEORY / "claims.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[([A-E]\d)\]\(#", page, flags=re.M)
    assert listed == re.findall(r"^## ([A-E]\d) ", page, flags=re.M)
