"""Superseding: a memory that states the same takes the place of the older one. Nothing is lost."""

from factories import decided, place

from ingest.commands.decide import Remember
from projections.documents.memories import Memory, memory_id
from projections.store.protocol import MemoryStore, project


async def test_a_restatement_supersedes_the_older_memory():
    """They differ in case, punctuation and articles: the new one is version 2, the old one stays and says by whom."""
    store = MemoryStore()
    nine = decided(Remember(event_id="event-1", content="The nightly deploy runs at nine every evening"), place(1))
    again = decided(Remember(event_id="event-2", content="nightly deploy runs at NINE every evening."), place(2))
    ten = decided(Remember(event_id="event-3", content="The nightly deploy runs at ten every evening"), place(3))

    for event in (nine, again, ten):
        await store.save(await project(store, [event]), event.position)

    old, new, other = (store.documents[memory_id(event)] for event in (nine, again, ten))
    assert isinstance(old, Memory)
    assert isinstance(new, Memory)
    assert isinstance(other, Memory)
    assert (new.version, new.parent_id, new.is_latest) == (2, old.id, True)
    assert (old.is_latest, old.superseded_by) == (False, new.id)
    assert old.content == "The nightly deploy runs at nine every evening"
    assert (other.version, other.is_latest) == (1, True)
