"""Export and import of everything of a tenant or of one project: the log, as lines of JSON.

The first line is the header, the last one says how many events there are, and between them is one event a line:
partition by partition, in the order of the positions, which are left out. An import keeps the order, the event ids and
when each event was first recorded, and changes nothing else. So an export of a log that holds nothing but an import
equals what was imported: byte for byte where both logs have equally many partitions, else in its set of lines and in
the order of the lines of each stream.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import msgspec
from msgspec import Meta, Raw, Struct

from ingest.commands.handler import BatchOutcome, CommandHandler
from ingest.commands.parse import rejected
from ingest.commands.sizing import check_values
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
from ingest.events.envelope import UNCLAIMED, Envelope, Event, Recorded, decode
from ingest.events.registry import EVENT_TYPES, EventData, upcast
from ingest.events.subject import EventErased, SubjectForgotten
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored, pages
from ingest.platform.clock import to_ms
from ingest.platform.tasks import INLINE_BYTES, Slices, aside
from ingest.secrets.clean import cleaned
from projections.documents.access import Reader
from projections.documents.document import Document
from projections.operations.known_events import KnownEvents
from projections.queries.log_events import Seen, Wanted

FORMAT, FORMAT_VERSION = "mnemolog-export", 1
MAX_LINE_BYTES = 8 << 20
"""An event has up to 1 MiB in the log; in JSON a control character, which there is one byte, takes six."""
MAX_REJECTED = 100
"""Rejected lines that a report describes; it counts all of them."""
EVENTS_PER_APPEND, BYTES_PER_APPEND = 500, 4 << 20
"""What an import gathers before it appends."""
OVERLOADED_S = 60
"""How long an import stands back while others fill the queue of the log; less than a client waits for an answer."""

Settle: TypeAlias = Callable[[], Awaitable[object]]
Aware: TypeAlias = Annotated[datetime, Meta(tz=True)]


class Documents(Protocol):
    """Where the memories are that decide who may see an event."""

    async def get(self, wanted: Sequence[tuple[int, DocumentId]]) -> list[Document | None]:
        """The documents, in the order asked for; None for one that is not there."""
        ...


class Header(Struct, frozen=True, kw_only=True):
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


class Line(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
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
    data: Any


class _Read(Line, frozen=True, kw_only=True, forbid_unknown_fields=True):
    recorded_at: Aware
    data: Raw


class RejectedLine(Struct, frozen=True):
    """A line that was not imported, and why. Lines count from 1, the header's."""

    line: int
    code: str
    message: str


class Imported(Struct, frozen=True):
    """What became of an import: events that are new, and those the log had already.

    `rejected` has the first MAX_REJECTED of the `rejected_lines`. `complete`: the file ended as its last line says.
    """

    events: int
    duplicates: int
    rejected_lines: int
    rejected: list[RejectedLine]
    complete: bool


async def export_events(
    log: EventLog, documents: Documents, reader: Reader, project: str | None
) -> AsyncGenerator[bytes]:
    """The log as the reader may see it, up to where it is now, in chunks of whole lines.

    An operator gets everything. For others events are left out whose content they may not see. `project` None: all of
    the tenant.
    """
    heads = [await log.head(partition) for partition in range(log.partitions)]
    yield _encoded(Header(format=FORMAT, version=FORMAT_VERSION, tenant=reader.tenant, project=project))
    wanted = Wanted(reader, project=project)
    events = unreadable = 0
    for partition, head in enumerate(heads):
        async for rows in pages(log, partition, head):
            shown, no_events = await _shown(rows, partition, documents, wanted)
            unreadable += no_events
            events += len(shown)
            if shown:
                yield b"".join(shown)
    yield _encoded(End(end=True, events=events, unreadable=unreadable if reader.operator else 0))


