"""What a document is to the store and the index: its id, the listings it is in, the entry it has in the index."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from ingest.ids import DocumentId
from ingest.log.position import Position
from ingest.platform.clock import from_ms, to_ms
from projections.documents.access import audience_of
from projections.documents.actions import Action
from projections.documents.commits import Commit
from projections.documents.ledgers import Ledger
from projections.documents.lesson_rules import DECAY_RATE, fades_at
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.relations import Relation
from projections.documents.searchable import searchable_text
from projections.documents.sessions import Session
from projections.documents.slots import Slot
from projections.documents.summaries import Summary
from projections.documents.triggers import SEVERITIES, severity_rank
from projections.search.ranking import date_terms, terms
from projections.search.similarity import keys_of


class Tombstone(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """In the place of a forgotten observation or memory: a late repeat of its event must not bring it back.

    `position` is that of the forgetting, empty while a replay has only met the erased event. The rest is what a
    forgotten memory leaves to its neighbours: which version it was, what superseded it, what it had condensed; and, in
    a replay, its `heir`, which will supersede it but has not been met.
    """

    id: DocumentId
    position: str = ""
    memory_version: int = 1
    superseded_by: str = ""
    condensed: list[str] = []
    heir: str = ""


class Mark(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event without a document of its own was applied, at `position`: a late repeat of it changes nothing.

    `subject` is the document it was about, `was` its type; `tenant`, `project` and `user_id` say whose it is, so that
    it is erased with them; once it is, the mark stays without its user.
    """

    id: DocumentId
    position: str
    subject: str = ""
    was: str = ""
    tenant: str = ""
    project: str = ""
    user_id: str = ""
    erased: bool = False


Document: TypeAlias = (
    Observation | Memory | Session | Summary | Lesson | Slot | Action | Relation | Commit | Tombstone | Mark | Ledger
)
Searched: TypeAlias = Observation | Memory | Lesson | Summary
"""What recall searches."""


class IndexEntry(Struct, frozen=True, kw_only=True, array_like=True):
    """What an index replica needs to know of a document. `terms` are stems, joined by spaces; times in ms.

    `types` is how the document is classed: a memory's type and purpose, an observation's kind, a lesson's severity
    (`info` if it has none), `summary`.
    `files` and `concepts` are what the graph links it to. `renewed_ms` is when a lesson was last said: `confidence` is
    as of then. `visibility` is a memory's; `audience`, who may read it, follows from more than that.
    """

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
    types: list[str] = []
    files: list[str] = []
    concepts: list[str] = []
    renewed_ms: int = 0
    visibility: str = ""


def listings(document: Document | None) -> set[tuple[str, str]]:
    """The `(listing, member)` pairs a document stands for. Members sort as the listing reads: by position or time."""
    match document:
        case Observation():
            where = _place(document)
            time = f"{max(0, to_ms(document.occurred_at)):014d}|{where}"
            found = {
                (session_observations(document.session), where),
                (timeline(document.tenant, document.project), time),
            }
        case Memory():
            found = _of_memory(document)
        case Lesson():
            found = _of_lesson(document)
        case Session():
            found = _of_session(document)
        case Summary():
            found = {(summaries(document.tenant, document.project), _place(document))}
        case Slot():
            found = {(slots(document.tenant, document.project), f"{document.label}|{document.id}")}
        case Action():
            found = _of_action(document)
        case Relation():
            where = _place(document)
            found = {
                (relations(document.tenant, document.project), where),
                (edges(document.tenant, document.source), document.id),
                (edges(document.tenant, document.target), document.id),
                *((derived(source), document.id) for source in document.sources),
            }
        case Commit():
            where = f"{document.linked_ms:014d}|{document.id}"
            found = {(commits(document.tenant), where), (commits(document.tenant, document.project), where)}
            found |= {(session_commits(document.tenant, one), where) for one in document.session_ids}
        case Mark():
            found = _of_mark(document)
        case Ledger():
            return _of_ledger(document)
        case Tombstone(heir=heir) if heir:
            return {(inheritance(heir), document.id)}
        case _:
            return set()
    if not isinstance(document, Mark) and document.user_id:
        found.add((of_user(document.tenant, document.user_id), _place(document)))
    return found


