"""What the tests of the index replica have in common: a writer, replicas that follow it, the job of its snapshots."""

from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from replica_pen import PARTITIONS, OpenReplica, Pen, closed
from servers import Server
from workshop import embedding_queue

from ingest.platform.connections import Client, connect
from projections.embedding.embed_job import EmbeddingQueue
from projections.index import service as service_module
from projections.index.service import ReplicaService
from projections.index.snapshots import SnapshotJob


@pytest.fixture
async def pen(redis: Client) -> Pen:
    pen = Pen(redis)
    await pen.log.create_or_check()
    return pen


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
async def queue(redis: Client, embedder: HashEmbedder) -> AsyncIterator[EmbeddingQueue]:
    with ThreadPoolExecutor(2) as executor:
        yield embedding_queue(redis, embedder, executor)


@pytest.fixture
async def feeds(valkey: Server) -> AsyncIterator[Client]:
    client = connect(valkey.url, connections=64)
    yield client
    await client.aclose()


@pytest.fixture
def open_replica(feeds: Client, tmp_path: Path) -> OpenReplica:
    """`open_replica(name)`: a follower of that name; all share one folder of snapshots."""

    @asynccontextmanager
    async def opened(name: str) -> AsyncGenerator[ReplicaService]:
        service = ReplicaService(feeds, PARTITIONS, tmp_path / "snapshots", FixedEmbedder(HashEmbedder()), name)
        service.start()
        try:
            await service.wait_ready(30)
            yield service
        finally:
            await closed(service)

    return opened


@pytest.fixture
def snapshots(redis: Client, tmp_path: Path) -> SnapshotJob:
    return SnapshotJob(redis, PARTITIONS, tmp_path / "snapshots", FixedEmbedder(HashEmbedder()), every=1000)


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setattr(service_module, "RETRY_S", 0.05)