class Importer:
    """Reads what an export wrote. Lines are imported or rejected one by one; what is there already stays as it is."""

    def __init__(
        self, commands: CommandHandler, tenant: str, known: KnownEvents | None = None, settle: Settle | None = None
    ) -> None:
        """What is `known` is not appended; without it that is so within the window of duplicates only. `settle` waits
        until what was acknowledged is projected; it may raise ProjectionBehind."""
        self._commands, self._tenant = commands, tenant
        self._known, self._settle = known, settle

    async def run(self, body: AsyncIterable[bytes]) -> Imported:
        """Append the events of an export, in their order.

        Raises CommandRejected when the header is missing, or of another version or tenant: nothing is stored then.
        Raises Overloaded or LogUnavailable on the way: repeating the whole import is safe.
        """
        progress = _Progress()
        lines = _lines(body)
        first = await anext(lines, None)
        read_header((first.text if first else None) or b"", self._tenant)
        await self._settled()
        end: End | None = None
        seen, slices = 0, Slices()
        async for number, text in lines:
            await slices.between()
            if end is not None:
                progress.reject(number, CommandRejected("this is behind the end of the export"))
            elif text is None:
                progress.reject(number, MalformedRequest(f"a line has at most {MAX_LINE_BYTES:,} bytes"))
                seen += 1
            elif (end := _end(text)) is None:
                if len(text) > INLINE_BYTES:
                    await aside(progress.gather, number, text, self._tenant)
                else:
                    progress.gather(number, text, self._tenant)
                seen += 1
                if progress.full:
                    await self._append(progress)
        await self._append(progress)
        return progress.report(complete=end is not None and end.events == seen)

    async def _settled(self) -> None:
        """Return once the documents tell of what was in the log when the import began."""
        for waited in range(OVERLOADED_S + 1):
            try:
                if self._settle is not None:
                    await self._settle()
                return
            except ProjectionBehind:
                if waited == OVERLOADED_S:
                    raise

    async def _append(self, progress: "_Progress") -> None:
        if self._known is not None:
            progress.pass_over(await self._known.known(progress.events))
        events = progress.events
        await self._append_events(progress)
        if self._known is not None:
            await self._known.note(events)

    async def _append_events(self, progress: "_Progress") -> None:
        for waited in range(OVERLOADED_S + 1):
            try:
                progress.stored(await self._commands.append_events(progress.events))
                return
            except Overloaded:
                if waited == OVERLOADED_S:
                    raise
            await asyncio.sleep(1)


