"""The client of a cluster, against a real one: where commands go, and what becomes of them when slots move.

Everything that the client has in common with that of one server is shown by the other suites, which run against both.
"""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from factories import remembered
from hash_embedder import HashEmbedder
from redis.exceptions import ConnectionError, RedisError, WatchError
from servers import Cluster, Process
from waiting import wait_until
from workshop import embedding_queue

from ingest.errors import DurabilityUnavailable, LogUnavailable
from ingest.ids import DocumentId
from ingest.log import group_commit, redis_log
from ingest.log.event_log import Entry
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import PartitionKeys
from ingest.log.position import START
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease
from ingest.platform.cluster import ClusterChanged, KeysInDifferentSlots
from ingest.platform.cluster.routing import slot_of
from ingest.platform.cluster.topology import NodeSilent
from ingest.platform.connections import Client, connect, on_each_node, pool_size
from ingest.platform.partial import PATIENCE_S, partial_reads
from projections.documents.access import Reader
from projections.health.samples import HealthSampler
from projections.queries.documents import DocumentReader
from projections.queries.log_events import Audit
from projections.search.replica import FeedPosition
from projections.store.protocol import project
from projections.store.redis_store import RedisStore

PARTITIONS = 16


class Followed:
    """An index that has everything."""

    ready, partly, trouble = True, False, None

    @property
    def at(self) -> dict[int, FeedPosition]:
        return {}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three primaries, which these tests may rearrange."""
    cluster = Cluster(tmp_path_factory.mktemp("rearranged"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of the empty cluster that knows its slots."""
    client = connect(cluster.url, read_timeout_s=2.0)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def patient(cluster: Cluster, client: Client) -> AsyncIterator[Client]:
    """One that waits for an answer for longer than any test takes."""
    patient = connect(cluster.url, read_timeout_s=60.0)
    yield patient
    await patient.aclose()


@asynccontextmanager
async def silenced(cluster: Cluster, partition: int = 0) -> AsyncGenerator[set[int]]:
    """The node of a partition does not answer meanwhile; the partitions that are on it."""
    silent = cluster.primary_of(partition)
    away = {n for n in range(PARTITIONS) if cluster.primary_of(n) is silent}
    assert silent.pid is not None
    os.kill(silent.pid, signal.SIGSTOP)
    try:
        yield away
    finally:
        os.kill(silent.pid, signal.SIGCONT)
    await wait_until(lambda: _whole(cluster))


def key(partition: int) -> str:
    """A key of a partition."""
    return PartitionKeys(partition).generation


def move(cluster: Cluster, partition: int) -> Process:
    """Make another node the primary of a partition's slot, which is empty; returns it."""
    old = cluster.primary_of(partition)
    new = next(node for node in cluster.nodes if node is not old)
    mine = new.ask("CLUSTER", "MYID").decode()
    for node in (new, old, *cluster.nodes):  # the new one first, so that nobody sends a client in a circle
        node.ask("CLUSTER", "SETSLOT", slot_of(key(partition)), "NODE", mine)
    return new


async def test_every_key_is_on_the_node_of_its_slot(cluster: Cluster, client: Client):
    for partition in range(PARTITIONS):
        await client.set(key(partition), str(partition))
    used = {cluster.primary_of(partition).port for partition in range(PARTITIONS)}
    assert len(used) == 3, "partitions are spread over the nodes"
    for partition in range(PARTITIONS):
        assert cluster.primary_of(partition).ask("GET", key(partition)) == str(partition).encode()


async def test_several_keys_are_read_and_deleted_wherever_they_are(client: Client):
    keys = [key(partition) for partition in range(PARTITIONS)]
    for name in keys:
        await client.set(name, name)
    assert await client.mget(*keys, "nowhere") == [*(name.encode() for name in keys), None]
    assert sorted([name.decode() async for name in client.scan_iter(match="*", count=10)]) == sorted(keys)
    assert await client.unlink(*keys[:10], "nowhere") == 10
    assert await client.delete(*keys) == 6


