"""Export and import of the log, of a tenant or of one project, as lines of JSON.

The first line is the header, the last one says how many events there are, and between them is one event a line:
partition by partition, in the order of the positions, which are left out.

An import keeps the order, the event ids and when each event was first recorded, and changes nothing else. So an export
of a log that holds nothing but an import equals what was imported: byte for byte where both logs have equally many
partitions, else in its set of lines and in the order of the lines of each stream.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec import Meta, Raw, Struct

from ingest.commands.handler import BatchOutcome, CommandHandler
from ingest.commands.parse import check_values, rejected
from ingest.errors import (
    CommandRejected,
    MalformedRequest,
    MnemologError,
    NewerEventVersion,
    Overloaded,
    ProjectionBehind,
    UnknownEventType,
    UnreadableEvent,
)
from ingest.events.envelope import UNCLAIMED, Envelope, Event, EventData, Recorded, Trust, encode, route_of
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import DocumentId, EventId, imported_dedup_id
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import PartitionKeys
from ingest.log.position import START, Position, Token, partition_of
from ingest.nouns.memory import MemoryRecorded
from ingest.nouns.registry import EVENT_TYPES, decode, upcast
from ingest.platform.clock import to_ms
from ingest.platform.connections import Client
from ingest.platform.tasks import INLINE_BYTES, Slices, in_thread
from ingest.secrets.clean import cleaned
from projections.nouns.access import Reader
from projections.nouns.document import Document
from projections.nouns.memory import memory_id
from projections.queries.log_events import EventFilter, EventView
from projections.store.protocol import are_repeats
from projections.store.redis_store import RedisStore

FORMAT, FORMAT_VERSION = "mnemolog-export", 1
Aware: TypeAlias = Annotated[datetime, Meta(tz=True)]


class EventDocuments(Protocol):
    """Where the memories are that decide who can see an event."""

    async def get(self, locations: Sequence[tuple[int, DocumentId]]) -> list[Document | None]:
        """The documents, in the order asked for; None for one that is not there."""
        ...


class ExportHeader(Struct, frozen=True, kw_only=True):
    """The first line. `project` null: all of the tenant."""

    format: str
    version: int
    tenant: str
    project: str | None


class End(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The last line. `unreadable` counts entries of the log that are no events at all, and so are not in the export."""

    end: Literal[True]
    events: int
    unreadable: int = 0


