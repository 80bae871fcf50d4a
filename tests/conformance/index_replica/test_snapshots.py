"""An index replica starts from a snapshot, and reads the rest of the feeds."""

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from replay_compare import without_vectors
from replica_pen import EVERYTHING, PARTITIONS, OpenReplica, Pen, assert_same, closed, drain, held_up, ids, taken
from waiting import wait_until

from ingest.errors import ProjectionBehind
from ingest.log.keys import PartitionKeys
from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue
from projections.index import comparing as comparing_module
from projections.index import following as following_module
from projections.index import snapshots as snapshot_module
from projections.index.service import ReplicaService
from projections.index.snapshots import SnapshotJob
from projections.search.question import Question


async def test_a_snapshot_and_the_rest_of_the_feed_are_the_whole_feed(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue
):
    """One replica reads everything; the other starts from a snapshot behind which the feeds were trimmed."""
    async with open_replica("all") as everything:
        await pen.add_some(queue=queue)
        manifest = await taken(snapshots, force=True)
        assert manifest.documents == 30 + 30 + 7
        for partition in range(PARTITIONS):
            assert await pen.redis.xlen(PartitionKeys(partition).of_generation(1).changes) == 0
        await pen.add_some(queue=queue)
        async with open_replica("late") as late:
            assert late.documents == 60 + 60 + 7
            await assert_same(everything, late)
            assert await late.in_index_thread(without_vectors, late.index) == set()


async def test_a_snapshot_goes_on_from_the_one_before(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, tmp_path: Path
):
    async with open_replica("all") as everything:
        for _ in range(4):
            await pen.add_some(8, queue=queue)
            assert await snapshots.run(force=True) is not None
        assert len(list((tmp_path / "snapshots").iterdir())) == 2
        async with open_replica("late") as late:
            await assert_same(everything, late)


async def test_no_snapshot_is_written_while_the_feeds_are_short(pen: Pen, snapshots: SnapshotJob, tmp_path: Path):
    await pen.add_some(3)
    assert await snapshots.run() is None
    assert not (tmp_path / "snapshots").exists()


async def test_an_empty_log_can_have_a_snapshot(pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob):
    assert await snapshots.run(force=True) is not None
    async with open_replica("a") as replica:
        await pen.add_some(2)
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

        await pen.add_some(10)
        await wait_until(lambda: slow.applied == everything.applied)
        slow_tasks = {task for task in asyncio.all_tasks() if task.get_name().startswith("feed-")}
        monkeypatch.setattr(following_module, "read_feed", held_up)
        await asyncio.sleep(1.1)  # the reads that are blocked now end within a second
        await pen.add_some(10)
        assert await snapshots.run(force=True) is not None
        await pen.add_some(5)
        held.set()
        monkeypatch.setattr(following_module, "read_feed", read)
        await wait_until(lambda: slow.documents == 25 + 25 + 7)
        await wait_until(lambda: slow.ready)
        assert slow.trouble is None
        await wait_until(lambda: everything.documents == 25 + 25 + 7)
        await assert_same(slow, everything)


def _delete_folder(folder: Path) -> None:
    shutil.rmtree(folder)


def _alter_newest(folder: Path) -> None:
    victim = max(folder.iterdir()) / "partition.npy"
    victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")


def _alter_all(folder: Path) -> None:
    for path in folder.iterdir():
        victim = path / "vectors.npy"
        victim.write_bytes(victim.read_bytes()[:-1] + b"\xff")


def _cut_manifests(folder: Path) -> None:
    for path in folder.iterdir():
        manifest = path / "manifest.json"
        manifest.write_bytes(manifest.read_bytes()[:40])


def _alter_manifests(folder: Path) -> None:
    """Still a manifest, but of another place in the feeds."""
    for path in folder.iterdir():
        manifest = path / "manifest.json"
        manifest.write_bytes(re.sub(rb'"covers":"\d', b'"covers":"9', manifest.read_bytes()))