def _of_memory(memory: Memory) -> set[tuple[str, str]]:
    where = _place(memory)
    found = {(memories(memory.tenant, memory.project), where)}
    found |= {(derived(source), memory.id) for source in memory.derived_from}
    if memory.is_latest:
        if not memory.keep_duplicates:
            name = similar(memory.tenant, memory.project)
            keys = keys_of(memory.content)
            found |= {(name, f"{key}|{keys.sketch:016x}|{memory.id}") for key in keys.filed}
        if memory.memory_type == "episodic" and memory.user_id:
            found.add((EPISODIC, f"{episodic_pair(memory.tenant, memory.agent_id, memory.user_id)}{where}"))
        if memory.forget_after:
            found.add((EXPIRING, f"{max(0, to_ms(memory.forget_after)):014d}|{memory.id}"))
    return found


def _of_lesson(lesson: Lesson) -> set[tuple[str, str]]:
    found = {(lessons(lesson.tenant, lesson.project), _place(lesson))}
    found |= {(derived(source), lesson.id) for source in lesson.sources}
    if lesson.retired_ms or not lesson.active:
        return found
    if not lesson.reinforcements:
        due = to_ms(fades_at(lesson.confidence, DECAY_RATE, from_ms(lesson.reinforced_ms)))
        found.add((FADING, f"{due:014d}|{lesson.id}"))
    if lesson.severity or lesson.trigger_tool or lesson.trigger_pattern:
        newest_first = f"{severity_rank(lesson.severity)}{10**14 - lesson.recorded_ms:014d}|{lesson.id}"
        found.add((rules(lesson.tenant, lesson.project, lesson.trigger_tool), newest_first))
    return found


def _of_session(session: Session) -> set[tuple[str, str]]:
    member = f"{max(0, session.updated_ms):014d}|{session.id}"
    found = {
        (sessions(session.tenant), member),
        (sessions(session.tenant, session.project), member),
        (session_name(session.tenant, session.session_id), session.id),
    }
    if session.status == "active":
        found.add((OPEN_SESSIONS, f"{session.seen_ms:014d}|{session.id}"))
    elif session.observation_count != session.summarised and session.searchable_observations:
        found.add((UNSUMMARISED, session.id))
    elif session.seen_ms > session.retired_through_ms:
        found.add((RETIRABLE, f"{session.seen_ms:014d}|{session.id}"))
    return found


def _of_action(action: Action) -> set[tuple[str, str]]:
    where = _place(action)
    found = {(actions(action.tenant, action.project), where)}
    if action.is_open:
        found |= {(open_actions(action.tenant), where), (open_actions(action.tenant, action.project), where)}
    return found


def _of_mark(mark: Mark) -> set[tuple[str, str]]:
    if not mark.subject:
        return set()
    where = _place(mark)
    found = {(entries(mark.subject), where), (marks(mark.tenant, mark.project), where)}
    if mark.user_id:
        found.add((of_user(mark.tenant, mark.user_id), where))
    return found


def _of_ledger(ledger: Ledger) -> set[tuple[str, str]]:
    if not ledger.names:
        return set()
    found = {(ledgers(ledger.tenant), ledger.id)}
    return found | {(of_user(ledger.tenant, user), f"~|{ledger.id}") for user in ledger.users if user}


