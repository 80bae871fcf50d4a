"""Export of everything of a tenant or of one project: the log, as lines of JSON.

The first line is the header, the last one says how many events there are, and between them is one event a line:
partition by partition, in the order of the positions, which are left out.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct

from ingest.errors import UnreadableEvent
from ingest.events.envelope import UNCLAIMED, Recorded, decode
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog, Stored, pages
from ingest.platform.clock import to_ms
from projections.documents.access import Reader
from projections.documents.document import Document
from projections.queries.log_events import EventFilter, EventView

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
    """The path of the first stated field that the type does not have; empty if there is none."""
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
