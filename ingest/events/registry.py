"""Every event type there is. A type name is never reused or renamed; a new shape is a new version and an upcaster."""

from typing import TypeAlias

from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.events.memory import MemoryCondensed, MemoryRecorded, MemoryRevised, MemoryVisibilityChanged
from ingest.events.observation import ObservationCompressed, ObservationRecorded
from ingest.events.relation import RelationLinked, RelationUnlinked
from ingest.events.session import SessionCommitted, SessionEnded, SessionRetired, SessionStarted, SessionSummarised
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.events.subject import EventErased, SubjectForgotten

EventData: TypeAlias = (
    SessionStarted
    | SessionEnded
    | SessionCommitted
    | SessionSummarised
    | SessionRetired
    | ObservationRecorded
    | ObservationCompressed
    | MemoryRecorded
    | MemoryRevised
    | MemoryCondensed
    | MemoryVisibilityChanged
    | LessonRecorded
    | LessonReinforced
    | LessonRevised
    | LessonTriggered
    | LessonRetired
    | SlotSet
    | SlotAppended
    | SlotDeleted
    | ActionCreated
    | ActionUpdated
    | RelationLinked
    | RelationUnlinked
    | SubjectForgotten
    | EventErased
)

EVENT_TYPES: dict[str, type[EventData]] = {cls.TYPE: cls for cls in EventData.__args__}
