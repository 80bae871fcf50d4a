"""The envelope: who reported the event, where and when; how it is written to and read from the log (msgpack); and which
stream an event belongs to, the same for a command, a fold and an import.
"""

from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct

from ingest.errors import AlteredEntry, NewerEventVersion, UnknownEventType, UnreadableEvent
from ingest.events.registry import EVENT_TYPES, EventData, upcast
from ingest.events.session import (
    ObservationCompressed,
    ObservationRecorded,
    SessionEnded,
    SessionRetired,
    SessionStarted,
    SessionSummarised,
)
from ingest.events.subject import EventErased, ObservationQuarantined, SubjectForgotten
from ingest.log.position import ALTERED, Position, project_route, session_route
from ingest.platform.clock import to_ms

UNCLAIMED = datetime(1970, 1, 1, tzinfo=UTC)
Trust = Literal["user_stated", "agent_concluded", "tool_output", "imported", "external"]
"""Trust class of a text; see `projections.nouns.trust`."""


class Envelope(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every event carries beside its data. `occurred_at` is the caller's claim; the position says when it was
    recorded, unless `recorded_at` does: an event that was imported keeps the time of its first log. Unknown fields are
    ignored, so older readers survive a rolling deploy."""

    event_id: str
    type: str
    version: int
    tenant: str
    project: str = ""
    agent_id: str = ""
    session_id: str = ""
    user_id: str = ""
    occurred_at: datetime = UNCLAIMED
    source: str = "native"
    causation: str = ""
    trace: str = ""
    metadata: dict[str, str] = {}
    recorded_at: datetime | None = None
    trust: Trust | Literal[""] = ""
    """The trust class that the caller claims."""


class _ReadEnvelope(Envelope, frozen=True, kw_only=True):
    data: Raw


class _AnyRelease(Struct, frozen=True, kw_only=True):
    """What readers rely on in the event of any release."""

    event_id: str
    type: str
    tenant: str
    project: str = ""
    agent_id: str = ""
    session_id: str = ""
    user_id: str = ""
    data: dict[str, Any]


class Event(NamedTuple):
    """An event: its envelope and its typed data."""

    envelope: Envelope
    data: EventData


class Recorded(NamedTuple):
    """An event that has its place in the log."""

    position: Position
    envelope: Envelope
    data: EventData

    @property
    def recorded_at(self) -> datetime:
        """When a log first recorded the event."""
        return self.envelope.recorded_at or self.position.recorded_at

    @property
    def recorded_ms(self) -> int:
        """`recorded_at` in milliseconds since the epoch."""
        return self.position.ms if self.envelope.recorded_at is None else to_ms(self.envelope.recorded_at)


_UNREADABLE = (
    msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError,
)  # fmt: skip
"""What decoding raises for foreign or damaged bytes."""
_encoder = msgspec.msgpack.Encoder()
_LARGEST_FIXMAP, _MAP_OF_16 = 0x8F, b"\xde\x00\x10"
"""The first byte of a map is 0x80 and its size up to 15; an envelope has 15 fields."""
_decode_envelope = msgspec.msgpack.Decoder(_ReadEnvelope).decode
_decode_data = {name: msgspec.msgpack.Decoder(cls).decode for name, cls in EVENT_TYPES.items()}


def encode(event: Event) -> bytes:
    """The stored bytes of an event: a map of what its envelope has, and behind that its data."""
    envelope = event.envelope
    if type(envelope) is not Envelope:  # one that was read, with the data that it had
        envelope = Envelope(**{name: getattr(envelope, name) for name in Envelope.__struct_fields__})
    fields = _encoder.encode(envelope)
    begin = bytes((fields[0] + 1,)) if fields[0] < _LARGEST_FIXMAP else _MAP_OF_16
    return b"".join((begin, fields[1:], b"\xa4data", _encoder.encode(event.data)))


def decode(payload: bytes, position: Position) -> Recorded:
    """The event in stored bytes, upcast to the newest version.

    Raises UnknownEventType, NewerEventVersion, AlteredEntry, or UnreadableEvent for bytes that are no event at all.
    """
    try:
        read = _decode_envelope(payload)
        cls = EVENT_TYPES.get(read.type)
        if cls is None:
            raise UnknownEventType(read.type, sorted(EVENT_TYPES))
        if read.version > cls.VERSION:
            raise NewerEventVersion(read.type, read.version, cls.VERSION)
        if read.version == cls.VERSION:
            return Recorded(position, read, _decode_data[read.type](read.data))
        old: dict[str, Any] = msgspec.msgpack.decode(read.data)
        new = upcast(read.type, read.version, cls.VERSION, old, read.occurred_at)
        return Recorded(position, read, msgspec.convert(new, cls))
    except _UNREADABLE as error:
        if payload.startswith(ALTERED):
            raise AlteredEntry(str(position)) from None
        raise UnreadableEvent(f"entry {position} is not a readable event: {error!r}") from error


def as_json_object(payload: bytes, position: Position) -> dict[str, Any]:
    """A stored event for people and API readers, whatever its type and version, with its position and recorded_at.

    Bytes that are not an event of any release, or have values that JSON lacks, give `unreadable` with the reason.
    """
    try:
        raw: dict[str, Any] = msgspec.msgpack.decode(payload, type=dict[str, Any])
        msgspec.convert(raw, _AnyRelease)
        msgspec.json.encode(raw)
    except _UNREADABLE as error:
        why = "it was altered" if payload.startswith(ALTERED) else str(error)
        return {"position": str(position), "recorded_at": position.recorded_at, "unreadable": why}
    recorded_at = raw.pop("recorded_at", position.recorded_at)
    return {"position": str(position), "recorded_at": recorded_at, **_NAMED, **raw}


_NAMED = {"project": "", "agent_id": "", "session_id": "", "user_id": ""}
"""Fields that readers get even if the stored event omits them."""


SESSION_TYPES = frozenset(
    item.TYPE
    for item in (
        ObservationRecorded,
        ObservationCompressed,
        SessionStarted,
        SessionEnded,
        SessionRetired,
        SessionSummarised,
        ObservationQuarantined,
    )
)
"""Events in a session's stream; the others are in their project's stream."""


def route_of(envelope: Envelope, data: EventData) -> str:
    """The routing key of an event.

    A tombstone goes where what it forgets is: to the session that its envelope names, else to the project.
    """
    match data:
        case SubjectForgotten():
            in_session = bool(envelope.session_id)
        case EventErased(was=was):
            in_session = was in SESSION_TYPES
        case _:
            in_session = data.TYPE in SESSION_TYPES
    if in_session:
        return session_route(envelope.tenant, envelope.project, envelope.session_id)
    return project_route(envelope.tenant, envelope.project)
