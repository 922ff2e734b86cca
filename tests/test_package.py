"""The package's face: what it exports, and that it stays quick to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import dpadmm

PUBLIC = """
ALGORITHMS Account Accounts Agent Agreement Budget ConvergenceError Experiment Guarantee InputError LOSSES Ledger
PENALTIES Policy PrivateLinearSVC PrivateLogisticRegression PrivateQuantileRegressor PrivateRidge Problem Refused
Relation Result SETS Shards StoredShards gather gather_blocks open_folder prepare train write_folder
"""


def test_the_public_names_are_these():
    assert sorted(dpadmm.__all__) == sorted(dpadmm._HOMES) == PUBLIC.split()


@pytest.mark.parametrize("name", dpadmm.__all__)
def test_every_public_name_loads_from_its_home(name):
    found = getattr(dpadmm, name)
    assert getattr(found, "__module__", dpadmm._HOMES[name]).startswith("dpadmm.")


def test_dir_shows_the_public_names_only():
    assert [name for name in dir(dpadmm) if not name.startswith("_")] == sorted(dpadmm.__all__)


def test_type_checkers_see_the_same_names():
    """The lazy loader's table and the imports that only a type checker makes must not drift apart."""
    tree = ast.parse(Path(dpadmm.__file__).read_text())
    (guarded,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {(node.module, name.name) for node in guarded.body for name in node.names}
    assert seen == {(module, name) for name, module in dpadmm._HOMES.items()}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dpadmm.nonsense


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, dpadmm; print({'numba', 'scipy', 'sklearn', 'dp_accounting', 'pyarrow'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"


def test_no_two_nested_functions_have_one_name():
    """In a traceback and a profile they would look the same."""
    found = Counter()
    for path in Path(dpadmm.__file__).parent.rglob("*.py"):
        for outer in ast.walk(ast.parse(path.read_text())):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = [node for child in outer.body for node in ast.walk(child)]
                found.update({(path, n.name, n.lineno) for n in inner if isinstance(n, ast.FunctionDef)})
    names = Counter(name for _, name, _ in found)
    assert len(names) > 20
    assert [name for name, count in names.items() if count > 1] == []
