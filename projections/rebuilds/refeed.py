"""Writes the feed of a generation anew from its documents, while that is not live.

Needed where the feed does not tell it all (its beginning was trimmed behind a snapshot of what is gone), tells too much
(what was forgotten meanwhile), or ends (another generation was live since). A follower that finds it takes the first
entry for what it is: start over.
"""

import logging
from typing import NamedTuple

from ingest.connections import Client
from ingest.ids import DocumentId
from ingest.log.keys import GenerationKeys
from ingest.log.position import START, Position
from projections.documents.codec import decode, key_of, row_type
from projections.documents.document import Document, Searched, index_entry
from projections.documents.observations import Observation
from projections.feed import Cleared, Put, entry_fields
from projections.redis_store import PRIORITY_STEP
from projections.searchable import searchable_text

logger = logging.getLogger(__name__)

BATCH = 256


class _Place(NamedTuple):
    """Where a searched document stands in the log; some 200 bytes each are in memory at once."""

    position: Position
    id: DocumentId


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
    places = sorted(await _places(redis, keys))
    for start in range(0, len(places), BATCH):
        await _write(redis, keys, places[start : start + BATCH])
    checkpoint: bytes | None = await redis.get(keys.checkpoint)
    async with redis.pipeline(transaction=True) as pipe:
        if checkpoint:
            pipe.xadd(keys.changes, entry_fields([], Position.parse(checkpoint)))
        pipe.delete(keys.stale)
        await pipe.execute()
    logger.info("%s: the feed was written anew, %d documents", keys.tag, len(places))
    return len(places)


async def _write(redis: Client, keys: GenerationKeys, places: list[_Place]) -> None:
    documents = await _load(redis, keys, [place.id for place in places])
    entries = [entry for document in documents if (entry := index_entry(document)) is not None]
    wanted = {
        document.id: (1 if isinstance(document, Observation) else 0) * PRIORITY_STEP + place.position.ms
        for place, document in zip(places, documents, strict=True)
        if isinstance(document, Searched) and searchable_text(document)
    }
    async with redis.pipeline(transaction=True) as pipe:
        pipe.xadd(keys.changes, entry_fields([Put(entry) for entry in entries], None))
        if wanted:
            pipe.zadd(keys.embed_queue, wanted)
        await pipe.execute()


async def _places(redis: Client, keys: GenerationKeys) -> list[_Place]:
    found: list[_Place] = []
    for prefix in (keys.doc(""), keys.row("")):
        batch: list[DocumentId] = []
        async for raw in redis.scan_iter(match=f"{prefix}*", count=1000):
            batch.append(DocumentId(raw.decode().removeprefix(prefix)))
            if len(batch) == BATCH:
                found += _searched(await _load(redis, keys, batch))
                batch = []
        found += _searched(await _load(redis, keys, batch))
    return list(dict.fromkeys(found))  # a scan may name a key twice


def _searched(documents: list[Document | None]) -> list[_Place]:
    return [
        _Place(Position.parse(document.position or str(START)), DocumentId(document.id))
        for document in documents
        if isinstance(document, Searched)
    ]


async def _load(redis: Client, keys: GenerationKeys, names: list[DocumentId]) -> list[Document | None]:
    if not names:
        return []
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(key_of(keys, name)) if row_type(name) else pipe.get(key_of(keys, name))
        stored = await pipe.execute()
    return [decode(name, raw) for name, raw in zip(names, stored, strict=True)]
