"""A small federation with ample budgets, and a coordinator that does not wait."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coordinator asks again at once, and says how far it is after every round."""
    monkeypatch.setattr("dpadmm.federation.server.enrolment.POLL", 0.001)
    monkeypatch.setattr("dpadmm.federation.server.coordinator.GLANCE", 0.0)  # every round is told, however fast


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    """Three owners that allow more than any test spends."""
    made = small_federation.SmallFederation(tmp_path)
    for name in small_federation.OWNERS:
        made.allow(name, epsilon=400.0)
    return made


@pytest.fixture(scope="session")
def undisturbed(small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The model of the same run, as the engine simulates it."""
    return small_federation.SmallFederation(tmp_path_factory.mktemp("undisturbed")).simulated().models[0]
