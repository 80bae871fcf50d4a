"""The questions that may be asked of the projections; what the APIs import."""

from typing import NamedTuple

from projections.health.queries import Diagnose, ProjectionProgress
from projections.queries.actions import Actions
from projections.queries.around import AroundQueries
from projections.queries.audit import Audit
from projections.queries.compile import Compile
from projections.queries.graph import Graph
from projections.queries.lessons import Lessons
from projections.queries.log_events import LogEvents
from projections.queries.lookup import Lookup
from projections.queries.memories import Memories
from projections.queries.numbers import IntegerIdsOf
from projections.queries.observations import Observations
from projections.queries.profiles import ProjectProfiles
from projections.queries.recall import Recall
from projections.queries.relations import Relations
from projections.queries.sessions import Commits, Sessions, Summaries
from projections.queries.slots import Slots


class Queries(NamedTuple):
    """All questions, by what they are about."""

    recall: Recall
    context: Compile
    numbers: IntegerIdsOf
    lookup: Lookup
    memories: Memories
    lessons: Lessons
    observations: Observations
    sessions: Sessions
    summaries: Summaries
    slots: Slots
    actions: Actions
    relations: Relations
    commits: Commits
    log: LogEvents
    graph: Graph
    profiles: ProjectProfiles
    around: AroundQueries
    audit: Audit
    diagnose: Diagnose
    progress: ProjectionProgress