def _delete_vectors(folder: Path) -> None:
    for path in folder.glob("*/vectors.npy"):
        path.unlink()


DAMAGES = [_delete_folder, _alter_newest, _alter_all, _cut_manifests, _alter_manifests, _delete_vectors]


async def test_an_index_without_a_usable_snapshot_is_made_of_the_documents(
    pen: Pen,
    open_replica: OpenReplica,
    snapshots: SnapshotJob,
    queue: EmbeddingQueue,
    embedder: HashEmbedder,
    tmp_path: Path,
):
    """The feeds are trimmed, so nothing else has them. Vectors come from the cache."""
    folder, whole = tmp_path / "snapshots", tmp_path / "whole"
    async with open_replica("all") as everything:
        for _ in range(2):
            await pen.add_some(6, queue=queue)
            assert await snapshots.run(force=True) is not None
        await wait_until(lambda: everything.documents == 12 + 12 + 7)
        shutil.copytree(folder, whole)
        for damage in DAMAGES:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(whole, folder)
            embedder.asked.clear()
            damage(folder)
            async with open_replica(damage.__name__) as late:
                assert late.documents == everything.documents
                assert await late.in_index_thread(without_vectors, late.index) == set()
                await assert_same(everything, late)
                written = await pen.add_some(3)
                await late.wait_for(written, 30)
                await everything.wait_for(written, 30)
                await assert_same(everything, late)
            assert embedder.asked == [], damage.__name__
            await drain(queue)


async def test_a_worker_writes_a_snapshot_by_itself_where_a_usable_one_is_missing(
    pen: Pen, open_replica: OpenReplica, redis: Client, tmp_path: Path, queue: EmbeddingQueue
):
    def job() -> SnapshotJob:
        """As of a worker that was started just now."""
        return SnapshotJob(redis, PARTITIONS, tmp_path / "snapshots", FixedEmbedder(HashEmbedder()), every=1000)

    await pen.add_some(6, queue=queue)
    assert await job().run(force=True) is not None
    assert await job().run() is None
    _alter_all(tmp_path / "snapshots")
    healed = await job().run()
    assert healed is not None
    assert healed.documents == 6 + 6 + 6
    assert await job().run() is None
    async with open_replica("late") as late:
        assert late.snapshot == healed.name
        assert late.documents == 6 + 6 + 6
        assert await late.in_index_thread(without_vectors, late.index) == set()


async def test_texts_whose_vectors_are_not_cached_are_embedded_again(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, redis: Client, tmp_path: Path
):
    await pen.add_some(6, queue=queue)
    assert await snapshots.run(force=True) is not None
    _delete_folder(tmp_path / "snapshots")
    async for key in redis.scan_iter(match="mnemolog:vec:*", count=1000):
        await redis.delete(key.decode())
    async with open_replica("late") as late:
        assert len(await late.in_index_thread(without_vectors, late.index)) == 6 + 6 + 6
        assert await drain(queue) == 6 + 6 + 6

        async def embedded() -> bool:
            return await late.in_index_thread(without_vectors, late.index) == set()

        await wait_until(embedded)


