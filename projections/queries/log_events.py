"""Events of the log as readers see them: what an event is about decides who can see what it says."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

from msgspec import Struct
from msgspec.structs import asdict

from ingest.errors import CommandRejected, LogUnavailable, MnemologError, Overloaded, UnreadableEvent
from ingest.events.envelope import as_json_object
from ingest.events.subject import EventErased, MemoryQuarantined, SubjectForgotten
from ingest.ids import DocumentId, document_id
from ingest.kinds import KINDS, MEMORY
from ingest.log.event_log import EventLog, Stored
from ingest.log.position import START, Position, Token, project_route
from ingest.nouns.command import Name
from ingest.nouns.memory import MemoryCondensed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.nouns.observation import ObservationRecorded
from ingest.nouns.registry import decode
from ingest.nouns.session import SessionEnded
from ingest.platform.partial import leaving_out, left_out, left_out_message, readable
from projections.index.protocol import IndexService
from projections.nouns.access import Reader, may_read
from projections.nouns.batch import mark_of
from projections.nouns.document import Document
from projections.nouns.fold import about
from projections.nouns.memory import Memory
from projections.nouns.tombstone import SupersededEvent
from projections.queries.documents import DocumentReader
from projections.queries.times import ANY_TIME, MAX_SEQ, Times

_OWN = frozenset(event_type.TYPE for event_type in (MemoryRecorded, MemoryRevised, MemoryCondensed))
"""Events that create a memory."""
_CONTENT = frozenset({"data", "metadata", "trace"})
"""What the caller wrote: everything but who it was, where and when."""


FEWEST = 20
"""Entries read at once where few events are wanted, because a filter may exclude most of them."""
MAX_FOLLOWERS = 200
KEEP_ALIVE_S = 15.0  # proxies close a stream that is silent for a minute


class EventsPage(Struct, frozen=True):
    """A page of the log. `next` is what to pass as `after` to continue; at the head the next page is empty."""

    events: list[dict[str, Any]]
    next: str | None


class EventFilter(NamedTuple):
    """Which events of the log a reader asks for; empty does not restrict.

    `type` is one or more event types or patterns such as `action.*`, separated by commas. `kind` is the kind of a
    document that the event is about, or the type of a memory (`rule`); `subject` is the id of such a document.
    `withheld`: whether the reader gets events whose content it can't see, without the content. Never with a kind or a
    subject, because these would reveal it.
    """

    reader: Reader
    type: str = ""
    session_id: str = ""
    project: str | None = None
    agent_id: str = ""
    times: Times = ANY_TIME
    kind: str = ""
    subject: str = ""
    withheld: bool = True

    def matches(self, event: Mapping[str, Any], position: Position) -> bool:
        """Whether an event passes the filter and is of the reader's tenant and projects.

        An unreadable event has no tenant, so only operators see it.
        """
        key_scope, tenant = self.reader.key_scope, event.get("tenant")
        if tenant is None:
            in_scope = key_scope.whole and not key_scope.within_tenant
        else:
            in_scope = tenant == self.reader.tenant and key_scope.allows(event.get("project", ""))
        return (
            in_scope
            and (
                not self.type or any(fnmatchcase(event.get("type", ""), each.strip()) for each in self.type.split(","))
            )
            and self.session_id in ("", event.get("session_id", ""))
            and self.project in (None, event.get("project", ""))
            and self.agent_id in ("", event.get("agent_id", ""))
            and self.reader.only_agent in ("", event.get("agent_id", ""))
            and self.times.of_event(event, position)
        )

    def view(self, partition: int, row: Stored) -> "EventView | None":
        """A log entry with the ids of its `documents`; None if the filter excludes it, whatever the documents are."""
        view = EventView.of(partition, row)
        if not self.matches(view.event, row.position):
            return None
        documents, mark = _documents(row)
        view.event["documents"] = documents
        return view._replace(mark=mark) if self.subject in ("", *documents) else None

    def for_reader(self, view: "EventView", existing: Mapping[DocumentId, Document]) -> dict[str, Any] | None:
        """A view for the reader; None if the filter excludes it. `existing` are the documents that the filter needs."""
        event = view.shown(self.reader, existing)
        refused = view.refused(existing)
        if not self.strict:
            return {**event, "refused": refused} if refused else event
        if refused:
            return None
        about = view.event["documents"]
        documents = [existing[name] for name in about if name in existing]
        if event is not view.event or not all(may_read(document, self.reader) for document in documents):
            return None
        kinds = {_KIND_OF.get(name.partition("_")[0]) for name in about}
        kinds |= {document.memory_type for document in documents if isinstance(document, Memory)}
        return event if self.kind in ("", *kinds) else None

    @property
    def strict(self) -> bool:
        """Whether the reader only gets events about documents that it can see."""
        return bool(self.kind or self.subject or not self.withheld)


class Criteria(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Filters for events; an omitted one does not restrict.

    `kind` is memory, lesson, action and so on, or the type of a memory such as `rule`. `subject` is a document id.
    """

    project: Name | None = None
    kind: Name = ""
    subject: Name = ""
    agent_id: Name = ""
    session_id: Name = ""

    def of(self, reader: Reader, type: str, *, withheld: bool = False, times: Times = ANY_TIME) -> EventFilter:
        """The filter for a reader."""
        return EventFilter(reader, type, withheld=withheld, times=times, **asdict(self))


