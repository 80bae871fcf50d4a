"""Changes that expect a version: the fold applies the first of those that expect the same one."""

from collections.abc import Callable
from typing import Any

import pytest
from factories import forgotten, learned, remembered, said
from folding import contents, folded, one_by_one, replayed

from ingest.events.envelope import EventData, Recorded
from ingest.nouns.action import ActionCreated, ActionUpdated
from ingest.nouns.lesson import LessonRevised
from ingest.nouns.memory import MemoryRevised
from ingest.nouns.slot import SlotAppended, SlotDeleted, SlotSet
from projections.nouns.action import action_id
from projections.nouns.batch import mark_of
from projections.nouns.lesson import lesson_id
from projections.nouns.memory import Memory, memory_id
from projections.nouns.slot import id_of
from projections.nouns.tombstone import Outcome, SupersededEvent
from projections.store.protocol import MemoryStore

ACTION, LESSON, MEMORY = said(0, ActionCreated(title="Dig")), learned(0), remembered(0, "The pool has 20 connections.")
SLOT = said(0, SlotSet(label="notes", content="start"))
LESSON_ID = str(lesson_id(LESSON, LESSON.data))  # type: ignore[arg-type]
Change = Callable[[int], EventData]


def revised(version: int) -> EventData:
    return MemoryRevised(memory=str(memory_id(MEMORY)), content=f"It has {version}.", expected_version=version)


CHANGES: dict[str, tuple[Recorded, Change]] = {
    "action": (ACTION, lambda v: ActionUpdated(action=str(action_id(ACTION)), priority=v, expected_version=v)),
    "lesson": (
        LESSON,
        lambda v: LessonRevised(lesson=LESSON_ID, title="t", expected_version=v),
    ),  # type: ignore[arg-type]
    "memory": (MEMORY, revised),
    "slot": (SLOT, lambda v: SlotSet(label="notes", content=f"{v}", expected_version=v)),
    "line of a slot": (SLOT, lambda v: SlotAppended(label="notes", content=f"{v}", expected_version=v)),
}


def outcome(store: MemoryStore, event: Recorded) -> Outcome:
    made = store.documents.get(memory_id(event))
    if isinstance(made, Memory):  # an applied revision leaves no mark
        assert mark_of(event) not in store.documents
        return Outcome(version=made.version)
    mark = store.documents[mark_of(event)]
    assert isinstance(mark, SupersededEvent)
    assert mark.outcome
    return mark.outcome


@pytest.mark.parametrize(("begin", "change"), CHANGES.values(), ids=CHANGES)
def test_first_change_of_a_version_applies_and_the_second_is_told_who_was_first(begin: Recorded, change: Change):
    ada, bob, again = (
        said(n, change(v), agent_id=agent) for n, v, agent in ((1, 1, "ada"), (2, 1, "bob"), (3, 2, "bob"))
    )
    events = [begin, ada, bob, again]
    store = folded(events)
    assert outcome(store, ada) == Outcome(version=2)
    assert outcome(store, bob) == Outcome(refused="version_conflict", version=2, changed_by="ada")
    assert outcome(store, again) == Outcome(version=3)
    assert contents(one_by_one(events)) == contents(store) == contents(replayed(events, store))


@pytest.mark.parametrize(("begin", "change"), CHANGES.values(), ids=CHANGES)
def test_refused_change_stays_refused_when_it_is_repeated(begin: Recorded, change: Change):
    refused = said(1, change(2))
    events = [begin, refused, said(2, change(1)), refused._replace(position=said(3, change(1)).position)]
    store = one_by_one(events)
    assert outcome(store, refused).refused == "version_conflict"
    assert contents(replayed(events, store)) == contents(store)


@pytest.mark.parametrize(("begin", "change"), CHANGES.values(), ids=CHANGES)
def test_change_without_an_expectation_applies_and_its_mark_has_no_outcome(begin: Recorded, change: Any):
    data = change(None)
    event = said(1, data)
    store = one_by_one([begin, event])
    mark = store.documents.get(mark_of(event))
    assert mark is None or (isinstance(mark, SupersededEvent) and mark.outcome is None)


def test_slot_expected_at_version_0_is_created_once_and_deleted_only_at_its_version():
    first, second = (said(n, SlotSet(label="notes", content=f"{n}", expected_version=0)) for n in (1, 2))
    early, late = (said(2 + n, SlotDeleted(label="notes", expected_version=n)) for n in (2, 1))
    store = one_by_one([first, second, early, late])
    assert outcome(store, second).refused == "version_conflict"
    assert outcome(store, early) == Outcome(refused="version_conflict", version=1, changed_by="ada")
    assert outcome(store, late) == Outcome(version=0)
    assert id_of(first, first.data) not in store.documents  # type: ignore[arg-type]


def test_refused_revision_leaves_no_memory_and_the_current_version_alone():
    refused = said(1, revised(7), agent_id="bob")
    store = one_by_one([MEMORY, refused])
    assert memory_id(refused) not in store.documents
    memory = store.documents[memory_id(MEMORY)]
    assert isinstance(memory, Memory)
    assert memory.is_latest
    assert memory.version == 1


def test_applied_revision_outlives_the_version_before_it_and_a_refused_one_is_erased_with_it():
    applied, refused = said(1, revised(1)), said(2, revised(7))
    events = [MEMORY, applied, refused, forgotten(3, "memory", str(memory_id(MEMORY)))]
    store = one_by_one(events)
    kept = store.documents[memory_id(applied)]
    assert isinstance(kept, Memory)
    assert kept.version == 2
    assert set(store.erased) == {MEMORY.position, refused.position}
    assert contents(replayed(events, store)) == contents(store)


def test_refused_revision_names_the_same_agent_in_a_replay_after_the_newest_version_is_forgotten():
    applied, refused = said(1, revised(1)), said(2, revised(1), agent_id="bob")
    events = [MEMORY, applied, refused, forgotten(3, "memory", str(memory_id(applied)))]
    store = one_by_one(events)
    assert outcome(store, refused).changed_by == "ada"
    assert contents(replayed(events, store)) == contents(store)


def test_revision_of_a_deleted_memory_is_refused():
    late = said(2, revised(1))
    events = [MEMORY, forgotten(1, "memory", str(memory_id(MEMORY))), late]
    store = one_by_one(events)
    assert outcome(store, late).refused == "version_conflict"
    assert contents(replayed(events, store)) == contents(store)


def test_refused_revision_is_erased_with_its_user():
    refused = said(2, revised(7), user_id="u7")
    erasing = forgotten(3, "user", "digest", documents=[mark_of(refused)])
    store = one_by_one([MEMORY, refused, erasing])
    assert refused.position in store.erased
    mark = store.documents[mark_of(refused)]
    assert isinstance(mark, SupersededEvent)
    assert (mark.user_id, mark.outcome) == ("", None)
