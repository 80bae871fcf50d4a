"""The Python client against a stub."""

from collections.abc import Iterator

import pytest

from tests.clients.python.stub import Stub


@pytest.fixture
def stub() -> Iterator[Stub]:
    """A server that answers what the test says."""
    with Stub() as started:
        yield started
