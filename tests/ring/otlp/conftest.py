"""The server that these tests share."""

from tests.acceptance.conftest import server

__all__ = ["server"]
