"""What stands in a search engine, as it is compared with the documents that it should be made of."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple, TypeAlias

from hash_embedder import HashEmbedder
from replica_pen import PARTITIONS
from waiting import wait_until

from ingest.ids import DocumentId
from ingest.log.keys import PartitionKeys, embedding
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from projections.index.replica import live_generation
from projections.nouns.document import Searched, index_entry, searchable_text
from projections.search_engine import schema
from projections.search_engine.filling import Servers
from projections.search_engine.keeping import SearchEngineIndexes
from projections.search_engine.layout import ALIAS, PartitionIndex, packed
from projections.search_engine.schema import Named
from projections.search_engine.writing import hashes_of, read_state
from projections.store.redis_store import load, scanned
from projections.vectors.embedder import cache_key, chunk

Keeping: TypeAlias = Callable[..., AbstractAsyncContextManager[SearchEngineIndexes]]
"""`async with keep(embedder)`: a worker that has leased every partition keeps the indexes meanwhile."""


class Content(NamedTuple):
    """One partition of an index: entry and hashes by id; the ids of each episode, in order; vectors by id."""

    documents: dict[str, tuple[bytes, bytes]]
    episodes: dict[str, list[str]]
    vectors: dict[str, bytes]


async def content_of(engine: Client, index: Named, partition: int) -> Content:
    """What stands there."""
    keys, results = PartitionIndex(index.name, partition), Content({}, {}, {})
    documents, vectors, episodes = keys.prefixes
    async for key in engine.scan_iter(match=f"{index.name}:*", count=1000):
        name = key.decode()
        if name.startswith(documents):
            if stored := await engine.hgetall(name):  # not removed since the scan
                results.documents[name.removeprefix(documents)] = stored[b"x"], stored[b"h"]
        elif name.startswith(vectors):
            results.vectors[name.removeprefix(vectors)] = await engine.get(name)
        elif name.startswith(episodes):
            members: list[bytes] = await engine.zrange(name, 0, -1)
            results.episodes[name.removeprefix(episodes)] = [member.decode().partition("|")[2] for member in members]
    return results


async def content_wanted(redis: Client, index: Named, partition: int) -> Content:
    """What should stand there: made of the live documents, and of the vectors in the cache."""
    keys = PartitionKeys(partition).of_generation(await live_generation(redis, partition))
    names: set[DocumentId] = {name async for batch in scanned(redis, keys, 100) for name in batch}
    documents = [item for item in await load(redis, keys, sorted(names)) if isinstance(item, Searched)]
    expected = Content({}, {}, {})
    for item in sorted(documents, key=lambda document: Position.parse(document.position or str(START))):
        entry = index_entry(item)
        assert entry is not None
        expected.documents[item.id] = packed(entry), hashes_of(entry.terms)
        if entry.episode:
            expected.episodes.setdefault(entry.episode, []).append(item.id)
        parts = [embedding(cache_key(index.identity.model, text)) for text in chunk(searchable_text(item))]
        rows: list[Any] = [await redis.get(part) for part in parts]
        if rows and all(rows):
            expected.vectors[item.id] = b"".join(rows)
    return expected


async def is_in_line(redis: Client, engine: Client, index: Named, partitions: int) -> bool:
    """Whether an index is complete and says of itself and holds what it should."""
    for partition in range(partitions):
        keys = PartitionKeys(partition).of_generation(await live_generation(redis, partition))
        state = await read_state(engine, PartitionIndex(index.name, partition))
        if (
            state is None
            or state.phase != "ready"
            or state.covers.encode() != (await redis.get(keys.checkpoint) or b"0-0")
        ):
            return False
        results, expected = [await content_of(engine, index, partition), await content_wanted(redis, index, partition)]
        if results != expected or (state.documents, state.embedded) != (len(results.documents), len(results.vectors)):
            return False
    return True


async def count_of(engine: Client, index: Named, query: str = "*") -> int:
    """How many documents the engine finds."""
    return int((await schema.command(engine, "FT.SEARCH", index.name, query, "LIMIT", 0, 0, "DIALECT", 2))[0])


async def live(engine: Client) -> Named | None:
    """The index that readers use."""
    return (await schema.read_catalogue(engine)).catalogue.live


async def in_line(servers: Servers, model: str = HashEmbedder.model) -> Named:
    """Wait until the index that readers use holds what it should; returns it."""

    async def is_so() -> bool:
        index = await live(servers.engine)
        if index is None or index.identity.model != model:
            return False
        return await is_in_line(servers.redis, servers.engine, index, PARTITIONS)

    await wait_until(is_so)
    index = await live(servers.engine)
    assert index is not None
    assert await count_of(servers.engine, index) == await count_of(servers.engine, Named(ALIAS, index.identity))
    return index
