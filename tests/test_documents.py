"""Every Python block in README and docs runs; `test_commands` has the other blocks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), flags=re.M | re.S)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


PYTHON = [(name(document), code) for document in DOCUMENTS for code in blocks(document)]


def test_there_are_documents_with_code():
    assert {"README.md", "docs/sharp_edges.md", "docs/theory/claims.md"} <= {document for document, _ in PYTHON}


@pytest.mark.parametrize(("document", "code"), PYTHON)
def test_a_python_block_runs(document, code, capsys):
    exec(compile(code, document, "exec"), {"__name__": "__main__"})
