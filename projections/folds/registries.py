"""Slots, actions and relations: flat documents that their events set, change and remove."""

from typing import cast

from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.envelope import Recorded
from ingest.events.memory import RelationLinked, RelationUnlinked
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.ids import DocumentId
from projections.documents import actions, relations, slots
from projections.documents.actions import Action
from projections.documents.relations import Relation
from projections.documents.slots import Slot
from projections.folds.batch import Batch, folds, mark_of, reading

SlotEvent = SlotSet | SlotAppended | SlotDeleted
RelationEvent = RelationLinked | RelationUnlinked


def _slot_id(event: Recorded) -> str:
    return slots.id_of(event, cast(SlotEvent, event.data))


@folds(SlotSet, SlotAppended, SlotDeleted, reads=reading(mark_of, _slot_id))
def _slot(batch: Batch, event: Recorded) -> None:
    data = cast(SlotEvent, event.data)
    name = slots.id_of(event, data)
    if batch.mark(event, name):
        known = batch.get(name)
        _put(batch, name, slots.evolve(known if isinstance(known, Slot) else None, event, data))


@folds(ActionCreated, reads=reading(mark_of, actions.action_id))
def _action_created(batch: Batch, event: Recorded) -> None:
    name = actions.action_id(event)
    if batch.mark(event, name):
        batch.put(actions.created(event, cast(ActionCreated, event.data)))


def _updated_action(event: Recorded) -> str:
    return cast(ActionUpdated, event.data).action


@folds(ActionUpdated, reads=reading(mark_of, _updated_action))
def _action_updated(batch: Batch, event: Recorded) -> None:
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
def _relation(batch: Batch, event: Recorded) -> None:
    data = cast(RelationEvent, event.data)
    name = relations.id_of(event, data)
    if batch.mark(event, name):
        known = batch.get(name)
        relation = known if isinstance(known, Relation) else None
        _put(batch, name, relations.linked(relation, event, data) if isinstance(data, RelationLinked) else None)


def _put(batch: Batch, name: DocumentId, document: Slot | Relation | None) -> None:
    if document is None:
        batch.drop(name)
    else:
        batch.put(document)
