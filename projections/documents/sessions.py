"""Sessions: when a run of work began and ended, and how much is known of it."""

from typing import Literal

from ingest.clock import to_ms
from ingest.events.envelope import Recorded
from ingest.events.session import SessionEnded, SessionStarted
from ingest.ids import DocumentId, document_id
from ingest.log.partitions import session_route
from projections.documents.rows import Row

SESSION = "ses"
FIRST_PROMPT_CHARS = 200


class Session(Row, index=True):
    """One session of one project. Times are milliseconds since the epoch, 0 when unknown.

    `started_ms` and `updated_ms` are the earliest and latest time that its events claim, so they do not depend on the
    order in which late events arrive.
    """

    id: str = ""
    tenant: str = ""
    project: str = ""
    session_id: str = ""
    agent_id: str = ""
    title: str = ""
    cwd: str = ""
    status: Literal["active", "ended"] = "active"
    started_ms: int = 0
    updated_ms: int = 0
    ended_ms: int = 0
    observation_count: int = 0


def session_document_id(tenant: str, project: str, session_id: str) -> DocumentId:
    """The document id of a session."""
    return document_id(SESSION, session_route(tenant, project, session_id), "")


def opened(recorded: Recorded) -> Session:
    """The session that an event is the first to name."""
    envelope = recorded.envelope
    when_ms = to_ms(envelope.occurred_at)
    return Session(
        id=session_document_id(envelope.tenant, envelope.project, envelope.session_id),
        tenant=envelope.tenant,
        project=envelope.project,
        session_id=envelope.session_id,
        agent_id=envelope.agent_id,
        started_ms=when_ms,
        updated_ms=when_ms,
    )


def evolve(session: Session | None, recorded: Recorded) -> Session:
    """The session after a session event."""
    seen = touched(session or opened(recorded), to_ms(recorded.envelope.occurred_at))
    match recorded.data:
        case SessionStarted(cwd=cwd, title=title):
            changes = {"status": "active", "ended_ms": 0, "cwd": cwd or seen.cwd, "title": title or seen.title}
            return seen.model_copy(update=changes)
        case SessionEnded():
            return seen.model_copy(update={"status": "ended", "ended_ms": to_ms(recorded.envelope.occurred_at)})
        case _:
            return seen


def observed(session: Session | None, recorded: Recorded) -> Session:
    """The session after one more observation: counted, and open again if it had ended."""
    seen = touched(session or opened(recorded), to_ms(recorded.envelope.occurred_at))
    agent = seen.agent_id or recorded.envelope.agent_id
    count = seen.observation_count + 1
    return seen.model_copy(update={"status": "active", "ended_ms": 0, "observation_count": count, "agent_id": agent})


def touched(session: Session, when_ms: int) -> Session:
    """The session with its span of time widened to include `when_ms`."""
    started, updated = min(session.started_ms, when_ms), max(session.updated_ms, when_ms)
    return session.model_copy(update={"started_ms": started, "updated_ms": updated})


def without_observation(session: Session) -> Session:
    """The session after one of its observations was forgotten."""
    return session.model_copy(update={"observation_count": max(0, session.observation_count - 1)})
