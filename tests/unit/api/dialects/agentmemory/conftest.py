"""The views of documents, which importing their queries registers."""

from projections.services import Queries

__all__ = ["Queries"]
