"""Folding: events become documents. Folding them again changes nothing, so a crash or a repeat does no harm."""

from factories import decided, place

from ingest.commands.decide import Observe, TrackSession
from ingest.events.envelope import Recorded
from projections.nouns.observation import Observation, observation_id
from projections.nouns.session import Session, session_document_id
from projections.store.protocol import MemoryStore, project

MONDAY = session_document_id("default", "shop", "monday")


def observed(n: int, content: str) -> Recorded:
    return decided(Observe(event_id=f"event-{n}", project="shop", session_id="monday", content=content), place(n))


async def fold(store: MemoryStore, *events: Recorded) -> None:
    """Fold one batch and save it with its checkpoint, as a worker does."""
    await store.save(await project(store, events), events[-1].position)


async def test_an_observation_opens_its_session():
    store, red, green = MemoryStore(), observed(1, "Tests are red"), observed(2, "Tests are green")

    await fold(store, red, green)

    observation, session = store.documents[observation_id(red)], store.documents[MONDAY]
    assert isinstance(observation, Observation)
    assert isinstance(session, Session)
    assert observation.content == "Tests are red"
    assert session.observation_count == 2


async def test_the_checkpoint_is_saved_with_the_documents():
    """A worker that was killed continues at the checkpoint: what it covers is saved, and nothing else is."""
    store, red, green = MemoryStore(), observed(1, "Tests are red"), observed(2, "Tests are green")

    await fold(store, red)
    await project(store, [green])  # folded and not saved: the worker is killed here

    assert await store.checkpoint() == red.position
    assert observation_id(green) not in store.documents


async def test_folding_the_same_events_again_changes_nothing():
    store, events = MemoryStore(), [observed(1, "Tests are red"), observed(2, "Tests are green")]
    await fold(store, *events)

    again = await project(store, events)

    assert not again.documents
    assert not again.erased


async def test_batches_make_no_difference():
    """How many events a worker reads at once depends on the load; the documents do not."""
    events = [observed(n, f"Step {n}") for n in range(1, 20)]
    together, alone = MemoryStore(), MemoryStore()

    await fold(together, *events)
    for event in events:
        await fold(alone, event)

    assert together.documents == alone.documents
    assert together.listings == alone.listings


async def test_an_observation_reopens_its_session():
    """An end may be a guess: a client crashed, or was silent for long. Work that continues proves it wrong."""
    store = MemoryStore()
    end = TrackSession(event_id="event-2", project="shop", session_id="monday", status="ended")

    await fold(store, observed(1, "Tests are red"), decided(end, place(2)))
    await fold(store, observed(3, "Tests are green"))

    session = store.documents[MONDAY]
    assert isinstance(session, Session)
    assert (session.status, session.observation_count) == ("active", 2)
