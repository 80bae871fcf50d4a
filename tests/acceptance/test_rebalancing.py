"""Worker processes come, go, die and stall: each time the partitions are shared fairly again within 15 seconds.

Each worker stands for a host: its own process, cache folder and log. Events are written all the time; in the end the
documents are what the log says, so none was applied twice or passed over.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import ExitStack, aclosing
from pathlib import Path

import pytest
from msgspec.structs import replace
from replay_compare import assert_equals_replay
from waiting import wait_until

from api.cli.supervisor import Child
from ingest.commands.decide import Caller, Observe, RecordLesson
from ingest.commands.handler import CommandHandler
from ingest.embedded.valkey import EmbeddedValkey
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.lag import entries_behind
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect
from tests.acceptance.running import settings
from workers.queue import JobQueue

PARTITIONS = 8
WITHIN_S = 15.0
START_WITHIN_S = 60.0
"""A process has to import everything first; its share is due 15 seconds after it is up."""


@pytest.fixture
def valkey(short_path: Path) -> Iterator[EmbeddedValkey]:
    """A server of this test's own."""
    server = EmbeddedValkey(short_path / "valkey")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def redis(valkey: EmbeddedValkey) -> AsyncGenerator[Client]:
    client = connect(valkey.url)
    yield client
    await client.aclose()


Start = Callable[..., Child]


@pytest.fixture
def worker(valkey: EmbeddedValkey, short_path: Path, cache_dir: Path) -> Iterator[Start]:
    """`worker(host)`: a started worker process, by another command if one is given; all are ended."""
    given = settings(short_path / "data", cache_dir, redis_url=valkey.url, embedder="none", partitions=PARTITIONS)
    with ExitStack() as stack:

        def start(host: str, command: list[str] | None = None) -> Child:
            own = replace(given, cache_dir=short_path / host, data_dir=short_path / host)
            child = Child("worker", own)
            child.command = command or child.command
            stack.callback(child.stop)
            child.start()
            return child

        yield start


async def shares(redis: Client) -> list[int]:
    """How many partitions each holder of a lease has, the smallest first; none for those that nobody has."""
    holders = [await redis.get(PartitionKeys(partition).lease) for partition in range(PARTITIONS)]
    return sorted(Counter(holder for holder in holders if holder).values())


async def shared_as(redis: Client, wanted: list[int], timeout_s: float = WITHIN_S) -> None:
    """Wait until the partitions are shared like this."""

    async def shared() -> bool:
        return await shares(redis) == wanted

    await wait_until(shared, timeout_s)


async def keep_writing(log: RedisLog, stop: asyncio.Event) -> int:
    """Observations and lessons that count: applied twice, they would show. Returns how many rounds were written."""
    handler, n = CommandHandler(GroupCommit(log), PARTITIONS), 0
    while not stop.is_set():
        n += 1
        await handler.handle(Observe(content=f"{n}", session_id=f"s{n % 24}", project="atlas"), Caller("default"))
        await handler.handle(RecordLesson(content="rebase before pushing", project=f"p{n % 12}"), Caller("default"))
        await asyncio.sleep(0.02)
    return n


@pytest.mark.nightly
async def test_partitions_are_shared_again_whenever_a_worker_comes_or_goes(redis: Client, worker: Start):
    log, stop = RedisLog(redis, PARTITIONS), asyncio.Event()
    await log.create_or_check()
    writing = asyncio.create_task(keep_writing(log, stop))
    try:
        one, two, _ = worker("one"), worker("two"), worker("three")
        await shared_as(redis, [2, 3, 3], START_WITHIN_S)

        await asyncio.to_thread(one.stop)
        await shared_as(redis, [4, 4])

        one.start()
        await shared_as(redis, [2, 3, 3], START_WITHIN_S)

        assert two.pid is not None
        os.kill(two.pid, signal.SIGSTOP)
        try:
            await shared_as(redis, [4, 4])
        finally:
            os.kill(two.pid, signal.SIGCONT)
        await shared_as(redis, [2, 3, 3])

        assert one.pid is not None
        os.kill(one.pid, signal.SIGKILL)
        await shared_as(redis, [4, 4])
    finally:
        stop.set()
        assert await writing > 50

    async def projected() -> bool:
        return not await entries_behind(redis, PARTITIONS)

    await wait_until(projected)
    await assert_equals_replay(redis, log, PARTITIONS)


async def test_the_command_of_arq_starts_the_same_worker(redis: Client, worker: Start, valkey: EmbeddedValkey):
    """It shares the partitions with another worker, projects events and runs jobs; SIGTERM gives its share back."""
    log = RedisLog(redis, PARTITIONS)
    await log.create_or_check()
    by_arq = worker("arq", [sys.executable, "-P", "-m", "arq", "workers.WorkerSettings"])
    await shared_as(redis, [PARTITIONS], START_WITHIN_S)
    handler = CommandHandler(GroupCommit(log), PARTITIONS)
    for n in range(20):
        await handler.handle(Observe(content=f"{n}", session_id=f"s{n}", project="atlas"), Caller("default"))

    async def projected() -> bool:
        return not await entries_behind(redis, PARTITIONS)

    await wait_until(projected)
    async with aclosing(await JobQueue.connect(valkey.url)) as jobs:
        assert await jobs.enqueue("snapshot", job_id="snapshot")
        await wait_until(lambda: jobs.enqueue("snapshot", job_id="snapshot"))  # accepted once the first has ended

    worker("ours")
    await shared_as(redis, [4, 4], START_WITHIN_S)
    await asyncio.to_thread(by_arq.stop)
    await shared_as(redis, [PARTITIONS])
    await assert_equals_replay(redis, log, PARTITIONS)
