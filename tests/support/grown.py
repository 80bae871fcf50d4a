"""The documents of a grown log, as if they were still in as few partitions as before."""

from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.maintenance.differences import DocumentManifest, manifest_of_store
from projections.store.protocol import MemoryStore
from projections.store.redis_store import load, scanned

DOCUMENTS_PER_READ = 500


async def documents_of(redis: Client, partitions: int, before: int) -> DocumentManifest:
    """The manifest of the live documents and listings, those together that were in one partition of `before`."""
    results = {partition: MemoryStore() for partition in range(before)}
    for partition in range(partitions):
        keys, store = PartitionKeys(partition).of_generation(1), results[partition % before]
        async for names in scanned(redis, keys, DOCUMENTS_PER_READ):
            read = await load(redis, keys, names)
            store.documents.update({name: item for name, item in zip(names, read, strict=True) if item is not None})
        prefix = keys.listing("")
        async for key in redis.scan_iter(match=f"{prefix}*", count=1000):
            members = {member.decode() for member in await redis.zrange(key.decode(), 0, -1)}
            store.listings.setdefault(key.decode().removeprefix(prefix), set()).update(members)
    return DocumentManifest({partition: manifest_of_store(store) for partition, store in results.items()})
