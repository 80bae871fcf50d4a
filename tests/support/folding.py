"""Folds over a MemoryStore without an event loop: the store never waits, so its coroutines end at their first step."""

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from projections.nouns.document import Document
from projections.nouns.fold import Changes
from projections.store.protocol import MemoryStore, project

T = TypeVar("T")


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise AssertionError(f"{coroutine} waited for something")


def apply(store: MemoryStore, batch: Sequence[Recorded]) -> Changes:
    """Fold one batch and save it; returns what changed."""
    changes = run_now(project(store, batch))
    run_now(store.save(changes, batch[-1].position))
    return changes


def folded(*batches: Sequence[Recorded]) -> MemoryStore:
    """A store after these batches, one after the other."""
    store = MemoryStore()
    for batch in batches:
        if batch:
            apply(store, batch)
    return store


def one_by_one(events: Iterable[Recorded]) -> MemoryStore:
    """A store after these events, each a batch of its own."""
    return folded(*([event] for event in events))


def replayed(events: Iterable[Recorded], live: MemoryStore) -> MemoryStore:
    """A store rebuilt from the log as `live` left it: with stubs in the place of what it erased."""
    return one_by_one(
        Recorded(event.position, *live.erased[event.position]) if event.position in live.erased else event
        for event in events
    )


def members(store: MemoryStore) -> dict[str, set[str]]:
    """The listings that have members."""
    return {name: result for name, result in store.listings.items() if result}


def contents(store: MemoryStore) -> tuple[dict[DocumentId, Document], dict[str, set[str]]]:
    """Everything two stores are compared by: documents and listings."""
    return dict(store.documents), members(store)
