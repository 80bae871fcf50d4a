"""Folds of a project's events: memories in their versions; lessons, slots, actions and relations, which are flat.

A memory is recorded, superseded by one that states the same, revised, condensed, and shared with more or fewer agents.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ingest.events.action import ActionCreated, ActionUpdated
from ingest.events.envelope import Recorded
from ingest.events.lesson import LessonRecorded, LessonReinforced, LessonRetired, LessonRevised, LessonTriggered
from ingest.events.memory import (
    MemoryCondensed,
    MemoryConfirmed,
    MemoryRecorded,
    MemoryRevised,
    MemoryVisibilityChanged,
    RelationLinked,
    RelationUnlinked,
)
from ingest.events.slot import SlotAppended, SlotDeleted, SlotSet
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from projections.nouns import action as actions
from projections.nouns import lesson as lessons
from projections.nouns import memory as memories
from projections.nouns import relation as relations
from projections.nouns import slot as slots
from projections.nouns.action import Action
from projections.nouns.batch import FoldBatch, Loaded, fold_one, folds
from projections.nouns.lesson import Lesson
from projections.nouns.memory import Memory, probe_listings, resembling
from projections.nouns.relation import Relation
from projections.nouns.slot import Slot
from projections.nouns.tombstone import Tombstone, inheritance


def _similar_listings(event: Recorded, data: MemoryRecorded) -> set[str]:
    names = {inheritance(memories.memory_id(event))}
    if not data.keep_duplicates:
        names.update(_probes(memories.memory(event, data)))
    return names


def _probes(memory: Memory) -> list[str]:
    return probe_listings(memory, by_words=memories.is_by_words(memory))


def _may_be_similar(event: Recorded, data: MemoryRecorded) -> Callable[[str], bool]:
    # a member of a listing of similar memories has a sketch, by which most memories are skipped without reading them
    resembles = resembling(data.content)
    return lambda member: "|" not in member or resembles(member)


@folds(
    MemoryRecorded,
    reads=lambda event, data: {memories.memory_id(event)},
    listings=_similar_listings,
    wants=_may_be_similar,
)
def _recorded(batch: FoldBatch, event: Recorded, data: MemoryRecorded) -> None:
    new = memories.memory(event, data)
    if _is_repeat(batch, event, new):
        return
    tombstones = (document for document in batch.members(inheritance(new.id)) if isinstance(document, Tombstone))
    forgotten = [tombstone for tombstone in tombstones if tombstone.successor == new.id]
    if forgotten:
        new = memories.inheriting(new, forgotten[0].id, forgotten[0].memory_version)
        batch.put(replace(forgotten[0], superseded_by=new.id, successor=""))
    elif not new.keep_duplicates and (old := memories.predecessor(new, _similar(batch, event, data, new))):
        new, retired = memories.superseding(new, old)
        batch.put(retired)
    batch.put(replace(new, separate_parent=bool(new.parent_id)))


def _later_versions(event: Recorded, data: MemoryRevised, loaded: Loaded) -> set[str]:
    """The versions that begin with the revised memory, as far as they are loaded, and the one after them."""
    name, names = data.memory, set[str]()
    while (current := loaded.get(DocumentId(name))) is not None:
        if not isinstance(current, Memory | Tombstone) or not current.superseded_by or current.superseded_by in names:
            break
        name = current.superseded_by
        names.add(name)
    return names


@folds(MemoryRevised, reads=lambda event, data: {memories.memory_id(event), data.memory}, follows=_later_versions)
def _revised(batch: FoldBatch, event: Recorded, data: MemoryRevised) -> None:
    """The new version follows the newest there is, so that two revisions at once do not fork."""
    new = memories.memory(event, data)
    if _is_repeat(batch, event, new):
        return
    match newest := _newest(batch, data.memory):
        case Memory():
            new, retired = memories.superseding(new, newest)
            batch.put(retired)
        case Tombstone():
            new = memories.inheriting(new, newest.id, newest.memory_version)
            batch.put(replace(newest, superseded_by=new.id, successor=""))
        case None:
            pass
    # a version without an author, as a person writes one in the viewer, goes with whatever it revises
    others = newest is not None and newest.author != "" and new.author not in ("", newest.author)
    batch.put(replace(new, separate_parent=others))


@folds(MemoryCondensed, reads=lambda event, data: {memories.memory_id(event), *data.originals})
def _condensed(batch: FoldBatch, event: Recorded, data: MemoryCondensed) -> None:
    """It replaces memories that all are current; else it is void, and erased: it may quote what is forgotten."""
    new = memories.condensed(event, data)
    if _is_repeat(batch, event, new):
        return
    originals = [batch.get(name) for name in data.originals]
    current = [original for original in originals if isinstance(original, Memory) and original.is_latest]
    if len(current) < len(data.originals):
        batch.erase(str(event.position), EventErased(was=event.data.TYPE, document=new.id), event.envelope)
        batch.put(Tombstone(id=new.id))
        return
    for original in current:
        batch.put(memories.retired(original, new.id, event.recorded_at))
    batch.put(new)


def _is_repeat(batch: FoldBatch, event: Recorded, new: Memory) -> bool:
    """Whether the event's memory, or its tombstone, is there already."""
    match batch.get(new.id):
        case Memory(position=first) | Tombstone(position=first):
            batch.erase_repeat(event, first, new.id)
            return True
        case _:
            return False


def _similar(batch: FoldBatch, event: Recorded, data: MemoryRecorded, memory: Memory) -> list[Memory]:
    """Every memory that shares a key with this one and may be alike enough."""
    wants = _may_be_similar(event, data)
    documents = {document.id: document for listing in _probes(memory) for document in batch.members(listing, wants)}
    return [document for document in documents.values() if isinstance(document, Memory)]


def _newest(batch: FoldBatch, name: str) -> Memory | Tombstone | None:
    """The last of the versions that begin with `name`."""
    newest = batch.get(name)
    while isinstance(newest, Memory | Tombstone) and newest.superseded_by:
        successor = batch.get(newest.superseded_by)
        if not isinstance(successor, Memory | Tombstone):
            break
        newest = successor
    return newest if isinstance(newest, Memory | Tombstone) else None


fold_one(
    MemoryVisibilityChanged,
    MemoryConfirmed,
    of=Memory,
    subject=lambda event, data: data.memory,
    evolve=memories.evolve,
)
fold_one(
    LessonRecorded,
    LessonReinforced,
    LessonRevised,
    LessonTriggered,
    LessonRetired,
    of=Lesson,
    subject=lessons.lesson_id,
    evolve=lessons.evolve,
)
fold_one(SlotSet, SlotAppended, SlotDeleted, of=Slot, subject=slots.id_of, evolve=slots.evolve, drops=True)
fold_one(ActionCreated, of=Action, subject=lambda event, data: actions.action_id(event), evolve=actions.created)
fold_one(ActionUpdated, of=Action, subject=lambda event, data: data.action, evolve=actions.updated)
fold_one(RelationLinked, RelationUnlinked, of=Relation, subject=relations.id_of, evolve=relations.evolve, drops=True)
