"""A real server, and one that answers what a test says."""

from tests.clients.conftest import server, stub

__all__ = ["server", "stub"]
