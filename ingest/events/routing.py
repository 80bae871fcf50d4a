"""Which stream an event belongs to: a session's or a project's. The same for a command, a fold and an import."""

from ingest.events.envelope import Envelope
from ingest.events.observation import ObservationCompressed, ObservationRecorded
from ingest.events.registry import EventData
from ingest.events.session import SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.log.partitions import project_route, session_route

SESSION_TYPES = frozenset(
    one.TYPE
    for one in (
        ObservationRecorded,
        ObservationCompressed,
        SessionStarted,
        SessionEnded,
        SessionRetired,
        SessionSummarised,
    )
)
"""Events of a session's stream; the others are of their project's."""


def route_of(envelope: Envelope, data: EventData) -> str:
    """The routing key of an event.

    A tombstone goes where what it forgets is: to the session that its envelope names, else to the project.
    """
    match data:
        case SubjectForgotten():
            in_session = bool(envelope.session_id)
        case EventErased(was=was):
            in_session = was in SESSION_TYPES
        case _:
            in_session = data.TYPE in SESSION_TYPES
    if in_session:
        return session_route(envelope.tenant, envelope.project, envelope.session_id)
    return project_route(envelope.tenant, envelope.project)
