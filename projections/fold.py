"""The documents projection: a batch of events folded over the documents it touches. Pure.

Every step is harmless when repeated: an event whose document (or mark) exists already changes nothing, and a tombstone
stays a tombstone. So redelivery, a retry behind the log's dedup window and a replay all end in the same documents.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ingest.clock import to_ms
from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonRecorded
from ingest.events.memory import MemoryRecorded
from ingest.events.observation import ObservationRecorded
from ingest.events.session import SessionEnded, SessionStarted
from ingest.events.subject import SubjectForgotten
from ingest.ids import DocumentId, document_id
from ingest.log.position import Position
from projections.documents import lessons, memories, observations, sessions
from projections.documents.document import Document, Mark, Tombstone, probe_listings
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
    """What a batch did: the documents that differ, and the log entries whose payload must go."""

    documents: Mapping[DocumentId, Change]
    erased: Sequence[Position]


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
            case _:
                pass
    return found


def candidate_listings(events: Iterable[Recorded]) -> set[str]:
    """The listings that name every memory which a memory among these events may supersede."""
    return {
        name
        for event in events
        if isinstance(event.data, MemoryRecorded)
        for name in probe_listings(memories.memory(event, event.data))
    }


def fold(
    events: Iterable[Recorded],
    loaded: Mapping[DocumentId, Document],
    candidates: Mapping[str, Sequence[str]],
) -> Changes:
    """The changes that `events`, in log order, make to the `loaded` documents.

    `loaded` holds what exists of `documents_of(events)` and of the ids in `candidates` (listing to memory ids, for
    every listing of `candidate_listings(events)`).
    """
    batch = _Batch(loaded, candidates)
    for event in events:
        match event.data:
            case ObservationRecorded() as said:
                _observation_recorded(batch, event, said)
            case MemoryRecorded() as said:
                _memory_recorded(batch, event, said)
            case LessonRecorded() as said:
                if batch.first_time(event):
                    name = lessons.lesson_id(event, said)
                    known = batch.get(name)
                    batch.put(name, lessons.evolve(known if isinstance(known, Lesson) else None, event, said))
            case SessionStarted() | SessionEnded():
                if batch.first_time(event):
                    name = _session_of(event)
                    known = batch.get(name)
                    batch.put(name, sessions.evolve(known if isinstance(known, Session) else None, event))
            case SubjectForgotten() as said:
                _subject_forgotten(batch, event, said)
            case _:
                pass  # declared nouns that have no documents yet; their events wait in the log
    return batch.changes()


class _Batch:
    """The documents as they stand while a batch is folded."""

    def __init__(self, loaded: Mapping[DocumentId, Document], candidates: Mapping[str, Sequence[str]]) -> None:
        self._loaded, self._now = loaded, dict(loaded)
        self._candidates = {name: list(ids) for name, ids in candidates.items()}
        self._changed: dict[DocumentId, None] = {}
        self.erased: list[Position] = []

    def get(self, name: DocumentId) -> Document | None:
        return self._now.get(name)

    def put(self, name: DocumentId, document: Document | None) -> None:
        if document is None:
            self._now.pop(name, None)
        else:
            self._now[name] = document
        self._changed[name] = None

    def first_time(self, event: Recorded) -> bool:
        """True unless the event was applied before; marks it as applied."""
        name = _mark_of(event)
        if name in self._now:
            return False
        self.put(name, Mark(id=name))
        return True

    def similar_to(self, memory: Memory) -> list[Memory]:
        """Every latest memory that shares a probe token with this one."""
        ids = dict.fromkeys(name for listing in probe_listings(memory) for name in self._candidates.get(listing, ()))
        return [found for name in ids if isinstance(found := self._now.get(DocumentId(name)), Memory)]

    def put_candidate(self, memory: Memory) -> None:
        """Put a latest memory, so that later ones of the same batch find it."""
        self.put(memory.id, memory)
        for listing in probe_listings(memory):
            self._candidates.setdefault(listing, []).append(memory.id)

    def changes(self) -> Changes:
        changed = {name: Change(self._loaded.get(name), self._now.get(name)) for name in self._changed}
        different = {name: change for name, change in changed.items() if change.before != change.after}
        return Changes(different, self.erased)


def _observation_recorded(batch: _Batch, event: Recorded, said: ObservationRecorded) -> None:
    name, session = observations.observation_id(event), _session_of(event)
    if batch.get(name) is not None:
        return
    known = batch.get(session)
    batch.put(name, observations.observation(event, said, session))
    batch.put(session, sessions.observed(known if isinstance(known, Session) else None, event))


def _memory_recorded(batch: _Batch, event: Recorded, said: MemoryRecorded) -> None:
    if batch.get(memories.memory_id(event)) is not None:
        return
    new = memories.memory(event, said)
    if old := memories.most_similar(new, batch.similar_to(new)):
        new, retired = memories.superseding(new, old)
        batch.put(old.id, retired)
    batch.put_candidate(new)


def _subject_forgotten(batch: _Batch, event: Recorded, said: SubjectForgotten) -> None:
    """Tombstone an observation or a memory, drop a lesson; the log entry of what was there is erased."""
    name = DocumentId(said.subject)
    known = batch.get(name)
    if isinstance(known, Tombstone):
        return
    if isinstance(known, Lesson):
        batch.put(name, None)
        batch.erased.append(Position.parse(known.position))
        return
    if isinstance(known, Observation | Memory):
        batch.erased.append(Position.parse(known.position))
    batch.put(name, Tombstone(id=name, position=str(event.position)))
    if said.kind == "observation" and event.envelope.session_id:
        _observation_forgotten(batch, event, said, was_there=isinstance(known, Observation))


def _observation_forgotten(batch: _Batch, event: Recorded, said: SubjectForgotten, *, was_there: bool) -> None:
    """Leave the session as a replay will make it, which no longer sees the observation: spanning its time, less one."""
    name = _session_of(event)
    known = batch.get(name)
    session = known if isinstance(known, Session) else None
    if was_there and session is not None:
        session = sessions.without_observation(session)
    when = said.subject_occurred_at or event.envelope.occurred_at
    batch.put(name, sessions.touched(session or sessions.opened(event, when), to_ms(when)))


def _session_of(event: Recorded) -> DocumentId:
    envelope = event.envelope
    return sessions.session_document_id(envelope.tenant, envelope.project, envelope.session_id)


def _mark_of(event: Recorded) -> DocumentId:
    envelope = event.envelope
    return document_id("evt", f"{envelope.tenant}\0{envelope.project}\0{envelope.type}", envelope.event_id)
