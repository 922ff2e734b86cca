"""The package's face: what it exports, and that it stays quick to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dpadmm

PUBLIC = """
ALGORITHMS LOSSES PENALTIES SETS Account Accounts Budget ConvergenceError Experiment Guarantee InputError
PrivateLinearSVC PrivateLogisticRegression PrivateQuantileRegressor PrivateRidge Problem Relation Result Shards
StoredShards gather gather_blocks open_folder prepare train write_folder
"""


def test_the_public_names_are_these():
    assert dpadmm.__all__ == PUBLIC.split()


@pytest.mark.parametrize("name", dpadmm.__all__)
def test_every_public_name_loads_from_its_home(name):
    found = getattr(dpadmm, name)
    assert getattr(found, "__module__", dpadmm._HOMES[name]).startswith("dpadmm.")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = dpadmm.nonsense


def test_importing_the_package_loads_nothing_heavy():
    code = "import sys, dpadmm; print({'numba', 'scipy', 'sklearn', 'dp_accounting', 'pyarrow'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"