def read_header(text: bytes, tenant: str | None = None) -> Header:
    """The header of an export; raises CommandRejected for anything else, and for another tenant's.

    Ids of documents are made from the tenant's name, and events name documents: under another name a forgotten memory
    would not be forgotten, and a condensed one would be void.
    """
    try:
        header = msgspec.json.decode(text, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        header = None
    if header is None or header.format != FORMAT:
        raise CommandRejected(
            f"Unsupported export version: the first line is no header of a {FORMAT}; is the file one?", "format"
        )
    if header.version != FORMAT_VERSION:
        raise CommandRejected(
            f"Unsupported export version {header.version}; this release reads version {FORMAT_VERSION}", "version"
        )
    if tenant is not None and header.tenant != tenant:
        raise CommandRejected(
            f"this is an export of tenant {header.tenant!r}, and the server's is {tenant!r}: "
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
        envelope = Envelope(
            event_id=line.event_id,
            type=line.type,
            version=data.VERSION,
            tenant=tenant,
            project=line.project,
            agent_id=line.agent_id,
            session_id=line.session_id,
            user_id=line.user_id,
            occurred_at=line.occurred_at if line.occurred_at is UNCLAIMED else line.occurred_at.astimezone(UTC),
            source=line.source,
            causation=line.causation,
            trace=line.trace,
            metadata=line.metadata,
            recorded_at=_at(to_ms(line.recorded_at)),
        )
    except OverflowError:
        raise CommandRejected("the time is outside the years 1 to 9999", "occurred_at") from None
    names = "keep" if isinstance(data, SubjectForgotten | EventErased) else "refuse"
    return Event(cleaned(envelope, names), cleaned(data, names))


class _Text(NamedTuple):
    """One line; `text` None when it is longer than a line may be."""

    number: int
    text: bytes | None


class _Progress:
    """What an import has gathered and what it has done so far."""

    def __init__(self) -> None:
        self._gathered: list[tuple[int, Event]] = []
        self._bytes = 0
        self._new = self._duplicates = self._rejected_lines = 0
        self._rejected: list[RejectedLine] = []

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
        except MnemologError as fault:
            self.reject(number, fault)

    def pass_over(self, known: Sequence[bool]) -> None:
        """Count those of the gathered events that the log has already, and let them go."""
        self._duplicates += sum(known)
        self._gathered = [one for one, is_known in zip(self._gathered, known, strict=True) if not is_known]

    def reject(self, number: int, fault: MnemologError) -> None:
        self._rejected_lines += 1
        if len(self._rejected) < MAX_REJECTED:
            field = fault.field if isinstance(fault, CommandRejected) else None
            self._rejected.append(RejectedLine(number, fault.code, f"{field}: {fault}" if field else str(fault)))

    def stored(self, outcome: BatchOutcome) -> None:
        self._new += outcome.accepted
        self._duplicates += outcome.duplicates
        for index, fault in outcome.rejected:
            self.reject(self._gathered[index][0], fault)
        self._gathered, self._bytes = [], 0

    def report(self, *, complete: bool) -> Imported:
        ordered = sorted(self._rejected, key=lambda one: one.line)
        return Imported(self._new, self._duplicates, self._rejected_lines, ordered, complete)


async def _shown(
    rows: Iterable[Stored], partition: int, documents: Documents, wanted: Wanted
) -> tuple[list[bytes], int]:
    """The lines of those of the entries that the reader may see, and how many are no events at all."""
    found = [(row, seen) for row in rows if wanted.matches((seen := Seen.of(partition, row)).event)]
    events = [(row, seen) for row, seen in found if seen.event.get("tenant") is not None]
    no_events = len(found) - len(events)
    if not wanted.reader.operator:
        # what an event is about is of its own stream, and so in its partition
        about = sorted({name for _, seen in events for name in seen.about()})
        stored = await documents.get([(partition, name) for name in about])
        known = {name: document for name, document in zip(about, stored, strict=True) if document is not None}
        events = [(row, seen) for row, seen in events if seen.shown(wanted.reader, known) is seen.event]
    return [_line(row, seen.event) for row, seen in events], no_events


def _line(row: Stored, stored: dict[str, Any]) -> bytes:
    """The line of an event: in the newest version, or as it is stored when this release does not know all of it."""
    try:
        event = decode(row.payload, row.position)
    except UnreadableEvent:
        return _line_as_stored(stored)
    unknown = stored.keys() - _STORED_FIELDS
    if unknown or (event.envelope.version == event.data.VERSION and _unknown_field(stored["data"], event.data)):
        return _line_as_stored(stored)
    return line_of(event)


def line_of(event: Recorded) -> bytes:
    """The line of an event, in the newest version of its type."""
    envelope = event.envelope
    line = Line(
        event_id=envelope.event_id,
        type=envelope.type,
        version=event.data.VERSION,
        tenant=envelope.tenant,
        project=envelope.project,
        agent_id=envelope.agent_id,
        session_id=envelope.session_id,
        user_id=envelope.user_id,
        occurred_at=envelope.occurred_at,
        recorded_at=_iso(event.recorded_ms),
        source=envelope.source,
        causation=envelope.causation,
        trace=envelope.trace,
        metadata=envelope.metadata,
        data=event.data,
    )
    return _encoded(line)


def _line_as_stored(stored: dict[str, Any]) -> bytes:
    """For a release that knows the event."""
    kept = {name: value for name, value in stored.items() if name != "position"}
    if isinstance(recorded_at := kept.get("recorded_at"), datetime):
        kept["recorded_at"] = _iso(to_ms(recorded_at))
    return _encoded(kept)


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _at(ms: int) -> datetime:
    """Exact, which `datetime.fromtimestamp` is not for times far away."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def _iso(ms: int) -> str:
    return _at(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


async def _lines(body: AsyncIterable[bytes]) -> AsyncIterator[_Text]:
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


def _joined(number: int, parts: Sequence[bytes], size: int, last: bytes) -> _Text | None:
    """A line made of its parts; None for a blank one."""
    if size + len(last) > MAX_LINE_BYTES:
        return _Text(number, None)
    text = b"".join((*parts, last)).strip()
    return _Text(number, text) if text else None


def _end(text: bytes) -> End | None:
    """The last line of an export; None for any other line."""
    if b'"end"' not in text[:64]:
        return None
    try:
        return msgspec.json.decode(text, type=End)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _check(line: _Read, tenant: str) -> None:
    if line.tenant != tenant:
        raise CommandRejected(f"the event is of tenant {line.tenant!r} and the export of {tenant!r}", "tenant")
    if not line.event_id:
        raise CommandRejected("the event has no id", "event_id")
    for field in ("event_id", "project", "session_id", "agent_id", "user_id"):
        if "\0" in getattr(line, field):
            raise CommandRejected("a name may not contain NUL", field)
    if to_ms(line.recorded_at) < 0:
        raise CommandRejected("no log recorded anything before 1970", "recorded_at")


def _data(line: _Read) -> EventData:
    cls = EVENT_TYPES.get(line.type)
    if cls is None:
        raise UnknownEventType(line.type, sorted(EVENT_TYPES))
    if line.version > cls.VERSION:
        raise NewerEventVersion(line.type, line.version, cls.VERSION)
    try:
        said = msgspec.json.decode(line.data, type=dict[str, Any])
        if line.version < cls.VERSION:
            said = dict(upcast(line.type, line.version, cls.VERSION, said, line.occurred_at))
        data = msgspec.convert(said, cls)
    except msgspec.ValidationError as error:
        fault = rejected(error)
        raise CommandRejected(fault.message, f"data.{fault.field}" if fault.field else "data") from None
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        raise CommandRejected(f"this is no {line.type} version {line.version}: {error!r}", "data") from None
    if unknown := _unknown_field(said, data):
        raise CommandRejected(f"this release knows no such field of {line.type}", f"data.{unknown}")
    return data


def _unknown_field(said: Any, typed: Any) -> str:
    """The path of the first thing said that the type has no field for; empty when there is none."""
    if isinstance(typed, Struct):
        for name, value in cast(dict[str, Any], said).items():
            if name not in typed.__struct_fields__:
                return name
            if inner := _unknown_field(value, getattr(typed, name)):
                return f"{name}.{inner}"
    elif isinstance(typed, list):
        items = cast(list[Any], typed)
        if items and isinstance(items[0], Struct):
            pairs = zip(cast(list[Any], said), items, strict=True)
            return next((inner for one, item in pairs if (inner := _unknown_field(one, item))), "")
    return ""


_decode_line = msgspec.json.Decoder(_Read).decode
_STORED_FIELDS = {*Line.__struct_fields__, "position"}
