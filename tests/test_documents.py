"""Every Python block in README and docs runs; `test_commands` has the other blocks."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from documented_package import installed, module

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(), flags=re.M | re.S)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


PYTHON = [(name(document), code) for document in DOCUMENTS for code in blocks(document)]


def test_there_are_documents_with_code():
    assert {"README.md", "docs/sharp_edges.md", "docs/theory/claims.md"} <= {document for document, _ in PYTHON}
    assert [module(code) for _, code in PYTHON if module(code)] == [
        "mypackage.losses",
        "mypackage.wrong",
        "mypackage.noise",
        "mypackage.recipes",
    ]


@pytest.mark.parametrize(("document", "code"), PYTHON)
def test_a_python_block_runs(document, code, capsys, tmp_path):
    """A block that is a file of a package is imported from there, by a path outside the library."""
    with installed([other for where, other in PYTHON if where == document], tmp_path):
        if name := module(code):
            assert importlib.import_module(name).__file__.startswith(str(tmp_path))
        else:
            exec(compile(code, document, "exec"), {"__name__": "__main__"})