class ExportLine(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One event: envelope and data. `recorded_at` is when a log first recorded it, to the millisecond."""

    event_id: str
    type: str
    version: int
    tenant: str
    project: str = ""
    agent_id: str = ""
    session_id: str = ""
    user_id: str = ""
    occurred_at: Aware = UNCLAIMED
    recorded_at: Aware | str
    source: str = "native"
    causation: str = ""
    trace: str = ""
    metadata: dict[str, str] = {}
    trust: Trust | Literal[""] = ""
    key: str = ""
    data: Any


async def export_events(
    log: EventLog, documents: EventDocuments, reader: Reader, project: str | None
) -> AsyncGenerator[bytes]:
    """The log as the reader can see it, up to where it is now, in chunks of whole lines.

    An operator gets everything. For others events are left out whose content they can't see. `project` None: all of
    the tenant.
    """
    heads = [await log.head(partition) for partition in range(log.partitions)]
    yield _encoded(ExportHeader(format=FORMAT, version=FORMAT_VERSION, tenant=reader.tenant, project=project))
    requested = EventFilter(reader, project=project)
    count = unreadable = 0
    for partition, head in enumerate(heads):
        async for rows in pages(log, partition, head):
            entries = [(row, EventView.of(partition, row)) for row in rows]
            entries = [(row, view) for row, view in entries if requested.matches(view.event, row.position)]
            events = [(row, view) for row, view in entries if view.event.get("tenant") is not None]
            unreadable += len(entries) - len(events)
            if not reader.operator:
                # what an event is about is of its own stream, and so in its partition
                about = sorted({name for _, view in events for name in view.about()})
                stored = await documents.get([(partition, name) for name in about])
                pairs = zip(about, stored, strict=True)
                existing = {name: document for name, document in pairs if document is not None}
                events = [(row, view) for row, view in events if view.shown(reader, existing) is view.event]
            count += len(events)
            if events:
                yield b"".join(_line(row, view.event) for row, view in events)
    yield _encoded(End(end=True, events=count, unreadable=unreadable if reader.operator else 0))


def _line(row: Stored, stored: dict[str, Any]) -> bytes:
    """The line of an event: in the newest version, or as it is stored when this release does not know all of it."""
    with suppress(UnreadableEvent):
        event = decode(row.payload, row.position)
        current = event.envelope.version == event.data.VERSION
        if not stored.keys() - _STORED_FIELDS and not (current and unknown_field(stored["data"], event.data)):
            return line_of(event)
    selected = {name: value for name, value in stored.items() if name != "position"}
    if isinstance(recorded_at := selected.get("recorded_at"), datetime):
        selected["recorded_at"] = _iso(to_ms(recorded_at))
    return _encoded(selected)


def line_of(event: Recorded) -> bytes:
    """The line of an event, in the newest version of its type."""
    stated: dict[str, Any] = {"version": event.data.VERSION, "recorded_at": _iso(event.recorded_ms), "data": event.data}
    line = ExportLine(**{**msgspec.structs.asdict(event.envelope), **stated})
    return _encoded(line)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def instant(ms: int) -> datetime:
    """Exact, which `datetime.fromtimestamp` is not for times far away."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _iso(ms: int) -> str:
    return instant(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unknown_field(stated: Any, typed: Any) -> str:
    """The path of the first stated field that the type does not have; empty if it has all of them."""
    if isinstance(typed, Struct):
        for name, value in cast(dict[str, Any], stated).items():
            if name not in typed.__struct_fields__:
                return name
            if inner := unknown_field(value, getattr(typed, name)):
                return f"{name}.{inner}"
    elif isinstance(typed, list):
        items = cast(list[Any], typed)
        if items and isinstance(items[0], Struct):
            pairs = zip(cast(list[Any], stated), items, strict=True)
            return next((inner for value, item in pairs if (inner := unknown_field(value, item))), "")
    return ""


_STORED_FIELDS = {*ExportLine.__struct_fields__, "position"}


NOTED: tuple[type[EventData], ...] = (EventErased, SubjectForgotten)
ENTRIES_PER_READ = 500
# few milliseconds have more; reading ENTRIES_PER_READ for each event made an import ten times as slow
ENTRIES_AT_FIRST = 10
READS_AT_ONCE = 16  # an import must not take all connections of the pool from writers
LAST = 999_999
"""The highest number of an entry within its millisecond."""
BEHIND_ALL = Position(10**14 - 1, 0)


class _Identity(NamedTuple):
    event_id: str
    type: str
    route: str

    @classmethod
    def of(cls, event: Event) -> "_Identity":
        return cls(event.envelope.event_id, event.data.TYPE, route_of(*event))


class KnownEvents:
    """Looks events up, some hundred at a time."""

    def __init__(self, redis: Client, log: EventLog) -> None:
        self._redis, self._log = redis, log
        # an import looks up thousands of ids; unbounded, its reads would take every connection from requests
        self._reads = asyncio.Semaphore(READS_AT_ONCE)

    async def have(self, events: Sequence[Event]) -> list[bool]:
        """For each event, whether the log has it. What was appended in the last moments may be missed: the window of
        duplicates has that."""
        existing = [False] * len(events)
        partitions: dict[int, list[int]] = {}
        for n, event in enumerate(events):
            partitions.setdefault(self._partition(event), []).append(n)
        for partition, numbers in partitions.items():
            head = await self._log.head(partition)
            times = {events[n].envelope.recorded_at for n in numbers}
            moments = sorted({ms for at in times if at is not None and 0 < (ms := to_ms(at)) <= head.ms})
            rows = await asyncio.gather(*(self._entries_of(partition, ms) for ms in moments))
            recorded_here = {identity for of_moment in rows for identity in of_moment}
            rest = [n for n in numbers if _Identity.of(events[n]) not in recorded_here]
            for n in set(numbers).difference(rest):
                existing[n] = True
            for n, imported in zip(rest, await self._imported(partition, [events[n] for n in rest]), strict=True):
                existing[n] = imported
        return existing

    async def note(self, events: Sequence[Event]) -> None:
        """Note those of the events, now in the log, of which no document tells."""
        noted: dict[str, list[bytes]] = {}
        for event in events:
            if isinstance(event.data, NOTED):
                noted.setdefault(PartitionKeys(self._partition(event)).imported, []).append(_digest(event))
        for key, digests in noted.items():
            await self._redis.sadd(key, *digests)

    def _partition(self, event: Event) -> int:
        return partition_of(route_of(*event), self._log.partitions)

    async def _entries_of(self, partition: int, ms: int) -> set[_Identity]:
        results: set[_Identity] = set()
        at, count = Position(ms - 1, LAST), ENTRIES_AT_FIRST
        async with self._reads:
            while rows := await self._log.read(partition, at, count):
                of_moment = [row for row in rows if row.position.ms == ms]
                for row in of_moment:
                    try:
                        recorded = decode(row.payload, row.position)
                    except UnreadableEvent:
                        continue
                    results.add(_Identity.of(Event(recorded.envelope, recorded.data)))
                if len(of_moment) < count:
                    break
                at, count = rows[-1].position, ENTRIES_PER_READ
        return results

    async def _imported(self, partition: int, events: Sequence[Event]) -> list[bool]:
        keys = PartitionKeys(partition)
        store = RedisStore(self._redis, keys, int(await self._redis.get(keys.generation) or 1), None)
        repeats = await are_repeats(store, [Recorded(BEHIND_ALL, event.envelope, event.data) for event in events])
        async with self._redis.pipeline(transaction=False) as pipe:
            for event in events:
                pipe.sismember(keys.imported, _digest(event))
            noted = await pipe.execute() if events else []
        return [
            bool(is_noted) if isinstance(event.data, NOTED) else is_repeat
            for event, is_repeat, is_noted in zip(events, repeats, noted, strict=True)
        ]


def _digest(event: Event) -> bytes:
    name = imported_dedup_id(route_of(*event), EventId(event.envelope.event_id), encode(event))
    return bytes.fromhex(name)


# an event has up to 1 MiB in the log; in JSON a control character takes six bytes instead of one
MAX_LINE_BYTES = 8 << 20
MAX_REJECTED = 100
"""Rejected lines that a report describes; it counts all of them."""
EVENTS_PER_APPEND, BYTES_PER_APPEND = 500, 4 << 20
"""What an import gathers before it appends."""
# an import waits this long while others fill the log's queue; less than a client waits for an answer
OVERLOADED_S = 60
MAX_COUNTED = 10_000
"""Imported memories of which it is counted what they superseded: 2 MB."""
Settle: TypeAlias = Callable[[], Awaitable[object]]
CountRestatements: TypeAlias = Callable[[Collection[DocumentId], str, Token], Awaitable[int]]
"""How many of some memories of a tenant superseded others, after a position."""


class _ImportLine(ExportLine, frozen=True, kw_only=True, forbid_unknown_fields=True):
    recorded_at: Aware
    data: Raw


class RejectedLine(Struct, frozen=True):
    """A line that was not imported, and why. Lines count from 1, the header's."""

    line: int
    code: str
    message: str


class Imported(Struct, frozen=True):
    """What became of an import: events that are new, and those the log had already.

    `superseded`: how many of the last MAX_COUNTED memories superseded another one because they state the same; 0 where
    that is not projected half a second later. `rejected` has the first MAX_REJECTED of the `rejected_lines`.
    `complete`: the file ended as its last line says.
    """

    events: int
    duplicates: int
    rejected_lines: int
    rejected: list[RejectedLine]
    complete: bool
    superseded: int = 0


@dataclass
class Importer:
    """Reads what an export wrote. Lines are imported or rejected one by one; what is there already stays unchanged.

    `existing` events are not appended; without it, only repeats within the window of duplicates are recognized.
    `settle` waits until what was acknowledged is projected; it may raise ProjectionBehind. `count` says how many
    memories superseded others.
    """

    _commands: CommandHandler
    _tenant: str
    _existing: KnownEvents | None = None
    settle: Settle | None = None
    _count: CountRestatements | None = None

    async def run(self, body: AsyncIterable[bytes]) -> Imported:
        """Append the events of an export, in their order.

        Raises CommandRejected when the header is missing, or of another version or tenant: nothing is stored then.
        Raises Overloaded or LogUnavailable on the way: repeating the whole import is safe.
        """
        progress = _ReadProgress()
        lines = _lines(body)
        first = await anext(lines, None)
        read_header((first.text if first else None) or b"", self._tenant)
        await self._wait_until_projected()  # documents then identify events that an earlier import wrote
        end: End | None = None
        lines_read, slices = 0, Slices()
        async for number, text in lines:
            await slices.between()
            if end is not None:
                progress.reject(number, CommandRejected("this line is after the end of the export"))
            elif text is None:
                progress.reject(number, MalformedRequest(f"the limit of a line is {MAX_LINE_BYTES:,} bytes"))
                lines_read += 1
            elif (end := _end(text)) is None:
                if len(text) > INLINE_BYTES:
                    await in_thread(progress.gather, number, text, self._tenant)
                else:
                    progress.gather(number, text, self._tenant)
                lines_read += 1
                if progress.full:
                    await self._append(progress)
        await self._append(progress)
        counted = 0 if self._count is None else await self._count(progress.memories, self._tenant, progress.token)
        return progress.report(complete=end is not None and end.events == lines_read, superseded=counted)

    async def _wait_until_projected(self) -> None:
        for waited in range(OVERLOADED_S + 1):
            try:
                if self.settle is not None:
                    await self.settle()
                return
            except ProjectionBehind:
                if waited == OVERLOADED_S:
                    raise

    async def _append(self, progress: "_ReadProgress") -> None:
        if self._existing is not None:
            progress.skip(await self._existing.have(progress.events))
        events = progress.events
        for waited in range(OVERLOADED_S + 1):
            try:
                progress.stored(await self._commands.append_events(events))
                break
            except Overloaded:
                if waited == OVERLOADED_S:
                    raise
            # others fill the queue: the import stands back for a second
            await asyncio.sleep(1)
        if self._existing is not None:
            await self._existing.note(events)


def read_header(text: bytes, tenant: str | None = None) -> ExportHeader:
    """The header of an export; raises CommandRejected for anything else, and for another tenant's.

    Ids of documents are made from the tenant's name, and events name documents: under another name a forgotten memory
    would not be forgotten, and a condensed one would be void.
    """
    try:
        header = msgspec.json.decode(text, type=ExportHeader)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        header = None
    if header is None or header.format != FORMAT:
        raise CommandRejected(f"Unsupported export version: the first line is not the header of a {FORMAT}", "format")
    if header.version != FORMAT_VERSION:
        raise CommandRejected(
            f"Unsupported export version {header.version}; this release reads version {FORMAT_VERSION}", "version"
        )
    if tenant is not None and header.tenant != tenant:
        raise CommandRejected(
            f"this is an export of tenant {header.tenant!r}, but the server's tenant is "
            f"{tenant!r}: "
            "set MNEMOLOG_TENANT to import it",
            "tenant",
        )
    return header


def read_event(text: bytes, tenant: str) -> Event:
    """The event of a line, in the newest version of its type, to be recorded when the line says.

    Secrets are removed from its texts. Raises MalformedRequest, RequestTooLarge, CommandRejected, UnknownEventType or
    NewerEventVersion. A field that this release does not know is rejected: an import would lose it. So is a secret in a
    name, from which ids of documents are made: under another name what was forgotten would not be.
    """
    check_values(text, what="the line")
    try:
        line = _decode_line(text)
    except msgspec.ValidationError as error:
        raise rejected(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRequest(f"the line is not JSON: {error}") from None
    _check(line, tenant)
    data = _data(line)
    try:
        claimed = line.occurred_at if line.occurred_at is UNCLAIMED else line.occurred_at.astimezone(UTC)
        times: dict[str, Any] = {"occurred_at": claimed, "recorded_at": instant(to_ms(line.recorded_at))}
        fields: dict[str, Any] = {name: getattr(line, name) for name in ExportLine.__struct_fields__ if name != "data"}
        fields |= {"version": data.VERSION, "tenant": tenant, **times}
        envelope = Envelope(**fields)
    except OverflowError:
        raise CommandRejected("the time is outside the years 1 to 9999", "occurred_at") from None
    names = "keep" if isinstance(data, SubjectForgotten | EventErased) else "refuse"
    return Event(cleaned(envelope, names), cleaned(data, names))


class _NumberedLine(NamedTuple):
    """One line; `text` None when it is longer than a line may be."""

    number: int
    text: bytes | None


class _ReadProgress:
    def __init__(self) -> None:
        self._gathered: list[tuple[int, Event]] = []
        self._bytes = 0
        self._new = self._duplicates = self._rejected_lines = 0
        self._rejected: list[RejectedLine] = []
        self.memories: deque[DocumentId] = deque(maxlen=MAX_COUNTED)
        self.token = Token()

    @property
    def events(self) -> list[Event]:
        return [event for _, event in self._gathered]

    @property
    def full(self) -> bool:
        return len(self._gathered) >= EVENTS_PER_APPEND or self._bytes >= BYTES_PER_APPEND

    def gather(self, number: int, text: bytes, tenant: str) -> None:
        try:
            self._gathered.append((number, read_event(text, tenant)))
            self._bytes += len(text)
        except MnemologError as error:
            self.reject(number, error)

    def skip(self, existing: Sequence[bool]) -> None:
        """Count those of the gathered events that the log has already, and let them go."""
        self._duplicates += sum(existing)
        self._gathered = [row for row, exists in zip(self._gathered, existing, strict=True) if not exists]

    def reject(self, number: int, error: MnemologError) -> None:
        self._rejected_lines += 1
        if len(self._rejected) < MAX_REJECTED:
            field = error.field if isinstance(error, CommandRejected) else None
            self._rejected.append(RejectedLine(number, error.code, f"{field}: {error}" if field else str(error)))

    def stored(self, outcome: BatchOutcome) -> None:
        self._new += outcome.accepted
        self._duplicates += outcome.duplicates
        recorded = (event for event in self.events if isinstance(event.data, MemoryRecorded))
        self.memories += (memory_id(Recorded(START, *event)) for event in recorded)
        self.token.include_all(outcome.token)
        for index, error in outcome.rejected:
            self.reject(self._gathered[index][0], error)
        self._gathered, self._bytes = [], 0

    def report(self, *, complete: bool, superseded: int) -> Imported:
        ordered = sorted(self._rejected, key=lambda rejected_line: rejected_line.line)
        return Imported(self._new, self._duplicates, self._rejected_lines, ordered, complete, superseded)


async def _lines(body: AsyncIterable[bytes]) -> AsyncIterator[_NumberedLine]:
    """The lines that are not blank, without holding more than one of them in memory."""
    number, parts, size = 1, list[bytes](), 0
    async for chunk in body:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            line = _joined(number, parts, size, piece)
            number, parts, size = number + 1, [], 0
            if line is not None:
                yield line
        size += len(rest)
        parts.append(rest)
        if size > MAX_LINE_BYTES:
            parts.clear()
    if (line := _joined(number, parts, size, b"")) is not None:
        yield line


def _joined(number: int, parts: Sequence[bytes], size: int, last: bytes) -> _NumberedLine | None:
    if size + len(last) > MAX_LINE_BYTES:
        return _NumberedLine(number, None)
    text = b"".join((*parts, last)).strip()
    return _NumberedLine(number, text) if text else None


def _end(text: bytes) -> End | None:
    if b'"end"' not in text[:64]:
        return None
    try:
        return msgspec.json.decode(text, type=End)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _check(line: _ImportLine, tenant: str) -> None:
    if line.tenant != tenant:
        raise CommandRejected(f"the event belongs to tenant {line.tenant!r}, but the export to {tenant!r}", "tenant")
    if not line.event_id:
        raise CommandRejected("the event has no id", "event_id")
    for field in ("event_id", "project", "session_id", "agent_id", "user_id"):
        if "\0" in getattr(line, field):
            raise CommandRejected("a name cannot contain NUL", field)
    if to_ms(line.recorded_at) < 0:
        raise CommandRejected("events cannot have been recorded before 1970", "recorded_at")


def _data(line: _ImportLine) -> EventData:
    cls = EVENT_TYPES.get(line.type)
    if cls is None:
        raise UnknownEventType(line.type, sorted(EVENT_TYPES))
    if line.version > cls.VERSION:
        raise NewerEventVersion(line.type, line.version, cls.VERSION)
    try:
        fields = msgspec.json.decode(line.data, type=dict[str, Any])
        if line.version < cls.VERSION:
            fields = dict(upcast(line.type, line.version, cls.VERSION, fields, line.occurred_at))
        data = msgspec.convert(fields, cls)
    except msgspec.ValidationError as error:
        rejection = rejected(error)
        raise CommandRejected(rejection.message, f"data.{rejection.field}" if rejection.field else "data") from None
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise CommandRejected(f"this is not a {line.type} version {line.version}: {error!r}", "data") from None
    if unknown := unknown_field(fields, data):
        raise CommandRejected(f"{line.type} has no such field in this release", f"data.{unknown}")
    return data


_decode_line = msgspec.json.Decoder(_ImportLine).decode