EPISODIC = "episodic"
"""Listing of a partition's current episodic memories about users: by tenant, agent and user, then in log order."""
EXPIRING = "expiring"
"""Listing of a partition's memories that are to be forgotten at a time, by that time."""
FADING = "fading"
"""Listing of a partition's lessons that nobody confirmed, by when they will have faded."""
OPEN_SESSIONS = "open-sessions"
"""Listing of a partition's active sessions, by when something of them was last recorded."""
UNSUMMARISED = "unsummarised"
"""Listing of a partition's ended sessions with observations that no summary covers."""
RETIRABLE = "retirable"
"""Listing of a partition's other ended sessions, until they are retired, by when something was last recorded."""


def episodic_pair(tenant: str, agent: str, user: str) -> str:
    """What members of EPISODIC about one agent and user begin with."""
    return f"{tenant}\0{agent}\0{user}\0"


def entries(subject: str) -> str:
    """Listing of the marks of a document's events, in log order: what is erased when it is forgotten."""
    return f"entries:{subject}"


def marks(tenant: str, project: str) -> str:
    """Listing of all marks of a project, in log order."""
    return f"marks:{tenant}\0{project}"


def of_user(tenant: str, user: str) -> str:
    """Listing of all documents and marks that name a user, in log order."""
    return f"user:{tenant}\0{user}"


def ledgers(tenant: str) -> str:
    """Listing of a tenant's ledgers: of the sessions whose observations were retired."""
    return f"ledgers:{tenant}"


def derived(source: str) -> str:
    """Listing of the documents that were derived from one."""
    return f"derived:{source}"


def inheritance(memory: str) -> str:
    """Listing of the forgotten memory that this one will have superseded, once a replay has come so far."""
    return f"inheritance:{memory}"


def probe_listings(memory: Memory) -> list[str]:
    """The parts of listings in which every memory similar enough to be superseded by this one is found."""
    name = similar(memory.tenant, memory.project)
    return [part_of(name, f"{key}|") for key in keys_of(memory.content).probe]


def resembling(content: str) -> Callable[[str], bool]:
    """Tells whether what a member of `similar` names may say nearly the same as a text; judged by its sketch."""
    may_match = keys_of(content).matching()
    return lambda member: may_match(int(member.split("|", 2)[1], 16))


def similar(tenant: str, project: str) -> str:
    """Listing of a project's current memories under the keys by which those that say nearly the same are found.

    Members are `<key>|<sketch>|<id>`.
    """
    return f"similar:{tenant}\0{project}"


_PART = "\x1d"


def part_of(listing: str, beginning: str) -> str:
    """What names those members of a listing that begin with a text, where members are asked for."""
    return f"{listing}{_PART}{beginning}"


def whole_of(name: str) -> tuple[str, str]:
    """The listing that a name of a listing or of a part is about, and what the members begin with."""
    listing, _, beginning = name.partition(_PART)
    return listing, beginning


def session_observations(session: str) -> str:
    """Listing of a session's observations, in log order."""
    return f"session:{session}"


def session_name(tenant: str, session_id: str) -> str:
    """Listing of the sessions (of several projects) that share a session id."""
    return f"session-name:{tenant}\0{session_id}"


def session_commits(tenant: str, session_id: str) -> str:
    """Listing of the commits made in sessions of that id, by when they were linked."""
    return f"session-commits:{tenant}\0{session_id}"


def timeline(tenant: str, project: str) -> str:
    """Listing of a project's observations, by the time they claim."""
    return f"timeline:{tenant}\0{project}"


def memories(tenant: str, project: str) -> str:
    """Listing of a project's memories, in log order."""
    return f"memories:{tenant}\0{project}"


def lessons(tenant: str, project: str) -> str:
    """Listing of a project's lessons, in the order they were first said."""
    return f"lessons:{tenant}\0{project}"


def rules(tenant: str, project: str, tool: str) -> str:
    """Listing of a project's lessons for the use of a tool (any, when empty): by severity, then newest first."""
    return f"rules:{tenant}\0{project}\0{tool}"


def sessions(tenant: str, project: str | None = None) -> str:
    """Listing of a tenant's or a project's sessions, by last activity."""
    return _of_tenant("sessions", tenant, project)


