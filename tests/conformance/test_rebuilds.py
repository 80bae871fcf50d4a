"""What a rebuild guarantees, on a real Valkey: one at a time, resumed, compared before it switches, and a way back.

Left open: in which order partitions are filled, how many entries a second that is.
"""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from msgspec.structs import replace
from replay_compare import assert_equals_replay, differences, stored
from waiting import wait_until
from workshop import PARTITIONS, Workshop

from ingest.commands.decide import ForgetSubject
from ingest.embedded.valkey import EmbeddedValkey
from ingest.errors import NotFound, RebuildUnderWay, WrongRebuildState
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.keys import CONSUMER_GROUP, PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.platform.connections import Client, connect
from projections.index import service as service_module
from projections.index.service import ReplicaService
from projections.maintenance.reconciling import NewestSnapshot, PartitionCheck
from projections.nouns.fold import VERSION, rebuild_due
from projections.rebuilding import documents as rebuild_documents
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.job import RebuildJob
from projections.rebuilding.rebuilds import Rebuild, Rebuilds, State, Switch
from projections.search.question import Filter, Question
from projections.store.dead_letters import PartitionDeadLetters, dead_letters
from workers.runner import PartitionRunner

MARK = "zqxvkmarker7"


@pytest.fixture
async def shop(redis: Client, tmp_path: Path) -> AsyncGenerator[Workshop]:
    made = Workshop(redis, tmp_path)
    await made.log.create_or_check()
    yield made
    await made.aclose()


async def written(shop: Workshop, n: int = 12) -> list[str]:
    """Memories, observations and lessons in several projects, projected; the memories' ids."""
    memories: list[str] = []
    for k in range(n):
        memories.append((await shop.remember(f"memory {k} on topic {k % 3}", project=f"p{k % 4}")).id)
        await shop.observe(f"observation {k} of a long day", f"s{k % 5}")
        await shop.learn(f"lesson {k % 4} was learned", project=f"p{k % 2}")
    await shop.project()
    return memories


async def carried(shop: Workshop, name: str, *jobs: RebuildJob, until: tuple[State, ...] = ("switched",)) -> Rebuild:
    """A rebuild once workers have brought it to one of the states."""
    at_hand = jobs or (shop.rebuild_job(),)

    async def reached() -> bool:
        await asyncio.gather(*(job.run(5.0) for job in at_hand))
        return (await shop.rebuilds.get(name)).state in until

    await wait_until(reached, 60)
    return await shop.rebuilds.get(name)


async def rebuilt(shop: Workshop, *jobs: RebuildJob, until: State = "switched", mode: Switch = "auto") -> Rebuild:
    """A rebuild of every partition, once workers have brought it to a state."""
    begun = await shop.rebuilds.start("documents", range(PARTITIONS), mode)
    return await carried(shop, begun.id, *jobs, until=(until,))


async def rolled_back(shop: Workshop, name: str) -> None:
    await shop.rebuilds.change(name, lambda rebuild: steps.to_roll_back(rebuild, shop.rebuilds.now))
    await carried(shop, name, until=("rolled_back",))


async def no_way_back(shop: Workshop, name: str, why: str) -> None:
    with pytest.raises(WrongRebuildState, match=why):
        await shop.rebuilds.change(name, lambda rebuild: steps.to_roll_back(rebuild, shop.rebuilds.now))


async def forget(shop: Workshop, memory: str) -> None:
    await shop.say(ForgetSubject(kind="memory", subject=memory, project="atlas"))
    await shop.project()


async def generations(shop: Workshop) -> list[int]:
    return [int(await shop.redis.get(PartitionKeys(number).generation) or 1) for number in range(PARTITIONS)]


async def in_redis(redis: Client, text: str, pattern: str) -> list[str]:
    """The keys, of those that match, whose value has a text in it."""
    readers: dict[str, Any] = {"row": redis.hgetall, "changes": redis.xrange, "doc": redis.get}
    matches: list[str] = []
    async for raw in redis.scan_iter(match=pattern, count=1000):
        name = raw.decode()
        read = readers.get("row" if ":row:" in name else name.split(":")[3])
        if read and text.encode() in repr(await read(name)).encode():
            matches.append(name)
    return matches


