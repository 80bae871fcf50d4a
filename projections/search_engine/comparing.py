"""Finds differences between a partition's documents and an index on a search engine.

The documents are read in the order of a scan, whatever it is: each has its place in its episode. Then the index is
scanned, and what is not a document is removed. So nothing grows with the number of documents, and the feed can be
followed between any two steps: a step reads documents as they are, and what changes later comes by the feed.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple

from ingest.errors import MnemologError
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys
from ingest.log.position import stored_position
from ingest.platform.connections import Client
from projections.index.comparing import cached_vectors, differences, queue_to_embed
from projections.index.replica import live_generation
from projections.nouns.document import Document, Searched, index_entry
from projections.search_engine.layout import HASHES, Identity, PartitionIndex, order_of
from projections.search_engine.writing import Placed, hashes_of
from projections.store.feed import Put, Remove
from projections.store.redis_store import are_searched, load, scanned

DOCUMENTS_AT_ONCE = 64
NAMES_AT_ONCE = 500


class GenerationEnded(MnemologError):
    """The documents that were compared are no longer the live ones."""

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
        loaded = await load(self.redis, self.documents, names)
        documents = [document for document in loaded if isinstance(document, Searched)]
        entries = [entry for document in documents if (entry := index_entry(document)) is not None]
        puts = [
            Placed(Put(entry), order_of(stored_position(document.position)), exact=True)
            for entry, document in zip(entries, documents, strict=True)
        ]
        return [*puts, *await self._vectors(documents, {entry.id: hashes_of(entry.terms) for entry in entries})]

    async def _vectors(self, documents: Sequence[Document], hashes: Mapping[str, bytes]) -> Sequence[Placed]:
        """Vectors for those of the documents that have none in the index, or have them of another text."""
        if not self.identity.dimensions or not documents:
            return []
        async with self.engine.pipeline(transaction=False) as pipe:
            for name in hashes:
                pipe.hget(self.keys.document(name), HASHES)
                pipe.exists(self.keys.vectors(name))
            answers = await pipe.execute()
        indexed = zip(hashes, answers[::2], answers[1::2], strict=True)
        embedded = {name: stored for name, stored, has_vectors in indexed if has_vectors}
        lacking = {name for name, _, _ in differences(hashes, embedded)}
        cached = await cached_vectors(
            self.redis, self.identity.model, self.identity.dimensions,
            [document for document in documents if document.id in lacking],
        )  # fmt: skip
        await queue_to_embed(self.redis, self.documents, documents, cached.missing)
        return [Placed(item, "") for item in cached.items]

    async def _removals(self, names: Sequence[DocumentId]) -> Sequence[Placed]:
        """The removal of those that are not documents."""
        if not names:
            return []
        searched = zip(names, await are_searched(self.redis, self.documents, names), strict=True)
        # after that read: what is not live may be deleted, and its documents with it
        if await live_generation(self.redis, self.documents.partition) != self.documents.generation:
            raise GenerationEnded
        documents: dict[str, bool] = {name: True for name, is_searched in searched if is_searched}
        indexed = dict.fromkeys(map(str, names), True)
        return [Placed(Remove(DocumentId(name)), "") for name, _, _ in differences(documents, indexed)]
