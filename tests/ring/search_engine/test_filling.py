"""Filling an index from the feed and from the documents, whatever happens meanwhile.

What the workers' jobs do where the index is on a search engine: purging, reconciling, another embedder.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from engine_index import Keeping, content_of, count_of, in_line, live
from hash_embedder import HashEmbedder
from indexes import Filled, entry_of, opens_on_engine
from msgspec.structs import replace
from rebuilding import rebuild
from replica_pen import PARTITIONS, TENANT, Pen, drain
from waiting import wait_until
from workshop import embedding_queue

from ingest.commands.decide import ForgetSubject
from ingest.log.keys import PartitionKeys
from ingest.log.position import Token
from ingest.platform.connections import Client
from projections.embedding.embed_job import DocumentVectors, EmbeddingQueue
from projections.embedding.live import Choice, choice_of, chosen, declare
from projections.forgetting import engine_purge
from projections.forgetting.engine_purge import SearchEnginePurge
from projections.index.protocol import DocumentLocation
from projections.index.replica import FeedGap, FeedPosition, end_of_feed, trim_feed
from projections.nouns.index_entry import IndexEntry
from projections.rebuilding.embeddings import EngineEmbeddingRebuild
from projections.rebuilding.rebuilds import Rebuilds
from projections.search.question import Filter, Question
from projections.search_engine import comparing, filling, keeping, schema, writing
from projections.search_engine.engine import Engine
from projections.search_engine.filling import PartitionFiller, Servers
from projections.search_engine.keeping import EngineNames
from projections.search_engine.layout import ALIAS, READY, Identity, PartitionIndex, State, identity_of, packed
from projections.search_engine.schema import Catalogue, Named, begun
from projections.search_engine.writing import Changes, Stale, Standing, begin, placed, read_state, write
from projections.store.feed import Put


class OtherEmbedder(HashEmbedder):
    """Of another model."""

    model = "test/other"


async def test_an_index_is_filled_from_the_documents_and_then_follows_the_feed(
    pen: Pen, servers: Servers, keep: Keeping, queue: EmbeddingQueue
):
    await pen.add_some(20)
    async with keep():
        index = await in_line(servers)
        assert await count_of(servers.engine, index) > 40
        await pen.add_some(10, queue=queue)
        index = await in_line(servers)
        states = [await read_state(servers.engine, PartitionIndex(index.name, n)) for n in range(PARTITIONS)]
        assert all(state is not None and state.embedded == state.documents > 0 for state in states)


async def test_what_is_forgotten_leaves_no_key_and_no_word(pen: Pen, servers: Servers, keep: Keeping):
    await pen.write_some(3)
    secret = await pen.remember("the unspeakable zanzibar plan", "hidden")
    await pen.project()
    async with keep():
        index = await in_line(servers)
        assert await count_of(servers.engine, index, "@project:{hidden}") == 1
        await pen.say(ForgetSubject(kind="memory", subject=secret.id, project="hidden"))
        await pen.project()
        await in_line(servers)
    left = [key async for key in servers.engine.scan_iter(match="*", count=1000) if secret.id.encode() in key]
    assert left == []
    await schema.command(servers.engine, "FT.DEBUG", "GC_FORCEINVOKE", index.name)
    words: list[bytes] = await schema.command(servers.engine, "FT.DEBUG", "DUMP_TERMS", index.name)
    assert words
    assert not {b"zanzibar", b"unspeak"}.intersection(words)
    assert b"hidden" not in await schema.command(servers.engine, "FT.TAGVALS", index.name, "project")


async def test_a_worker_that_ends_between_feed_and_engine_goes_on_where_the_engine_stands(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    await pen.add_some(5)
    async with keep():
        index = await in_line(servers)
    before = [await read_state(servers.engine, PartitionIndex(index.name, n)) for n in range(PARTITIONS)]
    await pen.add_some(30)

    class Ended(BaseException):
        pass

    writes = 0

    async def ends(*args: Any) -> Any:
        nonlocal writes
        writes += 1
        if writes == 2:
            raise Ended
        return await real(*args)

    real = writing._write  # pyright: ignore[reportPrivateUsage]
    with monkeypatch.context() as patch:
        patch.setattr(writing, "_write", ends)
        filler = PartitionFiller(servers, index, 0, Changes(index.identity, None), asyncio.Lock())
        with pytest.raises(Ended):
            await filler.run()
    after = await read_state(servers.engine, PartitionIndex(index.name, 0))
    assert before[0] is not None
    assert after is not None
    assert (after.feed, after.covers) == (before[0].feed, before[0].covers)
    assert after.documents > before[0].documents, "a part was written"
    async with keep():
        await in_line(servers)


async def test_of_two_writers_the_one_that_was_held_up_changes_nothing(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    """It has read a document that is forgotten before it writes."""
    secret = await pen.remember("to be forgotten")
    await pen.add_some(3)
    ((partition, _),) = Token.parse(secret.position).items()
    async with keep():
        index = await in_line(servers)
    held, go_on = asyncio.Event(), asyncio.Event()
    keys = PartitionIndex(index.name, partition)
    state = await read_state(servers.engine, keys)
    assert state is not None
    stale: list[Stale] = []

    async def late() -> None:
        documents = PartitionKeys(partition).of_generation(state.generation)
        compared = comparing.Compared(servers.redis, servers.engine, index.identity, keys, documents)
        changes = [Changes(index.identity, None).of(partition, step) async for step in compared.steps()]
        held.set()
        await go_on.wait()
        for some in changes:
            with pytest.raises(Stale) as raised:
                await filling.write(servers.engine, keys, state, some, filling.standing(state))
            stale.append(raised.value)

    writing_late = asyncio.create_task(late())
    await held.wait()
    async with keep():
        await pen.forget(secret.id)
        await pen.project()
        await in_line(servers)
        go_on.set()
        await writing_late
        assert stale
        await in_line(servers)
        assert secret.id not in (await content_of(servers.engine, index, partition)).documents


async def test_an_emptied_engine_is_filled_from_the_documents_again(pen: Pen, servers: Servers, keep: Keeping):
    await pen.add_some(10)
    async with keep():
        await in_line(servers)
        await servers.engine.flushall()
        await pen.add_some(2)
        await in_line(servers)


async def test_an_index_that_the_engine_lost_is_replaced_by_a_new_one(pen: Pen, servers: Servers, keep: Keeping):
    await pen.add_some(5)
    async with keep():
        index = await in_line(servers)
        await schema.command(servers.engine, "FT.DROPINDEX", index.name)

        async def is_replaced() -> bool:
            now = await live(servers.engine)
            return now is not None and now.name != index.name

        await wait_until(is_replaced)
        await in_line(servers)
        await wait_until(lambda: _is_dropped(servers.engine, index.name))


async def _is_dropped(engine: Client, name: str) -> bool:
    left = [key async for key in engine.scan_iter(match=f"{name}:*", count=1000)]
    return not left and (await schema.read_catalogue(engine)).catalogue.leaving == []


async def test_what_the_feed_does_not_tell_is_read_from_the_documents(pen: Pen, servers: Servers, keep: Keeping):
    await pen.write_some(5)
    gone = await pen.remember("ada likes green tea")
    await pen.project()
    async with keep():
        await in_line(servers)
    await pen.forget(gone.id)
    await pen.add_some(5)
    for partition in range(PARTITIONS):
        feed = PartitionKeys(partition).of_generation(1)
        await trim_feed(pen.redis, partition, FeedPosition(feed=await end_of_feed(pen.redis, feed)))
    async with keep():
        await in_line(servers)


async def test_the_index_follows_to_another_generation_and_is_relied_on_meanwhile(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    await pen.add_some(10)
    phases: set[str] = set()
    real = filling.write

    async def noting(*args: Any) -> State:
        state = await real(*args)
        phases.add(state.phase)
        return state

    async with keep():
        await in_line(servers)
        monkeypatch.setattr(filling, "write", noting)
        for partition in range(PARTITIONS):
            assert await rebuild(pen.redis, pen.log, partition, 20) == 1
        await pen.add_some(2)
        index = await in_line(servers)
        state = await read_state(servers.engine, PartitionIndex(index.name, 0))
        assert state is not None
        assert state.generation == 2
    assert phases == {"comparing", "ready"}


async def test_what_is_no_document_of_a_new_generation_leaves_the_index(pen: Pen, servers: Servers, keep: Keeping):
    """No feed tells of it."""
    stray = await pen.remember("stray")
    await pen.add_some(3)
    ((partition, _),) = Token.parse(stray.position).items()
    async with keep():
        index = await in_line(servers)
    assert await rebuild(pen.redis, pen.log, partition, 20) == 1
    await pen.redis.delete(PartitionKeys(partition).of_generation(2).doc(stray.id))
    async with keep():
        await in_line(servers)
        assert stray.id not in (await content_of(servers.engine, index, partition)).documents


async def test_what_the_log_lost_is_noticed_by_who_only_waits(pen: Pen, servers: Servers, keep: Keeping):
    lost = await pen.remember("lost")
    await pen.project()
    ((partition, _),) = Token.parse(lost.position).items()
    keys = PartitionKeys(partition).of_generation(1)
    async with keep():
        index = await in_line(servers)
        await pen.redis.delete(keys.doc(lost.id))
        await pen.redis.xdel(keys.changes, await end_of_feed(pen.redis, keys))

        async def is_gone() -> bool:
            return (await content_of(servers.engine, index, partition)).documents == {}

        await wait_until(is_gone)


async def test_another_model_gets_an_index_beside_the_one_that_is_read(
    pen: Pen, servers: Servers, keep: Keeping, queue: EmbeddingQueue
):
    """It is used when it has as many vectors, and the old one goes with all its keys."""
    await pen.add_some(10)
    async with keep():
        old = await in_line(servers)
        await drain(queue)
        await in_line(servers)
    async with keep(OtherEmbedder()):

        async def is_filled() -> bool:
            filled = (await schema.read_catalogue(servers.engine)).catalogue.filling
            states = filled and [await read_state(servers.engine, PartitionIndex(filled.name, n)) for n in range(2)]
            return bool(states) and all(state and state.phase == "ready" for state in states or ())

        await wait_until(is_filled)
        await pen.add_some(2)
        assert await live(servers.engine) == old, "its documents have no vectors yet"
        with ThreadPoolExecutor(1) as executor:
            await drain(embedding_queue(pen.redis, OtherEmbedder(), executor))
        index = await in_line(servers, OtherEmbedder.model)
        assert index.identity == identity_of(OtherEmbedder())
        await wait_until(lambda: _is_dropped(servers.engine, old.name))
        assert await schema.names(servers.engine) == {index.name}


async def test_an_engine_that_is_away_is_waited_for_and_told_of_once(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    await pen.add_some(3)
    async with keep():
        await in_line(servers)
        with monkeypatch.context() as patch:
            for name in ("hgetall", "get", "evalsha", "ask", "ask_apart"):
                patch.setattr(servers.engine, name, _away)
            await pen.add_some(3)
            await wait_until(lambda: "filling is delayed" in caplog.text)
            await asyncio.sleep(0.3)
        await in_line(servers)
        await wait_until(lambda: "filling continues" in caplog.text)
    assert caplog.text.count("filling is delayed") == 1


async def _away(*_: Any, **__: Any) -> Any:
    raise ConnectionError("the engine is away")


async def test_feeds_are_trimmed_behind_the_index(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(keeping, "TRIM_EVERY_S", 0.05)
    await pen.write_some(20)
    await pen.project(1)

    async def entries() -> int:
        return sum([await pen.redis.xlen(PartitionKeys(n).of_generation(1).changes) for n in range(PARTITIONS)])

    assert await entries() == 60
    async with keep(every=10):
        await wait_until(lambda: _is(entries, 0))
        await pen.add_some(1)
        await in_line(servers)


async def _is(count: Callable[[], Any], expected: int) -> bool:
    return await count() == expected


SECRET = "the unspeakable zanzibar plan"


async def test_a_purge_waits_for_the_index_and_trims_what_told_of_the_forgotten(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    purge = SearchEnginePurge(servers.redis, servers.engine, PARTITIONS)
    secret = await pen.remember(SECRET)
    await pen.add_some(3)
    async with keep():
        index = await in_line(servers)
        probe = await purge.probe(TENANT, [secret.id, "mem_none"], [SECRET])
        assert (probe.documents, probe.queries, probe.found) == (2, 1, 1)
    await pen.forget(secret.id)
    await pen.project()
    with monkeypatch.context() as patch:
        patch.setattr(engine_purge, "WAIT_FOR_ENGINE_S", 0.3)
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
    await pen.add_some(1)
    async with keep():
        await in_line(servers)
    read = await schema.read_catalogue(servers.engine)
    assert await schema.exchange(servers.engine, read, replace(read.catalogue, leaving=["mnemolog:search:index:0"]))
    monkeypatch.setattr(engine_purge, "WAIT_FOR_ENGINE_S", 0.3)
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
    await pen.add_some(5)
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


ALLOWED = Filter(tenant="default", now_ms=0)


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
