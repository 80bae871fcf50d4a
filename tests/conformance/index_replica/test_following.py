"""An index replica follows the change feeds: what is projected is found, and reads wait for their own writes.

What is forgotten goes from snapshots, feeds and replicas that are up.
"""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from rebuilding import rebuild
from replay_compare import without_vectors
from replica_pen import EVERYTHING, PARTITIONS, OpenReplica, Pen, assert_same, closed, drain, held_up, ids, taken
from waiting import wait_until

from ingest.commands.decide import ForgetSubject
from ingest.commands.handler import CommandHandler
from ingest.errors import LogRefused, ProjectionBehind
from ingest.ids import new_event_id
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import MANIFEST, PURGED, REPLICAS, RESTORING, PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client
from projections.embedding.embed_job import EmbeddingQueue
from projections.index import comparing as comparing_module
from projections.index import following as following_module
from projections.index import service as service_module
from projections.index import snapshots as snapshots_module
from projections.index.loading import Loaded, Loader
from projections.index.replica import IndexReplica, end_of_feed
from projections.index.service import ReplicaService
from projections.index.snapshots import SnapshotJob
from projections.index.waiting import STALE_MS, replicas
from projections.search.question import Question
from projections.vectors.vectors import quantized


async def test_what_is_projected_is_found(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        accepted = await pen.remember("ada likes green tea")
        await pen.project()
        await replica.wait_for(Token.parse(accepted.position), 30)
        assert await ids(replica, "tea") == [accepted.id]


async def test_a_replica_that_starts_late_reads_everything_first(pen: Pen, open_replica: OpenReplica):
    """It is ready only then."""
    token = await pen.add_some()
    async with open_replica("a") as replica:
        assert token.covered_by(replica.applied)
        assert replica.documents == 30 + 30 + 7


async def test_a_batch_that_changes_nothing_in_the_index_is_covered_too(pen: Pen, open_replica: OpenReplica):
    """Reading one's own write must not wait for a document that never comes."""
    async with open_replica("a") as replica:
        accepted = await pen.say(ForgetSubject(kind="memory", subject=f"mem_{0:020x}", project="atlas"))
        await pen.project()
        await replica.wait_for(Token.parse(accepted.position), 30)
        assert replica.documents == 0


async def test_waiting_for_what_is_applied_returns_at_once(pen: Pen, open_replica: OpenReplica):
    accepted = await pen.remember("tea")
    await pen.project()
    async with open_replica("a") as replica:
        await replica.wait_for(Token.parse(accepted.position), 0.0)
        await replica.wait_for(Token(), 0.0)


async def test_a_read_that_waited_too_long_says_how_far_behind(pen: Pen, open_replica: OpenReplica):
    """Nobody projects: ProjectionBehind after the time-out, with the entries not applied by partition."""
    async with open_replica("a") as replica:
        accepted = await pen.remember("tea")
        ((partition, _),) = Token.parse(accepted.position).items()
        started = asyncio.get_running_loop().time()
        with pytest.raises(ProjectionBehind) as behind:
            await replica.wait_for(Token.parse(accepted.position), 0.2)
        assert 0.15 < asyncio.get_running_loop().time() - started < 15
        assert behind.value.lag == {partition: 1}


async def test_many_readers_wait_for_one_write(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        accepted = await pen.remember("ada likes green tea")
        token = Token.parse(accepted.position)
        waiting = [asyncio.create_task(replica.wait_for(token, 30)) for _ in range(20)]
        await asyncio.sleep(0)
        await pen.project()
        await asyncio.gather(*waiting)


async def test_before_the_first_load_a_search_is_an_error_and_no_empty_list(feeds: Client, tmp_path: Path, pen: Pen):
    service = ReplicaService(feeds, PARTITIONS, tmp_path / "s", FixedEmbedder(HashEmbedder()), "w")
    with pytest.raises(ProjectionBehind):
        await service.search(Question(text="tea", vector=None), EVERYTHING)
    await service.aclose()


async def test_an_api_process_writes_nothing_to_a_log_that_was_closed_behind_its_start(
    feeds: Client, tmp_path: Path, pen: Pen
):
    log = RedisLog(pen.redis, PARTITIONS)
    service = ReplicaService(
        feeds, PARTITIONS, tmp_path / "s", FixedEmbedder(HashEmbedder()), "w",
        look_at_log=log.look_whether_open,
    )  # fmt: skip

    async def is_refused() -> bool:
        try:
            await log.append({0: [Entry("x", b"x")]})
        except LogRefused:
            return True
        return False

    service.start()
    try:
        await pen.redis.hset(MANIFEST, RESTORING, "a-backup")
        await wait_until(is_refused)
    finally:
        await closed(service)


async def test_a_forgotten_memory_is_not_found(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        tea = await pen.remember("ada likes green tea")
        coffee = await pen.remember("bob likes black coffee")
        await pen.project()
        gone = await pen.forget(tea.id)
        await pen.project()
        await replica.wait_for(Token.parse(gone.position), 30)
        assert await ids(replica, "likes") == [coffee.id]


async def test_closing_ends_at_once_whatever_the_followers_are_doing(feeds: Client, tmp_path: Path, pen: Pen):
    """A process that is told to stop must not wait for a reader that missed it."""
    for n in range(10):
        service = ReplicaService(feeds, PARTITIONS, tmp_path / "s", FixedEmbedder(HashEmbedder()), "w")
        service.start()
        await service.wait_ready(30)
        await asyncio.sleep(0.01 * (n % 3))
        closing = asyncio.create_task(service.aclose())
        await asyncio.wait([closing], timeout=15)
        hung = not closing.done()
        if hung:
            closing.cancel()
            await closed(service)
        assert not hung, f"the replica of round {n} does not stop"


@asynccontextmanager
async def lost_writes(redis: Client, partitions: Sequence[int] = range(PARTITIONS)) -> AsyncGenerator[None]:
    """What is written inside is gone afterwards, in one instant for each partition, though it could be read before."""
    raw: Any = redis

    async def keys_of(partition: int) -> list[bytes]:
        return [key async for key in redis.scan_iter(match=f"*{{p{partition:02d}}}*", count=1000)]

    before = {
        partition: {key: (max(0, await raw.pttl(key)), await raw.dump(key)) for key in await keys_of(partition)}
        for partition in partitions
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
        memory = await pen.remember("ada likes green tea")
        await pen.project()
        async with lost_writes(pen.redis):
            lost = await pen.remember("ada likes black tea")
            await pen.project()
            await wait_until(lambda: replica.documents == 2)
            assert set(await ids(replica, "tea")) == {memory.id, lost.id}
        await wait_until(lambda: replica.documents == 1 and replica.ready)
        assert await ids(replica, "tea") == [memory.id]


async def test_what_was_written_in_the_place_of_lost_writes_does_not_hide_that_they_are_lost(
    pen: Pen, open_replica: OpenReplica, monkeypatch: pytest.MonkeyPatch
):
    """The follower hears of the loss with the next entries only, whatever reads them."""
    async with open_replica("a") as replica:
        await pen.remember("ada likes green tea")
        await pen.project()
        async with lost_writes(pen.redis):
            await pen.add_some(5)
            await wait_until(lambda: replica.documents == 1 + 5 + 5 + 5)
            held = held_up(monkeypatch, following_module, "read_feed")
            await asyncio.sleep(1.1)  # the reads that are blocked now end within a second
        pen.handler = CommandHandler(GroupCommit(pen.log), PARTITIONS)
        await pen.add_some(2)
        held.set()
        await wait_until(lambda: replica.documents == 1 + 2 + 2 + 2 and replica.ready)
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)


async def test_a_snapshot_that_tells_of_lost_writes_is_compared_with_the_documents(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, embedder: HashEmbedder
):
    """By replicas, and by the next snapshot. The feeds behind it were trimmed, so nothing else tells what was there."""
    await pen.add_some(6)
    async with lost_writes(pen.redis):
        lost = await pen.remember("swordfish")
        await pen.add_some(3, queue=queue)
        ahead = await taken(snapshots, force=True)
        assert ahead.documents == 9 + 9 + 7 + 1
    for partition in range(PARTITIONS):  # as if the snapshot before it had trimmed them
        keys = PartitionKeys(partition).of_generation(1)
        await pen.redis.set(keys.trimmed, await end_of_feed(pen.redis, keys))
        await pen.redis.delete(keys.changes)
    embedder.asked.clear()
    async with open_replica("a") as replica:
        assert replica.snapshot == ahead.name
        assert replica.documents == 6 + 6 + 6
        assert await ids(replica, "swordfish") == []
        assert await replica.in_index_thread(without_vectors, replica.index) == set()
        assert embedder.asked == [], "vectors of what was not lost stay"
        pen.handler = CommandHandler(GroupCommit(pen.log), PARTITIONS)
        written = await pen.add_some(2)
        await replica.wait_for(written, 30)
        after = await taken(snapshots, force=True)
        async with open_replica("b") as late:
            assert late.snapshot == after.name
            assert late.partition_of(lost.id) is None
            await assert_same(replica, late)


async def test_partitions_that_lost_nothing_are_served_while_another_is_compared(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, monkeypatch: pytest.MonkeyPatch
):
    """Reads wait for their own writes there; of the other partition they are told that it is behind."""
    await pen.add_some(6)
    assert await snapshots.run(force=True) is not None
    go_on = held_up(monkeypatch, comparing_module, "places")
    async with open_replica("a") as replica:
        async with lost_writes(pen.redis, [1]):
            await pen.add_some(3)
            await wait_until(lambda: replica.documents == 9 + 9 + 7)
        await wait_until(lambda: replica.trouble is not None and "partitions 1 " in replica.trouble)
        assert replica.partly
        assert not replica.ready
        pen.handler = CommandHandler(GroupCommit(pen.log), PARTITIONS)
        written = await pen.add_some(4)
        ((_, mine), (_, other)) = sorted(written.items())
        await replica.wait_for(Token({0: mine}), 30)
        assert await ids(replica, "memory11")
        with pytest.raises(ProjectionBehind):
            await replica.wait_for(Token({1: other}), 0.1)
        go_on.set()
        await replica.wait_for(written, 30)
        await wait_until(lambda: replica.ready and not replica.partly)
        async with open_replica("fresh") as fresh:
            await assert_same(replica, fresh)


MARK = "swordfish"


def traces(folder: Path) -> set[str]:
    """The files below a folder that hold the mark, or the vector of a text that is it."""
    (row,), _ = quantized(HashEmbedder.vector(MARK)[None])
    marks = MARK.encode(), row.tobytes()
    results: set[str] = set()
    for path in folder.rglob("*"):
        try:
            raw = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue
        raw = zstandard.decompress(raw) if path.suffix == ".zst" else raw
        results |= {str(path.relative_to(folder)) for mark in marks if mark in raw}
    return results


async def reloaded(pen: Pen, replica: ReplicaService, snapshot: str) -> None:
    """Wait until the replica says that nothing from before a snapshot is left."""

    async def is_named() -> bool:
        return (replica.name, snapshot) in await replicas(pen.redis)

    await wait_until(is_named)


async def test_nothing_of_what_is_forgotten_is_left_after_a_compacting_snapshot(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, tmp_path: Path
):
    """No byte of it in snapshots, feeds or the index of a replica that was up all the time."""
    secret = await pen.remember(MARK)
    await pen.add_some(10, queue=queue)
    assert await snapshots.run(force=True) is not None
    async with open_replica("a") as replica:
        await pen.write_some(5)
        gone = await pen.forget(secret.id)
        await pen.project()
        await drain(queue)
        assert await snapshots.run(force=True) is not None
        await replica.wait_for(Token.parse(gone.position), 30)
        assert replica.removed == 1
        assert {path.partition("/")[0] for path in traces(tmp_path)} == {"snapshots"}
        manifest = await taken(snapshots, compact=True)
        assert await pen.redis.get(PURGED) == manifest.name.encode()
        await reloaded(pen, replica, manifest.name)
        assert traces(tmp_path) == set()
        assert [path.name for path in (tmp_path / "snapshots").iterdir()] == [manifest.name]
        assert (replica.snapshot, replica.removed, replica.ready) == (manifest.name, 0, True)
        assert await ids(replica, MARK) == []
        for partition in range(PARTITIONS):
            rows = await pen.redis.xrange(PartitionKeys(partition).of_generation(1).changes)
            assert all(MARK.encode() not in fields[b"c"] for _, fields in rows)
        await pen.add_some(3, queue=queue)
        async with open_replica("late") as late:
            await assert_same(replica, late)
    assert await replicas(pen.redis) == []


async def test_reads_of_ones_own_writes_go_on_through_a_purge(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob
):
    """Positions never step back, and a search that waited finds what it waited for, before, while and after."""
    await pen.add_some(20)
    async with open_replica("a") as replica:
        pages: list[dict[int, Position]] = []
        written = 0
        for purge in range(3):
            manifest = asyncio.create_task(snapshots.run(compact=True))
            while not (manifest.done() and replica.snapshot == getattr(manifest.result(), "name", None)):
                accepted = await pen.remember(f"note{written} is new")
                await pen.project()
                await replica.wait_for(Token.parse(accepted.position), 30)
                assert accepted.id in await ids(replica, f"note{written}")
                pages.append(replica.applied)
                written += 1
            assert written > purge
        for before, after in pairwise(pages):
            assert all(after[partition] >= before[partition] for partition in before)


async def test_the_index_is_followed_on_while_a_purged_snapshot_cannot_be_caught_up(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    """So it is while a node of a cluster is away, for the other nodes' partitions."""
    tries: list[bool] = []
    catch_up = Loader.catch_up

    async def failing(loader: Loader, fresh: Loaded, live: Loaded) -> None:
        tries.append(replica.ready)
        if len(tries) < 3:
            raise ConnectionError("connection refused")
        await catch_up(loader, fresh, live)

    monkeypatch.setattr(Loader, "catch_up", failing)
    monkeypatch.setattr(service_module, "LOAD_AGAIN_S", 0.1)
    await pen.add_some(5)
    async with open_replica("a") as replica:
        manifest = await taken(snapshots, compact=True)
        await reloaded(pen, replica, manifest.name)
    assert len(tries) >= 3
    assert all(tries)
    assert "Redis is unreachable" not in caplog.text


async def test_a_purge_after_a_rebuild_starts_again_in_the_new_generation(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob
):
    """Also when the rebuild comes between the snapshot and the replica's reading it."""
    await pen.add_some(10)
    async with open_replica("a") as replica:
        manifest = await taken(snapshots, compact=True)
        for number in range(PARTITIONS):
            await rebuild(pen.redis, pen.log, number, 10)
        await reloaded(pen, replica, manifest.name)
        await pen.add_some(3)
        async with open_replica("late") as late:
            await assert_same(replica, late)
        manifest = await taken(snapshots, compact=True)
        await reloaded(pen, replica, manifest.name)
        assert {at.generation for at in replica.at.values()} == {2}
        async with open_replica("later") as later:
            await assert_same(replica, later)


async def test_searches_go_on_while_the_purged_snapshot_is_loaded(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, monkeypatch: pytest.MonkeyPatch
):
    accepted = await pen.remember("ada likes green tea")
    await pen.project()
    async with open_replica("a") as replica:
        go_on = threading.Event()
        loading = threading.Event()
        original = snapshots_module.load

        def slow(*args: Any, **named: Any) -> IndexReplica:
            loading.set()
            assert go_on.wait(30)
            return original(*args, **named)

        await replica.wait_for(Token.parse(accepted.position), 30)
        monkeypatch.setattr(snapshots_module, "load", slow)
        manifest = await taken(snapshots, compact=True)
        await wait_until(loading.is_set)
        again = await pen.remember("bob likes green tea too")
        await pen.project()
        await replica.wait_for(Token.parse(again.position), 30)
        assert set(await ids(replica, "tea")) == {accepted.id, again.id}
        assert replica.snapshot == ""
        go_on.set()
        await wait_until(lambda: replica.snapshot == manifest.name)
        assert set(await ids(replica, "tea")) == {accepted.id, again.id}


async def test_a_purge_that_was_interrupted_is_repaired_by_running_again(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Wherever it stops: while writing, trimming, pruning, or before it tells the replicas."""
    for step in ("save", "trim_feed", "prune", "past_memory_limit"):
        secret = await pen.remember(MARK)
        await pen.project()
        assert await snapshots.run(force=True) is not None
        async with open_replica("a") as replica:
            await pen.forget(secret.id)
            await pen.project()
            with monkeypatch.context() as patch:

                def killed(*_: Any, **__: Any) -> Any:
                    raise ConnectionResetError("the worker was killed")

                patch.setattr(snapshots_module, step, killed)
                with pytest.raises(ConnectionResetError):
                    await snapshots.run(compact=True)
            manifest = await taken(snapshots, compact=True)
            await reloaded(pen, replica, manifest.name)
            assert traces(tmp_path) == set()


async def test_a_snapshot_is_compacted_unasked_when_many_are_dead(
    pen: Pen, snapshots: SnapshotJob, open_replica: OpenReplica, tmp_path: Path
):
    """It is one like any other: the one before stays, and replicas go on with what they have."""
    written = [await pen.remember(f"note{n} on its own", f"p{n}") for n in range(10)]
    await pen.project()
    assert await snapshots.run(force=True) is not None
    async with open_replica("a") as replica:
        for item in written[:4]:
            await pen.say(ForgetSubject(kind="memory", subject=item.id, project=f"p{written.index(item)}"))
        await pen.project()
        manifest = await taken(snapshots, force=True)
        texts = np.load(tmp_path / "snapshots" / manifest.name / "recorded_ms.npy")
        assert len(texts) == manifest.documents == 6
        assert len(list((tmp_path / "snapshots").iterdir())) == 2
        assert await pen.redis.get(PURGED) is None
        await asyncio.sleep(1)
        assert replica.snapshot < manifest.name


async def test_a_replica_that_cannot_see_the_purged_snapshot_goes_on_and_says_so(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, caplog: pytest.LogCaptureFixture
):
    """Who waits for it is told the truth: it still has the old one. The next snapshot it can see will do."""
    await pen.add_some(3)
    async with open_replica("a") as replica:
        await pen.redis.set(PURGED, str(new_event_id()))
        await wait_until(lambda: "words of erased documents are still in memory" in caplog.text)
        assert replica.ready
        assert replica.snapshot == ""
        assert await ids(replica, "topic1")
        assert await replicas(pen.redis) == [("a", "")]
        manifest = await taken(snapshots, force=True)
        await reloaded(pen, replica, manifest.name)


async def test_replicas_that_are_up_are_known_with_their_snapshots(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob
):
    now_ms = round(time.time() * 1000)
    await pen.redis.zadd(REPLICAS, {"gone|01": now_ms - STALE_MS - 1, "a|00": now_ms})
    async with open_replica("a"):
        await wait_until(lambda: _present(pen, [("a", "")]))
        assert await pen.redis.zrange(REPLICAS, 0, -1) == [b"a|"]
        manifest = await taken(snapshots, force=True)
        async with open_replica("b"):
            await wait_until(lambda: _present(pen, [("a", ""), ("b", manifest.name)]))
        await wait_until(lambda: _present(pen, [("a", "")]))
    assert await pen.redis.zrange(REPLICAS, 0, -1) == []


async def _present(pen: Pen, expected: list[tuple[str, str]]) -> bool:
    return sorted(await replicas(pen.redis)) == expected
