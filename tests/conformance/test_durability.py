"""What an acknowledgement survives, on real servers: one that writes to disk now and then, and one with a replica.

Transactions and appends that go through although the server is at its `maxmemory`, and those that must not.

The connection that all callers share: whose answer is whose, and what becomes of askers when it is lost.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from redis.exceptions import ConnectionError, ResponseError, TimeoutError, WatchError
from servers import Server
from valkey_servers import TcpValkey
from waiting import wait_until

from ingest.commands.decide import Caller, Remember
from ingest.commands.handler import CommandHandler
from ingest.durability import Durability
from ingest.errors import DurabilityNotReached, DurabilityUnavailable, LogFull
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.platform.connections import Client, ask, ask_apart, connect, past_memory_limit
from ingest.platform.redis_client import MOST_WORDS, portioned
from workers.runner import Attempts

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
            with pytest.raises(DurabilityUnavailable, match=r"has no replica; attach one .* or request 'fsync'"):
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


@pytest.fixture
async def full(tmp_path: Path) -> AsyncGenerator[Client]:
    """A client of a server that uses more memory than it may."""
    server = TcpValkey(tmp_path)
    server.start()
    redis = connect(server.url, connections=4)
    try:
        await redis.set("a", "1")
        used = (await redis.info("memory"))["used_memory"]
        await cast(Any, redis).config_set("maxmemory", used - (1 << 16))
        yield redis
    finally:
        await redis.aclose()
        server.stop()


async def test_a_transaction_goes_past_the_limit_where_that_is_asked_for(full: Client):
    with pytest.raises(ResponseError):
        await full.set("b", "2")
    async with full.pipeline() as pipe:
        pipe.set("b", "2")
        with pytest.raises(ResponseError):
            await pipe.execute()
    async with past_memory_limit(full) as pipe:
        pipe.set("b", "2")
        pipe.hset("h", "f", "v")
        pipe.zadd("z", {str(n): 0 for n in range(2 * MOST_WORDS)})
        pipe.get("none")
        pipe.set("b", "3", nx=True)
        assert await pipe.execute() == [True, 1, 2 * MOST_WORDS, None, None]
    assert await full.get("b") == b"2"


async def test_a_watched_transaction_goes_past_the_limit_only_while_the_keys_hold_what_was_read(full: Client):
    for expected, there in (({"a": b"1", "none": None}, True), ({"a": b"2"}, False), ({"none": b""}, False)):
        async with full.pipeline() as pipe:
            await pipe.watch(*expected)
            pipe.exceed_memory_limit(expected)
            pipe.multi()
            pipe.set("b", "2")
            if there:
                assert await pipe.execute() == [True]
                await full.delete("b")
                continue
            with pytest.raises(WatchError):
                await pipe.execute()
            assert await full.get("b") is None


async def test_an_error_within_a_transaction_past_the_limit_is_raised(full: Client):
    async with past_memory_limit(full) as pipe:
        pipe.hset("a", "f", "v")
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await pipe.execute()


async def test_forgetting_is_appended_past_the_limit_and_other_events_are_not(full: Client):
    log = RedisLog(full, 1)
    with pytest.raises(LogFull):
        await log.append({0: [Entry("id", b"event")]})
    first = await log.append_past_limit({0: [Entry("id", b"event")]})
    assert not first[0][0].duplicate
    assert (await log.append_past_limit({0: [Entry("id", b"event")]}))[0][0].duplicate


async def test_a_try_that_is_broken_off_is_counted_once(full: Client):
    attempts = Attempts(full, PartitionKeys(0))
    assert [await attempts.begin("1-0") for _ in range(7)] == [1] * 7
    attempts.end("1-0")
    assert await attempts.begin("1-0") == 2
    assert await Attempts(full, PartitionKeys(0)).begin("1-0") == 3, "a worker that died did not end its try"


def test_a_long_command_is_divided_with_its_first_words_repeated():
    parts = portioned(("ZADD", "z", *range(2 * MOST_WORDS + 2)))
    assert all(part[:2] == ("ZADD", "z") and len(part) <= MOST_WORDS and len(part) % 2 == 0 for part in parts)
    assert [word for part in parts for word in part[2:]] == list(range(2 * MOST_WORDS + 2))
    assert portioned(("XGROUP CREATE", "k")) == [("XGROUP", "CREATE", "k")]


async def test_a_log_is_opened_past_the_limit(full: Client):
    for _ in range(2):
        await RedisLog(full, 1).create_or_check()


@pytest.fixture
async def shared_client(valkey: Server) -> AsyncIterator[Client]:
    shared_client = connect(valkey.url, connections=4)
    yield shared_client
    await shared_client.flushall()
    await shared_client.aclose()


async def _cut(shared_client: Client) -> None:
    """Have the server close every other connection."""
    await cast(Any, shared_client).execute_command("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes")


async def test_everybody_gets_the_answers_to_what_he_asked(shared_client: Client):
    async def ask_for(number: int) -> None:
        key = f"key-{number}"
        assert await ask(shared_client, [("SET", key, number), ("GET", key), ("APPEND", key, "!")]) == [
            b"OK",
            str(number).encode(),
            len(str(number)) + 1,
        ]

    await asyncio.gather(*map(ask_for, range(200)))


async def test_an_error_stands_in_the_place_of_its_answer(shared_client: Client):
    done, refused, after = await ask(shared_client, [("SET", "a", "x"), ("INCR", "a"), ("GET", "a")])

    assert (done, after) == (b"OK", b"x")
    assert isinstance(refused, ResponseError)


async def test_a_transaction_is_answered_as_its_commands(shared_client: Client):
    assert await ask(shared_client, [("SET", "a", 1), ("INCR", "a")], at_once=True) == [b"OK", 2]


async def test_asking_nothing_is_answered_at_once(shared_client: Client):
    assert await ask(shared_client, []) == []


async def test_groups_are_answered_in_turn_and_each_keeps_its_order(shared_client: Client):
    """Big ones go over several connections."""
    big = "x" * 10_000
    groups = [[("RPUSH", f"list-{group}", f"{n}{big}") for n in range(5)] for group in range(12)]

    assert await ask_apart(shared_client, groups) == [1, 2, 3, 4, 5] * 12
    for group in range(12):
        (members,) = await ask(shared_client, [("LRANGE", f"list-{group}", 0, -1)])
        assert [member[:1] for member in members] == [b"0", b"1", b"2", b"3", b"4"]


async def test_what_was_asked_on_a_lost_connection_is_asked_once_more(shared_client: Client):
    await ask(shared_client, [("PING",)])
    await _cut(shared_client)

    assert await ask(shared_client, [("SET", "a", 1), ("GET", "a")]) == [b"OK", b"1"]


async def test_a_client_that_repeats_nothing_is_told_that_the_connection_was_lost(
    valkey: Server, shared_client: Client
):
    careful = connect(valkey.url, repeat=False)
    waiting = asyncio.create_task(ask(careful, [("BLPOP", "nothing", 0)]))
    await wait_until(lambda: _is_blocked(shared_client))
    await _cut(shared_client)

    with pytest.raises(ConnectionError):
        await waiting
    assert await ask(careful, [("PING",)]) == [b"PONG"]
    await careful.aclose()


async def test_askers_of_a_server_that_does_not_answer_are_told_so(valkey: Server):
    """The connection is given up for all who wait, and the next one who asks has a new one."""
    shared_client = connect(valkey.url, read_timeout_s=0.3, repeat=False)
    query = [
        asyncio.create_task(ask(shared_client, [("BLPOP", "nothing", 0)])),
        asyncio.create_task(ask(shared_client, [("PING",)])),
    ]

    for item in query:
        with pytest.raises(TimeoutError):
            await item
    assert await ask(shared_client, [("PING",)]) == [b"PONG"]
    await shared_client.aclose()


async def test_an_asker_that_goes_away_leaves_the_others_their_answers(shared_client: Client):
    await ask(shared_client, [("SET", "a", 1)])
    gone = asyncio.create_task(ask(shared_client, [("GET", "a"), ("GET", "a")]))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(ask(shared_client, [("INCR", "a")]))
    gone.cancel()

    assert await waiting == [2]


async def test_the_url_says_which_database_it_is(valkey: Server):
    other = connect(f"{valkey.url}?db=1")
    await ask(other, [("SET", "where", "one")])
    async with cast(Any, other).pipeline() as pipe:
        pipe.get("where")
        assert await pipe.execute() == [b"one"]
    await other.flushall()
    await other.aclose()


async def _is_blocked(shared_client: Client) -> bool:
    return int((await shared_client.info("clients"))["blocked_clients"]) > 0
