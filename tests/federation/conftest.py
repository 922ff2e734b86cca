"""The modules of small federations as fixtures, since tests are no package; and a PostgreSQL server for the tests that
need one, which is started once, and only if one of them runs."""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from beside import load
from debian import Unavailable
from postgres import postgres

BESIDE = Path(__file__).parent  # under plain names: they import each other by them, and so do processes of theirs


@pytest.fixture(scope="session")
def village() -> ModuleType:
    """A federation in one process."""
    return load(BESIDE / "village.py")


@pytest.fixture(scope="session")
def network() -> ModuleType:
    """A slow and lossy network."""
    return load(BESIDE / "network.py")


@pytest.fixture(scope="session")
def town(village: ModuleType, network: ModuleType) -> ModuleType:
    """One of real processes."""
    return load(BESIDE / "town.py")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[tuple[Any, str]]:
    """The server, and the password of its user."""
    password = "open-sesame-4711"
    try:
        with postgres(password) as server:
            yield server, password
    except Unavailable as error:
        pytest.skip(str(error))
