"""A server that is away, answers late, loses an answer or refuses: what callers see, what goes on, what is read again.

Everything goes through a proxy of the real server (tests/support/faults.py).
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest
from desk import ADA, Desk, opened_desk
from factories import PROJECT, TENANT
from faults import LOST, MOVED, OOM, READONLY, REFUSED, SILENT, SLOW, FaultyServer, faulty
from fixed_embedder import FixedEmbedder
from hash_embedder import HashEmbedder
from key_leaks import KeyLeaks
from msgspec import UNSET
from one_partition import KEYS, Log, running
from redis.exceptions import ConnectionError, ReadOnlyError, RedisError
from replica_pen import EVERYTHING, PARTITIONS, Pen, closed, ids, taken
from servers import Server
from waiting import wait_until
from workshop import Workshop

import workers.main
from ingest.commands.handler import Accepted
from ingest.errors import LogFull, LogRefused, LogUnavailable, ProjectionBehind
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import MANIFEST, REPLICAS, RESTORING, WORKERS, PartitionKeys
from ingest.log.lease import lease
from ingest.log.position import START, Token, partition_of, project_route
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from ingest.platform.tasks import end
from projections.index import following as following_module
from projections.index.replica import FeedPosition, end_of_feed, trim_feed
from projections.index.service import ReplicaService
from projections.index.snapshots import SnapshotJob
from projections.queries.listed import Listed
from projections.queries.log_events import EventFilter, LogEvents
from projections.queries.memory import Memories
from projections.queries.observation import AroundQueries, EnrichRequest
from projections.queries.recall import Recall
from projections.rebuilding import rebuilds as steps
from projections.rebuilding.canaries import ask
from projections.rebuilding.documents import clean_up, fill, switch
from projections.rebuilding.rebuilds import Rebuilds
from projections.rebuilding.reembedding import ReEmbedding
from projections.search.question import Question
from projections.store.dead_letters import PartitionDeadLetters
from projections.vectors.embedder import Embedder, NoEmbedder
from workers.host import RunnerHost
from workers.main import queue_periodically, queue_rebuilding, queue_when
from workers.queue import Job, JobQueue, build_worker, run_worker

NOPERM = "NOPERM this user has no permissions to run the command"


@pytest.fixture
async def server(redis: Client, valkey: Server, tmp_path: Path) -> AsyncIterator[FaultyServer]:
    """The empty server behind a proxy."""
    async with faulty(valkey.url, tmp_path) as server:
        yield server


@pytest.fixture
async def client(server: FaultyServer) -> AsyncIterator[Client]:
    """A client of the proxy that leaves repeating to its callers."""
    client = connect(server.url, read_timeout_s=1.5, repeat=False)
    yield client
    await client.aclose()


APPEND = "EVALSHA"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [(REFUSED, LogUnavailable), (LOST, LogUnavailable), (SILENT, LogUnavailable), (READONLY, LogRefused),
     (MOVED, LogRefused), (OOM, LogFull)],
)  # fmt: skip
async def test_an_append_that_fails_says_whether_to_repeat_it_and_a_repeat_stores_it_once(
    server: FaultyServer, client: Client, fault: str, expected: type[LogUnavailable]
):
    log = RedisLog(client, 1)
    await log.append({0: [Entry("before", b"before")]})
    server.fail(fault, APPEND)
    with pytest.raises(LogUnavailable) as failed:
        await log.append({0: [Entry("a", b"a"), Entry("b", b"b")]})
    assert type(failed.value) is expected
    appended = (await log.append({0: [Entry("a", b"a"), Entry("b", b"b")]}))[0]
    assert [entry.duplicate for entry in appended] == [fault in (LOST, SILENT)] * 2
    assert [entry.payload for entry in await log.read(0, START, 9)] == [b"before", b"a", b"b"]


async def test_a_write_is_repeated_until_the_server_is_back_and_refused_when_that_takes_too_long(
    server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ingest.log.group_commit.GIVE_UP_AFTER_S", 0.5)
    log = RedisLog(client, 1)
    commit = GroupCommit(log)
    await commit.append([(0, Entry("before", b""))])
    lost = server.fail(LOST, APPEND, times=2)
    (row,) = await commit.append([(0, Entry("a", b"a"))])
    assert (lost.met, row.duplicate) == (2, True)
    await server.down()
    with pytest.raises(LogUnavailable):
        await commit.append([(0, Entry("b", b"b"))])
    await server.up()
    await commit.append([(0, Entry("b", b"b"))])
    assert [entry.payload for entry in await log.read(0, START, 9)] == [b"", b"a", b"b"]
    assert commit.waiting_events == 0


@pytest.mark.parametrize("fault", [REFUSED, SILENT, NOPERM])
async def test_without_an_answer_about_durability_a_write_is_not_called_durable(
    server: FaultyServer, client: Client, fault: str
):
    """A server that forbids the question may still confirm a write; of one that doesn't answer, nothing is known."""
    log = RedisLog(client, 1)
    ((appended,),) = (await log.append({0: [Entry("a", b"a")]})).values()
    for command, question in (
        ("CONFIG", log.standing_durability),
        ("INFO", lambda: log.why_never("fsync")),
        ("WAITAOF", lambda: log.confirm({0: appended.position}, "fsync")),
    ):
        server.fail(fault, command)
        if fault == NOPERM and command != "WAITAOF":
            assert await question() in ("memory", "")
        else:
            with pytest.raises(LogUnavailable):
                await question()


