"""Hosts of runners on a real server: who runs which partition, and what a change of owner must not lose."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from redis.exceptions import ResponseError
from replay_compare import assert_equals_replay, read_log, stored
from servers import Server
from waiting import wait_until

from ingest.commands.decide import Caller, Observe, RecordLesson
from ingest.commands.handler import CommandHandler
from ingest.errors import LeaseLost, LogRefused
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import CONSUMER_GROUP, MANIFEST, RESTORING, WORKERS, PartitionKeys
from ingest.log.position import Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease, release_lease, renew_leases
from ingest.platform.connections import Client, connect
from projections.nouns.lesson import Lesson
from projections.nouns.session import Session
from projections.store.dead_letters import PartitionDeadLetters
from workers.host import RunnerHost
from workers.runner import PartitionRunner

PARTITIONS = 6
Write = Callable[[], Awaitable[None]]


@pytest.fixture
async def blocking(valkey: Server) -> AsyncIterator[Client]:
    client = connect(valkey.url, connections=64)
    yield client
    await client.aclose()


Open = Callable[[str], RunnerHost]


def host_of(redis: Client, blocking: Client, name: str, log: RedisLog | None = None) -> RunnerHost:
    """A host that has begun; given a log, it looks whether that is open."""
    options: dict[str, Any] = {} if log is None else {"look_at_log": log.look_whether_open}
    runs = log or RedisLog(redis, PARTITIONS)
    host = RunnerHost(redis, blocking, runs, name, lambda partition, changes: None, PartitionDeadLetters, **options)
    host.start()
    return host


@asynccontextmanager
async def writing(write: Write, pause_s: float) -> AsyncGenerator[None]:
    """Somebody writes meanwhile, without end."""
    done = asyncio.Event()

    async def write_on() -> None:
        while not done.is_set():
            await write()
            await asyncio.sleep(pause_s)

    task = asyncio.create_task(write_on())
    try:
        yield
    finally:
        done.set()
        await task


@pytest.fixture
async def open_host(redis: Client, blocking: Client) -> AsyncIterator[Open]:
    """`open_host(id)`: a host that has begun; all are closed in the end."""
    hosts: list[RunnerHost] = []

    def opened(name: str) -> RunnerHost:
        hosts.append(host_of(redis, blocking, name))
        return hosts[-1]

    yield opened
    for host in hosts:
        await host.aclose()


@pytest.fixture
def log(redis: Client) -> RedisLog:
    return RedisLog(redis, PARTITIONS)


@pytest.fixture
def write(log: RedisLog) -> Write:
    """Writes one observation and says one lesson again: a session counts, a lesson grows, so that twice would show."""
    handler, numbers = CommandHandler(GroupCommit(log), PARTITIONS), count()

    async def write() -> None:
        n = next(numbers)
        caller = Caller("default")
        await handler.handle(Observe(content=f"observation {n}", session_id=f"s{n % 12}", project="atlas"), caller)
        await handler.handle(RecordLesson(content="rebase before pushing", project=f"p{n % 6}"), caller)

    return write


async def wait_for_own_writes(redis: Client, log: RedisLog) -> bool:
    for partition in range(PARTITIONS):
        raw = await redis.get(PartitionKeys(partition).of_generation(1).checkpoint)
        if (Position.parse(raw) if raw else Position(0, 0)) != await log.head(partition):
            return False
        groups: list[dict[str, Any]] = await redis.xinfo_groups(PartitionKeys(partition).log) if raw else []
        if any(group["pending"] for group in groups if group["name"] == CONSUMER_GROUP.encode()):
            return False
    return True


async def assert_each_event_counted_once(redis: Client, log: RedisLog) -> None:
    """Sessions count every observation of the log, lessons every time they were said; all equals a replay."""
    await assert_equals_replay(redis, log, PARTITIONS)
    observations = lessons = counted = fields = 0
    for partition in range(PARTITIONS):
        events = await read_log(log, partition)
        observations += sum(event.envelope.type == "observation.recorded" for event in events)
        lessons += sum(event.envelope.type == "lesson.recorded" for event in events)
        for document in (await stored(redis, partition)).documents.values():
            if isinstance(document, Session):
                counted += document.observation_count
            if isinstance(document, Lesson):
                fields += 1 + document.reinforcements
    assert (counted, fields) == (observations, lessons)
    assert observations > 0


def test_the_partitions_can_be_shared_evenly():
    assert PARTITIONS % 2 == PARTITIONS % 3 == 0


async def test_one_host_runs_every_partition(open_host: Open, redis: Client):
    host = open_host("a")
    await wait_until(lambda: host.leased == list(range(PARTITIONS)))
    await host.aclose()
    assert host.leased == []
    assert await redis.zcard(WORKERS) == 0
    for partition in range(PARTITIONS):
        assert await redis.get(PartitionKeys(partition).lease) is None


async def test_a_worker_writes_nothing_to_a_log_that_was_closed_behind_its_start(
    redis: Client, blocking: Client, log: RedisLog
):
    host = host_of(redis, blocking, "a", log)
    try:
        await redis.hset(MANIFEST, RESTORING, "b-1")
        await wait_until(lambda: is_refused(log))
        await redis.hdel(MANIFEST, RESTORING)
        await wait_until(lambda: is_taken(log))
    finally:
        await host.aclose()


async def is_refused(log: RedisLog) -> bool:
    """Whether the log says that it is incomplete, when it is written to."""
    try:
        await log.append({0: [Entry("x", b"x")]})
    except LogRefused as error:
        return "restoring backup b-1 into this log was interrupted" in str(error)
    return False


async def is_taken(log: RedisLog) -> bool:
    """Whether the log takes what is written to it."""
    return not await is_refused(log)


async def test_hosts_share_the_partitions_fairly_as_they_come_and_go(
    open_host: Open, redis: Client, log: RedisLog, write: Write
):
    """Each partition has one runner at most, and what is written meanwhile is applied once."""
    a = open_host("a")
    await wait_until(lambda: len(a.leased) == PARTITIONS)
    async with writing(write, 0.01):
        b = open_host("b")
        await wait_until(lambda: len(a.leased) == len(b.leased) == PARTITIONS // 2)
        assert set(a.leased).isdisjoint(b.leased)
        await a.aclose()
        await wait_until(lambda: len(b.leased) == PARTITIONS)
    await wait_until(lambda: wait_for_own_writes(redis, log))
    await assert_each_event_counted_once(redis, log)


async def test_a_lease_that_expired_unnoticed_is_renewed_unless_another_took_it(redis: Client):
    keys = PartitionKeys(0)
    fence = await acquire_lease(redis, keys, "busy", 60_000)
    await redis.delete(keys.lease)  # it expired while the machine was too busy
    assert await renew_leases(redis, {keys: fence}, "busy", 60_000) == [True]
    assert await redis.get(keys.lease) == b"busy"
    await redis.delete(keys.lease)
    await acquire_lease(redis, keys, "other", 60_000)
    assert await renew_leases(redis, {keys: fence}, "busy", 60_000) == [False]
    await release_lease(redis, keys, "other")  # free, but the other may have written under it
    assert await renew_leases(redis, {keys: fence}, "busy", 60_000) == [False]


async def test_the_partitions_of_a_host_that_died_are_taken_over(
    open_host: Open, redis: Client, blocking: Client, log: RedisLog, write: Write
):
    """It stops renewing and running, and releases nothing; within ten seconds the other runs everything."""
    dead = host_of(redis, blocking, "dead")
    await wait_until(lambda: len(dead.leased) == PARTITIONS)
    for _ in range(20):
        await write()
    await kill(dead)
    for _ in range(20):
        await write()
    alive = open_host("alive")
    await wait_until(lambda: len(alive.leased) == PARTITIONS)
    await wait_until(lambda: wait_for_own_writes(redis, log))
    await assert_each_event_counted_once(redis, log)


async def kill(host: RunnerHost) -> None:
    """End its tasks as a crash would: nothing finished, nothing released."""
    tasks = [task for _, task in host._running.values()]  # pyright: ignore[reportPrivateUsage]
    tasks += host._tasks  # pyright: ignore[reportPrivateUsage]
    while not all(task.done() for task in tasks):
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.2)


async def test_a_host_that_only_stops_renewing_is_taken_over_without_loss(
    open_host: Open, redis: Client, blocking: Client, log: RedisLog, write: Write
):
    """Its runners go on reading after the lease ran out; what they were handed and may not save must not be lost."""
    stuck = host_of(redis, blocking, "stuck")
    await wait_until(lambda: len(stuck.leased) == PARTITIONS)
    for task in stuck._tasks:  # pyright: ignore[reportPrivateUsage]
        task.cancel()
    alive = open_host("alive")
    try:
        async with writing(write, 0.02):
            await wait_until(lambda: len(alive.leased) == PARTITIONS)
            await asyncio.sleep(0.5)
        await wait_until(lambda: wait_for_own_writes(redis, log))
        await assert_each_event_counted_once(redis, log)
    finally:
        await kill(stuck)


async def test_what_a_runner_was_handed_after_it_lost_the_partition_is_applied_by_its_successor(
    redis: Client, blocking: Client, log: RedisLog
):
    """Both wait for new entries when the lease changes hands: Redis serves the one that waited longest, the old one."""
    keys = PartitionKeys(0)
    handler = CommandHandler(GroupCommit(RedisLog(redis, 1)), 1)

    async def runner(name: str) -> PartitionRunner:
        fence = await acquire_lease(redis, keys, name, 60_000)
        return PartitionRunner(blocking, log, 0, fence, lambda partition, changes: None, PartitionDeadLetters)

    old_task = asyncio.create_task((await runner("old")).run())
    await wait_until(lambda: has_group(redis, keys))
    await asyncio.sleep(0.05)
    await redis.delete(keys.lease)
    new = await runner("new")
    new_task = asyncio.create_task(new.run())
    await asyncio.sleep(0.1)
    token = Token()
    for n in range(3):
        accepted = await handler.handle(Observe(content=f"observation {n}", session_id="s"), Caller("default"))
        token = Token.parse(accepted.position)
        await asyncio.sleep(0.05)

    async def applied() -> bool:
        raw = await redis.get(keys.of_generation(1).checkpoint)
        return raw is not None and Position.parse(raw) == token[0]

    try:
        await wait_until(applied)
        await asyncio.sleep(1.2)
        names = sorted(name for name in (await stored(redis, 0)).documents if name.startswith("obs_"))
        assert len(names) == 3, f"{3 - len(names)} acknowledged events were skipped for ever"
    finally:
        new.stop()
        await new_task
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(old_task, 3)


async def has_group(redis: Client, keys: PartitionKeys) -> bool:
    try:
        return bool(await redis.xinfo_groups(keys.log))
    except ResponseError:  # no such stream yet
        return False
