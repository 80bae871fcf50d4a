"""StateStore: where a partition's documents live. Back ends: Redis (one generation of one partition), memory."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from ingest.log.position import Position
from projections.documents.document import Document
from projections.folds.fold import (
    Changes,
    candidate_listings,
    candidate_members,
    documents_of,
    fold,
    further_documents,
    further_listings,
)


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
    listings = candidate_listings(events)
    candidates = candidate_members(events, await store.members(listings)) if listings else {}
    asked = set(listings)
    wanted = documents_of(events) | _listed(candidates)
    loaded = await store.load(wanted)
    while True:
        listings = further_listings(events, loaded) - asked
        asked |= listings
        found = await store.members(listings) if listings else {}
        more = (further_documents(events, loaded) | _listed(found)) - wanted
        if not listings and not more:
            return fold(events, loaded, candidates)
        candidates |= found
        wanted |= more
        loaded |= await store.load(more)


def _listed(members: Mapping[str, Sequence[str]]) -> set[DocumentId]:
    return {DocumentId(one.rpartition("|")[2]) for listed in members.values() for one in listed}


async def are_repeats(store: StateStore, events: Sequence[Recorded]) -> list[bool]:
    """For each event, given a position behind all others, whether its document or its mark is there already.

    Events that leave neither are never said to be.
    """
    wanted = documents_of(events)
    loaded = await store.load(wanted)
    while more := further_documents(events, loaded) - wanted:
        wanted |= more
        loaded |= await store.load(more)
    each = (fold([event], loaded, {}) for event in events)
    return [not made.documents and event.position in made.erased for event, made in zip(events, each, strict=True)]
