"""Servers, and the views of documents, which importing their queries registers."""

from projections.services import Queries
from tests.acceptance.conftest import private_server, two_servers

__all__ = ["Queries", "private_server", "two_servers"]
