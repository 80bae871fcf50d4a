"""Filling an index from the feed and from the documents, whatever happens meanwhile."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from embedding import embedding_queue
from engine_index import Keeping, content_of, count_of, in_line, live
from rebuilding import rebuild
from replica_pen import PARTITIONS, HashEmbedder, Pen, drain
from waiting import wait_until

from ingest.commands.decide import ForgetSubject
from ingest.log.keys import PartitionKeys
from ingest.log.position import Token
from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue
from projections.search.replica import FeedPosition, end_of_feed, trim_feed
from projections.search_engine import comparing, filling, keeping, schema, writing
from projections.search_engine.filling import PartitionFiller, Servers
from projections.search_engine.layout import PartitionIndex, State, identity_of
from projections.search_engine.writing import Changes, Stale, read_state


class OtherEmbedder(HashEmbedder):
    """Of another model."""

    model = "test/other"


async def test_an_index_is_filled_from_the_documents_and_then_follows_the_feed(
    pen: Pen, servers: Servers, keep: Keeping, queue: EmbeddingQueue
):
    await pen.write_some(20)
    await pen.project()
    async with keep():
        index = await in_line(servers)
        assert await count_of(servers.engine, index) > 40
        await pen.write_some(10)
        await pen.project()
        await drain(queue)
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
    await pen.write_some(5)
    await pen.project()
    async with keep():
        index = await in_line(servers)
    before = [await read_state(servers.engine, PartitionIndex(index.name, n)) for n in range(PARTITIONS)]
    await pen.write_some(30)
    await pen.project()

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
    await pen.write_some(3)
    await pen.project()
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
    await pen.write_some(10)
    await pen.project()
    async with keep():
        await in_line(servers)
        await servers.engine.flushall()
        await pen.write_some(2)
        await pen.project()
        await in_line(servers)


async def test_an_index_that_the_engine_lost_is_replaced_by_a_new_one(pen: Pen, servers: Servers, keep: Keeping):
    await pen.write_some(5)
    await pen.project()
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
    await pen.write_some(5)
    await pen.project()
    for partition in range(PARTITIONS):
        feed = PartitionKeys(partition).of_generation(1)
        await trim_feed(pen.redis, partition, FeedPosition(feed=await end_of_feed(pen.redis, feed)))
    async with keep():
        await in_line(servers)


async def test_the_index_follows_to_another_generation_and_is_relied_on_meanwhile(
    pen: Pen, servers: Servers, keep: Keeping, monkeypatch: pytest.MonkeyPatch
):
    await pen.write_some(10)
    await pen.project()
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
        await pen.write_some(2)
        await pen.project()
        index = await in_line(servers)
        state = await read_state(servers.engine, PartitionIndex(index.name, 0))
        assert state is not None
        assert state.generation == 2
    assert phases == {"comparing", "ready"}


async def test_what_is_no_document_of_a_new_generation_leaves_the_index(pen: Pen, servers: Servers, keep: Keeping):
    """No feed tells of it."""
    stray = await pen.remember("stray")
    await pen.write_some(3)
    await pen.project()
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
    await pen.write_some(10)
    await pen.project()
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
        await pen.write_some(2)
        await pen.project()
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
    await pen.write_some(3)
    await pen.project()
    async with keep():
        await in_line(servers)
        with monkeypatch.context() as patch:
            for name in ("hgetall", "get", "evalsha", "ask", "ask_apart"):
                patch.setattr(servers.engine, name, _away)
            await pen.write_some(3)
            await pen.project()
            await wait_until(lambda: "will be" in caplog.text)
            await asyncio.sleep(0.3)
        await in_line(servers)
        await wait_until(lambda: "it is filled again" in caplog.text)
    assert caplog.text.count("will be") == 1


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
        await pen.write_some(1)
        await pen.project()
        await in_line(servers)


async def _is(count: Callable[[], Any], expected: int) -> bool:
    return await count() == expected
