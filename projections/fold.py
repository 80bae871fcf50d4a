"""The documents projection: a batch of events folded over the documents it touches. Pure.

Every step is harmless when repeated: an event whose document (or mark) exists already changes nothing, and a tombstone
stays a tombstone. So redelivery, a retry behind the log's dedup window and a replay all end in the same documents.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ingest.events.envelope import Envelope, Event, Recorded
from ingest.events.lesson import LessonRecorded
from ingest.events.memory import MemoryRecorded
from ingest.events.observation import ObservationRecorded
from ingest.events.session import SessionEnded, SessionStarted
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import DocumentId, document_id
from ingest.log.partitions import project_route, session_route
from ingest.log.position import Position
from projections.documents import lessons, memories, observations, sessions
from projections.documents.document import Document, Mark, Tombstone, entries, inheritance, listings, probe_listings
from projections.documents.lessons import Lesson
from projections.documents.memories import Memory
from projections.documents.observations import Observation
from projections.documents.sessions import Session

NAME, VERSION = "documents", 1
"""A change to what the fold makes of an event raises the version; a rebuild then brings old logs up to it."""


class Change(NamedTuple):
    """A document before and after a batch; None for absent."""

    before: Document | None
    after: Document | None


class Changes(NamedTuple):
    """What a batch did: the documents that differ, and the stubs that take the place of erased log entries."""

    documents: Mapping[DocumentId, Change]
    erased: Mapping[Position, Event]


def documents_of(events: Iterable[Recorded]) -> set[DocumentId]:
    """The ids a fold of these events may read, except the memories that new ones may supersede."""
    found: set[DocumentId] = set()
    for event in events:
        envelope = event.envelope
        match event.data:
            case ObservationRecorded():
                found |= {observations.observation_id(event), _session_of(event)}
            case MemoryRecorded():
                found.add(memories.memory_id(event))
            case LessonRecorded() as said:
                found |= {lessons.lesson_id(event, said), _mark_of(event)}
            case SessionStarted() | SessionEnded():
                found |= {_session_of(event), _mark_of(event)}
            case SubjectForgotten(subject=subject):
                found.add(DocumentId(subject))
                if envelope.session_id:
                    found.add(_session_of(event))
            case EventErased() as stub:
                found |= {DocumentId(name) for name in (stub.document, stub.mark, stub.parent_id) if name}
                if envelope.session_id:
                    found.add(_session_of(event))
            case _:
                pass
    return found


def candidate_listings(events: Iterable[Recorded]) -> set[str]:
    """The listings whose members the fold of these events also reads.

    They name every memory that a new one may supersede or inherit from, and the marks of a lesson to be forgotten.
    """
    found: set[str] = set()
    for event in events:
        match event.data:
            case MemoryRecorded() as said:
                found.update(probe_listings(memories.memory(event, said)))
                found.add(inheritance(memories.memory_id(event)))
            case SubjectForgotten(kind="lesson", subject=lesson):
                found.add(entries(lesson))
            case _:
                pass
    return found


def fold(
    events: Iterable[Recorded],
    loaded: Mapping[DocumentId, Document],
    candidates: Mapping[str, Sequence[str]],
) -> Changes:
    """The changes that `events`, in log order, make to the `loaded` documents.

    `loaded` holds what exists of `documents_of(events)` and of the documents that `candidates` names (listing to
    members, for every listing of `candidate_listings(events)`).
    """
    batch = _Batch(loaded, candidates)
    for event in events:
        match event.data:
            case ObservationRecorded() as said:
                _observation_recorded(batch, event, said)
            case MemoryRecorded() as said:
                _memory_recorded(batch, event, said)
            case LessonRecorded() as said:
                _lesson_recorded(batch, event, said)
            case SessionStarted() | SessionEnded():
                _session_changed(batch, event)
            case SubjectForgotten() as said:
                _subject_forgotten(batch, event, said)
            case EventErased() as stub:
                _event_erased(batch, event, stub)
            case _:
                pass  # declared nouns that have no documents yet; their events wait in the log
    return batch.changes()


class _Batch:
    """The documents as they stand while a batch is folded."""

    def __init__(self, loaded: Mapping[DocumentId, Document], candidates: Mapping[str, Sequence[str]]) -> None:
        self._loaded, self._now = loaded, dict(loaded)
        self._members = {name: list(members) for name, members in candidates.items()}
        self._changed: dict[DocumentId, None] = {}
        self._erased: dict[Position, Event] = {}

    def get(self, name: str) -> Document | None:
        return self._now.get(DocumentId(name))

    def session(self, event: Recorded) -> Session | None:
        found = self.get(_session_of(event))
        return found if isinstance(found, Session) else None

    def put(self, document: Document) -> None:
        name = DocumentId(document.id)
        self._now[name] = document
        self._changed[name] = None
        if isinstance(document, Memory | Mark | Tombstone):  # what later events of this batch look for in listings
            for listing, member in listings(document):
                self._members.setdefault(listing, []).append(member)

    def drop(self, name: DocumentId) -> None:
        self._now.pop(name, None)
        self._changed[name] = None

    def members(self, listing: str) -> list[Document]:
        """The documents in a listing that was loaded or added to."""
        names = dict.fromkeys(member.rpartition("|")[2] for member in self._members.get(listing, ()))
        return [found for name in names if (found := self.get(name)) is not None]

    def similar_to(self, memory: Memory) -> list[Memory]:
        """Every memory that shares a probe token with this one."""
        found = {one.id: one for listing in probe_listings(memory) for one in self.members(listing)}
        return [one for one in found.values() if isinstance(one, Memory)]

    def erase(self, position: str, stub: EventErased, envelope: Envelope) -> None:
        """Erase the entry at a position; the stub says nothing of what was said, by whom to whom stays."""
        kept = Envelope(
            event_id=envelope.event_id,
            type=stub.TYPE,
            version=stub.VERSION,
            tenant=envelope.tenant,
            project=envelope.project,
            agent_id=envelope.agent_id,
            session_id=envelope.session_id,
            occurred_at=envelope.occurred_at,
        )
        self._erased[Position.parse(position)] = Event(kept, stub)

    def erase_if_repeated(self, event: Recorded, first: str, document: str, mark: str = "") -> None:
        """Erase a repeat of an event that is in the log at `first` already: it would outlive the forgetting of that."""
        if str(event.position) != first:
            stub = EventErased(was=event.envelope.type, document=document, mark=mark)
            self.erase(str(event.position), stub, event.envelope)

    def changes(self) -> Changes:
        changed = {name: Change(self._loaded.get(name), self._now.get(name)) for name in self._changed}
        different = {name: change for name, change in changed.items() if change.before != change.after}
        return Changes(different, self._erased)


def _observation_recorded(batch: _Batch, event: Recorded, said: ObservationRecorded) -> None:
    name = observations.observation_id(event)
    match batch.get(name):
        case None:
            batch.put(observations.observation(event, said, _session_of(event)))
            batch.put(sessions.observed(batch.session(event), event))
        case Observation(position=first) | Tombstone(position=first):
            batch.erase_if_repeated(event, first, name)
        case _:
            pass


def _memory_recorded(batch: _Batch, event: Recorded, said: MemoryRecorded) -> None:
    new = memories.memory(event, said)
    match batch.get(new.id):
        case None:
            inherited = [one for one in batch.members(inheritance(new.id)) if isinstance(one, Tombstone)]
            if inherited:
                new = memories.inheriting(new, inherited[0].id, inherited[0].memory_version)
            elif old := memories.most_similar(new, batch.similar_to(new)):
                new, retired = memories.superseding(new, old)
                batch.put(retired)
            batch.put(new)
        case Memory(position=first) | Tombstone(position=first):
            batch.erase_if_repeated(event, first, new.id)
        case _:
            pass


def _lesson_recorded(batch: _Batch, event: Recorded, said: LessonRecorded) -> None:
    name, mark = lessons.lesson_id(event, said), _mark_of(event)
    known = batch.get(mark)
    if isinstance(known, Mark):
        batch.erase_if_repeated(event, known.position, name, mark)
        return
    lesson = batch.get(name)
    batch.put(Mark(id=mark, position=str(event.position), subject=name))
    batch.put(lessons.evolve(lesson if isinstance(lesson, Lesson) else None, event, said))


def _session_changed(batch: _Batch, event: Recorded) -> None:
    mark = _mark_of(event)
    if batch.get(mark) is None:
        batch.put(Mark(id=mark, position=str(event.position)))
        batch.put(sessions.evolve(batch.session(event), event))


def _subject_forgotten(batch: _Batch, event: Recorded, said: SubjectForgotten) -> None:
    """Put a tombstone for an observation or a memory, drop a lesson; erase the entries that told of it."""
    name = DocumentId(said.subject)
    known = batch.get(name)
    match known:
        case Lesson(position=first) if Position.parse(first) < event.position:
            for mark in batch.members(entries(name)):
                if isinstance(mark, Mark):
                    stub = EventErased(was=LessonRecorded.TYPE, document=name, mark=mark.id)
                    batch.erase(mark.position, stub, event.envelope)
            batch.drop(name)
        case Observation():
            envelope = _envelope_of(known)
            batch.erase(known.position, EventErased(was=ObservationRecorded.TYPE, document=name), envelope)
        case Memory():
            stub = EventErased(
                was=MemoryRecorded.TYPE,
                document=name,
                memory_version=known.version,
                parent_id=known.parent_id,
                superseded_by=known.superseded_by,
            )
            batch.erase(known.position, stub, _envelope_of(known))
        case _:
            pass
    if said.kind in ("observation", "memory"):
        _bury(batch, event, said, known)


def _bury(batch: _Batch, event: Recorded, said: SubjectForgotten, known: Document | None) -> None:
    """The tombstone of a forgotten observation or memory; its session counts one less, once."""
    match known:
        case Memory():
            tombstone = Tombstone(
                id=known.id, position=str(event.position), memory_version=known.version,
                superseded_by=known.superseded_by,
            )  # fmt: skip
        case Tombstone(position=""):
            tombstone = replace(known, position=str(event.position))
        case Tombstone():
            return
        case _:
            tombstone = Tombstone(id=DocumentId(said.subject), position=str(event.position))
    batch.put(tombstone)
    session = batch.session(event) if said.kind == "observation" and known is not None else None
    if session is not None:
        batch.put(sessions.without_observation(session))


def _event_erased(batch: _Batch, event: Recorded, stub: EventErased) -> None:
    """Do to everything else what the event did before it was erased."""
    if stub.mark:
        if batch.get(stub.mark) is None:
            batch.put(Mark(id=DocumentId(stub.mark), position=str(event.position), subject=stub.document))
        return
    if batch.get(stub.document) is not None:
        return
    batch.put(
        Tombstone(id=DocumentId(stub.document), memory_version=stub.memory_version, superseded_by=stub.superseded_by)
    )
    if stub.was == ObservationRecorded.TYPE:
        batch.put(sessions.observed(batch.session(event), event))
    parent = batch.get(stub.parent_id) if stub.parent_id else None
    if isinstance(parent, Memory):
        batch.put(memories.retired(parent, stub.document, event.position.recorded_at))
    elif isinstance(parent, Tombstone):
        batch.put(replace(parent, superseded_by=stub.document))


def _envelope_of(document: Observation | Memory) -> Envelope:
    return Envelope(
        event_id=document.event_id,
        type=ObservationRecorded.TYPE if isinstance(document, Observation) else MemoryRecorded.TYPE,
        version=1,
        tenant=document.tenant,
        project=document.project,
        agent_id=document.agent_id,
        session_id=document.session_id,
        occurred_at=document.occurred_at,
    )


def _session_of(event: Recorded) -> DocumentId:
    envelope = event.envelope
    return sessions.session_document_id(envelope.tenant, envelope.project, envelope.session_id)


def _mark_of(event: Recorded) -> DocumentId:
    """The mark of a lesson's or a session's event: its id within what routes it."""
    envelope = event.envelope
    route = project_route(envelope.tenant, envelope.project)
    if not isinstance(event.data, LessonRecorded):
        route = session_route(envelope.tenant, envelope.project, envelope.session_id)
    return document_id("evt", f"{route}\0{envelope.type}", envelope.event_id)