async def test_a_lost_write_is_reported_for_its_own_partition(client: Client):
    log = RedisLog(client, 2)
    (zero,), (one,) = (await log.append({n: [Entry(f"{n}", b"x")] for n in range(2)})).values()
    await cast(Any, client).xdel(log._keys[1].log, str(one.position))  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(LogUnavailable, match="appended to partition 1; send them again"):
        await log.confirm({1: one.position, 0: zero.position}, "fsync")
    assert await log.confirm({0: zero.position}, "fsync") == "fsync"


async def test_a_level_counts_as_reachable_for_ten_seconds_and_for_an_hour_once_it_was_reached(
    server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch
):
    now = 0.0
    monkeypatch.setattr("ingest.log.group_commit.time", SimpleNamespace(monotonic=lambda: now))
    server.fail(NOPERM, "CONFIG", times=99)
    log = RedisLog(client, 1)
    ((appended,),) = (await log.append({0: [Entry("a", b"a")]})).values()
    confirmations, looks = GroupCommit(log).confirmations, list[int]()
    for now in (1.0, 10.9, 11.1):  # noqa: B007 - the patched clock reads it
        await confirmations.check("fsync")
        looks.append(len(server.answers("INFO")))
    assert await confirmations.reached({0: appended.position}, "fsync") == "fsync"
    for now in (3611.0, 3611.2):  # noqa: B007
        await confirmations.check("fsync")
        looks.append(len(server.answers("INFO")))
    assert looks == [1, 1, 2, 2, 3]


async def test_a_lease_outlives_a_renewal_that_fails_and_ends_after_a_release_that_fails(
    server: FaultyServer, client: Client
):
    name, ttl = "mnemolog:test-lease", timedelta(seconds=1)
    async with lease(client, name, "a", ttl) as mine:
        assert mine
        renewal = server.fail(REFUSED, APPEND, name)
        await wait_until(lambda: len(server.answers(APPEND, name)) > 2)
        assert renewal.met == 1
        async with lease(client, name, "b", ttl) as other:
            assert not other
        release = server.fail(REFUSED, APPEND, name)
    assert release.met == 1
    async with lease(client, name, "b", ttl) as other:
        assert not other
    async with lease(client, name, "b", ttl, wait_s=3) as other:
        assert other


