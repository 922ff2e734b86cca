"""The theory pages as tests read them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

THEORY = Path(__file__).parents[2] / "docs" / "theory"


def part(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    text = (THEORY / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, flags=re.M | re.S)
    assert found, f"{page} has no heading {heading!r}"
    return found.group(1)


def tables(page: str, heading: str) -> list[list[dict[str, str]]]:
    """The tables below a heading; rows by the names of their columns, without backticks."""
    found = re.findall(r"(?:^\|.*\|\n)+", part(page, heading), flags=re.M)
    made = []
    for block in found:
        rows = [[cell.strip().replace("`", "") for cell in line.strip("|\n").split("|")] for line in block.splitlines()]
        names, rule, *body = rows
        assert set("".join(rule)) == {"-"}
        assert all(len(row) == len(names) for row in body), f"{page}, {heading}: a row with another number of cells"
        made.append([dict(zip(names, row, strict=True)) for row in body])
    return made


@pytest.fixture(scope="session")
def table() -> Callable[..., list[dict[str, str]]]:
    """The n-th table below a heading of a page."""
    return lambda page, heading, number=0: tables(page, heading)[number]


@pytest.fixture(scope="session")
def agrees() -> Callable[[float, str], bool]:
    """Whether a number is the printed one, to its last printed digit."""

    def compare(value: float, printed: str) -> bool:
        mantissa, _, exponent = printed.partition("e")
        unit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
        return abs(value - float(printed)) <= 0.5001 * unit

    return compare
