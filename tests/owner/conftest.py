"""The module of small parties, as a fixture: tests are no package."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def parties() -> ModuleType:
    spec = importlib.util.spec_from_file_location("owner_parties", Path(__file__).parent / "parties.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