async def test_answers_of_a_spread_pipeline_are_in_the_order_of_its_commands(client: Client):
    async with client.pipeline(transaction=False) as pipe:
        for partition in range(PARTITIONS):
            pipe.hincrby(key(partition), "n", partition)
            pipe.hget(key(partition), "n")
        answers = await pipe.execute()
    assert answers == [value for n in range(PARTITIONS) for value in (n, str(n).encode())]


async def test_an_error_in_a_spread_pipeline_stands_in_its_place_or_is_raised(client: Client):
    async with client.pipeline(transaction=False) as pipe:
        pipe.set(key(0), "text")
        pipe.hget(key(0), "n")
        pipe.set(key(1), "text")
        first, second, third = await pipe.execute(raise_on_error=False)
    assert (first, third) == (True, True)
    assert isinstance(second, RedisError)
    async with client.pipeline(transaction=False) as pipe:
        pipe.hget(key(0), "n")
        with pytest.raises(RedisError, match="WRONGTYPE"):
            await pipe.execute()


async def test_a_command_for_each_node_is_answered_by_those_that_were_written_to(cluster: Cluster, client: Client):
    """WAITAOF says of each connection whether what it wrote is on disk."""
    partitions = [0, 1, 2, 3]
    async with client.pipeline(transaction=False) as pipe:
        for partition in partitions:
            pipe.set(key(partition), "text")
        answers_of = on_each_node(pipe, "WAITAOF", 1, 0, 1000)
        pipe.set(key(4), "behind it")
        *_, waited, last = await pipe.execute()
    used = {cluster.primary_of(partition).port for partition in partitions}
    assert answers_of(waited) == [[1, 0]] * len(used)
    assert last is True


async def test_a_transaction_is_all_or_nothing_in_its_slot(client: Client):
    keys = PartitionKeys(0)
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch(keys.fence, keys.generation)
        assert await pipe.mget(keys.fence, keys.generation) == [None, None]
        await client.set(keys.fence, "7")
        pipe.multi()
        pipe.set(keys.generation, "2")
        with pytest.raises(WatchError):
            await pipe.execute()
    async with client.pipeline(transaction=True) as pipe:
        pipe.set(keys.generation, "3")
        pipe.get(keys.fence)
        assert await pipe.execute() == [True, b"7"]
    assert await client.get(keys.generation) == b"3"


async def test_a_transaction_refuses_a_key_of_another_slot(client: Client):
    async with client.pipeline(transaction=True) as pipe:
        pipe.set(key(0), "text")
        with pytest.raises(KeysInDifferentSlots, match="is not in the slot of this transaction"):
            pipe.set(key(1), "text")
    with pytest.raises(KeysInDifferentSlots):
        await client.sunionstore(key(0), key(1), key(2))
    async with client.pipeline(transaction=False) as pipe:
        with pytest.raises(KeysInDifferentSlots):
            pipe.mget(key(0), key(1))


async def test_a_slot_that_has_moved_is_found(cluster: Cluster, client: Client):
    """By a command, a spread pipeline, a transaction with and without WATCH, and a client that repeats nothing."""
    blocking = connect(cluster.url, repeat=False)
    names = [key(partition) for partition in range(5)]
    for name in names:
        await client.get(name)
        await blocking.get(name)
    moved = [move(cluster, partition) for partition in range(5)]
    await client.set(names[0], "0")
    async with client.pipeline(transaction=False) as pipe:
        for n, name in enumerate(names):
            pipe.set(name, str(n))
        waited = on_each_node(pipe, "WAITAOF", 1, 0, 1000)
        *answers, aof = await pipe.execute()
    assert answers == [True] * 5
    assert all(item == [1, 0] for item in waited(aof))
    for n, node in enumerate(moved):
        assert node.ask("GET", names[n]) == str(n).encode()
    for partition in (5, 6, 7):
        await client.get(key(partition))
        await blocking.get(key(partition))
        move(cluster, partition)
    async with client.pipeline(transaction=True) as pipe:
        pipe.set(key(5), "5")
        pipe.get(key(5))
        assert await pipe.execute() == [True, b"5"]
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch(key(6))
        pipe.multi()
        pipe.set(key(6), "6")
        assert await pipe.execute() == [True]
    await blocking.xgroup_create(PartitionKeys(7).log, "g", id="0", mkstream=True)
    assert await blocking.xreadgroup("g", "c", {PartitionKeys(7).log: ">"}, count=1, block=None) == []
    await blocking.aclose()


