"""Repairs of what follows from a document: its listings, its place in the index and in the embedding queue.

None of them changes a document, which only the partition's runner does. Each is a transaction that looks at the
document again and fails when it, or the live generation, changes before the repair is written: the runner writes a
document with all that follows from it in one transaction, so what is repaired follows from the document as it is.
"""

from collections.abc import Callable

from redis.exceptions import WatchError

from ingest.ids import DocumentId
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client, Transaction
from projections.documents.document import Document, decode, index_entry, key_of, listings, row_type
from projections.store.feed import FeedItem, Put, Remove, entry_fields
from projections.store.redis_store import PRIORITY_STEP

TRIES = 10
Repair = Callable[[Transaction, Document | None], bool]
"""Queues a repair for a document as it is now; false when there is nothing to repair."""


class Repairs:
    """Repairs in one generation of a partition."""

    def __init__(self, redis: Client, keys: PartitionKeys, generation: int) -> None:
        self._redis, self._partition, self._generation = redis, keys, generation
        self._keys = keys.of_generation(generation)

    async def list_document(self, name: DocumentId, listing: str, member: str) -> bool:
        """Put a document into a listing that it belongs to; whether it lacked there."""

        def repair(pipe: Transaction, document: Document | None) -> bool:
            if (listing, member) not in listings(document):
                return False
            pipe.zadd(self._keys.listing(listing), {member: 0})
            return True

        return await self._repair(name, repair)

    async def unlist(self, name: DocumentId, listing: str, member: str) -> bool:
        """Take a member out of a listing that its document does not belong to; whether it was wrong there."""

        def repair(pipe: Transaction, document: Document | None) -> bool:
            if (listing, member) in listings(document):
                return False
            pipe.zrem(self._keys.listing(listing), member)
            return True

        return await self._repair(name, repair)

    async def announce(self, name: DocumentId, *, missing: bool) -> bool:
        """Tell the index what a document is, or that it is gone; whether that is news, as far as can be told.

        It covers no position of the log. What replicas had right is not changed by it.
        """

        def repair(pipe: Transaction, document: Document | None) -> bool:
            entry = index_entry(document)
            if (entry is not None) != missing:
                return False
            item: FeedItem = Put(entry) if entry is not None else Remove(name)
            pipe.xadd(self._keys.changes, entry_fields([item], None))
            return True

        return await self._repair(name, repair)

    async def embed(self, name: DocumentId, at_ms: float) -> bool:
        """Queue a searchable document for its vector, behind what was said lately."""

        def repair(pipe: Transaction, document: Document | None) -> bool:
            if index_entry(document) is None:
                return False
            pipe.zadd(self._keys.embed_queue, {name: PRIORITY_STEP + at_ms})
            return True

        return await self._repair(name, repair)

    async def do_not_embed(self, name: DocumentId) -> bool:
        """Take an id off the embedding queue that has nothing to embed; whether it was wrong there."""

        def repair(pipe: Transaction, document: Document | None) -> bool:
            if index_entry(document) is not None:
                return False
            pipe.zrem(self._keys.embed_queue, name)
            return True

        return await self._repair(name, repair)

    async def _repair(self, name: DocumentId, repair: Repair) -> bool:
        key = key_of(self._keys, name)
        for _ in range(TRIES):
            async with self._redis.pipeline(transaction=True) as pipe:
                await pipe.watch(key, self._partition.generation)
                if int(await pipe.get(self._partition.generation) or 1) != self._generation:
                    return False
                document = decode(name, await (pipe.hgetall(key) if row_type(name) else pipe.get(key)))
                pipe.multi()
                if not repair(pipe, document):
                    return False
                try:
                    await pipe.execute()
                    return True
                except WatchError:
                    continue
        return False  # it changes all the time; the next run looks again
