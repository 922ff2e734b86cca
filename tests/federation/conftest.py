"""The modules of small federations as fixtures, since tests are no package; and a PostgreSQL server for the tests that
need one, which is started once, and only if one of them runs."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def load(name: str) -> ModuleType:
    """A module beside this one, under its plain name: they import each other by it, and so do processes of theirs."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def village() -> ModuleType:
    """A federation in one process."""
    return load("village")


@pytest.fixture(scope="session")
def network() -> ModuleType:
    """A slow and lossy network."""
    return load("network")


@pytest.fixture(scope="session")
def town(village: ModuleType, network: ModuleType) -> ModuleType:
    """One of real processes."""
    return load("town")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[tuple[Any, str]]:
    """The server, and the password of its user."""
    spec = importlib.util.spec_from_file_location("federation_postgres", Path(__file__).parent / "postgres.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    password = "open-sesame-4711"
    try:
        with module.postgres(password) as server:
            yield server, password
    except module.Unavailable as error:
        pytest.skip(str(error))