@pytest.mark.parametrize(
    ("fault", "command", "read"),
    [(LOST, "EXEC", 7), (SILENT, "EXEC", 7), (REFUSED, "EXEC", 12), (READONLY, "MSET", 12), (MOVED, "MSET", 12),
     (LOST, "XREADGROUP", 7), (SILENT, "XREADGROUP", 7), (REFUSED, "XREADGROUP", 7)],
)  # fmt: skip
async def test_a_partition_continues_after_a_fault_and_applies_each_event_once(
    redis: Client, server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch, fault: str, command: str,
    read: int,
):  # fmt: skip
    """Of seven entries, it reads again only the five that it received and could not save."""
    log = Log(redis, RedisLog(redis, 1))
    monkeypatch.setattr("workers.runner.BLOCK_MS", 500)
    first = await log.append("before")
    runner = Log(client, RedisLog(client, 1))
    async with running(runner, await log.fence()):
        await wait_until(lambda: log.applied_up_to(first[-1]))
        met = server.fail(fault, command)
        last = await log.append(*"abcde")
        await wait_until(lambda: log.applied_up_to(last[-1]))
        later = await log.append("after")
        await wait_until(lambda: log.applied_up_to(later[-1]))
    assert met.met == 1
    assert await log.contents() == ["before", *"abcde", "after"]
    assert await log.observation_count() == 7
    assert await log.pending() == 0
    assert await log.dead() == []
    assert await redis.hlen(KEYS.attempts) == 0
    assert received(server) == read


def received(server: FaultyServer) -> int:
    """How many entries of a log the answers so far have."""
    groups: list[Any] = [rows for answer in server.answers("XREADGROUP") if answer for _, rows in answer]
    return sum(len(rows) for rows in (*groups, *server.answers("XRANGE")) if rows)


async def test_a_worker_leases_and_gives_up_its_partitions_although_requests_fail(
    redis: Client, server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch
):
    """A request about one partition that fails costs the others nothing; what can't be given up expires.

    The server answers those with an error: a connection that it closes has the other partitions' requests, too.
    """
    monkeypatch.setattr("workers.host.TICK_S", 0.1)
    leases = [PartitionKeys(n).lease for n in range(3)]
    log = RedisLog(client, 3)
    host = RunnerHost(
        client, redis, log, "w", lambda partition, changes: None, PartitionDeadLetters, log.look_whether_open
    )
    faults = [
        server.fail(REFUSED, "EVALSHA", WORKERS),  # the heartbeat
        server.fail(READONLY, "GET", leases[0], times=2),
        server.fail(READONLY, "EVALSHA", leases[1], times=2),
        server.fail(REFUSED, "HGET", MANIFEST),
    ]
    await redis.hset(MANIFEST, RESTORING, "backup")
    host.start()
    try:
        await wait_until(lambda: host.leased == [2])
        await wait_until(lambda: host.leased == [0, 1, 2])
        faults.append(server.fail(READONLY, "EVALSHA", leases[2]))  # a renewal
        await wait_until(lambda: all(not fault.left for fault in faults))
        with pytest.raises(LogRefused):
            await log.append({0: [Entry("a", b"a")]})
    finally:
        faults += [server.fail(READONLY, "EVALSHA", leases[1]), server.fail(REFUSED, "ZREM", WORKERS)]
        await host.aclose()
    assert all(not fault.left for fault in faults)
    assert await cast(Any, redis).mget(leases) == [None, b"w", None]
    assert await cast(Any, redis).pttl(leases[1]) > 0
    assert await redis.zrange(WORKERS, 0, -1) == [b"w"]


@pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning")  # arq calls it
async def test_a_job_is_queued_and_run_once_however_often_the_server_fails(
    redis: Client, server: FaultyServer, monkeypatch: pytest.MonkeyPatch, key_leaks: KeyLeaks
):
    for name in ("ASK_AGAIN_S", "REBUILD_AGAIN_S", "REBUILD_LOOK_S"):
        monkeypatch.setattr(workers.main, name, 0.05)
    key_leaks.allow("mnemolog:arq.*")
    runs = list[str]()

    async def run(*arguments: Any) -> None:
        runs.append(*arguments or ["again"])

    queue = await JobQueue.connect(server.url)
    changed, refused = asyncio.Event(), server.fail(READONLY, "EXEC", times=3)
    job, built = Job("upkeep", run), list[Any]()

    def build() -> Any:
        built.append(build_worker(server.url, [job]))
        return built[-1]

    tasks = [
        asyncio.create_task(queue_periodically(queue, job, 0.05)),
        asyncio.create_task(queue_when(changed, lambda: queue.enqueue("upkeep", "changed", job_id="changed"), 60)),
        asyncio.create_task(run_worker(build)),
    ]
    try:
        changed.set()

        async def is_done() -> bool:
            return {"again", "changed"} <= set(runs) and not await redis.exists("arq:job:changed")

        await wait_until(is_done)
        assert refused.met == 3
        await server.down()
        await asyncio.sleep(0.2)
        await server.up()
        before = len(runs)
        changed.set()
        await wait_until(lambda: "changed" in runs[before:])
        assert runs.count("changed") == 2
        pool = built[0]._pool
        assert pool is None or not any(one.is_connected for one in pool.connection_pool._available_connections)
    finally:
        await end(*tasks)
        await queue.aclose()


