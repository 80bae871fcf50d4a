"""Forgetting: the document and the event's text are erased, and neither a repeat nor a replay restores them."""

from factories import decided, place

from ingest.commands.decide import ForgetSubject, Remember
from ingest.events.envelope import Recorded
from ingest.events.subject import EventErased
from ingest.ids import DocumentId
from projections.nouns.memory import memory_id
from projections.nouns.tombstone import Tombstone
from projections.store.protocol import MemoryStore, project

COMMAND = Remember(event_id="event-1", content="Her number is 555 0199")
NUMBER = decided(COMMAND, place(1))
FORGET = decided(ForgetSubject(event_id="event-2", kind="memory", subject=memory_id(NUMBER)), place(2))


async def fold_one_by_one(*events: Recorded) -> MemoryStore:
    store = MemoryStore()
    for event in events:
        await store.save(await project(store, [event]), event.position)
    return store


async def test_a_tombstone_replaces_the_document():
    store = await fold_one_by_one(NUMBER, FORGET)

    assert isinstance(store.documents[memory_id(NUMBER)], Tombstone)
    assert "555" not in repr(store.documents)


async def test_a_stub_replaces_the_event():
    """It keeps the position and the envelope, so that positions and counts stay valid, and no text."""
    store = await fold_one_by_one(NUMBER, FORGET)

    stub = store.erased[NUMBER.position]
    assert isinstance(stub.data, EventErased)
    assert "555" not in repr(stub)


async def test_a_repeat_does_not_restore_it():
    """A client that retries an old write is outside the dedup window, and the tombstone still recognizes the event."""
    repeat = decided(COMMAND, place(3))

    store = await fold_one_by_one(NUMBER, FORGET, repeat)

    assert isinstance(store.documents[memory_id(NUMBER)], Tombstone)
    assert "555" not in repr(store.erased[repeat.position])


async def test_a_replay_does_not_restore_it():
    """A rebuild reads the log as it is now, with the stub instead of the event, and ends with the same documents."""
    live = await fold_one_by_one(NUMBER, FORGET)
    log = [Recorded(NUMBER.position, *live.erased[NUMBER.position]), FORGET]

    rebuilt = await fold_one_by_one(*log)

    assert rebuilt.documents == live.documents


async def test_the_older_versions_go_with_the_newest():
    """A superseded memory says nearly the same, so forgetting the fact forgets every version of it."""
    old = decided(Remember(event_id="event-1", content="The nightly deploy runs at nine every evening"), place(1))
    new = decided(Remember(event_id="event-2", content="nightly deploy runs at NINE every evening."), place(2))
    names: list[str] = [memory_id(old), memory_id(new)]
    forget = decided(
        ForgetSubject(event_id="event-3", kind="memory", subject=memory_id(new), documents=names), place(3)
    )

    store = await fold_one_by_one(old, new, forget)

    assert all(isinstance(store.documents[DocumentId(name)], Tombstone) for name in names)
