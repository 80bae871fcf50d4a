"""An index replica follows the change feeds: what is projected is found, and reads wait for their own writes."""

import asyncio
from pathlib import Path

import pytest
from replica_pen import EVERYTHING, PARTITIONS, HashEmbedder, OpenReplica, Pen, closed, ids
from waiting import wait_until

from ingest.commands.decide import ForgetSubject
from ingest.errors import LogRefused, ProjectionBehind
from ingest.log.event_log import Entry
from ingest.log.keys import MANIFEST, RESTORING
from ingest.log.position import Token
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client
from projections.search.question import Question
from projections.search.service import ReplicaService
from projections.vectors.embedder import FixedEmbedder


async def test_what_is_projected_is_found(pen: Pen, open_replica: OpenReplica):
    async with open_replica("a") as replica:
        accepted = await pen.remember("ada likes green tea")
        await pen.project()
        await replica.wait_for(Token.parse(accepted.position), 30)
        assert await ids(replica, "tea") == [accepted.id]


async def test_a_replica_that_starts_late_reads_everything_first(pen: Pen, open_replica: OpenReplica):
    """It is ready only then."""
    token = await pen.write_some()
    await pen.project()
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
    service = ReplicaService(feeds, PARTITIONS, tmp_path / "w", tmp_path / "s", FixedEmbedder(HashEmbedder()))
    with pytest.raises(ProjectionBehind):
        await service.search(Question(text="tea", vector=None), EVERYTHING)
    await service.aclose()


async def test_an_api_process_writes_nothing_to_a_log_that_was_closed_behind_its_start(
    feeds: Client, tmp_path: Path, pen: Pen
):
    log = RedisLog(pen.redis, PARTITIONS)
    service = ReplicaService(
        feeds, PARTITIONS, tmp_path / "w", tmp_path / "s", FixedEmbedder(HashEmbedder()),
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
        service = ReplicaService(feeds, PARTITIONS, tmp_path / "w", tmp_path / "s", FixedEmbedder(HashEmbedder()))
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
