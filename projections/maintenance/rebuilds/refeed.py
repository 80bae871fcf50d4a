"""Writes the feed of a generation anew from its documents, while that is not live.

Needed where the feed does not tell it all (its beginning was trimmed behind a snapshot of what is gone), tells too much
(what was forgotten meanwhile), or ends (another generation was live since). A follower that finds it takes the first
entry for what it is: start over.
"""

import logging

from ingest.log.keys import GenerationKeys
from ingest.log.position import Position
from ingest.platform.connections import Client
from projections.documents.document import Searched, index_entry, searchable_text
from projections.documents.observations import Observation
from projections.store.feed import Cleared, Put, entry_fields
from projections.store.redis_store import PRIORITY_STEP
from projections.store.stored import BATCH, Place, load, places

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


async def _write(redis: Client, keys: GenerationKeys, batch: list[Place]) -> None:
    documents = await load(redis, keys, [place.id for place in batch])
    entries = [entry for document in documents if (entry := index_entry(document)) is not None]
    wanted = {
        document.id: (1 if isinstance(document, Observation) else 0) * PRIORITY_STEP + place.position.ms
        for place, document in zip(batch, documents, strict=True)
        if isinstance(document, Searched) and searchable_text(document)
    }
    async with redis.pipeline(transaction=True) as pipe:
        pipe.xadd(keys.changes, entry_fields([Put(entry) for entry in entries], None))
        if wanted:
            pipe.zadd(keys.embed_queue, wanted)
        await pipe.execute()