async def test_a_rebuild_fills_compares_and_switches_every_partition(shop: Workshop):
    await written(shop)
    done = await rebuilt(shop)
    assert await generations(shop) == [2] * PARTITIONS
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)
    entries = [len(await shop.log.read(number, Position(0, 0), 1000)) for number in range(PARTITIONS)]
    assert [(part.done, part.total, part.level) for part in done.parts] == [(n, n, True) for n in entries]
    assert done.canaries is not None
    assert (done.canaries.agree, done.canaries.differing, done.canaries.asked > 20) == (True, 0, True)


async def test_only_one_rebuild_is_under_way_at_a_time(shop: Workshop):
    """Also when two are ordered at the same moment; the one that is under way is named."""
    answers = await asyncio.gather(
        *(shop.rebuilds.start("documents", range(PARTITIONS)) for _ in range(5)), return_exceptions=True
    )
    begun = [answer for answer in answers if isinstance(answer, Rebuild)]
    refused = [answer for answer in answers if isinstance(answer, RebuildUnderWay)]
    assert (len(begun), len(refused)) == (1, 4)
    assert {item.rebuild for item in refused} == {begun[0].id}
    await carried(shop, begun[0].id)
    again = await shop.rebuilds.start("documents", [0])
    assert again.parts[0].generation > begun[0].parts[0].generation, "a number is used once"