async def test_a_slot_that_moves_under_a_watch_ends_the_transaction_as_a_lost_connection_does(
    cluster: Cluster, client: Client
):
    """So callers repeat it, as they do when a server restarts."""
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch(key(8))
        move(cluster, 8)
        pipe.multi()
        pipe.set(key(8), "8")
        with pytest.raises(ClusterChanged):
            await pipe.execute()
    assert await client.get(key(8)) is None


async def test_a_slot_on_the_move_is_written_where_it_goes(cluster: Cluster, client: Client):
    old = cluster.primary_of(9)
    new = next(node for node in cluster.nodes if node is not old)
    slot, ids = slot_of(key(9)), {node: node.ask("CLUSTER", "MYID").decode() for node in (old, new)}
    new.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[old])
    old.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[new])
    try:
        await client.set(key(9), "new")
        async with client.pipeline(transaction=False) as pipe:
            pipe.get(key(9))
            pipe.get(key(0))
            assert await pipe.execute() == [b"new", None]
        async with client.pipeline(transaction=True) as pipe:
            pipe.set(key(9), "not now")
            with pytest.raises(ClusterChanged):
                await pipe.execute()
    finally:
        for node in (new, old, *cluster.nodes):
            node.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[new])
    assert await client.get(key(9)) == b"new"


async def test_a_write_to_several_nodes_is_as_durable_as_on_the_weakest(cluster: Cluster, client: Client):
    log = RedisLog(client, PARTITIONS)
    answers = await log.append({n: [Entry(f"a{n}", b"payload")] for n in range(PARTITIONS)})
    newest = {partition: rows[-1].position for partition, rows in answers.items()}
    assert await log.confirm(newest, "fsync") == "fsync"
    cluster.nodes[2].ask("CONFIG", "SET", "appendonly", "no")
    try:
        with pytest.raises(DurabilityUnavailable, match="append-only file"):
            await log.confirm(newest, "fsync")
    finally:
        cluster.nodes[2].ask("CONFIG", "SET", "appendonly", "yes")


async def test_an_append_teaches_a_node_the_script_that_it_forgot(cluster: Cluster, client: Client):
    log = RedisLog(client, PARTITIONS)
    await log.append({n: [Entry(f"a{n}", b"payload")] for n in range(PARTITIONS)})
    cluster.nodes[1].ask("SCRIPT", "FLUSH")
    answers = await log.append({n: [Entry(f"b{n}", b"payload")] for n in range(PARTITIONS)})
    assert [answer.duplicate for rows in answers.values() for answer in rows] == [False] * PARTITIONS
    assert [len(await log.read(n, START, 10)) for n in range(PARTITIONS)] == [2] * 16


async def test_a_node_that_does_not_answer_takes_no_other_answers_with_it(cluster: Cluster, client: Client):
    async with silenced(cluster) as away:
        async with client.pipeline(transaction=False) as pipe:
            for partition in range(PARTITIONS):
                pipe.get(key(partition))
            answers = await pipe.execute(raise_on_error=False)
        assert {n for n, answer in enumerate(answers) if answer is None} == set(range(PARTITIONS)) - away
        assert all(isinstance(answers[n], RedisError) for n in away)
    assert await client.get(key(0)) is None


async def test_a_node_that_is_at_work_for_longer_than_a_read_waits_is_not_taken_for_silent(client: Client):
    """A blocking read stands for a long answer."""
    log = PartitionKeys(0).log
    with partial_reads():
        assert not await client.xread({log: "$"}, count=1, block=int(3 * 1000 * PATIENCE_S))
    assert await client.get(key(0)) is None


