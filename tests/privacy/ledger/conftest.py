"""A ledger of made-up patients."""

from pathlib import Path

import pytest

from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.sqlite import SqliteLedger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger is made."""
    return tmp_path / "patients.ledger"


@pytest.fixture
def ledger(path: Path) -> SqliteLedger:
    """A new ledger."""
    return SqliteLedger.create(path, "patients", "d" * 64, Relation.REPLACE)
