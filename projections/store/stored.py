"""The searchable documents of one generation of a partition: where they are in the log, and what is stored.

`refeed` writes the generation's feed from them, while it is not live. That is needed where the feed does not tell it
all (its beginning was trimmed behind a snapshot of what is gone), tells too much (what was forgotten meanwhile), or
ends (another generation was live since). A follower takes the first entry for what it is: start over.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.documents.document import Document, Searched, decode, index_entry, key_of, row_type, searchable_text
from projections.embedding.queue import place as embedding_place
from projections.store.feed import Cleared, Put, entry_fields, urgency

BATCH = 256
SORTED_AT_ONCE = 10_000


class StoredPlace(NamedTuple):
    """Where a searchable document is in the log; some 200 bytes each are in memory at once."""

    position: Position
    id: DocumentId


async def places(redis: Client, keys: GenerationKeys) -> list[StoredPlace]:
    """All searchable documents, in the order of the log. What is written meanwhile may be among them or not."""
    found: list[StoredPlace] = []
    async for batch in scanned(redis, keys, BATCH):
        found += _searched(await load(redis, keys, batch))
    return await asyncio.to_thread(_in_order, found)


async def scanned(redis: Client, keys: GenerationKeys, batch: int) -> AsyncGenerator[list[DocumentId]]:
    """The ids of all documents, some at a time; a scan may name one twice."""
    for prefix in (keys.doc(""), keys.row("")):
        names: list[DocumentId] = []
        async for raw in redis.scan_iter(match=f"{prefix}*", count=1000):
            names.append(DocumentId(raw.decode().removeprefix(prefix)))
            if len(names) == batch:
                yield names
                names = []
        if names:
            yield names


async def load(redis: Client, keys: GenerationKeys, names: list[DocumentId]) -> list[Document | None]:
    """The documents as they are now, in this order; None for one that is not there."""
    if not names:
        return []
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(key_of(keys, name)) if row_type(name) else pipe.get(key_of(keys, name))
        stored = await pipe.execute()
    return [decode(name, raw) for name, raw in zip(names, stored, strict=True)]


def _in_order(found: list[StoredPlace]) -> list[StoredPlace]:
    """Sorted, each once, though a scan may name a key twice. By parts: sorting lets no other thread run meanwhile."""
    runs = [sorted(found[start : start + SORTED_AT_ONCE]) for start in range(0, len(found), SORTED_AT_ONCE)]
    return [place for place, _ in groupby(merge(*runs))]


def _searched(documents: list[Document | None]) -> list[StoredPlace]:
    return [
        StoredPlace(Position.parse(document.position or str(START)), DocumentId(document.id))
        for document in documents
        if isinstance(document, Searched)
    ]


logger = logging.getLogger(__name__)


async def stale(redis: Client, keys: GenerationKeys) -> bool:
    """Whether a generation's feed must be written anew before the generation becomes live."""
    return bool(await redis.exists(keys.stale))


async def refeed(redis: Client, keys: GenerationKeys) -> int:
    """Write the feed anew, in the order of the log, and queue every text to be embedded; returns how many there are.

    Doing it again after a crash, or twice at once, does no harm: whoever reads starts over at the last beginning.
    """
    async with redis.pipeline(transaction=True) as pipe:
        pipe.set(keys.stale, "1")
        pipe.delete(keys.changes, keys.trimmed)
        pipe.xadd(keys.changes, entry_fields([Cleared()], None))
        await pipe.execute()
    found = await places(redis, keys)
    for start in range(0, len(found), BATCH):
        await _write(redis, keys, found[start : start + BATCH])
    checkpoint: bytes | None = await redis.get(keys.checkpoint)
    async with redis.pipeline(transaction=True) as pipe:
        if checkpoint:
            pipe.xadd(keys.changes, entry_fields([], Position.parse(checkpoint)))
        pipe.delete(keys.stale)
        await pipe.execute()
    logger.info("%s: the feed was written anew, %d documents", keys.tag, len(found))
    return len(found)


async def _write(redis: Client, keys: GenerationKeys, batch: list[StoredPlace]) -> None:
    documents = await load(redis, keys, [place.id for place in batch])
    entries = [entry for document in documents if (entry := index_entry(document)) is not None]
    wanted = {
        document.id: embedding_place(urgency(document), place.position.ms)
        for place, document in zip(batch, documents, strict=True)
        if isinstance(document, Searched) and searchable_text(document)
    }
    async with redis.pipeline(transaction=True) as pipe:
        pipe.xadd(keys.changes, entry_fields([Put(entry) for entry in entries], None))
        if wanted:
            pipe.zadd(keys.embed_queue, wanted)
        await pipe.execute()
