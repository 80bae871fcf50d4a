"""What a document is to the store and the index: its id, the listings it is in, the entry it has in the index."""

from typing import TypeAlias

from msgspec import Struct

from ingest.clock import from_ms, to_ms
from ingest.ids import DocumentId
from ingest.log.position import Position
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Session
from projections.ranking import date_terms, terms
from projections.searchable import searchable_text
from projections.similarity import SUPERSEDE_ABOVE, probe_tokens, signature


class Tombstone(Struct, frozen=True, kw_only=True):
    """In the place of a forgotten observation or memory: a late repeat of its event must not bring it back.

    `position` is that of the forgetting, empty while a replay has only met the erased event. The rest is what a
    forgotten memory leaves to its neighbours: which version it was, and what superseded it.
    """

    id: DocumentId
    position: str = ""
    memory_version: int = 1
    superseded_by: str = ""


class Mark(Struct, frozen=True, kw_only=True):
    """An event without a document of its own was applied, at `position`: a late repeat of it changes nothing.

    `subject` is the lesson it was about; empty for a session's events.
    """

    id: DocumentId
    position: str
    subject: str = ""


Document: TypeAlias = Observation | Memory | Session | Lesson | Tombstone | Mark


class IndexEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """What an index replica needs to know of a document. `terms` are stems, joined by spaces; times in ms."""

    id: str
    kind: str
    terms: str
    episode: str
    tenant: str
    project: str
    session_id: str
    agent_id: str
    user_id: str
    tags: list[str]
    occurred_ms: int
    recorded_ms: int
    retired_ms: int
    expires_ms: int
    importance: float
    confidence: float
    audience: list[str]


def listings(document: Document | None) -> set[tuple[str, str]]:
    """The `(listing, member)` pairs a document stands for. Members sort as the listing reads: by position or time."""
    match document:
        case Observation():
            where = f"{_place(document.position)}|{document.id}"
            time = f"{max(0, to_ms(document.occurred_at)):014d}|{where}"
            return {
                (session_observations(document.session), where),
                (timeline(document.tenant, document.project), time),
            }
        case Memory():
            found = {(memories(document.tenant, document.project), f"{_place(document.position)}|{document.id}")}
            if document.is_latest:
                found |= {(name, document.id) for name in probe_listings(document)}
            return found
        case Lesson():
            return {(lessons(document.tenant, document.project), f"{_place(document.position)}|{document.id}")}
        case Session():
            member = f"{max(0, document.updated_ms):014d}|{document.id}"
            return {
                (sessions(document.tenant), member),
                (sessions(document.tenant, document.project), member),
                (session_name(document.tenant, document.session_id), document.id),
            }
        case Mark(subject=subject) if subject:
            return {(entries(subject), f"{_place(document.position)}|{document.id}")}
        case Tombstone(superseded_by=heir) if heir:
            return {(inheritance(heir), document.id)}
        case _:
            return set()


def entries(lesson: str) -> str:
    """Listing of the marks of a lesson's events, in log order: what is erased when it is forgotten."""
    return f"entries:{lesson}"


def inheritance(memory: str) -> str:
    """Listing of the forgotten memory that this one superseded."""
    return f"inheritance:{memory}"


def probe_listings(memory: Memory) -> list[str]:
    """The listings in which every memory similar enough to be superseded by (or to supersede) this one is found."""
    return [
        f"token:{memory.tenant}\0{memory.project}\0{token}"
        for token in probe_tokens(signature(memory.content), SUPERSEDE_ABOVE)
    ]


def session_observations(session: str) -> str:
    """Listing of a session's observations, in log order."""
    return f"session:{session}"


def session_name(tenant: str, session_id: str) -> str:
    """Listing of the sessions (of several projects) that share a session id."""
    return f"session-name:{tenant}\0{session_id}"


def timeline(tenant: str, project: str) -> str:
    """Listing of a project's observations, by the time they claim."""
    return f"timeline:{tenant}\0{project}"


def memories(tenant: str, project: str) -> str:
    """Listing of a project's memories, in log order."""
    return f"memories:{tenant}\0{project}"


def lessons(tenant: str, project: str) -> str:
    """Listing of a project's lessons, in the order they were first said."""
    return f"lessons:{tenant}\0{project}"


def sessions(tenant: str, project: str | None = None) -> str:
    """Listing of a tenant's or a project's sessions, by last activity."""
    return f"sessions:{tenant}" if project is None else f"sessions:{tenant}\0{project}"


def index_entry(document: Document | None) -> IndexEntry | None:
    """The document's entry in the index; None for what recall does not search (sessions, tombstones, marks)."""
    match document:
        case Observation() | Memory():
            retired = document.superseded_at if isinstance(document, Memory) else None
            expires = document.forget_after if isinstance(document, Memory) else None
            return IndexEntry(
                id=document.id,
                kind="observation" if isinstance(document, Observation) else "memory",
                terms=" ".join(terms(searchable_text(document)) + date_terms(document.occurred_at)),
                episode=document.session if isinstance(document, Observation) else "",
                tenant=document.tenant,
                project=document.project,
                session_id=document.session_id,
                agent_id=document.agent_id,
                user_id=document.user_id,
                tags=document.tags if isinstance(document, Memory) else [],
                occurred_ms=to_ms(document.occurred_at),
                recorded_ms=to_ms(document.recorded_at),
                retired_ms=to_ms(retired) if retired else 0,
                expires_ms=to_ms(expires) if expires else 0,
                importance=float(document.importance),
                confidence=1.0,
                audience=_audience(document) if isinstance(document, Memory) else [],
            )
        case Lesson():
            return IndexEntry(
                id=document.id,
                kind="lesson",
                terms=" ".join(terms(searchable_text(document)) + date_terms(from_ms(document.occurred_ms))),
                episode="",
                tenant=document.tenant,
                project=document.project,
                session_id="",
                agent_id=document.agent_id,
                user_id="",
                tags=document.tag_list,
                occurred_ms=document.occurred_ms,
                recorded_ms=document.recorded_ms,
                retired_ms=0,
                expires_ms=0,
                importance=5.0,
                confidence=document.confidence,
                audience=[],
            )
        case _:
            return None


def _audience(memory: Memory) -> list[str]:
    """Who may read it; empty means everybody in the tenant."""
    if memory.visibility == "public":
        return []
    readers = {memory.owner, memory.agent_id, *(memory.shared_with if memory.visibility == "shared" else ())}
    return sorted(readers)


def _place(position: str) -> str:
    return Position.parse(position).sort_key
