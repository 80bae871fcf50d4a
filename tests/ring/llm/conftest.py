"""A model that answers by rules, a real server of the log, and servers of one test."""

from tests.acceptance.conftest import private_server
from tests.conformance.conftest import pytest_generate_tests, stub, valkey

__all__ = ["private_server", "pytest_generate_tests", "stub", "valkey"]
