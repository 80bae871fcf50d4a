"""What the tests of the index on a search engine have in common: an empty engine, and documents to write into it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from engine_index import Keeping
from hash_embedder import HashEmbedder
from replica_pen import PARTITIONS, Pen
from servers import Server

from ingest.platform.connections import Client, connect
from projections.documents.index_entry import IndexEntry
from projections.search.terms import terms
from projections.search_engine import comparing, filling, keeping, schema
from projections.search_engine.filling import Servers
from projections.search_engine.keeping import SearchEngineIndexes
from projections.search_engine.layout import INDEX_PREFIX, Identity
from projections.search_engine.schema import Named
from projections.store.feed import Vectors
from projections.vectors.embedder import Embedders, FixedEmbedder
from tests.conformance.conftest import engine_url, pytest_generate_tests, queue, valkey

__all__ = ["engine_url", "pytest_generate_tests", "queue", "valkey"]

T0 = 1_769_860_800_000
IDENTITY = Identity(model="test/model", dimensions=4, vector_dimensions=4)


@pytest.fixture
async def engine(engine_url: str) -> AsyncIterator[Client]:
    """A client of the engine, with nothing in it."""
    client = connect(engine_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def index(engine: Client) -> Named:
    """An empty index without static vectors."""
    made = Named(f"{INDEX_PREFIX}1", IDENTITY)
    await schema.create(engine, made)
    return made


@pytest.fixture
def entry() -> Callable[..., IndexEntry]:
    """`entry(id, text, **fields)` is a document of tenant `default`, project `atlas`."""

    def entry(name: str, text: str, **fields: Any) -> IndexEntry:
        given: dict[str, Any] = {
            "id": name, "kind": "observation", "terms": " ".join(terms(text)), "tenant": "default", "project": "atlas",
            "agent_id": "", "user_id": "", "occurred_ms": T0, "recorded_ms": T0,
        }  # fmt: skip
        return IndexEntry(**(given | fields))

    return entry


@pytest.fixture
def vectors() -> Callable[..., Vectors]:
    """`vectors(id, *rows)` are the vectors of a document, scaled to unit length."""

    def vectors(name: str, *rows: Sequence[float], model: str = IDENTITY.model) -> Vectors:
        matrix = np.asarray(rows, np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        return Vectors(name, model, matrix.shape[1], matrix.astype("<f2").tobytes())

    return vectors


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(keeping, "TICK_S", 0.02)
    monkeypatch.setattr(keeping, "DROP_AGAIN_S", 0.1)
    monkeypatch.setattr(filling, "AGAIN_AFTER_S", 0.05)
    monkeypatch.setattr(comparing, "DOCUMENTS_AT_ONCE", 8)
    monkeypatch.setattr(comparing, "NAMES_AT_ONCE", 10)


@pytest.fixture
async def pen(redis: Client) -> Pen:
    pen = Pen(redis)
    await pen.log.create_or_check()
    return pen


@pytest.fixture
async def servers(redis: Client, valkey: Server, engine: Client) -> AsyncIterator[Servers]:
    blocking = connect(valkey.url, connections=4 * PARTITIONS, repeat=False)
    yield Servers(redis, blocking, engine)
    await blocking.aclose()


@pytest.fixture
def keep(servers: Servers) -> Keeping:
    """`async with keep(embedder)`: a worker that has leased every partition keeps the indexes meanwhile."""

    @asynccontextmanager
    async def keep(
        embedder: HashEmbedder | None = None, every: int = 1_000_000, embedders: Embedders | None = None
    ) -> AsyncGenerator[SearchEngineIndexes]:
        embedders = embedders or FixedEmbedder(embedder or HashEmbedder())
        stored = SearchEngineIndexes(servers, PARTITIONS, embedders, lambda: range(PARTITIONS), every)
        stored.start()
        try:
            yield stored
        finally:
            await stored.aclose()

    return keep
