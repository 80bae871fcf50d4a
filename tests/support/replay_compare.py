"""Compares what is stored with a replay of the log from zero: documents, listings, index contents.

Equal means equal, tombstones and marks included: where forgetting erased an entry, the log has a stub that a replay
folds instead.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ingest.events.envelope import Recorded
from ingest.ids import DocumentId
from ingest.log.event_log import EventLog
from ingest.log.keys import GenerationKeys, PartitionKeys
from ingest.log.position import START, Position
from ingest.nouns.registry import decode
from ingest.platform.connections import Client
from projections.index.replica import IndexReplica
from projections.nouns.document import Document, index_entry
from projections.nouns.document import decode as decode_document
from projections.store.feed import Put
from projections.store.protocol import MemoryStore, project

Documents = dict[DocumentId, Document]
Listings = dict[str, set[str]]


class Contents(NamedTuple):
    """What a projection of one partition holds."""

    documents: Documents
    listings: Listings


class Indexed(NamedTuple):
    """What an index holds of one document: everything but its place in memory."""

    partition: int
    terms: tuple[int, ...]
    facets: frozenset[str]
    author: str
    times: tuple[int, int, int, int]
    weights: tuple[float, float]
    neighbours: tuple[str, ...]
    """The living documents of its episode, in order, itself included."""


async def read_log(log: EventLog, partition: int, limit: int = 1000) -> list[Recorded]:
    """Every event of a partition, or the stub that stands in its place."""
    results: list[Recorded] = []
    after = START
    while entries := await log.read(partition, after, limit):
        results += (decode(entry.payload, entry.position) for entry in entries)
        after = entries[-1].position
    return results


async def replay(log: EventLog, partition: int, batch: int = 97) -> MemoryStore:
    """The projection of a partition from nothing, in batches of a size that the worker does not use."""
    events = await read_log(log, partition)
    store = MemoryStore()
    for start in range(0, len(events), batch):
        part = events[start : start + batch]
        await store.save(await project(store, part), part[-1].position)
    return store


async def stored(redis: Client, partition: int, generation: int | None = None) -> Contents:
    """The documents and listings of a generation in Redis; of the live one when none is named."""
    keys = PartitionKeys(partition)
    if generation is None:
        generation = int(await redis.get(keys.generation) or 1)
    of = keys.of_generation(generation)
    documents: Documents = {}
    listings: Listings = {}
    for prefix in (of.doc(""), of.row("")):
        for key in await _keys(redis, prefix):
            name = DocumentId(key.removeprefix(prefix))
            raw = await (redis.hgetall(key) if prefix == of.row("") else redis.get(key))
            if (document := decode_document(name, raw)) is not None:
                documents[name] = document
    for key in await _keys(redis, of.listing("")):
        members: list[bytes] = await redis.zrange(key, 0, -1)
        listings[key.removeprefix(of.listing(""))] = {member.decode() for member in members}
    return Contents(documents, listings)


def of_store(store: MemoryStore) -> Contents:
    """What a store in memory holds; a listing without members is none."""
    return Contents(dict(store.documents), {name: result for name, result in store.listings.items() if result})


def differences(live: Contents, again: Contents) -> dict[str, tuple[Any, Any]]:
    """Documents and listings that differ, each as (live, replayed)."""
    return _differing(live.documents, again.documents) | _differing(live.listings, again.listings)


async def assert_equals_replay(redis: Client, log: EventLog, partitions: int) -> dict[int, MemoryStore]:
    """Fails unless every partition's live documents equal a replay of its log; returns the replays."""
    results: dict[int, MemoryStore] = {}
    for partition in range(partitions):
        results[partition] = await replay(log, partition)
        differing = differences(await stored(redis, partition), of_store(results[partition]))
        assert not differing, f"partition {partition}: {len(differing)} differ (live, replayed): {_first(differing)}"
        head = await log.head(partition)
        assert await _checkpoint(redis, partition) == head, f"partition {partition} is not projected up to its head"
    return results


def index_of_documents(stores: Mapping[int, MemoryStore], dimensions: int, model: str) -> IndexReplica:
    """The index that a feed of nothing but these documents, in log order, makes. It has no vectors."""
    index = IndexReplica(dimensions, model)
    for partition, store in stores.items():
        results = [(document, entry) for document in store.documents.values() if (entry := index_entry(document))]
        for _, entry in sorted(results, key=lambda pair: Position.parse(getattr(pair[0], "position", "0-0"))):
            index.apply(partition, [Put(entry)])
    return index


def indexed(index: IndexReplica) -> dict[str, Indexed]:
    """What an index holds, by document id. Runs in the thread that owns the index."""
    episodes = [tuple(index.ids[member] for member in members if member in index.alive) for members in index.episodes]
    return {
        name: Indexed(
            partition=int(index.partition[ordinal]),
            terms=tuple(index.terms[ordinal].tolist()),
            facets=frozenset(index.facets_of[ordinal]),
            author=index.authors[int(index.author[ordinal])],
            times=(
                int(index.occurred_ms[ordinal]),
                int(index.recorded_ms[ordinal]),
                int(index.retired_ms[ordinal]),
                int(index.expires_ms[ordinal]),
            ),
            weights=(float(index.importance[ordinal]), float(index.confidence[ordinal])),
            neighbours=episodes[int(index.episode[ordinal])] if index.episode[ordinal] >= 0 else (),
        )
        for name, ordinal in index.ordinal_of.items()
    }


def without_vectors(index: IndexReplica) -> set[str]:
    """The documents that have no vector. Runs in the thread that owns the index."""
    return {name for name, ordinal in index.ordinal_of.items() if not index.vectors.has(ordinal)}


def cosines(index: IndexReplica, query: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, float]:
    """The cosine of every document that has a vector. Runs in the thread that owns the index."""
    places = np.fromiter(index.ordinal_of.values(), np.int64)
    values = index.vectors.cosine(query, places).tolist()
    return {name: value for name, value in zip(index.ordinal_of, values, strict=True) if value == value}


def assert_same_index(live: Mapping[str, Indexed], again: Mapping[str, Indexed]) -> None:
    """Fails unless both hold the same documents with the same contents."""
    differing = _differing(live, again)
    assert not differing, f"{len(differing)} documents differ (live, replayed): {_first(differing)}"


def _differing(mine: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        str(name): (mine.get(name), other.get(name))
        for name in mine.keys() | other.keys()
        if mine.get(name) != other.get(name)
    }


def _first(differing: Mapping[str, Any], count: int = 3) -> dict[str, Any]:
    return {name: differing[name] for name in sorted(differing)[:count]}


async def _keys(redis: Client, prefix: str) -> list[str]:
    return sorted({raw.decode() async for raw in redis.scan_iter(match=f"{prefix}*", count=1000)})


async def _checkpoint(redis: Client, partition: int) -> Position:
    keys: GenerationKeys = PartitionKeys(partition).of_generation(
        int(await redis.get(PartitionKeys(partition).generation) or 1)
    )
    raw = await redis.get(keys.checkpoint)
    return Position.parse(raw) if raw else START
