"""The fold of forgetting: deletes documents, writes tombstones, undoes effects; and the fold of erased events' stubs.

What a document gave to others is taken back. A session loses what it took from a forgotten observation, and its
summary. Memories that were condensed together with a forgotten one are current again, and the memory that stood for
them is deleted. What a forgotten memory superseded is current again if it was a memory of its own and no other memory
supersedes it.

A stub has every effect on other documents that its event had before it was erased, so a replay over stubs ends with the
same documents as the live projection.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ingest.events.envelope import SESSION_TYPES, Envelope, Recorded
from ingest.events.subject import EventErased, MemoryQuarantined, ObservationQuarantined, SubjectForgotten
from ingest.ids import DocumentId
from ingest.kinds import MEMORY, OBSERVATION, SESSION
from ingest.log.position import Position
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.session import SessionSummarised
from projections.nouns import memory as memories
from projections.nouns import session as sessions
from projections.nouns.action import Action
from projections.nouns.batch import (
    FoldBatch,
    Loaded,
    erased_envelope,
    folds,
    further_parts,
    mark_of,
    session_and_ledger,
    session_of,
)
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.relation import Relation
from projections.nouns.rows import joined
from projections.nouns.session import Commit, Session, Summary, session_in, summary_id
from projections.nouns.slot import Slot
from projections.nouns.tombstone import Ledger, LedgerEntry, SupersededEvent, Tombstone, entries
from projections.nouns.trust import BY_OPERATOR


@folds(
    MemoryQuarantined,
    ObservationQuarantined,
    about=lambda _, data: [data.document],
    reads=lambda event, data: {
        mark_of(event),
        data.document,
        *((summary_id(session_of(event)), *session_and_ledger(event)) if event.envelope.session_id else ()),
    },
    follows=further_parts,
)
def _quarantined(batch: FoldBatch, event: Recorded, data: MemoryQuarantined) -> None:
    if not batch.mark(event, data.document):
        return
    hidden = "" if data.released else BY_OPERATOR
    match document := batch.get(data.document):
        case Observation() if session := session_in(batch, event):
            batch.put(replace(document, quarantined=hidden))
            batch.put(sessions.without_summary(session, event))
            batch.drop(summary_id(DocumentId(session.id)))
        case Memory():
            batch.put(replace(document, quarantined=hidden))
        case Lesson():
            batch.put(document.model_copy(update={"quarantined": hidden}))
        case _:
            batch.void(event)


def forgotten_ids(data: SubjectForgotten) -> list[str]:
    """The ids of the documents that an event forgets."""
    if data.documents or data.kept or data.kind in ("session", "user", "project"):
        return data.documents
    return [data.subject]


def _forgotten_reads(event: Recorded, data: SubjectForgotten) -> set[str]:
    names = {*forgotten_ids(data), *data.kept}
    if event.envelope.session_id:
        names |= {summary_id(session_of(event)), *session_and_ledger(event)}
    return names


def _forgotten_listings(event: Recorded, data: SubjectForgotten) -> set[str]:
    session = [session_of(event)] if event.envelope.session_id else []
    return {entries(name) for name in (*forgotten_ids(data), *session)}


def _connected(data: SubjectForgotten, loaded: Loaded) -> set[str]:
    """What was condensed with a forgotten memory, what replaced it, what it superseded and what superseded it.

    Followed through memories that are forgotten as well. Also what a forgotten mark is about.
    """
    names = set[str]()
    waiting = forgotten_ids(data)[:]
    seen = {*waiting}
    while waiting:
        match current := loaded.get(DocumentId(waiting.pop())):
            case Memory() | Tombstone():
                names.update(current.condensed)
                for name in (current.parent_id, current.superseded_by):
                    other = loaded.get(DocumentId(name))
                    goes = isinstance(other, Memory | Tombstone) and current.id in other.condensed
                    if (goes or isinstance(other, Tombstone)) and name not in seen:
                        seen.add(name)
                        waiting.append(name)
                    names.add(name)
            case SupersededEvent():
                names.add(current.subject)
            case _:
                pass
    return names - {""}


def _further_entries(event: Recorded, data: SubjectForgotten, loaded: Loaded) -> set[str]:
    """The marks of what a memory was condensed with, and the other marks of a forgotten mark's subject."""
    memories_of = {entries(name) for name in _connected(data, loaded) if name.partition("_")[0] == MEMORY}
    documents = (loaded.get(DocumentId(name)) for name in forgotten_ids(data))
    return memories_of | {entries(mark.subject) for mark in documents if isinstance(mark, SupersededEvent)}


