"""Time filters for documents and events: by event time, as stated by agents, and by recording time.

Intervals are half-open and in milliseconds since the epoch, so that one that begins where another ends lacks nothing
and has nothing twice. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from ingest.log.position import START, Position
from ingest.platform.clock import to_ms
from projections.nouns.action import Action
from projections.nouns.document import Document
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory
from projections.nouns.observation import Observation
from projections.nouns.relation import Relation
from projections.nouns.session import Commit, Session, Summary
from projections.nouns.slot import Slot
from projections.queries.documents import EVERYTHING, Within

_ORDERED = range(1, 10**14)
"""Milliseconds that listings by time have in their order: those before 1970 are all at 0, far later ones have more
digits."""
MAX_SEQ = 10**18 - 1
"""The greatest number that a position may have behind its milliseconds."""


class Interval(NamedTuple):
    """The times from `since_ms` up to, and without, `until_ms`; None is no bound."""

    since_ms: int | None = None
    until_ms: int | None = None

    @classmethod
    def of(cls, since: datetime | None, until: datetime | None) -> "Interval":
        """The interval between two times."""
        return cls(None if since is None else to_ms(since), None if until is None else to_ms(until))

    def has(self, ms: int | None) -> bool:
        """Whether a time is in it; of what has no time, whether every time is."""
        if ms is None:
            return self == Interval()
        return (self.since_ms is None or self.since_ms <= ms) and (self.until_ms is None or ms < self.until_ms)

    @property
    def start(self) -> Position:
        """The place in a partition behind which all events recorded in it are."""
        return START if not self.since_ms or self.since_ms < 0 else Position(self.since_ms - 1, MAX_SEQ)

    @property
    def low(self) -> bytes:
        """The bound, in a listing by this time, behind which all members of the interval are."""
        return b"-" if self.since_ms is None or self.since_ms not in _ORDERED else b"[%014d" % self.since_ms

    @property
    def high(self) -> bytes:
        """The bound ahead of which they are."""
        return b"+" if self.until_ms is None or self.until_ms not in _ORDERED else b"(%014d" % self.until_ms


class Times(NamedTuple):
    """What happened in one interval and was recorded in another."""

    happened: Interval = Interval()
    recorded: Interval = Interval()

    def has(self, happened_ms: int | None, recorded_ms: int | None) -> bool:
        """Whether both times are wanted."""
        return self.happened.has(happened_ms) and self.recorded.has(recorded_ms)

    def of_document(self, document: Document) -> bool:
        """Whether a document is of these times."""
        return self.has(*times_of(document))

    def of_event(self, event: Mapping[str, Any], position: Position) -> bool:
        """Whether an event is; one that cannot be read did not happen at any known time."""
        return self == ANY_TIME or self.has(_ms(event.get("occurred_at")), recorded_ms(event, position))

    def in_log_order(self) -> Within:
        """What of a listing in log order is wanted.

        An imported event is recorded ahead of its place in this log, never behind it: so the listing tells where to
        begin, not where to end.
        """
        return self._within(self.recorded.low, b"+")

    def by_event_time(self) -> Within:
        """The same of a listing in the order of event times."""
        return self._within(self.happened.low, self.happened.high)

    def by_recording_time(self) -> Within:
        """The same of a listing in the order of recording times."""
        return self._within(self.recorded.low, self.recorded.high)

    def _within(self, low: bytes, high: bytes) -> Within:
        return EVERYTHING if self == ANY_TIME else Within(low, high, self.of_document)


ANY_TIME = Times()


def times_of(document: Document) -> tuple[int | None, int | None]:
    """When what a document tells happened, and when that was recorded.

    For a session that is its last activity, for a slot its last write, for all others their first event. A slot without
    a write, and a document that is in no listing by time, has neither.
    """
    match document:
        case Observation() | Memory() | Summary():
            return to_ms(document.occurred_at), _first_recorded(to_ms(document.recorded_at), document.position)
        case Lesson():
            return document.occurred_ms, _first_recorded(document.recorded_ms, document.position)
        case Action() | Relation():
            return document.occurred_ms, _first_recorded(document.created_ms, document.position)
        case Commit():
            return document.occurred_ms, document.linked_ms
        case Session():
            return document.updated_ms, document.seen_ms
        case Slot() if document.updated_ms:
            return document.occurred_ms, document.updated_ms
        case _:
            return None, None


def recorded_ms(event: Mapping[str, Any], position: Position) -> int:
    """When a log first recorded an event."""
    stated = _ms(event.get("recorded_at"))
    return position.ms if stated is None else min(stated, position.ms)


def _first_recorded(ms: int, position: str) -> int:
    # an import may name a time by a clock that is ahead of this log's; it was recorded by then all the same
    return min(ms, Position.parse(position).ms)


def _ms(value: Any) -> int | None:
    return to_ms(value) if isinstance(value, datetime) else None
