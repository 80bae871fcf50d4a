"""Who wrote or deleted what, and when: the log read backwards, without what was said."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from ingest.errors import CommandRejected, UnreadableEvent
from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.envelope import Recorded, as_json_object, decode
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.events.memory import (
    MemoryCondensed,
    MemoryConfirmed,
    MemoryRecorded,
    MemoryRevised,
    MemoryVisibilityChanged,
)
from ingest.events.observation import ObservationCompressed, ObservationRecorded
from ingest.events.relation import RelationLinked, RelationUnlinked
from ingest.events.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored
from ingest.log.history import LogHistory
from ingest.log.position import Position, Token
from ingest.platform.partial import readable
from projections.documents import actions, lessons, memories, observations, relations, sessions, slots
from projections.documents.access import Reader
from projections.documents.sessions import session_document_id, summary_id
from projections.queries.times import ANY_TIME, MAX_SEQ, Times

EVERYTHING = "*"
BULK = ObservationRecorded.TYPE
"""Most of a log, so it has to be asked for."""
STEP = 200
"""Entries of a partition read at once."""
BEHIND_ALL = Position(MAX_SEQ, MAX_SEQ)
MAX_SCANNED = 20_000
"""Entries one request passes over; it then answers what it has and where to go on."""


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One event: `operation` is its type, `targets` the documents it is about. `erased`: what it said was forgotten."""

    id: str
    position: str
    at: datetime
    operation: str
    agent_id: str
    user_id: str
    project: str
    session_id: str
    targets: list[str]
    reason: str
    source: str
    erased: bool = False


class AuditPage(Struct, frozen=True):
    """Entries, newest first, and the cursor of the older ones; None at the beginning of the log."""

    entries: list[AuditEntry]
    next: str | None


class Audit:
    """Answers who did what."""

    def __init__(self, log: EventLog) -> None:
        self._log = log

    async def entries(
        self,
        reader: Reader,
        operation: str = "",
        agent_id: str = "",
        project: str | None = None,
        cursor: str | None = None,
        limit: int = 50,
        times: Times = ANY_TIME,
    ) -> AuditPage:
        """What was written in the tenant, newest first; in isolated scope, what the reader wrote itself.

        Observations only when `operation` names their type or is `*`. A page may have less than `limit` entries, even
        none, and yet a `next`, after MAX_SCANNED entries of the log. Of a project out of reach nothing is read. Raises
        CommandRejected for what is no cursor.
        """
        if project is not None and not reader.key_scope.allows(project):
            return AuditPage([], None)
        wanted = _Wanted(reader, operation, agent_id, project, times)
        at = _parse(cursor, self._log.history) if cursor else await self._heads()
        backwards = _Backwards(self._log, at)
        found: list[AuditEntry] = []
        for _ in range(MAX_SCANNED):
            row = await backwards.step() if len(found) < limit else None
            if row is None:
                break
            partition, stored = row
            if stored.position < times.recorded.start:
                return AuditPage(found, None)
            event = as_json_object(stored.payload, stored.position)
            if wanted.matches(event, stored.position):
                found.append(_entry(partition, stored, event))
        return AuditPage(found, None if backwards.finished else str(at))

    async def _heads(self) -> Token:
        """Behind the newest entries: what is written between two pages is in neither.

        Of a partition that was left out all is older, so that a later page has what the first one lacks.
        """
        everywhere = range(self._log.partitions)
        heads = await readable({partition: self._log.head(partition) for partition in everywhere})
        behind = {partition: Position(head.ms, head.seq + 1) for partition, head in heads.items()}
        return Token({**dict.fromkeys(everywhere, BEHIND_ALL), **behind})


class _Wanted(NamedTuple):
    reader: Reader
    operation: str
    agent_id: str
    project: str | None
    times: Times

    def matches(self, event: Mapping[str, Any], position: Position) -> bool:
        """An unreadable event belongs to no tenant, so nobody is told of it."""
        operation = _operation(event)
        return (
            event.get("tenant") == self.reader.tenant
            and self.reader.key_scope.allows(event["project"])
            and (operation != BULK if not self.operation else self.operation in (EVERYTHING, operation))
            and self.agent_id in ("", event["agent_id"])
            and self.project in (None, event["project"])
            and self.reader.only_agent in ("", event["agent_id"])
            and self.times.of_event(event, position)
        )


