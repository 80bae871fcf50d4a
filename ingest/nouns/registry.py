"""All event types, how stored events are read, and the upcasters: pure steps from one stored version of an event to the
next.

A type name is never reused or renamed; a new shape is a new version and an upcaster, applied before anything folds the
event. Stored samples of every version are in tests/compat/data and must stay readable forever.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from msgspec import Raw

from ingest.errors import AlteredEntry, NewerEventVersion, UnknownEventType, UnreadableEvent
from ingest.events.envelope import UNREADABLE, Envelope, EventData, Recorded
from ingest.events.subject import EventErased, MemoryQuarantined, ObservationQuarantined, SubjectForgotten
from ingest.log.position import ALTERED, Position
from ingest.nouns.action import (
    ActionClaimed,
    ActionCreated,
    ActionExpired,
    ActionReleased,
    ActionRenewed,
    ActionUpdated,
)  # fmt: skip
from ingest.nouns.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.nouns.memory import MemoryCondensed, MemoryConfirmed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.nouns.observation import ObservationCompressed, ObservationRecorded
from ingest.nouns.relation import RelationLinked, RelationUnlinked
from ingest.nouns.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotSet

EVENT_TYPES: Mapping[str, type[EventData]] = {cls.TYPE: cls for cls in (
    SessionStarted, SessionEnded, SessionCommitted, SessionSummarised, SessionRetired,
    ObservationRecorded, ObservationCompressed,
    MemoryRecorded, MemoryRevised, MemoryCondensed, MemoryVisibilityChanged, MemoryConfirmed,
    LessonRecorded, LessonReinforced, LessonRevised, LessonTriggered, LessonRetired,
    SlotSet, SlotAppended, SlotDeleted,
    ActionCreated, ActionUpdated, ActionClaimed, ActionRenewed, ActionReleased, ActionExpired,
    RelationLinked, RelationUnlinked,
    SubjectForgotten, EventErased, MemoryQuarantined, ObservationQuarantined,
)}  # fmt: skip


Step = Callable[[Mapping[str, Any], datetime], dict[str, Any]]
"""Maps the data of one old version, with the envelope's `occurred_at`, to new data."""


def memory_recorded_v1_to_v2(old: Mapping[str, Any], occurred_at: datetime) -> dict[str, Any]:
    """`ttl_days` becomes `forget_after`, counted from when the memory says it happened."""
    new = {name: value for name, value in old.items() if name != "ttl_days"}
    if (days := old.get("ttl_days")) is not None:
        new["forget_after"] = occurred_at + timedelta(days=days)
    return new


def slot_set_v1_to_v2(old: Mapping[str, Any], occurred_at: datetime) -> dict[str, Any]:
    """What version 1 left out was a default, not "as it was"."""
    return {"size_limit": 2000, "description": "", "pinned": True, **old}


UPCASTERS: Mapping[tuple[str, int], Step] = {
    ("memory.recorded", 1): memory_recorded_v1_to_v2,
    ("slot.set", 1): slot_set_v1_to_v2,
}


def upcast(
    event_type: str, version: int, newest: int, data: Mapping[str, Any], occurred_at: datetime
) -> Mapping[str, Any]:
    """`data` in the shape of version `newest`; raises KeyError when a step is missing."""
    for step in range(version, newest):
        data = UPCASTERS[event_type, step](data, occurred_at)
    return data


class _ReadEnvelope(Envelope, frozen=True, kw_only=True):
    data: Raw


_decode_envelope = msgspec.msgpack.Decoder(_ReadEnvelope).decode
_decode_data = {name: msgspec.msgpack.Decoder(cls).decode for name, cls in EVENT_TYPES.items()}


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
    except UNREADABLE as error:
        if payload.startswith(ALTERED):
            raise AlteredEntry(str(position)) from None
        raise UnreadableEvent(f"entry {position} is not a readable event: {error!r}") from error
