"""What all tests share."""

from __future__ import annotations

import numba
import pytest
from hypothesis import settings

# How long an example takes says nothing: the first one pays for imports, and others use the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Loops over so few records are over before a second thread wakes up; where others use the machine, waiting for it
    takes ten times as long as the work. Tests about threads set their own number."""
    numba.set_num_threads(1)
