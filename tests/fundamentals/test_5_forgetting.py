"""Forgetting: the document goes, the log keeps a stub, and nothing brings back what was said."""

from factories import decided, place

from ingest.commands.decide import ForgetSubject, Remember
from ingest.events.subject import EventErased
from projections.documents.memories import memory_id
from projections.documents.tombstones import Tombstone
from projections.store.protocol import MemoryStore, project


async def test_forgetting_leaves_a_tombstone_and_a_stub():
    """The tombstone holds the place of the document, the stub that of the event; neither says what was said."""
    store = MemoryStore()
    command = Remember(event_id="event-1", content="Her number is 555 0199")
    said = decided(command, place(1))
    name = memory_id(said)
    forget = decided(ForgetSubject(event_id="event-2", kind="memory", subject=name), place(2))

    for event in (said, forget):
        await store.save(await project(store, [event]), event.position)

    assert isinstance(store.documents[name], Tombstone)
    stub = store.erased[said.position]
    assert isinstance(stub.data, EventErased)
    assert "555" not in repr(stub)

    repeat = decided(command, place(3))
    await store.save(await project(store, [repeat]), repeat.position)
    assert isinstance(store.documents[name], Tombstone)
    assert "555" not in repr(store.erased[repeat.position])
