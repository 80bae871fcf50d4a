"""StateStore: storage of a partition's documents. Back ends: Redis (one generation of one partition), memory."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ingest.events.envelope import Event, Recorded
from ingest.ids import DocumentId
from ingest.log.position import START, Position
from projections.nouns.document import Document, listings
from projections.nouns.fold import (
    Changes,
    candidate_listings,
    candidate_members,
    documents_of,
    fold,
    further_documents,
    further_listings,
)
from projections.nouns.rows import whole_of


class StateStore(Protocol):
    """Documents, listings and the checkpoint of one partition. Saving is atomic; a saved position is never undone."""

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        """Those of the documents that exist."""
        ...

    async def members(self, listings: Collection[str]) -> dict[str, Sequence[str]]:
        """The members of each listing, or part of one (`part_of`), in order; empty for one that is not there."""
        ...

    async def save(self, changes: Changes, position: Position) -> None:
        """Write the changes and the checkpoint, all or nothing.

        Raises LeaseLost, and saves nothing, when another worker owns the partition.
        """
        ...

    async def checkpoint(self) -> Position:
        """The newest position that is applied; START when none is."""
        ...


async def project(store: StateStore, events: Sequence[Recorded]) -> Changes:
    """The changes a batch of events makes: read what it touches, then fold. Nothing is saved."""
    requested = candidate_listings(events)
    candidates = candidate_members(events, await store.members(requested)) if requested else {}
    names = documents_of(events) | _listed(candidates)
    loaded = await store.load(names)
    while True:
        listings = further_listings(events, loaded) - requested
        requested |= listings
        members = await store.members(listings) if listings else {}
        more = (further_documents(events, loaded) | _listed(members)) - names
        if not listings and not more:
            return fold(events, loaded, candidates)
        candidates |= members
        names |= more
        loaded |= await store.load(more)


def _listed(members: Mapping[str, Sequence[str]]) -> set[DocumentId]:
    return {DocumentId(member.rpartition("|")[2]) for listed in members.values() for member in listed}


async def are_repeats(store: StateStore, events: Sequence[Recorded]) -> list[bool]:
    """For each event, given a position behind all others, whether its document or its mark is there already.

    False for events that leave neither.
    """
    names = documents_of(events)
    loaded = await store.load(names)
    while more := further_documents(events, loaded) - names:
        names |= more
        loaded |= await store.load(more)
    each = (fold([event], loaded, {}) for event in events)
    return [not made.documents and event.position in made.erased for event, made in zip(events, each, strict=True)]


class MemoryStore:
    """Keeps everything in dictionaries; `erased` collects the stubs of log entries that forgetting erased."""

    def __init__(self) -> None:
        self.documents: dict[DocumentId, Document] = {}
        self.listings: dict[str, set[str]] = {}
        self.erased: dict[Position, Event] = {}
        self._checkpoint = START

    async def load(self, ids: Collection[DocumentId]) -> dict[DocumentId, Document]:
        return {name: self.documents[name] for name in ids if name in self.documents}

    async def members(self, listings: Collection[str]) -> dict[str, Sequence[str]]:
        return {name: self._members(name) for name in listings}

    async def save(self, changes: Changes, position: Position) -> None:
        for name, (before, after) in changes.documents.items():
            for listing, member in listings(before):
                self.listings[listing].discard(member)
            for listing, member in listings(after):
                self.listings.setdefault(listing, set()).add(member)
            if after is None:
                self.documents.pop(name, None)
            else:
                self.documents[name] = after
        self.erased.update(changes.erased)
        self._checkpoint = max(self._checkpoint, position)

    def _members(self, name: str) -> list[str]:
        listing, beginning = whole_of(name)
        return sorted(member for member in self.listings.get(listing, ()) if member.startswith(beginning))

    async def checkpoint(self) -> Position:
        return self._checkpoint
