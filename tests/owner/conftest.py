"""The module of small parties, as a fixture: tests are no package."""

from pathlib import Path
from types import ModuleType

import pytest
from beside import load


@pytest.fixture(scope="session")
def parties() -> ModuleType:
    return load(Path(__file__).parent / "parties.py", "owner_parties")