class _Backwards:
    """All partitions as one log, from `at` back; `at` moves along."""

    def __init__(self, log: EventLog, at: Token) -> None:
        self._log, self._at = log, at
        self._read: dict[int, list[Stored]] = {partition: [] for partition in range(log.partitions)}
        self._ended = set[int]()

    @property
    def finished(self) -> bool:
        """Whether there is nothing older."""
        return len(self._ended) == len(self._read) and not any(self._read.values())

    async def step(self) -> tuple[int, Stored] | None:
        """The next older entry and its partition; None at the beginning of the log."""
        empty = [one for one, rows in self._read.items() if not rows and one not in self._ended]
        pages = await readable({one: self._log.read_back(one, self._at.get(one), STEP) for one in empty})
        self._ended.update(set(empty) - pages.keys())
        for partition, rows in pages.items():
            self._read[partition] = rows[::-1]  # the newest last, where it is taken from
            if len(rows) < STEP:
                self._ended.add(partition)
        newest = [(rows[-1].position, partition) for partition, rows in self._read.items() if rows]
        if not newest:
            return None
        _, partition = max(newest)
        stored = self._read[partition].pop()
        self._at[partition] = stored.position
        return partition, stored


def _parse(cursor: str, history: LogHistory) -> Token:
    try:
        return history.to_read_on(Token.parse(cursor))
    except CommandRejected:
        raise CommandRejected("not a cursor; pass on the `next` of the page before", "cursor") from None


def _operation(event: Mapping[str, Any]) -> str:
    """What was done; of an erased event what it was, which is all that is left of it."""
    operation: str = event.get("type", "")
    return event["data"].get("was", operation) if operation == EventErased.TYPE else operation


def _entry(partition: int, stored: Stored, event: Mapping[str, Any]) -> AuditEntry:
    try:
        recorded = decode(stored.payload, stored.position)
    except UnreadableEvent:  # of a newer release: who and when can be told all the same
        recorded = None
    said = None if recorded is None else recorded.data
    return AuditEntry(
        id=event["event_id"],
        position=f"{partition}:{stored.position}",
        at=stored.position.recorded_at if recorded is None else recorded.recorded_at,
        operation=_operation(event),
        agent_id=event["agent_id"],
        user_id=event["user_id"],
        project=event["project"],
        session_id=event["session_id"],
        targets=[] if recorded is None else _targets(recorded),
        reason=said.reason if isinstance(said, SubjectForgotten | SessionEnded) else "",
        source=event.get("source", "native"),
        erased=isinstance(said, EventErased),
    )


def _targets(recorded: Recorded) -> list[str]:
    """The documents that an event is about, the one it makes first."""
    match recorded.data:
        case SubjectForgotten() as said:
            return list(said.documents or said.kept) or [said.subject]
        case EventErased() as said:
            return [said.document]
        case ObservationRecorded():
            return [observations.observation_id(recorded)]
        case ObservationCompressed() as said:
            return [said.observation]
        case MemoryRecorded():
            return [memories.memory_id(recorded)]
        case MemoryRevised() as said:
            return [memories.memory_id(recorded), said.memory]
        case MemoryCondensed() as said:
            return [memories.memory_id(recorded), *said.originals]
        case MemoryVisibilityChanged() | MemoryConfirmed() as said:
            return [said.memory]
        case LessonRecorded() as said:
            return [lessons.lesson_id(recorded, said)]
        case LessonReinforced() | LessonRevised() | LessonTriggered() | LessonRetired() as said:
            return [said.lesson]
        case SlotSet() | SlotAppended() | SlotDeleted() as said:
            return [slots.id_of(recorded, said)]
        case ActionCreated():
            return [actions.action_id(recorded)]
        case ActionUpdated() as said:
            return [said.action]
        case RelationLinked() | RelationUnlinked() as said:
            return [relations.id_of(recorded, said)]
        case SessionCommitted() as said:
            return [sessions.commit_id(recorded, said)]
        case SessionSummarised():
            return [summary_id(_session(recorded))]
        case SessionStarted() | SessionEnded() | SessionRetired():
            return [_session(recorded)]


def _session(recorded: Recorded) -> DocumentId:
    envelope = recorded.envelope
    return session_document_id(envelope.tenant, envelope.project, envelope.session_id)
