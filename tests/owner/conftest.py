"""The helpers of owners and small federations, as fixtures."""

from pathlib import Path
from types import ModuleType

import owners
import pytest
import small_federation as federation


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    """Records, a policy, terms and an agent of a small owner."""
    return owners


@pytest.fixture(scope="session")
def small_federation() -> ModuleType:
    """A federation in one process."""
    return federation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger of an owner is made."""
    return tmp_path / "patients.ledger"