async def test_a_read_that_may_leave_partitions_out_waits_for_a_silent_node_once(cluster: Cluster, patient: Client):
    """The client's own patience is a minute, which the test does not have."""
    documents, log = DocumentReader(patient, PARTITIONS), RedisLog(patient, PARTITIONS)
    vitals = HealthSampler(patient, PARTITIONS, Followed())
    everywhere = [("sessions", n) for n in range(PARTITIONS)]
    await documents.ranges(everywhere, limit=10)
    async with silenced(cluster) as away:
        for _ in range(20):
            with partial_reads() as left_out:
                await documents.ranges(everywhere, limit=10)
                await Audit(log).entries(Reader("default"))
            assert left_out == away
        assert (await vitals.sample()).away == sorted(away)
        with pytest.raises(NodeSilent):
            await patient.get(key(0))
        with partial_reads(), pytest.raises(ConnectionError):
            await documents.range("sessions", 0, b"-", b"+", 10)
        with partial_reads(), pytest.raises(LogUnavailable, match="is unknown"):
            await documents.find(DocumentId("mem_unknown"))

    async def answers_again() -> bool:
        return (await vitals.sample()).away == []

    await wait_until(answers_again)
    assert await patient.get(key(0)) is None


async def test_writes_to_other_nodes_do_not_wait_for_one_that_does_not_answer(cluster: Cluster, patient: Client):
    commit = GroupCommit(RedisLog(patient, PARTITIONS))
    everywhere = [(n, Entry(f"first {n}", b"payload")) for n in range(PARTITIONS)]
    await commit.append(everywhere)
    cluster.nodes[2].ask("CONFIG", "SET", "appendfsync", "everysec")  # so that a write that asks for the disk waits
    try:
        assert await commit.confirmations.standing() == "memory"
        async with silenced(cluster) as away:
            held: list[asyncio.Task[Any]] = [
                asyncio.create_task(commit.append([(0, Entry(f"held {n}", b"payload"))])) for n in range(20)
            ]
            whole = [(n, Entry(f"all {n}", b"payload")) for n in range(PARTITIONS)]
            held.append(asyncio.create_task(commit.append(whole)))
            held.append(asyncio.create_task(commit.confirmations.reached({0: START}, "fsync")))
            await asyncio.sleep(0)
            for n in set(range(PARTITIONS)) - away:
                (answer,) = await commit.append([(n, Entry(f"other {n}", b"payload"))])
                assert await commit.confirmations.reached({n: answer.position}, "fsync") == "fsync"
            assert not any(task.done() for task in held)
    finally:
        cluster.nodes[2].ask("CONFIG", "SET", "appendfsync", "always")
    answers = await asyncio.gather(*held, return_exceptions=True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    assert [error for error in errors if not isinstance(error, LogUnavailable)] == []
    for answer in await commit.append(everywhere):
        assert answer.duplicate


async def test_a_write_to_a_node_that_does_not_answer_is_refused_however_patient_the_client(
    cluster: Cluster, patient: Client, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise it waits as long as the client does, here a minute, and what came behind it as long again."""
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 0.2)
    commit = GroupCommit(RedisLog(patient, PARTITIONS))
    await commit.append([(0, Entry("before", b"payload"))])
    async with silenced(cluster):
        for n in range(3):
            with pytest.raises(LogUnavailable):
                await commit.append([(0, Entry(f"meanwhile {n}", b"payload"))])
    monkeypatch.setattr(group_commit, "GIVE_UP_AFTER_S", 30.0)
    for n in range(3):
        await commit.append([(0, Entry(f"meanwhile {n}", b"payload"))])
    assert len(await RedisLog(patient, PARTITIONS).read(0, START, 100)) == 4


async def test_a_durability_is_not_waited_for_on_a_node_that_does_not_answer(
    cluster: Cluster, patient: Client, monkeypatch: pytest.MonkeyPatch
):
    """What a durability needs is asked of the nodes that answer; the client alone would wait for a minute."""
    monkeypatch.setattr(redis_log, "CONFIRM_WITHIN_S", 0.4)
    log = RedisLog(patient, PARTITIONS)
    appended = await log.append({0: [Entry("before", b"payload")]})
    async with silenced(cluster):
        with pytest.raises(DurabilityUnavailable, match="no replica"):
            await GroupCommit(log).confirmations.check("replicated")
        with pytest.raises(LogUnavailable):
            await log.confirm({0: appended[0][0].position}, "fsync")
        assert await GroupCommit(log).confirmations.standing() == "memory"


async def test_texts_are_embedded_while_a_node_is_away_but_for_those_on_it(cluster: Cluster, client: Client):
    """Their cached vectors are on any node, also those that were made before."""

    async def waiting(partition: int) -> int:
        return await client.zcard(PartitionKeys(partition).of_generation(1).embed_queue)

    for partition in range(PARTITIONS):
        keys = PartitionKeys(partition)
        store = RedisStore(client, keys, 1, await acquire_lease(client, keys, "pen", 60_000))
        event = remembered(1, f"text {partition}", event_id=f"m{partition}")
        await store.save(await project(store, [event]), event.position)
    with ThreadPoolExecutor(1) as executor:
        queue = embedding_queue(client, HashEmbedder(), executor)
        async with silenced(cluster) as away:
            while await queue.work(range(PARTITIONS)):
                pass
            assert [await waiting(n) for n in range(PARTITIONS) if n not in away] == [0] * (PARTITIONS - len(away))
        assert {n for n in range(PARTITIONS) if await waiting(n)} == away
        while await queue.work(range(PARTITIONS)):
            pass
        assert [await waiting(n) for n in sorted(away)] == [0] * len(away)


async def test_any_node_may_be_named_and_none_need_be_up_but_one(cluster: Cluster):
    client = connect(f"redis+cluster://127.0.0.1:1,127.0.0.1:{cluster.nodes[2].port}")
    assert await client.ping() is True
    for partition in range(PARTITIONS):
        await client.get(key(partition))
    assert pool_size(client).idle == pool_size(client).size >= 3
    await client.aclose()
    nobody = connect("redis+cluster://127.0.0.1:1,127.0.0.1:2")
    with pytest.raises(ClusterChanged, match="no cluster node is responding"):
        await nobody.get("x")
    await nobody.aclose()


async def test_what_concerns_a_whole_server_is_asked_of_all(cluster: Cluster, client: Client):
    server = cast(Any, client)
    assert (await client.config_get("append*"))["appendonly"] == "yes"
    assert (await client.info("persistence"))["aof_enabled"] == 1
    assert await RedisLog(client, 1).standing_durability() == "fsync"
    await server.config_set("slowlog-max-len", 77)
    assert [node.ask("CONFIG", "GET", "slowlog-max-len")[1] for node in cluster.nodes] == [b"77"] * 3
    cluster.nodes[0].ask("CONFIG", "SET", "appendfsync", "everysec")
    assert await RedisLog(client, 1).standing_durability() == "memory"
    cluster.nodes[0].ask("CONFIG", "SET", "appendfsync", "always")


async def test_many_callers_ask_for_the_slots_once(cluster: Cluster):
    """A client that knows nothing yet is used by many at the same moment."""
    before = _asked_for_slots(cluster)
    client = connect(cluster.url)
    for _ in range(2):
        await asyncio.gather(*(client.get(key(n % PARTITIONS)) for n in range(100)))
    assert _asked_for_slots(cluster) == before + 1
    await client.aclose()


def _asked_for_slots(cluster: Cluster) -> int:
    results = [node.ask("INFO", "commandstats").get("cmdstat_cluster|slots", {}) for node in cluster.nodes]
    return sum(int(result.get("calls", 0)) for result in results)


def _whole(cluster: Cluster) -> bool:
    return all(b"cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in cluster.nodes)