async def test_before_an_index_has_anything_of_a_partition_a_search_is_an_error_and_no_empty_list(
    pen: Pen, feeds: Client, snapshots: SnapshotJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It says what it is at, and does not say that it is ready."""
    await pen.add_some(6)
    assert await snapshots.run(force=True) is not None
    _delete_folder(tmp_path / "snapshots")
    go_on = held_up(monkeypatch, comparing_module, "places")
    service = ReplicaService(feeds, PARTITIONS, tmp_path / "s", FixedEmbedder(HashEmbedder()), "w")
    service.start()
    try:
        await wait_until(lambda: service.trouble is not None and "partitions 0, 1 " in service.trouble)
        assert not service.ready
        assert not service.partly
        with pytest.raises(ProjectionBehind):
            await service.search(Question(text="topic1", vector=None), EVERYTHING)
        go_on.set()
        await service.wait_ready(30)
        assert await ids(service, "topic1")
        assert service.trouble is None
    finally:
        await closed(service)


async def test_a_snapshot_answers_before_the_feed_behind_it_is_read_and_says_so(
    pen: Pen, feeds: Client, snapshots: SnapshotJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Searches go on; what names things without their documents waits, because some may have been forgotten since."""
    await pen.add_some(6)
    assert await snapshots.run(force=True) is not None
    token = await pen.add_some(6)
    go_on = asyncio.Event()
    read_feed = following_module.read_feed

    async def held_up(*args: Any) -> Any:
        await go_on.wait()
        return await read_feed(*args)

    monkeypatch.setattr(following_module, "read_feed", held_up)
    service = ReplicaService(
        feeds, PARTITIONS, tmp_path / "snapshots", FixedEmbedder(HashEmbedder()), "w", read_wait_s=0.05
    )
    service.start()
    try:
        await wait_until(lambda: service.partly)
        assert not service.ready
        assert await ids(service, "topic1")
        assert service.trouble == (
            f"the index was loaded from a snapshot and is still catching up in {PARTITIONS} partitions"
        )
        assert await service.ask(lambda index: index.counts(EVERYTHING, "project"))
        with pytest.raises(ProjectionBehind):
            await service.ask_current(lambda index: index.counts(EVERYTHING, "project"))
        with pytest.raises(ProjectionBehind):
            await service.wait_for(token)
        go_on.set()
        await service.wait_ready(30)
        await service.wait_for(token)
        assert service.trouble is None
        assert not service.partly
        assert await service.ask_current(lambda index: index.counts(EVERYTHING, "project"))
    finally:
        await closed(service)


async def test_a_snapshot_is_written_when_few_entries_tell_of_many_documents(
    pen: Pen, snapshots: SnapshotJob, monkeypatch: pytest.MonkeyPatch
):
    """What a process that starts has to read is bounded by its size, not by how many entries it came in."""
    await pen.add_some(6)
    assert await snapshots.run() is None
    monkeypatch.setattr(snapshot_module, "MIN_FEED_BYTES", 1_000)
    assert await snapshots.run() is not None
    await pen.add_some(6)
    monkeypatch.setattr(snapshot_module, "FEED_BYTES_PER_DOCUMENT", 1_000_000)
    assert await snapshots.run() is None


async def test_a_folder_that_cannot_be_written_leaves_the_feeds_whole(
    pen: Pen, redis: Client, tmp_path: Path, open_replica: OpenReplica, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").write_text("in the way")
    embedders = FixedEmbedder(HashEmbedder())
    job = SnapshotJob(redis, PARTITIONS, tmp_path / "file" / "snapshots", embedders, every=1)
    await pen.add_some(6)
    assert await job.run() is None
    assert "is not writable" in caplog.text
    async with open_replica("a") as replica:
        assert replica.documents == 6 + 6 + 6


async def test_a_snapshot_whose_job_ran_out_of_time_is_written_all_the_same(
    pen: Pen, snapshots: SnapshotJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A first index of many documents takes longer than a job may, and no later job would have more time."""
    go_on, begun = asyncio.Event(), asyncio.Event()
    wait_for_own_writes = snapshot_module.catch_up

    async def held_up(*args: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await wait_for_own_writes(*args)

    monkeypatch.setattr(snapshot_module, "catch_up", held_up)
    await pen.add_some(3)
    job = asyncio.create_task(snapshots.run(force=True))
    await begun.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert await snapshots.run() is None, "it is being written"
    go_on.set()
    await wait_until(lambda: len(list((tmp_path / "snapshots").glob("[!.]*"))) == 1)
    await snapshots.aclose()


async def test_closing_ends_a_snapshot_that_is_being_written(
    pen: Pen, snapshots: SnapshotJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    begun = asyncio.Event()

    async def held_up(*args: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(snapshot_module, "catch_up", held_up)
    job = asyncio.create_task(snapshots.run(force=True))
    await begun.wait()
    await snapshots.aclose()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert not list((tmp_path / "snapshots").glob("[!.]*"))
