"""The questions that may be asked of the projections; what the doors import."""

from typing import NamedTuple

from projections.documents.access import Reader, reader_of
from projections.queries.around import Around
from projections.queries.audit import Audit
from projections.queries.browse import Browse
from projections.queries.compile import Compile, ContextRequest
from projections.queries.dead_letters import DeadLetters
from projections.queries.graph import Graph
from projections.queries.health import Diagnose
from projections.queries.lessons import Lessons
from projections.queries.log_events import Wanted
from projections.queries.profiles import Profiles
from projections.queries.recall import Recall, RecallAnswer, RecallRequest, RecallResult

__all__ = [
    "Around",
    "Audit",
    "Browse",
    "Compile",
    "ContextRequest",
    "DeadLetters",
    "Diagnose",
    "Graph",
    "Lessons",
    "Profiles",
    "Queries",
    "Reader",
    "Recall",
    "RecallAnswer",
    "RecallRequest",
    "RecallResult",
    "Wanted",
    "reader_of",
]


class Queries(NamedTuple):
    """All questions, ready to be asked."""

    recall: Recall
    context: Compile
    browse: Browse
    lessons: Lessons
    graph: Graph
    profiles: Profiles
    around: Around
    audit: Audit
    diagnose: Diagnose
    letters: DeadLetters
