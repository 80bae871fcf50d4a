"""An empty log on a real server, and every job on it."""

from tests.conformance.conftest import pytest_generate_tests, shop, valkey

__all__ = ["pytest_generate_tests", "shop", "valkey"]