async def test_two_workers_share_a_rebuild_and_no_partition_is_filled_by_both(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    await written(shop)
    monkeypatch.setattr(rebuild_documents, "BATCH", 2)
    done = await rebuilt(shop, shop.rebuild_job("w1"), shop.rebuild_job("w2"))
    entries = [len(await shop.log.read(number, Position(0, 0), 1000)) for number in range(PARTITIONS)]
    assert [part.done for part in done.parts] == entries, "an entry was applied twice"
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_a_rebuild_whose_worker_was_killed_is_taken_up_where_it_stopped(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """The next worker needs nothing of the first but its leases to run out."""
    await written(shop)
    monkeypatch.setattr(rebuild_documents, "BATCH", 3)
    begun = await shop.rebuilds.start("documents", range(PARTITIONS))
    read: list[Position] = []

    class Killed(BaseException):
        pass

    class Dying(RedisLog):
        async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
            read.append(after)
            if len(read) == 3:
                raise Killed
            return await super().read(partition, after, limit)

    dying = shop.rebuild_job("dead", log=Dying(shop.redis, PARTITIONS))
    with pytest.raises(Killed):
        await dying.run(5.0)
    assert await generations(shop) == [1] * PARTITIONS, "half a rebuild is nobody's"
    assert read[2] > Position(0, 0)
    await written(shop, 2)
    again: list[Position] = []

    class Watched(RedisLog):
        async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
            again.append(after)
            return await super().read(partition, after, limit)

    next_one = shop.rebuild_job("next", log=Watched(shop.redis, PARTITIONS))
    await carried(shop, begun.id, next_one)
    assert again[0] == read[2], "it did not begin anew"
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_a_worker_that_lost_its_lease_writes_nothing_more(shop: Workshop):
    await written(shop)
    begun = await shop.rebuilds.start("documents", [0])
    await shop.redis.set(PartitionKeys(0).rebuild, "another", ex=timedelta(minutes=1))
    await shop.rebuild_job("late").run(0.5)
    assert await shop.redis.get(PartitionKeys(0).of_generation(begun.parts[0].generation).checkpoint) is None
    with pytest.raises(rebuild_documents.LeaseLost):
        await rebuild_documents.fill(shop.redis, shop.log, 0, begun.parts[0].generation, 1.0, "late")
    await shop.redis.delete(PartitionKeys(0).rebuild)


async def test_canaries_wait_for_the_lease_of_a_worker_that_died_comparing(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """That nobody could look is no difference."""
    await written(shop)
    monkeypatch.setattr(rebuild_documents, "LEVEL_WITHIN_S", 0.2)
    begun = await shop.rebuilds.start("documents", [0])
    part = begun.parts[0]
    assert (await rebuild_documents.fill(shop.redis, shop.log, 0, part.generation, 5.0)).level
    now = shop.rebuilds.now
    await shop.rebuilds.change(begun.id, lambda item: steps.progressed(item, 0, 0, 0, level=True, now=now))
    await shop.redis.set(PartitionKeys(0).rebuild, "dead", ex=60)
    job = shop.rebuild_job()
    await job.run(0.5)
    assert (await shop.rebuilds.get(begun.id)).state == "comparing"
    await shop.redis.delete(PartitionKeys(0).rebuild)
    await carried(shop, begun.id, job)


async def plant(shop: Workshop, memory: str, rebuild: Rebuild) -> int:
    """Take a memory out of what was rebuilt; returns its partition."""
    for part in rebuild.parts:
        keys = PartitionKeys(part.partition).of_generation(part.generation)
        if await shop.redis.delete(keys.doc(memory)):
            return part.partition
    raise AssertionError("it was in no partition")


async def planted(shop: Workshop, memory: str = "") -> Rebuild:
    """A rebuild that is filled, and then compared; where a memory is given, it is missing in what was rebuilt."""
    begun = await shop.rebuilds.start("documents", range(PARTITIONS))
    for part in begun.parts:
        assert (await rebuild_documents.fill(shop.redis, shop.log, part.partition, part.generation, 5.0)).level
    if memory:
        await plant(shop, memory, begun)
    return await carried(shop, begun.id, until=("ready", "switched"))


async def test_a_rebuild_that_answers_otherwise_waits_and_says_what_differs(shop: Workshop):
    *_, missing = await written(shop)
    rebuild = await planted(shop, missing)
    assert rebuild.state == "ready"
    assert rebuild.canaries is not None
    assert [(difference.what, difference.name, difference.said) for difference in rebuild.canaries.differences] == [
        ("document", missing, "not in the rebuilt data")
    ]
    assert await generations(shop) == [1] * PARTITIONS
    with pytest.raises(WrongRebuildState, match=r"1 of \d+ canaries differ"):
        await shop.rebuilds.change(rebuild.id, steps.to_switch)
    await shop.rebuilds.change(rebuild.id, lambda item: steps.to_switch(item, force=True))
    await carried(shop, rebuild.id)
    assert await generations(shop) == [2] * PARTITIONS


async def made_by_an_earlier_release(shop: Workshop, folded_by: str = "") -> None:
    """Store each memory with a tag that this release's folds do not give it, under another version of the folds."""
    for number in range(PARTITIONS):
        keys = PartitionKeys(number).of_generation(1)
        assert await shop.redis.get(keys.folded_by) == str(VERSION).encode()
        await shop.redis.unlink(keys.folded_by)
        if folded_by:
            await shop.redis.set(keys.folded_by, folded_by)
        async for key in shop.redis.scan_iter(match=f"{keys.tag}:doc:mem_*", count=1000):
            raw = await shop.redis.get(key.decode())
            assert raw is not None
            fields = msgspec.msgpack.decode(raw[1:]) | {"tags": ["of-an-earlier-rule"]}
            await shop.redis.set(key.decode(), raw[:1] + msgspec.msgpack.encode(fields))


@pytest.mark.parametrize("is_missing", [False, True], ids=["nothing is wrong", "a memory is missing"])
@pytest.mark.parametrize("folded_by", ["", "8"])
async def test_a_rebuild_after_an_upgrade_stops_only_for_missing_documents(
    shop: Workshop, folded_by: str, is_missing: bool
):
    memories = await written(shop)
    await made_by_an_earlier_release(shop, folded_by)
    rebuild = await planted(shop, memories[-1] if is_missing else "")
    assert rebuild.canaries is not None
    assert rebuild.state == ("ready" if is_missing else "switched")
    assert f"because of a newer rule: {rebuild_due(folded_by.encode() or None)}" in rebuild.canaries.said
    by_name = {difference.name: difference.said for difference in rebuild.canaries.differences}
    assert by_name.pop(memories[-1] if is_missing else memories[0]) == (
        "not in the rebuilt data" if is_missing else "other tags"
    )
    assert {*by_name.values()} == {"other tags"}


async def test_documents_of_an_earlier_release_are_rebuilt_once_and_then_compared_again(shop: Workshop):
    await written(shop)
    assert await shop.rebuilds.start_due(PARTITIONS) == ""
    await made_by_an_earlier_release(shop, "8")
    due = rebuild_due(b"8")
    findings = await PartitionCheck(shop.redis, shop.log, 0, "", 0, NewestSnapshot(shop.folder, "")).run(1)
    assert (findings.not_compared, findings.documents, findings.found) == (due, 0, {})
    canceled = await shop.rebuilds.start("documents", range(PARTITIONS))
    await shop.rebuilds.change(canceled.id, lambda item: replace(steps.cancelled(item, shop.rebuilds.now), folds=8))
    workers = [Rebuilds(shop.redis) for _ in range(3)]
    assert await asyncio.gather(*(worker.start_due(PARTITIONS) for worker in workers)) == [due] * 3
    rebuild, _ = await shop.rebuilds.all()
    await carried(shop, rebuild.id)
    assert await shop.rebuilds.start_due(PARTITIONS) == ""
    assert len(await shop.rebuilds.all()) == 2
    await rolled_back(shop, rebuild.id)
    assert await shop.rebuilds.start_due(PARTITIONS) == due
    assert len(await shop.rebuilds.all()) == 2, "the operator's decision stands until the next order"


async def test_a_cancelled_rebuild_leaves_nothing_behind(shop: Workshop):
    rebuild = await planted(shop, (await written(shop))[-1])
    await shop.rebuilds.change(rebuild.id, lambda item: steps.cancelled(item, shop.rebuilds.now))
    await shop.rebuild_job().run(1.0)
    left = [name async for name in shop.redis.scan_iter(match="mnemolog:*{p0?}:g2:*", count=1000)]
    assert left == []
    assert await generations(shop) == [1] * PARTITIONS
    again = await shop.rebuilds.start("documents", range(PARTITIONS))
    assert {part.generation for part in again.parts} == {3}, "a number is used once"
    await carried(shop, again.id)


async def test_a_manual_rebuild_stays_level_until_it_is_told_to_switch(shop: Workshop):
    await written(shop)
    ready = await rebuilt(shop, until="ready", mode="manual")
    assert ready.canaries is not None
    assert ready.canaries.agree
    await written(shop, 3)
    await shop.rebuild_job().run(1.0)
    for number in range(PARTITIONS):
        assert differences(await stored(shop.redis, number, 1), await stored(shop.redis, number, 2)) == {}
    await shop.rebuilds.change(ready.id, steps.to_switch)
    await carried(shop, ready.id)
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)


async def test_what_is_forgotten_while_a_rebuild_is_ready_leaves_it_too(shop: Workshop):
    """There is a document to go, and no feed that told of it."""
    secret = await shop.remember(f"the key is {MARK}")
    await written(shop)
    await rebuilt(shop, until="ready", mode="manual")
    assert len(await in_redis(shop.redis, MARK, "mnemolog:*:g2:*")) == 1
    await forget(shop, secret.id)
    await shop.rebuild_job().run(1.0)
    assert await in_redis(shop.redis, MARK, "mnemolog:*:g2:*") == []


async def test_a_rebuild_is_rolled_back_to_documents_that_know_what_came_since(shop: Workshop):
    """Events before, between and after: all are in what is read, whichever generation that is."""
    await written(shop)
    rebuild = await rebuilt(shop)
    await written(shop, 3)
    forgotten = await shop.remember("not for long")
    await shop.project()
    await forget(shop, forgotten.id)
    await rolled_back(shop, rebuild.id)
    assert await generations(shop) == [1] * PARTITIONS
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)
    await written(shop, 3)
    await assert_equals_replay(shop.redis, shop.log, PARTITIONS)
    shop.clock.advance(timedelta(minutes=1))
    await shop.rebuild_job().run(1.0)
    assert await stored(shop.redis, 0, 2) == ({}, {})


async def test_there_is_no_way_back_when_the_time_is_over(shop: Workshop):
    await written(shop)
    rebuild = await rebuilt(shop)
    shop.clock.advance(timedelta(minutes=61))
    await no_way_back(shop, rebuild.id, "a rollback is not possible")
    await shop.rebuild_job().run(1.0)
    assert await stored(shop.redis, 0, 1) == ({}, {})


async def test_what_is_forgotten_is_not_kept_for_going_back(shop: Workshop):
    """The purge deletes what was read before, and the rebuild says why there is no way back."""
    secret = await shop.remember(f"the key is {MARK}")
    await written(shop)
    rebuild = await rebuilt(shop)
    assert await in_redis(shop.redis, MARK, "mnemolog:*:g1:*") != []
    shop.clock.advance(timedelta(minutes=1))
    await forget(shop, secret.id)
    await shop.purge().run()
    assert await in_redis(shop.redis, MARK, "mnemolog:*:g?:*") == []
    await no_way_back(shop, rebuild.id, "documents were deleted")


async def test_a_second_rebuild_takes_the_way_back_of_the_first(shop: Workshop):
    await written(shop)
    first = await rebuilt(shop)
    shop.clock.advance(timedelta(minutes=1))
    second = await shop.rebuilds.start("documents", range(PARTITIONS))
    await no_way_back(shop, first.id, "another rebuild")
    await carried(shop, second.id)
    assert await stored(shop.redis, 0, 1) == ({}, {})
    assert await generations(shop) == [3] * PARTITIONS


async def test_dead_letters_go_with_the_generation_that_could_not_apply_them(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """What a fold cannot apply any more is parked when that is switched to, and no more after going back."""
    memories = await written(shop)
    keys = PartitionKeys(await _partition_of(shop, memories[0]))
    whole = rebuild_documents.project

    async def faulty(store: object, events: list[object]) -> object:
        if any("memory 0 on" in repr(event) for event in events):
            raise ValueError("a fault of the new fold")
        return await whole(store, events)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(rebuild_documents, "project", faulty)
    rebuild = await rebuilt(shop, until="ready")
    assert await letters(shop, keys) == [], "what is read has applied it"
    await shop.rebuilds.change(rebuild.id, lambda item: steps.to_switch(item, force=True))
    await carried(shop, rebuild.id)
    assert await letters(shop, keys) == ["ValueError"]
    monkeypatch.undo()
    await rolled_back(shop, rebuild.id)
    assert await letters(shop, keys) == []


async def letters(shop: Workshop, keys: PartitionKeys) -> list[str]:
    """The errors of the dead letters that are read."""
    return [letter.code async for letter in dead_letters(shop.redis, keys)]


async def _partition_of(shop: Workshop, memory: str) -> int:
    document = await shop.documents.find(DocumentId(memory))
    assert document is not None
    return document.partition


async def test_only_the_newest_rebuilds_are_remembered(shop: Workshop):
    first = await shop.rebuilds.start("documents", [0])
    await carried(shop, first.id)
    for _ in range(10):
        shop.clock.advance(timedelta(hours=2))
        await carried(shop, (await shop.rebuilds.start("documents", [0])).id)
    assert len(await shop.rebuilds.all()) == 10
    with pytest.raises(NotFound):
        await shop.rebuilds.get(first.id)


async def test_a_replica_follows_a_switch_and_a_roll_back_when_the_old_feed_has_no_beginning(
    shop: Workshop, redis: Client, valkey: EmbeddedValkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A snapshot has the beginning of the old feed, and a text that is forgotten since."""
    monkeypatch.setattr(service_module, "RETRY_S", 0.05)
    gone = await shop.remember("the lighthouse will be forgotten")
    memory = await shop.remember("the harbour stays")
    await written(shop)
    assert await shop.snapshot_job().run(force=True) is not None
    await forget(shop, gone.id)
    feeds = connect(valkey.url, connections=PARTITIONS + 4)
    replicas = [
        ReplicaService(feeds, PARTITIONS, shop.snapshots, FixedEmbedder(HashEmbedder()), name)
        for name in ("follows", "fresh")
    ]

    async def hits_of(replica: ReplicaService) -> set[str]:
        question = Question(text="lighthouse harbour", vector=None, mode="lexical", now_ms=0)
        return {hit.id for hit in await replica.search(question, Filter(tenant="default", now_ms=0))}

    try:
        replicas[0].start()
        await replicas[0].wait_ready(30)
        rebuild = await rebuilt(shop)
        await wait_until(lambda: {at.generation for at in replicas[0].at.values()} == {2})
        await rolled_back(shop, rebuild.id)
        replicas[1].start()
        later = await shop.remember("a pier was built after that")
        await shop.project()
        for replica in replicas:
            await replica.wait_ready(30)
            await replica.wait_for(Token.parse(later.position), 30)
            assert {at.generation for at in replica.at.values()} == {1}
            assert await hits_of(replica) == {memory.id}
    finally:
        for replica in replicas:
            await replica.aclose()
        await feeds.aclose()


# the runner, where the group was ahead of the documents


async def test_a_runner_applies_what_the_group_passed_on_before_its_documents_were_restored(shop: Workshop):
    """The documents are older than the group: it reads the log until it is level, then goes on with the group."""
    await written(shop)
    redis, keys = shop.redis, PartitionKeys(0)
    await redis.delete(keys.lease)
    fence = await acquire_lease(redis, keys, "runner", 60_000)
    await redis.xgroup_create(keys.log, CONSUMER_GROUP, id="$", mkstream=True)
    for raw in [name async for name in redis.scan_iter(match="mnemolog:*{p00}:g1:*", count=1000)]:
        await redis.delete(raw.decode())
    runner = PartitionRunner(redis, shop.log, 0, fence, lambda partition, changes: None, PartitionDeadLetters)
    running = asyncio.create_task(runner.run())
    later = [await shop.remember(f"after that {n}", project=f"q{n}") for n in range(6)]
    assert any(0 in Token.parse(item.position) for item in later)
    head = await shop.log.head(0)

    async def wait_for_own_writes() -> bool:
        return await redis.get(keys.of_generation(1).checkpoint) == str(head).encode()

    await wait_until(wait_for_own_writes)
    runner.stop()
    await running
    live = await stored(redis, 0, 1)
    begun = await shop.rebuilds.start("documents", [0])
    await carried(shop, begun.id)
    assert differences(live, await stored(redis, 0, 2)) == {}
    assert live.documents


async def test_a_purge_that_cannot_delete_what_is_kept_is_not_done(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """Another worker has the partition: the notes stay, and the next purge does it."""
    monkeypatch.setattr(rebuild_documents, "LEVEL_WITHIN_S", 0.1)
    secret = await shop.remember(f"the key is {MARK}")
    await shop.project()
    await rebuilt(shop)
    shop.clock.advance(timedelta(minutes=1))
    await forget(shop, secret.id)
    for number in range(PARTITIONS):
        await shop.redis.set(PartitionKeys(number).rebuild, "another", ex=timedelta(minutes=1))
    assert (await shop.purge().run()).snapshot == ""
    assert await shop.purge().wanted()
    await shop.redis.delete(*(PartitionKeys(number).rebuild for number in range(PARTITIONS)))
    assert (await shop.purge().run()).snapshot
    assert await in_redis(shop.redis, MARK, "mnemolog:*:g?:*") == []
    assert not await shop.purge().wanted()
