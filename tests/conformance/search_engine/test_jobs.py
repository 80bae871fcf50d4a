"""What the workers' jobs do where the index is on a search engine: purging, reconciling, another embedder."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from engine_index import Keeping, content_of, in_line
from indexes import Filled, entry_of, opens_on_engine
from msgspec.structs import replace
from replica_pen import PARTITIONS, TENANT, HashEmbedder, Pen, drain

from ingest.log.keys import PartitionKeys
from ingest.log.position import Token
from ingest.platform.connections import Client
from projections.documents.index_entry import IndexEntry
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.embedding.live import Choice, choice_of, chosen, declare
from projections.forgetting import purge as purge_engine
from projections.forgetting.purge import SearchEnginePurge
from projections.rebuilding.embeddings import EngineEmbeddingRebuild
from projections.rebuilding.rebuilds import Rebuilds
from projections.search.index import DocumentLocation
from projections.search.question import Filter, Question
from projections.search.replica import FeedGap
from projections.search_engine import schema
from projections.search_engine.engine import Engine
from projections.search_engine.filling import Servers
from projections.search_engine.keeping import EngineNames
from projections.search_engine.layout import ALIAS, READY, Identity, PartitionIndex, packed
from projections.search_engine.schema import Catalogue, Named, begun
from projections.search_engine.writing import Changes, Standing, begin, placed, write
from projections.store.feed import Put

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
    memory = await pen.remember("kept")
    await pen.project()
    await drain(queue)
    ((partition, _),) = Token.parse(memory.position).items()
    with pytest.raises(FeedGap):
        await EngineNames(servers.engine).names(partition)
    async with keep():
        index = await in_line(servers)
        answer = await EngineNames(servers.engine).names(partition)
        content = await content_of(servers.engine, index, partition)
    assert answer.by_partition[partition].names == content.documents.keys() == {memory.id}
    assert answer.by_partition[partition].embedded == {memory.id}
    assert answer.at[partition].feed != "0-0"


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
        engine = await chosen(self._servers.redis)
        assert engine is not None
        self.current = self.all[engine.live.spec]
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
            assert all(content.vectors.keys() == content.documents.keys() != set() for content in contents)
            assert index != old
            assert await strategy.switch(rebuild, back=True)
    engine = await chosen(servers.redis)
    assert engine is not None
    assert engine.live == embedders.choice("one")


async def test_an_index_is_created_once_and_has_the_options_that_it_needs(engine: Client, index: Named):
    await schema.create(engine, index)
    assert await schema.names(engine) == {index.name}


async def test_the_catalogue_is_exchanged_by_one_of_two(engine: Client):
    identity = Identity(model="m", dimensions=0, vector_dimensions=0)
    item = other = await schema.read_catalogue(engine)
    then = await schema.exchange(engine, item, begun(item.catalogue, identity))
    assert then is not None
    assert await schema.exchange(engine, other, begun(other.catalogue, identity)) is None
    assert await schema.read_catalogue(engine) == then
    assert await schema.exchange(engine, then, Catalogue()) is not None


async def test_an_index_is_dropped_with_all_its_keys_and_no_others(
    engine: Client, index: Named, entry: Callable[..., IndexEntry]
):
    other = Named(f"{index.name}1", index.identity)
    await schema.create(engine, other)
    for item in (index, other):
        keys = PartitionIndex(item.name, 0)
        state = await begin(engine, keys, None, Standing(1, "0-0", "0-0", READY))
        items = [Put(entry(f"obs_{n}", "red", episode="e")) for n in range(3)]
        changes = Changes(item.identity, None).of(0, placed(items, state.position))
        await write(engine, keys, state, changes, Standing(1, "1-0", "1-0", READY))
    await schema.point_alias(engine, index.name)
    await schema.point_alias(engine, other.name)
    await schema.drop(engine, index.name)
    await schema.drop(engine, index.name)
    assert await schema.names(engine) == {other.name}
    assert (await schema.command(engine, "FT.SEARCH", ALIAS, "*", "LIMIT", 0, 0))[0] == 3
    left = [key.decode() async for key in engine.scan_iter(match="*", count=100)]
    assert len(left) == 5
    assert all(key.startswith(f"{other.name}:") for key in left)


ALLOWED = Filter(tenant="default")


def remove(engine: Engine, key: str) -> None:
    engine.ask([["UNLINK", key]])


def hide(engine: Engine, key: str) -> None:
    engine.ask([["HSET", key, "x", packed(replace(entry_of("obs_2", ""), audience=["eve"]))]])


@pytest.mark.parametrize("change", [remove, hide])
@pytest.mark.parametrize("ranking", ["fused", "similarity", "rrf"])
async def test_what_is_removed_or_hidden_between_being_found_and_being_read_is_no_hit(
    engine_url: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[Engine, str], None], ranking: Any
):
    read = Engine.read

    def late(
        engine: Engine, index: str, places: Sequence[DocumentLocation], key_scope: int
    ) -> list[tuple[int, list[Any]]]:
        change(engine, PartitionIndex(index, 0).document("obs_2"))
        return read(engine, index, places, key_scope)

    monkeypatch.setattr(Engine, "read", late)
    async with opens_on_engine(engine_url)(None) as filled:
        await fill(filled)
        question = Question(text="tea", vector=np.asarray([1, 0, 0, 0], np.float32), ranking=ranking)
        assert [hit.id for hit in (await filled.settle()).search(question, ALLOWED)] == ["obs_1"]


async def fill(filled: Filled) -> None:
    for name in ("obs_1", "obs_2"):
        await filled.put(name, "tea", episode="s")
        await filled.embed(name, [1, 0, 0, 0])
