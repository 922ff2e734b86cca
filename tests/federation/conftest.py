"""A PostgreSQL server for the tests that need one; it is started once, and only if one of them runs."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


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
