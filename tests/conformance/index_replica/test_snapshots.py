"""An index replica starts from a snapshot, and reads the rest of the feeds."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from rebuilding import rebuild
from replay_compare import without_vectors
from replica_pen import PARTITIONS, HashEmbedder, OpenReplica, Pen, assert_same, closed, drain
from waiting import wait_until

from ingest.connections import Client
from ingest.log.keys import PartitionKeys
from projections.embedding.live import StandingEmbedder
from projections.index import following as following_module
from projections.index.service import ReplicaService
from workers.jobs.embed import EmbeddingQueue
from workers.jobs.snapshot import SnapshotJob


async def test_a_snapshot_and_the_rest_of_the_feed_are_the_whole_feed(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue
):
    """One replica reads everything; the other starts from a snapshot behind which the feeds were trimmed."""
    async with open_replica("all") as everything:
        await pen.write_some()
        await pen.project()
        await drain(queue)
        manifest = await snapshots.run(force=True)
        assert manifest is not None
        assert manifest.documents == 30 + 30 + 7
        for partition in range(PARTITIONS):
            assert await pen.redis.xlen(PartitionKeys(partition).of_generation(1).changes) == 0
        await pen.write_some()
        await pen.project()
        await drain(queue)
        async with open_replica("late") as late:
            assert late.documents == 60 + 60 + 7
            await assert_same(everything, late)
            assert await late.in_index_thread(without_vectors, late.index) == set()


async def test_a_snapshot_goes_on_from_the_one_before(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, tmp_path: Path
):
    async with open_replica("all") as everything:
        for _ in range(4):
            await pen.write_some(8)
            await pen.project()
            await drain(queue)
            assert await snapshots.run(force=True) is not None
        assert len(list((tmp_path / "snapshots").iterdir())) == 2
        async with open_replica("late") as late:
            await assert_same(everything, late)


async def test_no_snapshot_is_written_while_the_feeds_are_short(pen: Pen, snapshots: SnapshotJob, tmp_path: Path):
    await pen.write_some(3)
    await pen.project()
    assert await snapshots.run() is None
    assert not (tmp_path / "snapshots").exists()


async def test_an_empty_log_can_have_a_snapshot(pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob):
    assert await snapshots.run(force=True) is not None
    async with open_replica("a") as replica:
        await pen.write_some(2)
        await pen.project()
        await wait_until(lambda: replica.documents == 2 + 2 + 2)


async def test_a_follower_that_fell_behind_a_trim_loads_again(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, monkeypatch: pytest.MonkeyPatch
):
    """Its feed lost entries it had not read; it starts over from the snapshot and misses nothing."""
    async with open_replica("slow") as slow, open_replica("all") as everything:
        held = asyncio.Event()
        read = following_module.read_feed

        async def held_up(redis: Client, partition: int, at: Any, block_ms: int | None) -> Any:
            if asyncio.current_task() in slow_tasks:
                await held.wait()
            return await read(redis, partition, at, block_ms)

        await pen.write_some(10)
        await pen.project()
        await wait_until(lambda: slow.applied == everything.applied)
        slow_tasks = {task for task in asyncio.all_tasks() if task.get_name().startswith("feed-")}
        monkeypatch.setattr(following_module, "read_feed", held_up)
        await asyncio.sleep(1.1)  # the reads that are blocked now end within a second
        await pen.write_some(10)
        await pen.project()
        assert await snapshots.run(force=True) is not None
        await pen.write_some(5)
        await pen.project()
        held.set()
        monkeypatch.setattr(following_module, "read_feed", read)
        await wait_until(lambda: slow.documents == 25 + 25 + 7)
        await wait_until(lambda: slow.ready)
        assert slow.trouble is None
        await wait_until(lambda: everything.documents == 25 + 25 + 7)
        await assert_same(slow, everything)


async def test_an_altered_snapshot_is_not_believed(
    pen: Pen, feeds: Client, snapshots: SnapshotJob, open_replica: OpenReplica, tmp_path: Path
):
    """Behind it the feed is gone, so the replica says what is wrong instead of serving half."""
    await pen.write_some(5)
    await pen.project()
    manifest = await snapshots.run(force=True)
    assert manifest is not None
    victim = tmp_path / "snapshots" / manifest.name / "partition.npy"
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")
    service = ReplicaService(
        feeds, PARTITIONS, tmp_path / "w", tmp_path / "snapshots", StandingEmbedder(HashEmbedder())
    )
    service.start()
    try:
        await wait_until(lambda: service.trouble is not None and "rebuild" in service.trouble)
        assert not service.ready
        for partition in range(PARTITIONS):
            assert await rebuild(pen.redis, pen.log, partition, 10) == 1
        await wait_until(lambda: service.ready and service.documents == 5 + 5 + 5)
    finally:
        await closed(service)
