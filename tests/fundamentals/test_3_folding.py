"""Folding: events become documents. Doing it twice changes nothing, so a crash or a repeat is harmless."""

from factories import decided, place

from ingest.commands.decide import Observe
from projections.documents.observations import Observation, observation_id
from projections.documents.sessions import Session, session_document_id
from projections.store.protocol import MemoryStore, project


async def test_folding_the_same_events_again_changes_nothing():
    """Two observations open their session and are counted once, however often they are delivered."""
    events = [
        decided(Observe(event_id="event-1", project="shop", session_id="monday", content="Tests are red"), place(1)),
        decided(Observe(event_id="event-2", project="shop", session_id="monday", content="Tests are green"), place(2)),
    ]
    store = MemoryStore()

    changes = await project(store, events)
    await store.save(changes, events[-1].position)

    red = store.documents[observation_id(events[0])]
    assert isinstance(red, Observation)
    assert red.content == "Tests are red"
    session = store.documents[session_document_id("default", "shop", "monday")]
    assert isinstance(session, Session)
    assert session.observation_count == 2
    assert await store.checkpoint() == events[-1].position

    again = await project(store, events)
    assert not again.documents
    assert not again.erased
