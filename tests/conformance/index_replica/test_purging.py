"""What is forgotten goes from snapshots, feeds and the files of replicas that are up."""

import asyncio
import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard
from rebuilding import rebuild
from replica_pen import PARTITIONS, HashEmbedder, OpenReplica, Pen, assert_same, drain, ids
from waiting import wait_until

from ingest.commands.decide import ForgetSubject
from ingest.ids import new_event_id
from ingest.log.keys import PURGED, REPLICAS, PartitionKeys
from ingest.log.position import Position, Token
from projections.embedding.embed_job import EmbeddingQueue
from projections.search import service as service_module
from projections.search import snapshots as snapshots_module
from projections.search.following import Loaded, Loader
from projections.search.replica import IndexReplica
from projections.search.service import ReplicaService
from projections.search.snapshots import SnapshotJob
from projections.search.waiting import STALE_MS, replicas

MARK = "swordfish"


def traces(folder: Path) -> set[str]:
    """The files below a folder that hold the mark, or the vector of a text that is it."""
    row = HashEmbedder.vector(MARK).astype("<f2")
    marks = (MARK.encode(), row.tobytes(), row.astype("<f4").tobytes())
    results: set[str] = set()
    for path in folder.rglob("*"):
        try:
            raw = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue
        raw = zstandard.decompress(raw) if path.suffix == ".zst" else raw
        results |= {str(path.relative_to(folder)) for mark in marks if mark in raw}
    return results


def segments(folder: Path) -> tuple[int, bool]:
    """How many documents the lexical indexes below a folder hold, and whether any are only marked as deleted.

    Their files pack terms and texts, so a byte search alone would prove little.
    """
    results = [json.loads(path.read_bytes())["segments"] for path in folder.rglob("meta.json")]
    return sum(item["max_doc"] for part in results for item in part), any(
        item["deletes"] for part in results for item in part
    )


async def reloaded(pen: Pen, replica: ReplicaService, snapshot: str) -> None:
    """Wait until the replica says that nothing from before a snapshot is left."""

    async def said() -> bool:
        return (replica.name, snapshot) in await replicas(pen.redis)

    await wait_until(said)


async def test_nothing_of_what_is_forgotten_is_left_after_a_compacting_snapshot(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob, queue: EmbeddingQueue, tmp_path: Path
):
    """No byte of it in snapshots, feeds or the files of a replica that was up all the time."""
    secret = await pen.remember(MARK)
    await pen.write_some(10)
    await pen.project()
    await drain(queue)
    assert await snapshots.run(force=True) is not None
    async with open_replica("a") as replica:
        await pen.write_some(5)
        gone = await pen.forget(secret.id)
        await pen.project()
        await drain(queue)
        assert await snapshots.run(force=True) is not None
        await replica.wait_for(Token.parse(gone.position), 30)
        assert replica.removed == 1
        assert {path.partition("/")[0] for path in traces(tmp_path)} == {"a", "snapshots"}
        await replica.in_index_thread(replica.index.commit)
        assert segments(tmp_path / "a")[1]
        manifest = await snapshots.run(compact=True)
        assert manifest is not None
        assert await pen.redis.get(PURGED) == manifest.name.encode()
        await reloaded(pen, replica, manifest.name)
        assert traces(tmp_path) == set()
        assert segments(tmp_path / "a") == segments(tmp_path / "snapshots") == (manifest.documents, False)
        assert [path.name for path in (tmp_path / "snapshots").iterdir()] == [manifest.name]
        assert len(list((tmp_path / "a").iterdir())) == 1
        assert (replica.snapshot, replica.removed, replica.ready) == (manifest.name, 0, True)
        assert await ids(replica, MARK) == []
        for partition in range(PARTITIONS):
            rows = await pen.redis.xrange(PartitionKeys(partition).of_generation(1).changes)
            assert all(MARK.encode() not in fields[b"c"] for _, fields in rows)
        await pen.write_some(3)
        await pen.project()
        await drain(queue)
        async with open_replica("late") as late:
            await assert_same(replica, late)
    assert await replicas(pen.redis) == []


async def test_reads_of_ones_own_writes_go_on_through_a_purge(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob
):
    """Positions never step back, and a search that waited finds what it waited for, before, while and after."""
    await pen.write_some(20)
    await pen.project()
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
    await pen.write_some(5)
    await pen.project()
    async with open_replica("a") as replica:
        manifest = await snapshots.run(compact=True)
        assert manifest is not None
        await reloaded(pen, replica, manifest.name)
    assert len(tries) >= 3
    assert all(tries)
    assert "Redis is away" not in caplog.text


async def test_a_purge_after_a_rebuild_starts_again_in_the_new_generation(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob
):
    """Also when the rebuild comes between the snapshot and the replica's reading it."""
    await pen.write_some(10)
    await pen.project()
    async with open_replica("a") as replica:
        manifest = await snapshots.run(compact=True)
        assert manifest is not None
        for number in range(PARTITIONS):
            await rebuild(pen.redis, pen.log, number, 10)
        await reloaded(pen, replica, manifest.name)
        await pen.write_some(3)
        await pen.project()
        async with open_replica("late") as late:
            await assert_same(replica, late)
        manifest = await snapshots.run(compact=True)
        assert manifest is not None
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
        manifest = await snapshots.run(compact=True)
        assert manifest is not None
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
            manifest = await snapshots.run(compact=True)
            assert manifest is not None
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
        manifest = await snapshots.run(force=True)
        assert manifest is not None
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
    await pen.write_some(3)
    await pen.project()
    async with open_replica("a") as replica:
        await pen.redis.set(PURGED, str(new_event_id()))
        await wait_until(lambda: "erased documents are still in its files" in caplog.text)
        assert replica.ready
        assert replica.snapshot == ""
        assert await ids(replica, "topic1")
        assert await replicas(pen.redis) == [("a", "")]
        manifest = await snapshots.run(force=True)
        assert manifest is not None
        await reloaded(pen, replica, manifest.name)


async def test_replicas_that_are_up_are_known_with_their_snapshots(
    pen: Pen, open_replica: OpenReplica, snapshots: SnapshotJob
):
    now_ms = round(time.time() * 1000)
    await pen.redis.zadd(REPLICAS, {"gone|01": now_ms - STALE_MS - 1, "a|00": now_ms})
    async with open_replica("a"):
        await wait_until(lambda: _present(pen, [("a", "")]))
        assert await pen.redis.zrange(REPLICAS, 0, -1) == [b"a|"]
        manifest = await snapshots.run(force=True)
        assert manifest is not None
        async with open_replica("b"):
            await wait_until(lambda: _present(pen, [("a", ""), ("b", manifest.name)]))
        await wait_until(lambda: _present(pen, [("a", "")]))
    assert await pen.redis.zrange(REPLICAS, 0, -1) == []


async def _present(pen: Pen, expected: list[tuple[str, str]]) -> bool:
    return sorted(await replicas(pen.redis)) == expected
