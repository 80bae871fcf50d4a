"""The questions that may be asked of the projections; what the doors import."""

from typing import NamedTuple

from projections.queries.browse import Browse, Wanted
from projections.queries.compile import Compile, ContextRequest
from projections.queries.recall import Recall, RecallAnswer, RecallRequest, RecallResult

__all__ = [
    "Browse",
    "Compile",
    "ContextRequest",
    "Queries",
    "Recall",
    "RecallAnswer",
    "RecallRequest",
    "RecallResult",
    "Wanted",
]


class Queries(NamedTuple):
    """All questions, ready to be asked."""

    recall: Recall
    context: Compile
    browse: Browse
