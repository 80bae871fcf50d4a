"""Lessons, slots, actions and relations: flat documents that their events set, change and remove."""

from typing import cast

from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.events.memory import RelationLinked, RelationUnlinked
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.ids import DocumentId
from projections.documents import actions, lessons, relations, slots
from projections.documents.actions import Action
from projections.documents.lessons import Lesson, LessonEvent
from projections.documents.relations import Relation
from projections.documents.slots import Slot
from projections.folds.batch import FoldBatch, folds, mark_of, reading


def _lesson_subject(event: Recorded) -> str:
    match cast(LessonEvent, event.data):
        case LessonRecorded() as data:
            return lessons.lesson_id(event, data)
        case data:
            return data.lesson


@folds(
    LessonRecorded,
    LessonReinforced,
    LessonRevised,
    LessonTriggered,
    LessonRetired,
    reads=reading(mark_of, _lesson_subject),
)
def _lesson(batch: FoldBatch, event: Recorded) -> None:
    name = _lesson_subject(event)
    if batch.mark(event, name):
        known = batch.get(name)
        lesson = lessons.evolve(known if isinstance(known, Lesson) else None, event, cast(LessonEvent, event.data))
        if lesson is None:
            batch.void(event)
        else:
            batch.put(lesson)


SlotEvent = SlotSet | SlotAppended | SlotDeleted
RelationEvent = RelationLinked | RelationUnlinked


def _slot_id(event: Recorded) -> str:
    return slots.id_of(event, cast(SlotEvent, event.data))


@folds(SlotSet, SlotAppended, SlotDeleted, reads=reading(mark_of, _slot_id))
def _slot(batch: FoldBatch, event: Recorded) -> None:
    data = cast(SlotEvent, event.data)
    name = slots.id_of(event, data)
    if batch.mark(event, name):
        known = batch.get(name)
        _put(batch, name, slots.evolve(known if isinstance(known, Slot) else None, event, data))


@folds(ActionCreated, reads=reading(mark_of, actions.action_id))
def _action_created(batch: FoldBatch, event: Recorded) -> None:
    name = actions.action_id(event)
    if batch.mark(event, name):
        batch.put(actions.created(event, cast(ActionCreated, event.data)))


def _updated_action(event: Recorded) -> str:
    return cast(ActionUpdated, event.data).action


@folds(ActionUpdated, reads=reading(mark_of, _updated_action))
def _action_updated(batch: FoldBatch, event: Recorded) -> None:
    data = cast(ActionUpdated, event.data)
    if batch.mark(event, data.action):
        known = batch.get(data.action)
        if isinstance(known, Action) and known.project == event.envelope.project:
            batch.put(actions.updated(known, event, data))
        else:
            batch.void(event)


def _relation_id(event: Recorded) -> str:
    return relations.id_of(event, cast(RelationEvent, event.data))


@folds(RelationLinked, RelationUnlinked, reads=reading(mark_of, _relation_id))
def _relation(batch: FoldBatch, event: Recorded) -> None:
    data = cast(RelationEvent, event.data)
    name = relations.id_of(event, data)
    if batch.mark(event, name):
        known = batch.get(name)
        relation = known if isinstance(known, Relation) else None
        _put(batch, name, relations.linked(relation, event, data) if isinstance(data, RelationLinked) else None)


def _put(batch: FoldBatch, name: DocumentId, document: Slot | Relation | None) -> None:
    if document is None:
        batch.drop(name)
    else:
        batch.put(document)
