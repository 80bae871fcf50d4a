"""A server that lost writes: a crash behind which its file is not synced, a failover."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from replica_pen import PARTITIONS, OpenReplica, Pen, assert_same, ids
from waiting import wait_until

from ingest.commands.handler import CommandHandler
from ingest.connections import Client
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from projections.index import following as following_module
from workers.jobs.snapshot import SnapshotJob


@asynccontextmanager
async def lost_writes(redis: Client) -> AsyncGenerator[None]:
    """What is written inside is gone afterwards, in one instant for each partition, though it could be read before."""
    raw: Any = redis

    async def keys_of(partition: int) -> list[bytes]:
        return [key async for key in redis.scan_iter(match=f"{PartitionKeys(partition).tag}*", count=1000)]

    before = {
        partition: {key: (max(0, await raw.pttl(key)), await raw.dump(key)) for key in await keys_of(partition)}
        for partition in range(PARTITIONS)
    }
    yield
    for partition, stored_before in before.items():
        newer = set(await keys_of(partition)) - stored_before.keys()
        async with raw.pipeline(transaction=True) as pipe:
            for key in newer:
                pipe.delete(key)
            for key, (expires_in_ms, value) in stored_before.items():
                pipe.restore(key, expires_in_ms, value, replace=True)
            await pipe.execute()


async def test_what_the_server_lost_is_not_found_any_more(pen: Pen, open_replica: OpenReplica):
    """Nothing is written after it: a reader that only waits notices, too."""
    async with open_replica("a") as replica:
        kept = await pen.remember("ada likes green tea")
        await pen.project()
        async with lost_writes(pen.redis):
            lost = await pen.remember("ada likes black tea")
            await pen.project()
            await wait_until(lambda: replica.documents == 2)
            assert set(await ids(replica, "tea")) == {kept.id, lost.id}
        await wait_until(lambda: replica.documents == 1 and replica.ready)
        assert await ids(replica, "tea") == [kept.id]


async def test_what_was_written_in_the_place_of_lost_writes_does_not_hide_that_they_are_lost(
    pen: Pen, open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
):
    """The follower hears of the loss with the next entries only, whatever reads them."""
    held = asyncio.Event()
    read = following_module.read_feed

    async def held_up(redis: Client, partition: int, at: Any, block_ms: int | None) -> Any:
        await held.wait()
        return await read(redis, partition, at, block_ms)

    async with open_replica("a") as replica:
        await pen.remember("ada likes green tea")
        await pen.project()
        async with lost_writes(pen.redis):
            await pen.write_some(5)
            await pen.project()
            await wait_until(lambda: replica.documents == 1 + 5 + 5 + 5)
            monkeypatch.setattr(following_module, "read_feed", held_up)
            await asyncio.sleep(1.1)  # the reads that are blocked now end within a second
        pen.handler = CommandHandler(GroupCommit(pen.log), PARTITIONS)
        await pen.write_some(2)
        await pen.project()
        held.set()
        await wait_until(lambda: replica.documents == 1 + 2 + 2 + 2 and replica.ready)
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)


async def test_a_snapshot_that_tells_of_lost_writes_is_passed_over(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, caplog: pytest.LogCaptureFixture
):
    """By replicas, and by the next snapshot, which takes its place; the feeds were trimmed behind neither."""
    await pen.write_some(3)
    await pen.project()
    first = await snapshots.run(force=True)
    assert first is not None
    await pen.write_some(3)
    await pen.project()
    async with lost_writes(pen.redis):
        lost = await pen.remember("swordfish")
        await pen.project()
        ahead = await snapshots.run(force=True)
        assert ahead is not None
        assert ahead.documents == 6 + 6 + 6 + 1
    async with open_replica("a") as replica:
        assert replica.snapshot == first.name
        assert replica.documents == 6 + 6 + 6
        assert await ids(replica, "swordfish") == []
        assert f"{ahead.name} is passed over" in caplog.text
        after = await snapshots.run(force=True)
        assert after is not None
        assert after.documents == 6 + 6 + 6
        async with open_replica("b") as late:
            assert late.snapshot == after.name
            assert late.partition_of(lost.id) is None
            await assert_same(replica, late)
