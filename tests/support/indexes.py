"""The indexes that answer the questions of `Index`, each filled by feed items: what the conformance suite runs."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ingest.log.position import START, Position
from ingest.platform.connections import Client, connect
from projections.index.embedded import EmbeddedIndex
from projections.index.protocol import Index
from projections.index.replica import IndexReplica
from projections.nouns.index_entry import IndexEntry
from projections.search_engine import schema
from projections.search_engine.candidates import Counted, EngineIndexed
from projections.search_engine.engine import Engine
from projections.search_engine.index import EngineIndex
from projections.search_engine.layout import INDEX_PREFIX, READY, Identity, PartitionIndex, State
from projections.search_engine.schema import Named
from projections.search_engine.writing import Changes, Standing, begin, placed, write
from projections.store.feed import FeedItem, Put, Remove, Vectors
from projections.text.terms import terms
from projections.vectors.bitmaps import Matching
from projections.vectors.static import StaticTable
from projections.vectors.vectors import VectorIndex

MODEL, DIMENSIONS, PARTITIONS = "test/model", 4, 8
T0 = 1_769_860_800_000
KINDS = {"obs": "observation", "lsn": "lesson", "sum": "summary"}


def entry_of(name: str, text: str, **fields: Any) -> IndexEntry:
    """A document of tenant `default`, project `atlas`, of the kind that its id begins with."""
    given: dict[str, Any] = {
        "id": name, "kind": KINDS.get(name.partition("_")[0], "memory"), "terms": " ".join(terms(text)),
        "tenant": "default", "project": "atlas", "agent_id": "", "user_id": "", "occurred_ms": T0, "recorded_ms": T0,
    }  # fmt: skip
    return IndexEntry(**(given | fields))


def vectors_of(name: str, *rows: Sequence[float], model: str = MODEL) -> Vectors:
    """The vectors of a document, scaled to unit length."""
    matrix = np.asarray(rows, np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return Vectors(name, model, matrix.shape[1], matrix.astype("<f2").tobytes())


def nearest(vectors: VectorIndex, query: NDArray[np.float32], matching: Matching, count: int) -> NDArray[np.int64]:
    """Return up to `count` of the matching documents, by cosine, best first."""
    documents = vectors.worth_scoring(query, matching, count)
    cosines = vectors.cosine(query, documents) if len(documents) else np.empty(0, np.float32)
    order = np.argsort(-cosines, kind="stable")[: np.count_nonzero(~np.isnan(cosines))]
    return documents[order][:count]


class Filled(ABC):
    """An index under test."""

    index: Index

    @abstractmethod
    async def apply(self, partition: int, *items: FeedItem) -> None:
        """Apply the items of one feed entry."""

    async def settle(self) -> Index:
        """The index, with all that was applied in its final place."""
        return self.index

    async def put(self, name: str, text: str, *, partition: int = 0, **fields: Any) -> str:
        """Put a document (see `entry_of`); returns its id."""
        await self.apply(partition, Put(entry_of(name, text, **fields)))
        return name

    async def embed(self, name: str, *rows: Sequence[float], partition: int = 0) -> None:
        """Give a document vectors of the model."""
        await self.apply(partition, vectors_of(name, *rows))

    async def remove(self, *names: str, partition: int = 0) -> None:
        """Remove documents."""
        await self.apply(partition, *map(Remove, names))


class FilledReplica(Filled):
    """The embedded index."""

    def __init__(self, table: StaticTable | None, dimensions: int) -> None:
        self.replica = IndexReplica(dimensions, MODEL, table)
        self.index = EmbeddedIndex(self.replica)

    async def apply(self, partition: int, *items: FeedItem) -> None:
        """Apply the items of one feed entry."""
        self.replica.apply(partition, items)


class FilledEngine(Filled):
    """The index on a search engine, written as a worker writes it."""

    def __init__(self, client: Client, engine: Engine, named: Named, table: StaticTable | None) -> None:
        self._client, self._engine, self._named, self._table = client, engine, named, table
        self._changes = Changes(named.identity, table)
        self._states: dict[int, State] = {}
        self.index = self._index()

    async def apply(self, partition: int, *items: FeedItem) -> None:
        """Apply the items of one feed entry."""
        keys = PartitionIndex(self._named.name, partition)
        if partition not in self._states:
            at = Standing(1, str(START), str(START), READY)
            self._states[partition] = await begin(self._client, keys, None, at)
        state = self._states[partition]
        covers = Position(state.position.ms + 1, 0)
        changes = self._changes.of(partition, placed(items, covers))
        then = Standing(1, str(covers), str(covers), READY)
        self._states[partition] = await write(self._client, keys, state, changes, then)

    async def settle(self) -> Index:
        """The index, with its counts as of now: those that it has are of a moment ago."""
        self.index = self._index()
        return self.index

    def _index(self) -> EngineIndex:
        documents = sum(state.documents for state in self._states.values())
        embedded = sum(state.embedded for state in self._states.values())
        stored = Counted(60.0, 1_000), Counted(60.0, 1_000)
        of = EngineIndexed(
            self._engine, self._named.name, self._named.identity, self._table, documents, embedded, *stored
        )
        return EngineIndex(of, PARTITIONS)


OpenIndex = Callable[[StaticTable | None], AbstractAsyncContextManager[Filled]]
"""Opens an empty index, with a table of static vectors or without one."""


def opens_replicas() -> OpenIndex:
    """Opens embedded indexes."""

    @asynccontextmanager
    async def opened(table: StaticTable | None = None) -> AsyncGenerator[Filled]:
        yield FilledReplica(table, DIMENSIONS)

    return opened


def opens_on_engine(url: str) -> OpenIndex:
    """Opens indexes on a search engine; each is dropped when it is closed."""
    numbers = iter(range(1, 1_000))

    @asynccontextmanager
    async def opened(table: StaticTable | None = None) -> AsyncGenerator[Filled]:
        identity = Identity(
            model=MODEL,
            dimensions=DIMENSIONS,
            table="" if table is None else table.name,
            vector_dimensions=DIMENSIONS if table is None else table.dimensions,
        )
        named = Named(f"{INDEX_PREFIX}{next(numbers)}", identity)
        client, engine = connect(url), Engine(url, connections=2)
        await schema.drop(client, named.name)
        await schema.create(client, named)
        try:
            yield FilledEngine(client, engine, named, table)
        finally:
            await schema.drop(client, named.name)
            engine.close()
            await client.aclose()

    return opened
