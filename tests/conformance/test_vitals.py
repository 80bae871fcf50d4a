"""Samples of the vital signs from a real server, and the watch that acts on them."""

import os
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from desk import PARTITIONS, Desk
from factories import NOW, ManualClock
from waiting import wait_until

from ingest.embedded.valkey import EmbeddedValkey
from ingest.errors import LogFull, LogUnavailable, Overloaded
from ingest.log.event_log import Entry, Stored
from ingest.log.keys import WORKERS, PartitionKeys
from ingest.log.position import Position
from ingest.log.redis_log import RedisLog
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client, connect
from projections.health.samples import HealthSampler, Sample
from projections.health.watch import Limits, Watch
from projections.store.dead_letters import letter_of, queue_letter


@pytest.fixture
def later() -> ManualClock:
    """A clock that can be moved on from now."""
    return ManualClock(system_clock())


@pytest.fixture
def vitals(desk: Desk, later: ManualClock) -> HealthSampler:
    return HealthSampler(desk.redis, PARTITIONS, desk.replica, clock=later)


@pytest.fixture
async def private(short_folder: Path) -> AsyncIterator[EmbeddedValkey]:
    """A server that the test may change or stop."""
    server = EmbeddedValkey(short_folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def short_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("v")


@pytest.fixture
async def client(private: EmbeddedValkey) -> AsyncIterator[Client]:
    """A client of the private server."""
    made = connect(private.url, connections=8)
    yield made
    await made.aclose()
    await cast(Any, made).connection_pool.disconnect()


class Loaded:
    """An index that has loaded and follows everything."""

    ready, partly, trouble = True, False, None

    def __init__(self) -> None:
        self.at: Any = {}


def watch_of(client: Client, ceilings: Limits, **existing: Any) -> Watch:
    """A watch over two partitions of the private server."""
    return Watch(HealthSampler(client, 2, cast(Any, Loaded()), **existing), ceilings)


async def fill(client: Client, size: int) -> None:
    """Store something of this size."""
    server = cast(Any, client)  # made there: sent, it would take as much again for a moment
    await server.delete("filling")
    await server.setrange("filling", size - 1, b"x")


# samples


async def test_an_empty_log_is_at_rest(vitals: HealthSampler):
    sample = await vitals.sample()
    assert (sample.behind, sample.oldest_pending_s, sample.dead_letters, sample.to_embed) == (0, 0, 0, 0)
    assert (sample.workers, sample.feed_entries) == (0, 0)
    assert sample.memory_used is not None
    assert sample.memory_used > 0
    assert sample.memory_limit == 0
    assert sample.machine_memory > sample.memory_used
    assert sample.log_file_ok is True
    assert (sample.disk_free, sample.snapshot_age_s) == (None, None)
    assert sample.index_ready


async def test_what_waits_is_counted_and_its_age_told(desk: Desk, vitals: HealthSampler, later: ManualClock):
    await desk.remember("tea")
    await desk.settle()
    await desk.remember("coffee")
    await desk.remember("cocoa")
    later.advance(timedelta(minutes=5))
    sample = await vitals.sample()
    assert sample.behind >= 2
    assert 240 < sample.oldest_pending_s < 360
    await desk.settle()
    settled = await vitals.sample()
    assert settled.oldest_pending_s == 0, "all is applied; the desk reads without a consumer group"
    assert settled.feed_entries > sample.feed_entries


async def test_workers_live_as_long_as_a_lease(desk: Desk, vitals: HealthSampler, later: ManualClock):
    await desk.redis.zadd(WORKERS, {"ada": later().timestamp() * 1000})
    assert (await vitals.sample()).workers == 1
    later.advance(timedelta(seconds=6))
    assert (await vitals.sample()).workers == 0


async def test_dead_letters_of_all_partitions_are_counted(desk: Desk, vitals: HealthSampler):
    async with desk.redis.pipeline() as pipe:
        for partition in range(PARTITIONS):
            entry = Stored(Position(partition + 1, 0), b"")
            queue_letter(pipe, PartitionKeys(partition).of_generation(1), letter_of(entry, "internal", "no", 5, NOW))
        await pipe.execute()
    assert (await vitals.sample()).dead_letters == PARTITIONS


async def test_what_waits_for_a_vector_is_counted_in_the_live_generation(desk: Desk, vitals: HealthSampler):
    keys = PartitionKeys(1)
    await desk.redis.zadd(keys.of_generation(1).embed_queue, {"mem_1": 1, "mem_2": 1})
    assert (await vitals.sample()).to_embed == 2
    await desk.redis.set(keys.generation, "2")
    await desk.redis.zadd(keys.of_generation(2).embed_queue, {"mem_1": 1})
    assert (await vitals.sample()).to_embed == 1


async def test_an_index_that_follows_an_old_generation_is_told_how_long(client: Client):
    """The index of this test never hears of the switch."""
    deaf: Any = Loaded()
    deaf.at = {0: Followed(1), 1: Followed(1)}
    vitals = HealthSampler(client, 2, deaf)
    assert (await vitals.sample()).outdated_s == 0
    await client.set(PartitionKeys(1).generation, "2")
    await vitals.sample()
    assert (await vitals.sample()).outdated_s > 0
    deaf.at = {0: Followed(1), 1: Followed(2)}
    assert (await vitals.sample()).outdated_s == 0


class Followed:
    """A place in the feed of a generation."""

    def __init__(self, generation: int) -> None:
        self.generation = generation


async def test_disk_and_snapshots_are_looked_at_where_they_are(client: Client, tmp_path: Path):
    snapshots = tmp_path / "snapshots"
    vitals = HealthSampler(client, 2, cast(Any, Loaded()), log_folder=tmp_path, snapshots=snapshots)
    sample = await vitals.sample()
    assert sample.disk_free is not None
    assert sample.snapshot_age_s is None
    for name, age_s in (("old", 900), ("new", 300), (".writing", 0)):
        (snapshots / name).mkdir(parents=True)
        when = system_clock().timestamp() - age_s
        os.utime(snapshots / name, (when, when))
    age = (await vitals.sample()).snapshot_age_s
    assert age is not None
    assert 300 <= age < 900


async def test_a_deleted_log_folder_is_noticed_even_if_another_one_takes_its_place(client: Client, tmp_path: Path):
    folder = tmp_path / "log"
    folder.mkdir()
    sampler = HealthSampler(client, 2, cast(Any, Loaded()), log_folder=folder)
    assert not (await sampler.sample()).log_folder_gone
    folder.rename(tmp_path / "moved")
    assert (await sampler.sample()).log_folder_gone
    folder.mkdir()
    assert (await sampler.sample()).log_folder_gone


async def test_the_job_queues_own_server_is_asked_whether_it_is_there(client: Client):
    async def refuse() -> None:
        raise ConnectionRefusedError("connection refused")

    assert (await HealthSampler(client, 2, cast(Any, Loaded()), ping_jobs=client.ping).sample()).jobs_trouble == ""
    assert (
        await HealthSampler(client, 2, cast(Any, Loaded()), ping_jobs=refuse).sample()
    ).jobs_trouble == "connection refused"


async def test_a_server_that_may_not_be_asked_leaves_its_part_unknown(client: Client, private: EmbeddedValkey):
    server = cast(Any, client)
    await server.acl_setuser("guest", enabled=True, nopass=True, keys="*", commands=["+@all", "-info"])
    guest = connect(f"unix://guest:any@{private.socket}")
    sample = await HealthSampler(guest, 2, cast(Any, Loaded())).sample()
    assert (sample.memory_used, sample.log_file_ok) == (None, None)
    await guest.aclose()
    await cast(Any, guest).connection_pool.disconnect()


# the watch


async def test_writes_are_held_back_while_memory_is_over_its_ceiling_and_let_in_by_themselves(client: Client):
    server = cast(Any, client)
    used = (await watch_of(client, Limits()).look()).memory_used or 0
    await server.config_set("maxmemory", used + (10 << 20))
    watch = watch_of(client, Limits(memory=0.85))
    await watch.look()
    watch.check("acme")
    await fill(client, 9 << 20)
    await watch.look()
    with pytest.raises(Overloaded, match=r"uses .* of memory; the ceiling is") as refused:
        watch.check("acme")
    assert refused.value.cause == "memory"
    assert 1 <= refused.value.retry_after_s <= 30
    assert [item.code for item in watch.readiness.impaired] == ["overloaded", "no_worker"]
    await fill(client, 1)
    await watch.look()
    watch.check("acme")


async def test_a_ceiling_that_is_raised_lets_writes_in(client: Client):
    server = cast(Any, client)
    await fill(client, 9 << 20)
    await server.config_set("maxmemory", 10 << 20)
    watch = watch_of(client, Limits(memory=0.85))
    await watch.look()
    with pytest.raises(Overloaded):
        watch.check("acme")
    await server.config_set("maxmemory", 1 << 30)
    await watch.look()
    watch.check("acme")


async def test_a_disk_below_its_floor_holds_writes_back(client: Client, tmp_path: Path):
    watch = watch_of(client, Limits(disk=1 << 60), log_folder=tmp_path)
    await watch.look()
    with pytest.raises(Overloaded, match="the log's disk"):
        watch.check("acme")


async def test_while_nobody_can_look_the_last_pressure_stands_for_a_while(client: Client, private: EmbeddedValkey):
    patient, hasty = (watch_of(client, Limits(memory=1)) for _ in range(2))
    for watch in (patient, hasty):
        await watch.look()
    private.stop()
    hasty.kept_s = 0
    for watch in (patient, hasty):
        with pytest.raises(LogUnavailable):
            await watch.look()
        assert watch.readiness.stopped is not None
        assert watch.readiness.stopped.code == "log"
    with pytest.raises(Overloaded):
        patient.check("acme")
    hasty.check("acme")
    assert hasty.sample is None


async def test_a_watch_that_was_started_looks_by_itself(client: Client):
    watch = watch_of(client, Limits())
    watch.start()
    await wait_until(lambda: watch.sample is not None)
    first: Sample | None = watch.sample
    await wait_until(lambda: watch.sample is not first)
    await watch.aclose()


# the last line of defence


async def test_a_log_without_memory_refuses_as_full_and_takes_writes_again(client: Client):
    server, log = cast(Any, client), RedisLog(client, 2)
    await log.append({0: [Entry("a", b"x")]})
    await server.config_set("maxmemory", 1)
    with pytest.raises(LogFull, match="out of memory"):
        await log.append({0: [Entry("b", b"x")]})
    await server.config_set("maxmemory", 0)
    (again,) = (await log.append({0: [Entry("b", b"x")]}))[0]
    assert not again.duplicate
