"""What the tests of the index on a search engine have in common: an empty engine, and documents to write into it."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from search_engines import missing, search_engine

from ingest.platform.connections import Client, connect
from projections.documents.index_entry import IndexEntry
from projections.search.ranking import terms
from projections.search_engine import schema
from projections.search_engine.layout import INDEX_PREFIX, Identity
from projections.search_engine.schema import Named
from projections.store.feed import Vectors

T0 = 1_769_860_800_000
IDENTITY = Identity(model="test/model", dimensions=4, vector_dimensions=4)


@pytest.fixture(scope="session")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One engine for the whole session."""
    if (why := missing()) is not None:
        pytest.skip(why)
    with search_engine(tmp_path_factory.mktemp("engine")) as url:
        yield url


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