_KIND_OF = {kind.prefix: kind.name for kind in KINDS}


class EventView(NamedTuple):
    """One event as JSON, `position` with its partition."""

    event: dict[str, Any]
    mark: DocumentId | None = None
    """Of an event that can be refused: its mark, which has the outcome."""

    @classmethod
    def of(cls, partition: int, row: Stored) -> "EventView":
        """The event of a log entry."""
        event = as_json_object(row.payload, row.position)
        event["position"] = f"{partition}:{row.position}"
        return cls(event)

    def about(self) -> list[DocumentId]:
        """The memories whose readers alone can see what it says."""
        data: dict[str, Any] = self.event.get("data") or {}
        if self.event.get("type") in _OWN:
            route = project_route(self.event.get("tenant", ""), self.event.get("project", ""))
            return [document_id(MEMORY, route, self.event.get("event_id", ""))]
        if self.event.get("type") == MemoryVisibilityChanged.TYPE:
            return [DocumentId(str(data.get("memory", "")))]
        return []

    def refused(self, existing: Mapping[DocumentId, Document]) -> str:
        """Why the event changed nothing, as an error code; empty if it was applied."""
        mark = existing.get(self.mark) if self.mark else None
        return mark.outcome.refused if isinstance(mark, SupersededEvent) and mark.outcome else ""

    def shown(self, reader: Reader, existing: Mapping[DocumentId, Document]) -> dict[str, Any]:
        """The event for a reader. Of a memory that is not projected yet, the event itself says who can read it.

        Raises LogUnavailable where what it is about could not be read: who can see it now is not known.
        """
        for name in self.about():
            document = existing.get(name)
            partition = int(self.event["position"].partition(":")[0])
            if document is None and not reader.operator and partition in (unread := left_out()):
                raise LogUnavailable(
                    f"the readers of {self.event['position']} cannot be determined; {left_out_message(unread)}"
                )
            if isinstance(document, Memory):
                visibility, is_readable = document.visibility, may_read(document, reader)
            else:
                data: dict[str, Any] = self.event.get("data") or {}
                visibility = data.get("visibility", "public")
                readers = [data.get("owner"), self.event.get("agent_id")]
                if visibility == "shared" and isinstance(shared_with := data.get("shared_with"), list):
                    readers += cast("list[Any]", shared_with)
                named = reader.agent_id != "" and reader.agent_id in readers
                is_readable = visibility == "public" or reader.operator or named
            if not is_readable:
                selected = {name: value for name, value in self.event.items() if name not in _CONTENT}
                return {**selected, "data": {"visibility": visibility, "withheld": True}}
        return self.event


