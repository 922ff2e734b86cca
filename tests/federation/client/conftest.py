"""A small federation, of which one owner is asked."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    """Three owners with their files below one folder."""
    return small_federation.SmallFederation(tmp_path)
