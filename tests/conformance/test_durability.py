"""What an acknowledgement survives, on real servers: one that writes to disk now and then, and one with a replica."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from valkey_servers import TcpValkey
from waiting import wait_until

from ingest.commands.decide import Caller, Remember
from ingest.commands.handler import CommandHandler
from ingest.durability import Durability
from ingest.errors import DurabilityNotReached, DurabilityUnavailable
from ingest.log.group_commit import GroupCommit
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, connect

PARTITIONS = 2


@pytest.fixture(scope="module")
def primary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TcpValkey]:
    at_once = {"repl-diskless-sync-delay": "0"}  # else a replica waits five seconds for others to come
    server = TcpValkey(tmp_path_factory.mktemp("primary"), appendonly="yes", appendfsync="everysec", **at_once)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def replica(primary: TcpValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TcpValkey]:
    following = f"127.0.0.1 {primary.port}"
    server = TcpValkey(tmp_path_factory.mktemp("replica"), appendonly="yes", appendfsync="always", replicaof=following)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def client(primary: TcpValkey) -> AsyncIterator[Client]:
    redis = connect(primary.url)
    await redis.flushall()
    await cast(Any, redis).config_set("appendonly", "yes")
    yield redis
    await redis.aclose()


class WriteSide(NamedTuple):
    """A write side on the server under test."""

    log: RedisLog
    handler: CommandHandler

    async def remember(self, event_id: str, durability: Durability | None = None) -> tuple[bool, Durability]:
        """Whether a write was there already, and what it survives."""
        accepted = await self.handler.handle(Remember(content="tea", event_id=event_id), Caller(durability=durability))
        return accepted.duplicate, accepted.durability

    async def stored(self) -> int:
        """Entries in the log."""
        return sum([len(await self.log.read(partition, START, 100)) for partition in range(PARTITIONS)])


@pytest.fixture
def call(client: Client) -> WriteSide:
    log = RedisLog(client, PARTITIONS)
    return WriteSide(log, CommandHandler(GroupCommit(log), PARTITIONS))


async def online_replicas(client: Client) -> int:
    """Replicas that follow the primary and have all of it."""
    info = await client.info("replication")
    return sum(info[f"slave{n}"]["state"] == "online" for n in range(int(info["connected_slaves"])))


async def test_a_write_that_asks_for_nothing_is_told_what_the_server_gives(call: WriteSide):
    assert await call.remember("e1") == (False, "memory")


async def test_a_write_that_asks_for_the_disk_waits_for_it(call: WriteSide, client: Client):
    assert await call.remember("e1", "fsync") == (False, "fsync")
    assert int((await client.info("persistence"))["aof_pending_bio_fsync"]) == 0


async def test_a_write_that_asks_for_a_replica_is_on_its_disk(call: WriteSide, client: Client, replica: TcpValkey):
    await wait_until(lambda: _is_online(client))
    assert await call.remember("e1", "replicated") == (False, "replicated")
    os.kill(replica.pid, signal.SIGKILL)
    replica.stop()
    replica.start(replicaof=None)  # on its own, with nothing but what is on its disk
    alone = connect(replica.url)
    assert sum([len(await RedisLog(alone, PARTITIONS).read(n, START, 10)) for n in range(PARTITIONS)]) == 1
    await alone.aclose()
    replica.stop()
    replica.start()


async def _is_online(client: Client) -> bool:
    return await online_replicas(client) == 1


async def test_without_its_replica_a_write_is_stored_and_not_confirmed_and_a_repeat_is(
    call: WriteSide, client: Client, replica: TcpValkey, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ingest.log.redis_log.CONFIRM_WITHIN_S", 0.3)
    await wait_until(lambda: _is_online(client))
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        with pytest.raises(DurabilityNotReached) as refused:
            await call.remember("e1", "replicated")
        assert (refused.value.reached, await call.stored()) == ("fsync", 1)
        assert await call.remember("e2", "fsync") == (False, "fsync")  # who asks for less is not held up
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    monkeypatch.undo()
    assert await call.remember("e1", "replicated") == (True, "replicated")
    assert await call.stored() == 2


async def test_without_a_replica_that_there_ever_was_a_write_is_refused_and_not_stored(tmp_path: Path):
    server = TcpValkey(tmp_path, appendonly="yes", appendfsync="always")
    server.start()
    redis = connect(server.url)
    log = RedisLog(redis, PARTITIONS)
    alone = WriteSide(log, CommandHandler(GroupCommit(log), PARTITIONS, durability="replicated"))
    try:
        for durability in ("replicated", None):
            with pytest.raises(DurabilityUnavailable, match=r"has no replica; attach one .* or ask for 'fsync'"):
                await alone.remember("e1", durability)
            with pytest.raises(DurabilityUnavailable):
                await alone.handler.handle_batch([Remember(content="tea")], Caller(durability=durability))
        assert await alone.stored() == 0
        assert await alone.remember("e1", "fsync") == (False, "fsync")
    finally:
        await redis.aclose()
        server.stop()


async def test_while_a_replica_that_there_was_is_away_a_write_is_stored_and_not_confirmed(
    client: Client, replica: TcpValkey, monkeypatch: pytest.MonkeyPatch
):
    """Also for a process that has never seen it: one that started meanwhile."""
    monkeypatch.setattr("ingest.log.redis_log.CONFIRM_WITHIN_S", 0.3)
    await wait_until(lambda: _is_online(client))
    replica.stop()
    try:
        await wait_until(lambda: _has_none(client))
        log = RedisLog(client, PARTITIONS)
        started = WriteSide(log, CommandHandler(GroupCommit(log), PARTITIONS))
        with pytest.raises(DurabilityNotReached):
            await started.remember("e1", "replicated")
        assert await started.stored() == 1
    finally:
        replica.start()


async def _has_none(client: Client) -> bool:
    return int((await client.info("replication"))["connected_slaves"]) == 0


async def test_many_writes_that_wait_take_up_few_connections(call: WriteSide, client: Client, replica: TcpValkey):
    await wait_until(lambda: _is_online(client))
    answers = await asyncio.gather(*(call.remember(f"e{n}", "replicated") for n in range(200)))
    assert set(answers) == {(False, "replicated")}


async def test_a_server_without_a_file_cannot_confirm_its_disk(call: WriteSide, client: Client):
    await cast(Any, client).config_set("appendonly", "no")
    with pytest.raises(DurabilityUnavailable, match="append-only file"):
        await call.remember("e1", "fsync")
    assert await call.stored() == 0


async def test_a_batch_is_as_durable_as_was_asked(call: WriteSide):
    commands = [Remember(content="tea", event_id=f"e{n}", project=f"p{n}") for n in range(20)]
    assert (await call.handler.handle_batch(commands, Caller(durability="fsync"))).durability == "fsync"


async def test_the_servers_own_wish_holds_where_a_write_has_none(client: Client):
    log = RedisLog(client, PARTITIONS)
    call = WriteSide(log, CommandHandler(GroupCommit(log), PARTITIONS, durability="fsync"))
    assert await call.remember("e1") == (False, "fsync")
    assert await call.remember("e2", "memory") == (False, "memory")
