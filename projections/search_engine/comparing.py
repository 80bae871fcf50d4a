"""What an index on a search engine lacks of a partition's documents, and has beyond them.

The documents are read as a scan finds them, whatever their order: each carries its place in its episode. Then the index
is scanned, and what is no document is removed. So nothing grows with the number of documents, and who follows the feed
may do so between any two steps: a step reads documents as they are, and what changes later comes by the feed.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from ingest.errors import MnemologError
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.documents.document import Document, Searched, index_entry
from projections.search.comparing import cached_vectors, queue_to_embed
from projections.search.replica import live_generation
from projections.search_engine.layout import HASHES, Identity, PartitionIndex, order_of
from projections.search_engine.writing import Placed, hashes_of
from projections.store.feed import Put, Remove
from projections.store.redis_store import StoredPlace, are_searched, load, scanned

DOCUMENTS_AT_ONCE = 64
NAMES_AT_ONCE = 500


class GenerationEnded(MnemologError):
    """The documents that were compared are not the live ones any more."""

    code = "generation_ended"


class Compared(NamedTuple):
    """An index, and the documents of a generation that it is compared with."""

    redis: Client
    engine: Client
    identity: Identity
    keys: PartitionIndex
    documents: GenerationKeys

    async def steps(self) -> AsyncGenerator[Sequence[Placed]]:
        """What brings the index in line with the documents, step by step; each is to be applied at once.

        Vectors come from the cache; texts that are not there are queued to be embedded. Raises GenerationEnded.
        """
        async for names in scanned(self.redis, self.documents, DOCUMENTS_AT_ONCE):
            yield await self._puts(names)
        names: list[DocumentId] = []
        prefix = self.keys.prefixes[0]
        async for key in self.engine.scan_iter(match=f"{prefix}*", count=1000):
            names.append(DocumentId(key.decode().removeprefix(prefix)))
            if len(names) == NAMES_AT_ONCE:
                yield await self._removals(names)
                names = []
        yield await self._removals(names)

    async def _puts(self, names: list[DocumentId]) -> Sequence[Placed]:
        found = await load(self.redis, self.documents, names)
        documents = [one for one in found if isinstance(one, Searched)]
        entries = [entry for document in documents if (entry := index_entry(document)) is not None]
        places = [
            StoredPlace(Position.parse(document.position or str(START)), DocumentId(document.id))
            for document in documents
        ]
        puts = [
            Placed(Put(entry), order_of(place.position), exact=True)
            for entry, place in zip(entries, places, strict=True)
        ]
        return [*puts, *await self._vectors(documents, [hashes_of(entry.terms) for entry in entries])]

    async def _vectors(self, documents: Sequence[Document], hashes: Sequence[bytes]) -> Sequence[Placed]:
        """Vectors for those of the documents that have none in the index, or have them of another text."""
        if not self.identity.dimensions or not documents:
            return []
        async with self.engine.pipeline(transaction=False) as pipe:
            for one in documents:
                pipe.hget(self.keys.document(one.id), HASHES)
                pipe.exists(self.keys.vectors(one.id))
            answers = await pipe.execute()
        embedded = [
            is_there and said == now for said, is_there, now in zip(answers[::2], answers[1::2], hashes, strict=True)
        ]
        wanted = [one for one, is_embedded in zip(documents, embedded, strict=True) if not is_embedded]
        cached = await cached_vectors(self.redis, self.identity.model, self.identity.dimensions, wanted)
        await queue_to_embed(self.redis, self.documents, documents, cached.missing)
        return [Placed(item, "") for item in cached.items]

    async def _removals(self, names: Sequence[DocumentId]) -> Sequence[Placed]:
        """The removal of those that are no document."""
        if not names:
            return []
        there = await are_searched(self.redis, self.documents, names)
        # behind the look: what is not live may be deleted, and its documents with it
        if await live_generation(self.redis, self.documents.partition) != self.documents.generation:
            raise GenerationEnded
        return [Placed(Remove(name), "") for name, is_there in zip(names, there, strict=True) if not is_there]