@dataclass
class AppliedEvents:
    """Reads events for readers, in log order per partition, once they are projected: then it is known who can read."""

    _log: EventLog
    _documents: DocumentReader

    @property
    def partitions(self) -> int:
        """How many partitions the log has."""
        return self._log.partitions

    def read_on(self, after: str) -> Token:
        """The cursor after a token; raises CommandRejected for a token of another log."""
        return self._log.history.check(Token.parse(after))

    async def read(
        self, event_filter: EventFilter, at: Token, limit: int, applied: Mapping[int, Position]
    ) -> list[tuple[EventView, str]]:
        """Up to `limit` of the filter's events after `at` and up to `applied`, each with the cursor after it.

        Moves `at` past those looked at. `visible` decides what the reader gets of them.
        """
        results: list[tuple[EventView, str]] = []
        for partition, until in sorted(applied.items()):
            if at.get(partition, START) >= until or len(results) >= limit:
                continue
            for row in await self._log.read(partition, at.get(partition, START), max(FEWEST, limit)):
                if row.position > until or len(results) >= limit:
                    break
                at.include(partition, row.position)
                if view := event_filter.view(partition, row):
                    results.append((view, str(at)))
        return results

    async def newly_applied(
        self, event_filter: EventFilter, at: Token, limit: int, applied: Mapping[int, Position]
    ) -> list[dict[str, Any]]:
        """The same for the reader, each with its cursor as `after`."""
        results = await self.read(event_filter, at, limit, applied)
        views = await self.visible([view for view, _ in results], event_filter)
        return [{**event, "after": after} for event, (_, after) in zip(views, results, strict=True) if event]

    async def skip_before(self, at: Token, start: Position) -> bool:
        """Move a cursor to a recording time; returns whether that skips events."""
        skips = False
        for partition in range(self.partitions):
            if at.get(partition, START) < start:
                skips = skips or any(
                    row.position < start for row in await self._log.read(partition, at.get(partition, START), 1)
                )
                at.include(partition, start)
        return skips

    async def visible(self, views: Sequence[EventView], event_filter: EventFilter) -> list[dict[str, Any] | None]:
        """The events as the reader can see them now; None for those that the filter excludes."""
        names = {name for view in views for name in (*view.about(), *filter(None, [view.mark]))}
        if event_filter.strict:
            names.update(DocumentId(name) for view in views for name in view.event["documents"])
        documents = await self._documents.find_all(sorted(names))
        existing = {DocumentId(located.document.id): located.document for located in documents}
        return [event_filter.for_reader(view, existing) for view in views]


class LogEvents(AppliedEvents):
    """Reads the log in a process with an index, and follows it. Of what a reader can't see the content is withheld."""

    def __init__(self, log: EventLog, index: IndexService, documents: DocumentReader) -> None:
        super().__init__(log, documents)
        self._index, self._followers = index, 0

    async def wait_for_own_writes(self, after: str) -> None:
        """Wait until a position is searchable, before reading what follows it; raises ProjectionBehind."""
        await self._index.wait_for(Token.parse(after))

    async def page(self, event_filter: EventFilter, after: str, limit: int, partition: int | None) -> EventsPage:
        """The log after `after`, partition by partition, as far as it is wanted.

        Of what the reader can't see the content is withheld; of a project out of reach nothing is read.
        """
        if event_filter.project is not None and not event_filter.reader.key_scope.allows(event_filter.project):
            return EventsPage([], after or None)
        at = self.read_on(after) if after else Token()
        partitions: Sequence[int] = range(self._log.partitions)
        if partition is not None:
            if partition not in partitions:
                raise CommandRejected(f"valid partitions are 0 to {self._log.partitions - 1}", "partition")
            partitions = [partition]
        events: list[EventView] = []
        for number in partitions:
            more = False
            with leaving_out(number, partitions):
                more = await self._read_partition(number, at, limit - len(events), event_filter, events)
            if more:
                break
        return EventsPage(list(filter(None, await self.visible(events, event_filter))), str(at) or None)

    def applied(self) -> Token:
        """The position up to which events are projected and searchable here."""
        return Token(self._index.applied)

    def follow(self, event_filter: EventFilter, at: Token, at_once: int) -> AsyncIterator[list[dict[str, Any]]]:
        """The filter's events after `at`, up to `at_once` at a time, for as long as somebody reads on; moves `at`.

        An empty list after every KEEP_ALIVE_S of silence. A caller that moves `at` on skips what is before it. Raises
        Overloaded if there are MAX_FOLLOWERS.
        """
        if self._followers >= MAX_FOLLOWERS:
            raise Overloaded(f"{self._followers} live streams are open", retry_after_s=5)
        return self._follow(event_filter, at, at_once)

    async def _follow(self, event_filter: EventFilter, at: Token, at_once: int) -> AsyncIterator[list[dict[str, Any]]]:
        self._followers += 1
        silent_until = time.monotonic() + KEEP_ALIVE_S
        try:
            while True:
                page = await self.newly_applied(event_filter, at, at_once, self._index.applied)
                if page or time.monotonic() > silent_until:
                    yield page
                    silent_until = time.monotonic() + KEEP_ALIVE_S
                    continue
                with suppress(TimeoutError):
                    try:
                        await asyncio.wait_for(self._index.changed(at), silent_until - time.monotonic())
                    except MnemologError:
                        await asyncio.sleep(1)
        finally:
            self._followers -= 1

    async def _read_partition(
        self, number: int, at: Token, room: int, event_filter: EventFilter, events: list[EventView]
    ) -> bool:
        """Read on in one partition until `room` events are found (then true) or its head is reached."""
        # nothing before the interval was recorded in it, so reading starts there
        position, scanned = max(at.get(number, START), event_filter.times.recorded.start), 0
        while room > 0:
            rows = await self._log.read(number, position, min(1000, max(100, room)))
            for row in rows:
                position, scanned = row.position, scanned + 1
                at.include(number, position)
                if view := event_filter.view(number, row):
                    events.append(view)
                    room -= 1
                    if room == 0:
                        return True
            if not rows:
                return False
            if scanned >= MAX_SCANNED:
                return True
        return True


