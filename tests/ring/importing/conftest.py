"""Two servers, and the views of documents, which importing their queries registers."""

from projections.services import Queries
from tests.acceptance.conftest import two_servers

__all__ = ["Queries", "two_servers"]
