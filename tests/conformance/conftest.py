"""Fixtures of the conformance tests, and which suites run against which servers.

The suites of the log, of the store, of the index and of what moves between them run against every kind of server. The
others, which are about what is done with those, run against the embedded Valkey; `EVERY_SERVER=1 pytest
tests/conformance` runs all of them against all. `make test` runs those of the log, of the store and of the runner
against every kind of server, and leaves the rest of the matrix to `make nightly`.
"""

import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from desk import Desk, opened_desk
from hash_embedder import HashEmbedder
from llm_stub import LlmStub
from search_engines import missing, search_engine
from servers import SERVERS, Server, serving
from workshop import Workshop, embedding_queue

from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue

ON_EVERY_SERVER = (
    "index_replica", "test_backup", "test_changes", "test_event_log", "test_presence", "test_queries_audit",
    "test_queries_health", "test_queries_lessons", "test_runner", "test_runner_host", "test_state_store",
)  # fmt: skip
BY_DAY = ("test_event_log", "test_state_store", "test_runner")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test that asks for a server against those that its module is for."""
    if "valkey" in metafunc.fixturenames:
        path = metafunc.definition.path
        everywhere = not {path.stem, path.parent.name}.isdisjoint(ON_EVERY_SERVER) or "EVERY_SERVER" in os.environ
        servers = SERVERS if everywhere else SERVERS[:1]
        marks = () if path.stem in BY_DAY else (pytest.mark.nightly,)
        others = [pytest.param(server, marks=marks) for server in servers[1:]]
        metafunc.parametrize("valkey", [servers[0], *others], indirect=True, scope="session")


@pytest.fixture(scope="session")
def valkey(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One real server of each kind for the whole session: Valkey, Redis where it is installed, a Valkey cluster."""
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="session")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One engine for the whole session."""
    if (why := missing()) is not None:
        pytest.skip(why)
    with search_engine(tmp_path_factory.mktemp("engine")) as url:
        yield url


@pytest.fixture
async def desk(redis: Client, valkey: Server, tmp_path: Path) -> AsyncIterator[Desk]:
    """An empty log, with everything that may be asked of it."""
    async with opened_desk(redis, valkey.url, tmp_path) as desk:
        yield desk


@pytest.fixture
async def shop(redis: Client, tmp_path: Path) -> Workshop:
    """An empty log, and every job on it; a test brings the documents up to it."""
    made = Workshop(redis, tmp_path)
    await made.log.create_or_check()
    return made


@pytest.fixture
def stub() -> Iterator[LlmStub]:
    """A language model that answers by rules, or as a test says."""
    with LlmStub() as server:
        yield server


@pytest.fixture
async def queue(redis: Client) -> AsyncIterator[EmbeddingQueue]:
    """What embeds what is queued."""
    with ThreadPoolExecutor(2) as executor:
        yield embedding_queue(redis, HashEmbedder(), executor)