@folds(
    SubjectForgotten,
    about=lambda _, data: data.documents or data.kept or [data.subject],
    reads=_forgotten_reads,
    listings=_forgotten_listings,
    follows=lambda event, data, loaded: _connected(data, loaded) | further_parts(event, data, loaded),
    further_listings=_further_entries,
)
def _forgotten(batch: FoldBatch, event: Recorded, data: SubjectForgotten) -> None:
    names = forgotten_ids(data)
    before = session_in(batch, event)
    # observations before their session: what remains of it depends on them
    for name in sorted(names, key=lambda name: name.partition("_")[0] == SESSION):
        _forget(batch, event, DocumentId(name), names, before)
    for name in data.kept:  # documents that stay are no longer derived from what is forgotten
        match document := batch.get(name):
            case Memory(derived_from=sources):
                batch.put(replace(document, derived_from=[source for source in sources if source not in data.sources]))
            case Lesson(sources=sources) | Relation(sources=sources):
                remaining = joined(source for source in sources if source not in data.sources)
                batch.put(document.model_copy(update={"derived_from": remaining}))
            case _:
                pass


def _forget(
    batch: FoldBatch, event: Recorded, name: DocumentId, also: Sequence[str], before: Session | None = None
) -> None:
    """Forget a document; `also` are the others that the event forgets, `before` the session as the event found it."""
    prefix = name.partition("_")[0]
    document = batch.get(name)
    if document is None and prefix == OBSERVATION and event.envelope.session_id:
        document = batch.ledgers.find(session_of(event), name)
    match document:
        case Observation():
            _erase_document(batch, document, EventErased(was=ObservationRecorded.TYPE, document=name))
            _bury(batch, event, Tombstone(id=name))
            _leave_session(batch, event)
        case LedgerEntry():
            stub = EventErased(was=ObservationRecorded.TYPE, document=name)
            batch.erase(str(document.position), stub, erased_envelope(document, event.envelope))
            batch.ledgers.amend(session_of(event), name, None)
            _bury(batch, event, Tombstone(id=name))
            _leave_session(batch, event, retired=True)
        case Memory():
            _forget_memory(batch, event, document, also)
        case Session():
            _forget_session(batch, event, document, before)
        case Summary():
            _forget_summary(batch, event, document)
        case SupersededEvent() if not _is_needed(batch, document, also):
            _forget_past(batch, event, document)
        case Tombstone(position=""):  # a replay, which has met the stub of what is forgotten here
            _bury(batch, event, document)
            if prefix == OBSERVATION:
                _leave_session(batch, event)
            else:
                _restore(batch, event, document, also)
        case Tombstone() | Ledger() | SupersededEvent():
            pass
        case None:
            if prefix in (OBSERVATION, MEMORY):
                _bury(batch, event, Tombstone(id=name))
            batch.erase_entries(name, event)
        # documents that later events may create again: they go, with every entry about them
        case Lesson() | Slot() | Action() | Relation() | Commit():
            if not _is_newer(document, event):
                batch.erase_entries(document.id, event)
                batch.drop(DocumentId(document.id))
        case _:
            raise TypeError(f"nothing says how a {type(document).__name__} is forgotten")


def _is_newer(document: Lesson | Slot | Action | Relation | Commit | Summary, event: Recorded) -> bool:
    """Whether a forgetting that is applied again finds what was created after it."""
    return Position.parse(document.position) > event.position


