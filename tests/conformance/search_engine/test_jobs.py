"""What the workers' jobs do where the index is on a search engine: purging, reconciling, another embedder."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from engine_index import Keeping, content_of, in_line
from msgspec.structs import replace
from replica_pen import PARTITIONS, TENANT, HashEmbedder, Pen, drain

from ingest.log.keys import PartitionKeys
from ingest.log.position import Token
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.embedding.live import Choice, choice_of, chosen, declare
from projections.forgetting import purge_engine
from projections.forgetting.purge_engine import SearchEnginePurge
from projections.rebuilding.embeddings import EngineEmbeddingRebuild
from projections.rebuilding.rebuilds import Rebuilds
from projections.search.reading import FeedGap
from projections.search_engine import schema
from projections.search_engine.filling import Servers
from projections.search_engine.names import EngineNames

SECRET = "the unspeakable zanzibar plan"


async def test_a_purge_waits_for_the_index_and_trims_what_told_of_the_forgotten(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    purge = SearchEnginePurge(servers.redis, servers.engine, PARTITIONS)
    secret = await pen.remember(SECRET)
    await pen.write_some(3)
    await pen.project()
    async with keep():
        index = await in_line(servers)
        probe = await purge.probe(TENANT, [secret.id, "mem_none"], [SECRET])
        assert (probe.documents, probe.queries, probe.found) == (2, 1, 1)
    await pen.forget(secret.id)
    await pen.project()
    with monkeypatch.context() as patch:
        patch.setattr(purge_engine, "WAIT_FOR_ENGINE_S", 0.3)
        assert await purge.clean() is None, "nobody fills the index"
    async with keep():
        cleaned = await purge.clean()
    assert cleaned is not None
    assert cleaned.name == index.name
    assert (await purge.probe(TENANT, [secret.id], [SECRET])).found == 0
    feeds = [PartitionKeys(n).of_generation(1).changes for n in range(PARTITIONS)]
    assert [await servers.redis.xlen(feed) for feed in feeds] == [0, 0]


async def test_a_purge_is_not_done_while_a_dropped_index_has_keys(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    await pen.write_some(1)
    await pen.project()
    async with keep():
        await in_line(servers)
    read = await schema.read_catalogue(servers.engine)
    assert await schema.exchange(servers.engine, read, replace(read.catalogue, leaving=["mnemolog:search:index:0"]))
    monkeypatch.setattr(purge_engine, "WAIT_FOR_ENGINE_S", 0.3)
    assert await SearchEnginePurge(servers.redis, servers.engine, PARTITIONS).clean() is None


async def test_reconciling_is_told_what_the_index_has_and_up_to_where(
    pen: Pen, servers: Servers, keep: Keeping, queue: EmbeddingQueue
):
    kept = await pen.remember("kept")
    await pen.project()
    await drain(queue)
    ((partition, _),) = Token.parse(kept.position).items()
    with pytest.raises(FeedGap):
        await EngineNames(servers.engine).names(partition)
    async with keep():
        index = await in_line(servers)
        told = await EngineNames(servers.engine).names(partition)
        content = await content_of(servers.engine, index, partition)
    assert told.by_partition[partition].names == content.documents.keys() == {kept.id}
    assert told.by_partition[partition].embedded == {kept.id}
    assert told.at[partition].feed != "0-0"


class Two:
    """Two embedders, of which the log's record names the live one."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.all: dict[str, HashEmbedder] = {"one": HashEmbedder(), "two": HashEmbedder()}
        self.all["two"].model = "test/two"
        self.current: Any = self.all["one"]
        self.spec = self.configured = "one"
        self.named = frozenset(self.all)

    async def refresh(self) -> Any:
        known = await chosen(self._servers.redis)
        assert known is not None
        self.current = self.all[known.live.spec]
        return self.current

    async def built(self, spec: str) -> Any:
        return self.all[spec]

    def choice(self, spec: str) -> Choice:
        return choice_of(spec, self.all[spec])


async def test_another_embedders_vectors_are_made_before_its_index_is_filled(pen: Pen, servers: Servers, keep: Keeping):
    embedders = Two(servers)
    await declare(servers.redis, embedders.choice("one"))
    await pen.write_some(5)
    await pen.project()
    choices = embedders.choice("one"), embedders.choice("two")
    rebuild = await Rebuilds(servers.redis).start("embeddings", range(PARTITIONS), embedders=choices)
    with ThreadPoolExecutor(1) as executor:
        vectors = DocumentVectors(servers.redis, executor, timedelta(days=1))
        strategy = EngineEmbeddingRebuild(servers.redis, embedders, vectors)
        async with keep(embedders=embedders):
            old = await in_line(servers)
            for part in rebuild.parts:
                assert (await strategy.fill(rebuild, part)).level
            assert not (await strategy.compare(rebuild)).agree, "an operator decides"
            assert await strategy.switch(rebuild, back=False)
            index = await in_line(servers, "test/two")
            contents = [await content_of(servers.engine, index, n) for n in range(PARTITIONS)]
            assert all(one.vectors.keys() == one.documents.keys() != set() for one in contents)
            assert index != old
            assert await strategy.switch(rebuild, back=True)
    known = await chosen(servers.redis)
    assert known is not None
    assert known.live == embedders.choice("one")
