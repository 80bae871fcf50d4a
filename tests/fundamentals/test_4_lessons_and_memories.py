"""Statements change: a lesson gains confidence and loses it, a memory is superseded. Nothing is overwritten."""

from datetime import timedelta

from factories import NOW, decided, place

from ingest.commands.decide import RecordLesson, Remember
from ingest.events.envelope import Recorded
from projections.nouns.lesson import Lesson, decayed, fades_at, is_retired, lesson_id
from projections.nouns.memory import Memory, memory_id
from projections.store.protocol import MemoryStore, project


async def fold_one_by_one(*events: Recorded) -> MemoryStore:
    store = MemoryStore()
    for event in events:
        await store.save(await project(store, [event]), event.position)
    return store


def learned(n: int, content: str = "Sum first, round last") -> Recorded:
    return decided(RecordLesson(event_id=f"event-{n}", project="shop", content=content, confidence=0.5), place(n))


def remembered(n: int, content: str) -> Recorded:
    return decided(Remember(event_id=f"event-{n}", content=content), place(n))


async def test_a_lesson_that_is_stated_again_is_reinforced():
    store = await fold_one_by_one(learned(1), learned(2, "SUM FIRST, round last"))

    [lesson] = [document for document in store.documents.values() if isinstance(document, Lesson)]
    assert lesson.id == lesson_id(learned(1), learned(1).data)  # pyright: ignore[reportArgumentType]
    assert lesson.reinforcements == 1
    assert lesson.confidence == 0.55  # a tenth of what is missing to 1


def test_a_lesson_fades_by_the_week():
    """Nothing is written for it: a reader computes the confidence from the last reinforcement and the time."""
    assert decayed(0.5, rate=0.05, weeks=0.9) == 0.5
    assert decayed(0.5, rate=0.05, weeks=4) == 0.3
    assert fades_at(0.5, rate=0.05, last=NOW) == NOW + timedelta(weeks=8)


def test_only_a_lesson_that_was_never_confirmed_is_retired():
    assert is_retired(0.1, reinforcements=0)
    assert not is_retired(0.1, reinforcements=1)
    assert not is_retired(0.2, reinforcements=0)


async def test_a_restatement_supersedes_the_older_memory():
    """They differ in case, punctuation and articles: the new memory is version 2, and the old one names it."""
    nine = remembered(1, "The nightly deploy runs at nine every evening")
    again = remembered(2, "nightly deploy runs at NINE every evening.")

    store = await fold_one_by_one(nine, again)

    old, new = store.documents[memory_id(nine)], store.documents[memory_id(again)]
    assert isinstance(old, Memory)
    assert isinstance(new, Memory)
    assert (new.version, new.parent_id, new.is_latest) == (2, old.id, True)
    assert (old.is_latest, old.superseded_by) == (False, new.id)
    assert old.content == "The nightly deploy runs at nine every evening"


async def test_another_number_is_another_fact():
    """One word differs, and it is the one that counts: both memories are kept."""
    nine = remembered(1, "The nightly deploy runs at nine every evening")
    ten = remembered(2, "The nightly deploy runs at ten every evening")

    store = await fold_one_by_one(nine, ten)

    for event in (nine, ten):
        memory = store.documents[memory_id(event)]
        assert isinstance(memory, Memory)
        assert (memory.version, memory.is_latest) == (1, True)