def summaries(tenant: str, project: str) -> str:
    """Listing of a project's session summaries, in log order."""
    return f"summaries:{tenant}\0{project}"


def slots(tenant: str, project: str) -> str:
    """Listing of a project's slots (of the global ones, when it is empty), by label."""
    return f"slots:{tenant}\0{project}"


def actions(tenant: str, project: str) -> str:
    """Listing of a project's actions, in log order."""
    return f"actions:{tenant}\0{project}"


def open_actions(tenant: str, project: str | None = None) -> str:
    """Listing of a tenant's or a project's actions that are still to be done, in log order."""
    return _of_tenant("open-actions", tenant, project)


def relations(tenant: str, project: str) -> str:
    """Listing of a project's relations, in log order."""
    return f"relations:{tenant}\0{project}"


def edges(tenant: str, end: str) -> str:
    """Listing of the relations that begin or end at something."""
    return f"edges:{tenant}\0{end}"


def commits(tenant: str, project: str | None = None) -> str:
    """Listing of a tenant's or a project's commits, by when they were linked."""
    return _of_tenant("commits", tenant, project)


def index_entry(document: Document | None) -> IndexEntry | None:
    """The document's entry in the index; None for what recall does not search."""
    match document:
        case Observation():
            return _entry(document, "observation", episode=document.session, types=[document.kind])
        case Summary():
            return _entry(document, "summary", types=["summary"])
        case Memory():
            return _entry(
                document,
                "memory",
                tags=document.tags,
                retired_ms=to_ms(document.superseded_at) if document.superseded_at else 0,
                expires_ms=to_ms(document.forget_after) if document.forget_after else 0,
                audience=audience_of(document),
                types=[document.memory_type, document.purpose],
                concepts=document.concepts,
                visibility=document.visibility,
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
                user_id=document.user_id,
                tags=document.tag_list,
                occurred_ms=document.occurred_ms,
                recorded_ms=document.recorded_ms,
                retired_ms=document.retired_ms or (0 if document.active else document.updated_ms),
                expires_ms=0,
                importance=5.0,
                confidence=document.confidence,
                audience=[],
                types=[document.severity or SEVERITIES[-1]],
                renewed_ms=document.reinforced_ms,
            )
        case _:
            return None


def _entry(
    document: Observation | Memory | Summary,
    kind: str,
    *,
    episode: str = "",
    tags: list[str] | None = None,
    retired_ms: int = 0,
    expires_ms: int = 0,
    audience: list[str] | None = None,
    types: list[str] | None = None,
    concepts: list[str] | None = None,
    visibility: str = "",
) -> IndexEntry:
    return IndexEntry(
        id=document.id,
        kind=kind,
        terms=" ".join(terms(searchable_text(document)) + date_terms(document.occurred_at)),
        episode=episode,
        tenant=document.tenant,
        project=document.project,
        session_id=document.session_id,
        agent_id=document.agent_id,
        user_id=document.user_id,
        tags=tags or [],
        occurred_ms=to_ms(document.occurred_at),
        recorded_ms=to_ms(document.recorded_at),
        retired_ms=retired_ms,
        expires_ms=expires_ms,
        importance=5.0 if isinstance(document, Summary) else float(document.importance),
        confidence=1.0,
        audience=audience or [],
        types=types or [],
        files=list(document.files),
        concepts=concepts or [],
        visibility=visibility,
    )


def _of_tenant(name: str, tenant: str, project: str | None) -> str:
    return f"{name}:{tenant}" if project is None else f"{name}:{tenant}\0{project}"


def _place(
    document: Observation | Memory | Session | Summary | Lesson | Slot | Action | Relation | Commit | Mark,
) -> str:
    """A member of a listing in log order. (A session has no position of its own: its id will do.)"""
    if isinstance(document, Session):
        return f"~|{document.id}"
    return f"{Position.parse(document.position).sort_key}|{document.id}"