def _is_needed(batch: FoldBatch, mark: SupersededEvent, also: Sequence[str]) -> bool:
    """Whether a document that is not forgotten with a mark still has the effect of the mark's event.

    Such an entry stays, because a replay needs it to make that document; it goes when the document does.
    """
    document = batch.get(mark.subject)
    if document is None or isinstance(document, Tombstone) or mark.subject in also or _is_refused(mark):
        return False
    position = getattr(document, "position", "")
    return not position or Position.parse(position) <= Position.parse(mark.position)


def _is_refused(mark: SupersededEvent) -> bool:
    """Return whether the mark is that of an event that the fold refused."""
    return mark.outcome is not None and mark.outcome.refused != ""


def _forget_past(batch: FoldBatch, event: Recorded, mark: SupersededEvent) -> None:
    """Erase every entry about what the mark's document was before it was deleted.

    All of them, because a replay of only some would make another document.
    """
    if _is_refused(mark):  # it changed nothing
        batch.erase_mark(mark, event.envelope.session_id)
        return
    position = getattr(batch.get(mark.subject), "position", "")
    since = Position.parse(position) if position else None
    for other in (mark, *batch.members(entries(mark.subject))):
        if isinstance(other, SupersededEvent) and other.position:
            marked_at = Position.parse(other.position)
            if marked_at <= event.position and (since is None or marked_at < since):
                batch.erase_mark(other, event.envelope.session_id)


def _forget_session(batch: FoldBatch, event: Recorded, session: Session, before: Session | None) -> None:
    if before is None or Position.parse(before.forgotten_at) >= event.position:
        return  # applied again: this session was opened after the forgetting
    batch.erase_entries(session.id, event)
    batch.drop(summary_id(DocumentId(session.id)))
    remaining = sessions.forgotten(session, event)
    if remaining is None:
        batch.drop(DocumentId(session.id))
    else:
        batch.put(remaining)


def _forget_summary(batch: FoldBatch, event: Recorded, summary: Summary) -> None:
    if _is_newer(summary, event):
        return
    session = batch.get(summary.session)
    if isinstance(session, Session):
        batch.put(session.model_copy(update={"summarised": 0}))
    _drop_summary(batch, event, summary.session)


def _drop_summary(batch: FoldBatch, event: Recorded, session: DocumentId) -> None:
    batch.drop(summary_id(session))
    batch.erase_entries(session, event, was=SessionSummarised.TYPE)


def _bury(batch: FoldBatch, event: Recorded, tombstone: Tombstone) -> None:
    batch.put(replace(tombstone, position=str(event.position), successor=""))
    batch.erase_entries(tombstone.id, event)


def _leave_session(batch: FoldBatch, event: Recorded, *, retired: bool = False) -> None:
    """Take an observation out of its session: one fewer is counted, and what it took from it and its summary go."""
    session = session_in(batch, event)
    if session is not None:
        batch.put(sessions.without_observation(session, event, retired=retired))
        _drop_summary(batch, event, DocumentId(session.id))


def _forget_memory(batch: FoldBatch, event: Recorded, memory: Memory, also: Sequence[str]) -> None:
    lineage: dict[str, Any] = {
        "memory_version": memory.version,
        "parent_id": memory.parent_id,
        "separate_parent": memory.separate_parent,
        "superseded_by": memory.superseded_by,
    }
    stub = EventErased(was=MemoryRecorded.TYPE, document=memory.id, originals=memory.condensed, **lineage)
    _erase_document(batch, memory, stub)
    tombstone = Tombstone(id=memory.id, author=memory.author, condensed=memory.condensed, **lineage)
    _bury(batch, event, tombstone)
    _restore(batch, event, tombstone, also)


def _restore(batch: FoldBatch, event: Recorded, gone: Tombstone, also: Sequence[str]) -> None:
    """Make current again what a forgotten memory replaced; forget what replaced it and others."""
    for name in gone.condensed:
        match other := batch.get(name):
            case Memory(superseded_by=successor) if successor == gone.id and name not in also:
                batch.put(memories.restored(other))
            case Tombstone(position="", superseded_by=successor) if successor == gone.id and name not in also:
                batch.put(replace(other, superseded_by=""))
            case _:
                pass
    match successor := batch.get(gone.superseded_by):
        case Memory(condensed=condensed) | Tombstone(position="", condensed=condensed) if gone.id in condensed:
            _forget(batch, event, successor.id, also)
        case _:
            pass
    if not _is_superseded(batch, gone, also):
        _restore_parent(batch, gone, also)


