"""Streams between a hub and owners in this process."""

from collections.abc import Iterator

import pytest
import streams


@pytest.fixture
def made() -> Iterator[streams.Federation]:
    """A hub that knows three owners."""
    with streams.Federation("ahorn", "birke", "eiche") as federation:
        yield federation
