"""The envelope: who reported the event, where and when; how it is written to the log (msgpack); and which stream an
event belongs to, the same for a command, a fold and an import. `ingest.nouns.registry` reads it.
"""

from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Struct

from ingest.log.position import ALTERED, Position, project_route, session_route
from ingest.platform.clock import to_ms

UNCLAIMED = datetime(1970, 1, 1, tzinfo=UTC)
Trust = Literal["user_stated", "agent_concluded", "tool_output", "imported", "external"]
"""Trust class of a text; see `projections.nouns.trust`."""


SESSION_TYPES = frozenset((
    "observation.recorded", "observation.compressed", "observation.quarantined",
    "session.started", "session.ended", "session.retired", "session.summarised",
))  # fmt: skip
"""Events in a session's stream; the others are in their project's stream."""


class EventData(Struct, frozen=True, kw_only=True):
    """Base of the data of an event, which names its type and version. `ingest.nouns.registry` lists all of them."""

    TYPE: ClassVar[str]
    VERSION: ClassVar[int] = 1

    @property
    def is_awaited(self) -> bool:
        """Whether the writer waits for what the fold decides: to apply the event or to refuse it."""
        return False

    def is_in_session(self, session_id: str) -> bool:
        """Whether the event is in a session's stream; `session_id` is its envelope's, empty if that names none."""
        return self.TYPE in SESSION_TYPES


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
    key: str = ""
    """The id of the key that wrote it; empty for the server's secret, and on a server without keys."""


def writer_of(envelope: Envelope) -> str:
    """Who counts as one writer: the key, whatever agents it names; without keys, the agent."""
    return envelope.key or envelope.agent_id


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


UNREADABLE = (
    msgspec.MsgspecError, KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError,
)  # fmt: skip
"""What decoding raises for foreign or damaged bytes."""
_encoder = msgspec.msgpack.Encoder()
_FIXMAP, _LARGEST_FIXMAP = 0x80, 15
"""The first byte of a map with up to 15 fields is 0x80 and their number; of a larger one 0xde, and two bytes follow."""


def encode(event: Event) -> bytes:
    """The stored bytes of an event: a map of what its envelope has, and behind that its data."""
    envelope = event.envelope
    if type(envelope) is not Envelope:  # one that was read, with the data that it had
        envelope = Envelope(**{name: getattr(envelope, name) for name in Envelope.__struct_fields__})
    fields = _encoder.encode(envelope)
    is_small = fields[0] <= _FIXMAP + _LARGEST_FIXMAP
    count = 1 + (fields[0] - _FIXMAP if is_small else fields[2])
    begin = bytes((_FIXMAP + count,)) if count <= _LARGEST_FIXMAP else bytes((0xDE, 0, count))
    return b"".join((begin, fields[1 if is_small else 3 :], b"\xa4data", _encoder.encode(event.data)))


def as_json_object(payload: bytes, position: Position) -> dict[str, Any]:
    """A stored event for people and API readers, whatever its type and version, with its position and recorded_at.

    Bytes that are not an event of any release, or have values that JSON lacks, give `unreadable` with the reason.
    """
    try:
        raw: dict[str, Any] = msgspec.msgpack.decode(payload, type=dict[str, Any])
        msgspec.convert(raw, _AnyRelease)
        msgspec.json.encode(raw)
    except UNREADABLE as error:
        why = "it was altered" if payload.startswith(ALTERED) else str(error)
        return {"position": str(position), "recorded_at": position.recorded_at, "unreadable": why}
    recorded_at = raw.pop("recorded_at", position.recorded_at)
    return {"position": str(position), "recorded_at": recorded_at, **_NAMED, **raw}


_NAMED = {"project": "", "agent_id": "", "session_id": "", "user_id": ""}
"""Fields that readers get even if the stored event omits them."""


def route_of(envelope: Envelope, data: EventData) -> str:
    """The routing key of an event: its session's, or its project's."""
    if data.is_in_session(envelope.session_id):
        return session_route(envelope.tenant, envelope.project, envelope.session_id)
    return project_route(envelope.tenant, envelope.project)