def _is_superseded(batch: FoldBatch, gone: Tombstone, also: Sequence[str]) -> bool:
    """Whether a memory that is not forgotten superseded a forgotten one, or superseded what did.

    A tombstone without a position counts as a memory: a replay has not reached its forgetting yet.
    """
    name = gone.superseded_by
    while isinstance(successor := batch.get(name), Memory | Tombstone):
        if name not in also and (isinstance(successor, Memory) or not successor.position):
            return True
        name = successor.superseded_by
    return False


def _restore_parent(batch: FoldBatch, gone: Tombstone, also: Sequence[str]) -> None:
    """Make current again what a forgotten memory superseded, if that was a memory of its own.

    If that is forgotten, too, what it superseded. A memory that is forgotten by the same event restores its own parent.
    """
    at = gone
    while isinstance(older := batch.get(at.parent_id), Tombstone) and older.position:
        at = older
    if at.separate_parent and at.parent_id not in also:
        match older:
            case Memory(superseded_by=at.id):
                batch.put(memories.restored(older))
            case Tombstone(superseded_by=at.id):
                batch.put(replace(older, superseded_by=""))
            case _:
                pass


def _erase_document(batch: FoldBatch, document: Observation | Memory, stub: EventErased) -> None:
    imported = document.recorded_at != Position.parse(document.position).recorded_at
    envelope = Envelope(
        event_id=document.event_id,
        type=stub.was,
        version=1,
        tenant=document.tenant,
        project=document.project,
        agent_id=document.author if isinstance(document, Memory) else document.agent_id,
        session_id=document.session_id,
        occurred_at=document.occurred_at,
        recorded_at=document.recorded_at if imported else None,
    )
    batch.erase(document.position, stub, envelope)


def _erased_reads(event: Recorded, data: EventErased) -> set[str]:
    names = {data.document, data.mark, data.parent_id, *data.originals} - {""}
    return names | session_and_ledger(event) if event.envelope.session_id else names


@folds(EventErased, about=lambda _, stub: [stub.document], reads=_erased_reads, follows=further_parts)
def _event_erased(batch: FoldBatch, event: Recorded, stub: EventErased) -> None:
    """Have every effect on other documents that the event had before it was erased."""
    envelope, name = event.envelope, stub.mark or stub.document
    if not name:
        return  # the event made no document: it was a dead letter that was discarded
    retired = stub.was in SESSION_TYPES and envelope.session_id and batch.ledgers.find(session_of(event), name)
    if batch.get(name) is not None or retired:
        return  # a repeat
    if stub.mark:
        mark = SupersededEvent(
            id=DocumentId(stub.mark),
            position=str(event.position),
            subject=stub.document,
            was=stub.was,
            tenant=envelope.tenant,
            project=envelope.project,
            erased=True,
        )
        batch.put(mark)
        return
    tombstone = Tombstone(
        id=DocumentId(name),
        memory_version=stub.memory_version,
        author=envelope.agent_id if stub.was == MemoryRecorded.TYPE else "",
        parent_id=stub.parent_id,
        separate_parent=stub.separate_parent,
        successor=stub.superseded_by,
        condensed=stub.originals,
    )
    batch.put(tombstone)
    if stub.was == ObservationRecorded.TYPE:
        batch.put(sessions.observed(session_in(batch, event), event))
    for parent in filter(None, (stub.parent_id, *stub.originals)):
        match older := batch.get(parent):
            case Memory():
                until = None if parent in stub.originals else envelope.occurred_at
                batch.put(memories.retired(older, name, event.recorded_at, until))
            case Tombstone():
                batch.put(replace(older, superseded_by=name))
            case _:
                pass
