"""The helpers of federations as fixtures, and a PostgreSQL server for the tests that need one, which is started once,
and only if one of them runs."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import slow_network
import small_federation as federation
from debian import Unavailable
from postgres import postgres


@pytest.fixture(scope="session")
def small_federation() -> ModuleType:
    """A federation in one process."""
    return federation


@pytest.fixture(scope="session")
def network() -> ModuleType:
    """A slow and lossy network."""
    return slow_network


@pytest.fixture(scope="session")
def process_federation() -> ModuleType:
    """A federation of real processes."""
    import process_federation as processes

    return processes


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[tuple[Any, str]]:
    """The server, and the password of its user."""
    password = "open-sesame-4711"
    try:
        with postgres(password) as server:
            yield server, password
    except Unavailable as error:
        pytest.skip(str(error))