async def test_at_the_memory_limit_jobs_continue_and_other_refusals_are_raised(server: FaultyServer):
    queue = await JobQueue.connect(server.url)
    server.fail(OOM, "PSETEX")
    await queue.execute_command("PSETEX", "arq:test", 60_000, "alive")
    assert await queue.get("arq:test") == b"alive"
    server.fail(READONLY, "PSETEX")
    with pytest.raises(ReadOnlyError):
        await queue.execute_command("PSETEX", "arq:test", 60_000, "gone")
    assert await queue.get("arq:test") == b"alive"
    await queue.aclose()


@asynccontextmanager
async def replica(client: Client, folder: Path) -> AsyncGenerator[ReplicaService]:
    """An index that follows through the proxy; a test waits until it is ready."""
    service = ReplicaService(client, PARTITIONS, folder / "snapshots", FixedEmbedder(HashEmbedder()), "a")
    service.start()
    try:
        yield service
    finally:
        await closed(service)


def feed_entries(server: FaultyServer) -> int:
    """How many entries of change feeds the answers so far have."""
    return sum(len(rows) for answer in server.answers("XREAD") if answer for _, rows in answer)


async def test_an_index_that_starts_while_the_server_is_away_loads_when_it_is_back(
    redis: Client, server: FaultyServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("projections.index.service.RETRY_S", 0.05)
    await Pen(redis).add_some(2)
    await server.down()
    async with replica(client, tmp_path) as service:
        await wait_until(lambda: "Redis is unreachable" in (service.trouble or ""))
        with pytest.raises(ConnectionError):  # and not an empty list
            await ids(service, "topic1")
        await server.up()
        await service.wait_ready(30)
        assert (service.documents, service.trouble) == (6, None)
        signing_off = server.fail(REFUSED, "ZRANGE", REPLICAS)
    assert signing_off.met == 1


@pytest.mark.parametrize("fault", [REFUSED, LOST, SILENT])
async def test_an_index_reads_no_entry_twice_when_its_server_fails_and_starts_after_its_snapshot(
    redis: Client, server: FaultyServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
):
    monkeypatch.setattr(following_module, "FOLLOW_AGAIN_S", 0.05)
    monkeypatch.setattr(following_module, "BLOCK_MS", 500)
    pen = Pen(redis)
    await pen.add_some(4)
    snapshots = SnapshotJob(redis, PARTITIONS, tmp_path / "snapshots", FixedEmbedder(HashEmbedder()), every=1)
    manifest = await taken(snapshots, force=True)
    await pen.write_some(3)
    await pen.project(batch=1)
    async with replica(client, tmp_path) as service:
        await service.wait_ready(30)
        assert (service.snapshot, feed_entries(server)) == (manifest.name, 9)
        failed = server.fail(fault, "XREAD", times=2)
        await wait_until(lambda: len(service._away) > 0)  # pyright: ignore[reportPrivateUsage]
        assert service.trouble is not None
        assert await ids(service, "topic1"), "what is known is still found"
        token = await pen.add_some(2)
        await service.wait_for(token, 30)
        await service.wait_ready(30)
        assert (failed.met, service.trouble, service.documents) == (2, None, 9 + 9 + 7)
    feeds = [PartitionKeys(n).of_generation(1).changes for n in range(PARTITIONS)]
    assert feed_entries(server) == sum([await redis.xlen(feed) for feed in feeds])
    assert not server.answers("SCAN"), "no document is read"


@pytest.fixture
async def documents_alone(redis: Client) -> Pen:
    """Four documents of a kind, and feeds that have nothing of them."""
    pen = Pen(redis)
    await pen.add_some(4)
    for partition in range(PARTITIONS):
        end_ = await end_of_feed(redis, PartitionKeys(partition).of_generation(1))
        await trim_feed(redis, partition, FeedPosition(feed=end_))
    return pen


async def test_a_partition_whose_server_is_away_delays_the_comparison_of_no_other(
    documents_alone: Pen, server: FaultyServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("FOLLOW_AGAIN_S", "COMPARE_AGAIN_S"):
        monkeypatch.setattr(following_module, name, 0.05)
    away = [
        server.fail(REFUSED, "XREAD", "{p00}", passing=1, times=9_999),
        server.fail(REFUSED, "SCAN", "{p00}", times=9_999),
    ]
    async with replica(client, tmp_path) as service:
        await wait_until(lambda: service.comparing == [0] and service.applied[1] > START and away[1].met > 0)
        assert (service.applied[0], "partitions 0 is unreachable" in (service.trouble or "")) == (START, True)
        for fault in away:
            fault.left = 0
        await service.wait_ready(30)
        assert service.documents == 12


async def test_a_comparison_that_fails_starts_over_and_the_index_stays_loaded(
    redis: Client, documents_alone: Pen, server: FaultyServer, client: Client, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    monkeypatch.setattr(following_module, "COMPARE_AGAIN_S", 0.05)
    prefix = PartitionKeys(0).of_generation(1).doc("")
    (broken, *_) = [key.decode() async for key in redis.scan_iter(match=f"{prefix}obs_*", count=1000)]
    text = await redis.get(broken)
    await redis.set(broken, b"\xc1")
    server.fail(SLOW, "XREAD", "{p01}")  # the other partition is second
    async with replica(client, tmp_path) as service:
        await wait_until(lambda: service.comparing == [0] and service.applied[1] > START)
        tries = caplog.text.count("could not be compared")
        await wait_until(lambda: caplog.text.count("could not be compared") > tries + 2)
        assert (service.trouble or "").count("KeyError") == 1
        await redis.set(broken, text)
        await service.wait_ready(30)
        assert service.documents == 12
    assert "reloading after an error" not in caplog.text


async def test_a_process_that_writes_a_snapshot_ends_when_its_worker_is_killed(
    server: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name, value in {"REDIS_URL": server.url, "MNEMOLOG_DATA_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    server.fail(SILENT, times=99)
    command = [sys.executable, "-P", "-m", "workers.snapshotting"]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdin is not None
    await wait_until(lambda: len(server.calls) > 0)
    process.stdin.close()  # as the end of the worker does
    assert await asyncio.wait_for(process.wait(), 4) == 1


@pytest.mark.parametrize(
    ("content", "fault", "command", "passing", "read"),
    [("c", REFUSED, "MSET", 0, 10), ("c", LOST, "EXEC", 1, 5), ("", READONLY, "MSET", 1, 9), ("", LOST, "EXEC", 2, 8)],
)  # fmt: skip
async def test_a_rebuild_continues_after_a_fault_with_what_it_has_not_saved(
    redis: Client, server: FaultyServer, client: Client, monkeypatch: pytest.MonkeyPatch,
    content: str, fault: str, command: str, passing: int, read: int,
):  # fmt: skip
    """Five entries, in a batch or, if one of them can't be read, alone. Canaries are compared despite that one."""
    log = Log(redis, RedisLog(redis, 1))
    await log.append("a", "b")
    await (log.append(content) if content else redis.xadd(KEYS.log, {"e": b"\xc1"}))
    *_, last = await log.append("d", "e")
    alone = server.fail(REFUSED, "MSET", passing=1)
    async with running(Log(client, RedisLog(client, 1)), await log.fence()):
        await wait_until(lambda: log.applied_up_to(last))
    assert alone.met == (not content)
    alone.left = 0
    server.calls.clear()
    failed, letters = server.fail(fault, command, passing=passing), len(await log.dead())
    with pytest.raises(RedisError):
        await fill(client, RedisLog(client, 1), 0, 2, 5.0)
    assert (await fill(client, RedisLog(client, 1), 0, 2, 5.0)).level
    assert (failed.met, received(server)) == (1, read)
    compared = await ask(redis, log.log, 0, 1, 2)
    assert compared is not None
    assert (compared.canaries, compared.differing) == (13 + len(content), [])
    assert True in await asyncio.gather(*(switch(redis, 0, 1, 2) for _ in range(3)))
    rebuilt = Log(redis, log.log, generation=2)
    assert await rebuilt.contents() == ["a", "b", *content, "d", "e"]
    assert len(await rebuilt.dead()) == letters == (not content)
    monkeypatch.setattr("projections.rebuilding.documents.DELETED_AT_ONCE", 2)
    assert await clean_up(redis, 0, 1) > 2
    keys = KEYS.of_generation(1)
    left = [key.decode() for pattern in keys.everything async for key in redis.scan_iter(match=pattern, count=1000)]
    assert sorted(left) == sorted([keys.changes, keys.trimmed])


class Shops(NamedTuple):
    """A log and its documents: the jobs of `failing` go through the proxy."""

    shop: Workshop
    failing: Workshop


@pytest.fixture
async def shops(redis: Client, client: Client, tmp_path: Path) -> AsyncIterator[Shops]:
    shops = Shops(Workshop(redis, tmp_path), Workshop(client, tmp_path))
    await shops.shop.log.create_or_check()
    yield shops
    await shops.failing.aclose()


async def test_a_purge_reports_what_was_refused_and_counts_replicas_that_it_can_not_ask_as_waiting(
    server: FaultyServer, shops: Shops, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("projections.forgetting.purge.WAIT_FOR_REPLICAS_S", 0.3)
    await shops.shop.remember("tea")
    await shops.shop.project()
    server.fail(NOPERM, "BGREWRITEAOF", times=2)
    for fault, times, waiting in ((REFUSED, 99, 1), (REFUSED, 1, 0)):
        unread = server.fail(fault, "EVALSHA", REPLICAS, times=times)
        removed = await shops.failing.purge().run()
        unread.left = 0
        assert unread.met > 0
        assert removed.append_only_file.startswith("not rewritten: ")
        assert (removed.replicas, removed.replicas_waiting) == (0, waiting)


async def test_where_the_size_of_feeds_may_not_be_asked_a_snapshot_is_written_by_their_entries(
    server: FaultyServer, shops: Shops
):
    await shops.shop.remember("tea")
    await shops.shop.project()
    job = shops.failing.snapshot_job()
    assert await job.run(force=True) is not None
    refused = server.fail(NOPERM, "MEMORY", times=99)
    assert await job.run() is None
    await shops.shop.remember("coffee")
    await shops.shop.project()
    written = await job.run()
    assert written is not None
    assert (written.documents, refused.met) == (2, 2 * 3)


async def test_changes_of_a_rebuild_that_meet_are_all_made_and_another_live_generation_ends_it(shops: Shops):
    shop, rebuilds = shops.shop, shops.shop.rebuilds
    begun = await rebuilds.start("documents", [0])
    now = rebuilds.now
    count = partial(steps.progressed, partition=0, done=1, total=8, level=False, now=now)
    await asyncio.gather(*(Rebuilds(shop.redis).change(begun.id, count) for _ in range(8)))
    assert (await rebuilds.get(begun.id)).parts[0].done == 8
    await shop.redis.set(PartitionKeys(0).generation, "7")
    job = shop.rebuild_job()
    for _ in range(4):
        await job.run(0.2)
    ended = await rebuilds.get(begun.id)
    assert (ended.state, ended.why) == ("failed", "partition 0: generation 7 is live, neither 1 nor 2")


@pytest.fixture
async def desk(redis: Client, server: FaultyServer, tmp_path: Path) -> AsyncIterator[Desk]:
    """Follows through the proxy, and writes without it."""
    async with opened_desk(redis, server.url, tmp_path) as desk:
        yield desk


async def test_a_write_is_answered_while_its_outcome_is_not_projected(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("projections.queries.memory.OUTCOME_WAIT_S", 0.1)
    name = await desk.remember("tea")
    partition = partition_of(project_route(TENANT, PROJECT), desk.documents.partitions)
    accepted = Accepted(name, "event-1", f"{partition}:{await desk.log.head(partition)}", False, "fsync")
    answer = await Memories(desk.documents, desk.lookup, desk.replica).answer_to(accepted, lambda: ADA)
    assert (answer.id, answer.superseded) == (name, UNSET)


async def test_an_embedder_that_can_not_be_read_and_an_index_that_fails_end_no_search_for_good(
    desk: Desk, server: FaultyServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("projections.index.service.RETRY_S", 0.05)
    name = await desk.remember("tea")
    await desk.settle()
    refresh = desk.replica.embedders.refresh
    failures: list[Exception] = [ConnectionError("away"), ZeroDivisionError("a bug")]

    async def failing() -> Embedder:
        if failures:
            raise failures.pop(0)
        return await refresh()

    monkeypatch.setattr(desk.replica.embedders, "refresh", failing)
    await wait_until(lambda: "ZeroDivisionError" in (desk.replica.trouble or ""))
    await desk.replica.wait_ready(30)
    assert [hit.id for hit in await desk.replica.search(Question(text="tea", vector=None), EVERYTHING)] == [name]


async def test_a_comparison_that_another_one_replaces_leaves_the_newer_one_alone(
    documents_alone: Pen, server: FaultyServer, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):  # fmt: skip
    """The feed lacks entries that were read, while documents are compared because it was trimmed."""
    caplog.set_level("INFO")
    monkeypatch.setattr(following_module, "BLOCK_MS", 100)
    monkeypatch.setattr("faults.SLOW_S", 1.0)
    scan = server.fail(SLOW, "SCAN", "{p00}")
    async with replica(client, tmp_path) as service:
        await wait_until(lambda: scan.met == 1)
        before = service.at[0]
        await documents_alone.add_some(6)
        await wait_until(lambda: service.at[0] != before)
        await documents_alone.redis.delete(PartitionKeys(0).of_generation(1).changes)
        await wait_until(lambda: "lost feed entries" in caplog.text)
        assert 0 in service.comparing
        await service.wait_ready(30)
        assert service.documents == 10 + 10 + 7
        assert caplog.text.count("compared partition 0 with") == 1, "the older one ended"


async def test_a_rebuild_is_queued_although_looking_for_one_failed(
    redis: Client, server: FaultyServer, shops: Shops, monkeypatch: pytest.MonkeyPatch, key_leaks: KeyLeaks
):
    monkeypatch.setattr("workers.main.REBUILD_LOOK_S", 0.05)
    key_leaks.allow("mnemolog:arq")
    await shops.shop.rebuilds.start("documents", [0])
    queue, looks = await JobQueue.connect(server.url), server.fail(REFUSED, "HGET", times=2)
    looking = asyncio.create_task(queue_rebuilding(queue, shops.failing.rebuilds, shops.failing.rebuild_job(), "w", 2))
    await wait_until(lambda: redis.exists("arq:job:rebuild:w"))
    assert looks.met == 2
    await end(looking)
    await queue.aclose()


async def test_a_stream_of_events_that_is_silent_says_so_and_continues(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("projections.queries.log_events.KEEP_ALIVE_S", 0.05)
    events = LogEvents(desk.log, desk.replica, desk.documents).follow(EventFilter(ADA), Token(desk.replica.applied), 9)
    assert await anext(events) == []
    await desk.remember("tea")
    await desk.settle()
    while not (page := await anext(events)):
        pass
    assert [event["data"]["content"] for event in page] == ["tea"]


async def test_without_an_index_what_needs_it_is_left_out_and_embedding_again_ends(
    desk: Desk, server: FaultyServer, client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    service = ReplicaService(client, 3, tmp_path / "none", FixedEmbedder(NoEmbedder()), "none", read_wait_s=0.05)
    recall = Recall(service, desk.documents)
    around = AroundQueries(service, desk.documents, recall)
    assert (await around.enrich(ADA, EnrichRequest(files=["tea.py"], terms=["tea"]))).context == ""
    assert "a part is missing" in caplog.text
    await desk.observe("tea")
    await desk.settle()
    queue = await JobQueue.connect(server.url)
    for index in (service, desk.replica):
        listed = Listed(index, desk.documents)
        run = ReEmbedding(client, listed, queue, model="m", partitions=3, only_missing=False, batch=2)
        if index is service:
            with pytest.raises(ProjectionBehind):
                await run.start(ADA)
        else:
            await server.down()
            await run.start(ADA)
        await wait_until(lambda run=run: run.progress.status == "cancelled")
    assert "faulty" in (run.progress.error or "")
    await queue.aclose()
    recall.close()
    await service.aclose()