EVERYTHING = "*"
BULK = ObservationRecorded.TYPE
"""Most of a log, so it has to be asked for."""
STEP = 200
"""Entries of a partition read at once."""
BEHIND_ALL = Position(MAX_SEQ, MAX_SEQ)
MAX_SCANNED = 20_000
"""Entries one request skips; it then answers what it has and where to continue."""


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


@dataclass
class Audit:
    """Answers who did what."""

    _log: EventLog

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
        requested = EventFilter(reader, project=project, agent_id=agent_id, times=times)
        try:
            at = self._log.history.check(Token.parse(cursor)) if cursor else await self._heads()
        except CommandRejected:
            raise CommandRejected("not a cursor; use the `next` of the previous page", "cursor") from None
        backwards = _Backwards(self._log, at)
        results: list[AuditEntry] = []
        for _ in range(MAX_SCANNED):
            row = await backwards.step() if len(results) < limit else None
            if row is None:
                break
            partition, stored = row
            if stored.position < times.recorded.start:
                return AuditPage(results, None)
            event = as_json_object(stored.payload, stored.position)
            if event.get("tenant") is None or not requested.matches(event, stored.position):
                continue  # an event that cannot be read belongs to no tenant
            done: str = event.get("type", "")
            if done == EventErased.TYPE:
                done = event["data"].get("was", done)
            if operation in (EVERYTHING, done) or (not operation and done != BULK):
                results.append(_entry(partition, stored, event, done))
        return AuditPage(results, None if backwards.finished else str(at))

    async def _heads(self) -> Token:
        # Positions after the newest entries: entries written between two pages are in neither. A partition that was
        # left out starts after all positions, so a later page has what the first one lacks.
        everywhere = range(self._log.partitions)
        heads = await readable({partition: self._log.head(partition) for partition in everywhere})
        newest = {partition: Position(head.ms, head.seq + 1) for partition, head in heads.items()}
        return Token({**dict.fromkeys(everywhere, BEHIND_ALL), **newest})


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
        empty = [number for number, rows in self._read.items() if not rows and number not in self._ended]
        pages = await readable({number: self._log.read_back(number, self._at.get(number), STEP) for number in empty})
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


def _entry(partition: int, stored: Stored, event: Mapping[str, Any], operation: str) -> AuditEntry:
    try:
        recorded = decode(stored.payload, stored.position)
    except UnreadableEvent:  # written by a newer release: who and when are still readable
        recorded = None
    data = None if recorded is None else recorded.data
    return AuditEntry(
        id=event["event_id"],
        position=f"{partition}:{stored.position}",
        at=stored.position.recorded_at if recorded is None else recorded.recorded_at,
        operation=operation,
        agent_id=event["agent_id"],
        user_id=event["user_id"],
        project=event["project"],
        session_id=event["session_id"],
        targets=[] if recorded is None else about(recorded),
        reason=data.reason if isinstance(data, SubjectForgotten | SessionEnded | MemoryQuarantined) else "",
        source=event.get("source", "native"),
        erased=isinstance(data, EventErased),
    )


def _documents(row: Stored) -> tuple[list[str], DocumentId | None]:
    """The ids of the documents that an event is about, the one that it creates first; none for an unreadable event.

    And the id of its mark, if the event can be refused.
    """
    try:
        recorded = decode(row.payload, row.position)
    except UnreadableEvent:
        return [], None
    return about(recorded), mark_of(recorded) if recorded.data.is_awaited else None
