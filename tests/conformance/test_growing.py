"""What growing a log into more partitions guarantees, against a real Valkey: the old log is its first database, the new
one its second.

Left open: in what order partitions and keys are copied, how many entries at once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from altering import alter
from archiving import erase, pretend_projected
from grown import documents_of
from key_leaks import KeyLeaks
from servers import Server, serving
from workshop import PARTITIONS, TENANT, Workshop

from api import wiring
from api.access.keys import Grant, Keyring, Registry
from api.cli.backup import restore_at_start
from ingest.commands.decide import Caller, ForgetSubject, Relate, WriteCommand
from ingest.commands.handler import CommandHandler
from ingest.errors import (
    CommandRejected,
    GrowthUnfinished,
    LogMoved,
    LogRefused,
    MnemologError,
    PartitionCountMismatch,
)
from ingest.events.envelope import decode, route_of
from ingest.events.subject import EventErased
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.room import open_to_write
from ingest.log.archive.store import DirectoryStore
from ingest.log.event_log import Entry, EventLog, Moved, Stored, refuse_if_closed
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import (
    ACCESS_KEYS,
    ACCESS_VERSION,
    EMBEDDER,
    LEASE_TTL,
    MANIFEST,
    MOVED,
    WORKERS,
    NumberKeys,
    PartitionKeys,
    access_row_pk,
    embedding,
    row_key,
)
from ingest.log.position import ALTERED, START, Position, Token, partition_of
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import acquire_lease, beat, number
from ingest.platform.connections import Client, connect
from ingest.platform.settings import Settings
from projections.dead_letters.records import Discarded, discarded_places, letter_of, queue_discarded
from projections.documents.access import Reader
from projections.documents.memories import Memory
from projections.forgetting.receipts import Receipt, load_receipt, save_receipt
from projections.maintenance import restoring
from projections.maintenance.backups import LogState, RestoreRefused, StoreTarget, choose, write_backup
from projections.maintenance.differences import manifest_differences, manifest_of
from projections.maintenance.restoring import Growing, GrowRefused, Routed, Window, restore, take_back
from projections.queries.documents import DocumentReader
from projections.queries.log_events import Audit, EventFilter, LogEvents
from projections.store.protocol import project
from projections.store.redis_store import RedisStore
from tests.conformance.interruptions import Killed, forget, killing
from tests.support.fleet_work import commands
from workers import main as worker

GROWN = 4 * PARTITIONS
MARK = "zqxvkmarker9"
ADMIN = Reader(TENANT, operator=True)


@pytest.fixture
async def target(valkey: Server, redis: Client, key_leaks: KeyLeaks) -> AsyncIterator[Client]:
    """A client of an empty server."""
    client = connect(f"{valkey.url}?db=1")
    await client.flushdb()  # type: ignore[attr-defined]
    yield client
    try:
        await key_leaks.check(client)
    finally:
        await client.aclose()


_dump: dict[bytes, tuple[int, bytes]] = {}
"""What `lived` gives to every test, made once."""


@pytest.fixture
async def lived(shop: Workshop) -> Workshop:
    """A log with something of every kind, in several tenants, projects and sessions; some of it is forgotten."""
    server: Any = shop.redis
    if _dump:
        async with server.pipeline() as pipe:
            pipe.delete(MANIFEST)
            for name, (ttl_ms, value) in _dump.items():
                pipe.restore(name, ttl_ms, value)
            await pipe.execute()
        await shop.log.create_or_check()
        return shop
    await _live(shop)
    for name in [name async for name in shop.redis.scan_iter(match="*", count=1000)]:
        if not name.endswith(b":lease"):
            _dump[name] = max(0, await server.pttl(name)), await server.dump(name)
    return shop


async def _live(shop: Workshop) -> None:
    until = shop.clock() - timedelta(hours=1)
    for text in commands(until, sessions=8, turns=8, long=24, memories=24):
        command: WriteCommand = msgspec.convert(text, WriteCommand)
        await shop.say(command)
        if text["agent_id"] == "ada":
            await shop.current.give(command, Caller("second"))
    first, two = await shop.remember("the kettle is green"), await shop.remember("tea is made in it")
    await shop.say(Relate(source=first.id, target=two.id, relation="about", project="atlas"))
    await shop.project()
    gone = await shop.remember(f"the key is {MARK}")
    await forget(shop, gone.id)
    await shop.observe(f"and here it is again: {MARK}", session="s9")
    await shop.project()
    session = await shop.session("s9")
    await shop.say(ForgetSubject(kind="session", subject="s9", project="atlas", session_id="s9", documents=[
        session.id, *[result.id for result in await shop.everything() if getattr(result, "session", "") == session.id],
    ]))  # fmt: skip
    await shop.project()


def grow_of(shop: Workshop, target: Client, partitions: int = GROWN) -> Growing:
    return Growing(shop.redis, shop.log, target, partitions)


async def begun(shop: Workshop, target: Client) -> Growing:
    """A growth that has copied everything."""
    growing = grow_of(shop, target)
    await growing.begin()
    await growing.copy()
    return growing


async def killed(shop: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch, step: str, when: str) -> None:
    """Grow a log until the process is killed before or after a step."""
    with monkeypatch.context() as patch:
        patch.setattr(restoring, step, killing(getattr(restoring, step), when))
        with pytest.raises(Killed):
            await grown(shop, target)


async def with_mark(log: RedisLog) -> list[Stored]:
    """The entries that say what was forgotten."""
    return [row for rows in await entries(log, PARTITIONS) for row in rows if MARK.encode() in row.payload]


async def grown(shop: Workshop, target: Client, *, compared: bool = True) -> RedisLog:
    """Grow a log as the command does; returns the new one, opened."""
    return await run(grow_of(shop, target), target, GROWN, compared=compared)


async def run(growing: Growing, target: Client, partitions: int, *, compared: bool = True) -> RedisLog:
    """Carry a growth out."""
    await growing.begin()
    await growing.copy()
    await growing.compare()
    await growing.copy_keys()
    if compared:
        assert await growing.compare_documents() == []
    await growing.finish()
    log = RedisLog(target, partitions)
    await log.create_or_check()
    return log


async def folded(log: RedisLog, redis: Client) -> None:
    """Bring the documents of a log up to its head."""
    for partition in range(log.partitions):
        keys = PartitionKeys(partition)
        store = RedisStore(redis, keys, 1, await acquire_lease(redis, keys, "test", 600_000))
        while rows := await log.read(partition, await store.checkpoint(), 50):
            await store.save(
                await project(store, [decode(row.payload, row.position) for row in rows]), rows[-1].position
            )


async def entries(log: RedisLog, parts: int) -> list[list[Stored]]:
    """What every partition of a log of `parts` has, or all of those together that it became."""
    results = [[row for part in range(partition, log.partitions, parts) for row in await log.read(part, START, 10_000)]
             for partition in range(parts)]  # fmt: skip
    return [sorted(rows) for rows in results]


# what is there afterwards


async def test_every_event_is_at_its_position_in_the_partition_of_its_route(lived: Workshop, target: Client):
    before = await entries(lived.log, PARTITIONS)
    log = await grown(lived, target)
    assert await entries(log, PARTITIONS) == before
    assert sum(map(len, before)) > 300
    for partition in range(GROWN):
        for row in await log.read(partition, START, 10_000):
            event = decode(row.payload, row.position)
            assert partition_of(route_of(event.envelope, event.data), GROWN) == partition
    used = [partition for partition in range(GROWN) if await log.read(partition, START, 1)]
    assert len(used) > 2 * PARTITIONS


async def test_the_documents_are_the_same_once_they_are_projected(lived: Workshop, target: Client):
    before = await manifest_of(lived.redis, range(PARTITIONS))
    await folded(await grown(lived, target), target)
    assert manifest_differences(await documents_of(target, GROWN, PARTITIONS), before) == []
    kinds = {kind for partition in before.partitions.values() for kind in partition.kinds}
    assert {"memory", "observation", "session", "lesson", "slot", "action", "relation", "commit", "tombstone"} <= kinds


async def test_what_was_forgotten_is_not_in_the_new_log(lived: Workshop, target: Client):
    log = await grown(lived, target)
    rows = [row for rows in await entries(log, PARTITIONS) for row in rows]
    assert await with_mark(log) == []
    stubs = [event for row in rows if isinstance((event := decode(row.payload, row.position)).data, EventErased)]
    assert len(stubs) >= 2


async def test_a_write_that_is_sent_again_is_known_and_gets_the_position_it_had(lived: Workshop, target: Client):
    fields = commands(lived.clock() - timedelta(hours=1), sessions=8, turns=8, long=24, memories=24)[7]
    command: WriteCommand = msgspec.convert(fields, WriteCommand)
    first = await lived.say(command)
    log = await grown(lived, target)
    again = await CommandHandler(GroupCommit(log), GROWN).handle(command, Caller(TENANT))
    assert (again.duplicate, again.id) == (True, first.id)
    (partition, position), (old, before) = *Token.parse(again.position).items(), *Token.parse(first.position).items()
    assert (position, partition % PARTITIONS) == (before, old)


async def test_ids_are_remembered_for_a_window_from_the_end_of_the_growth(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(restoring, "ENTRIES_PER_READ", 10)
    growing = Growing(lived.redis, lived.log, target, GROWN, window=Window(5_000_000, 10))
    await growing.begin()
    await growing.copy()
    names = [name async for name in target.scan_iter(match="*:dedup*", count=1000)]
    assert any(name.endswith(b":previous") for name in names), "no more are remembered than the settings say"
    assert {await target.ttl(name) for name in names} == {-1}  # type: ignore[attr-defined]
    await growing.copy_keys()
    await growing.finish()
    for name in names:
        longest = 5_000 if name.endswith(b":previous") else 10_000
        assert longest - 60 < await target.ttl(name) <= longest  # type: ignore[attr-defined]


async def test_an_archived_beginning_comes_along(redis: Client, target: Client, tmp_path: Path):
    shop = Workshop(redis, tmp_path, archived=True)
    await shop.log.create_or_check()
    for n in range(30):
        await shop.observe(f"the build failed {n} times", session=f"s{n}")
    await shop.project()
    before = await entries(shop.log, PARTITIONS)
    shop.clock.advance(timedelta(hours=2))
    assert await shop.archive_job().run()
    assert isinstance(shop.log, ArchivedLog)
    log = await grown(shop, target)
    assert await entries(log, PARTITIONS) == before


async def test_bytes_that_no_release_can_read_come_along(shop: Workshop, target: Client):
    await shop.log.append({1: [Entry("one", b"garbage"), Entry("two", b"")]})
    for partition in range(PARTITIONS):
        await pretend_projected(shop.redis, partition)
    log = await grown(shop, target, compared=False)
    assert [row.payload for row in await log.read(1, START, 10)] == [b"garbage", b""]


async def test_an_altered_entry_comes_along_and_stays_unreadable(shop: Workshop, target: Client):
    """The new log's entry has the checksum of these bytes, so its mark alone says that they were altered."""
    (answer,) = (await shop.log.append({1: [Entry("one", b"garbage")]}))[1]
    await alter(shop.redis, PartitionKeys(1).log, answer.position, lambda was: was | {b"e": b"garbled"})
    for partition in range(PARTITIONS):
        await pretend_projected(shop.redis, partition)
    log = await grown(shop, target, compared=False)
    assert await log.read(1, START, 10) == [Stored(answer.position, ALTERED + b"garbled")]


async def test_an_event_of_a_later_release_is_left_to_that(shop: Workshop, target: Client):
    event: dict[str, Any] = {"event_id": "e", "type": "dream.dreamt", "tenant": TENANT, "version": 1, "data": {}}
    await shop.log.append({1: [Entry("one", msgspec.msgpack.encode(event))]})
    await pretend_projected(shop.redis, 1)
    growing = grow_of(shop, target)
    await growing.begin()
    with pytest.raises(GrowRefused, match=r"dream\.dreamt"):
        await growing.copy()


# what is kept beside the log


async def test_receipts_numbers_and_discarded_letters_come_along(lived: Workshop, target: Client):
    until = str(Token({item: await lived.log.head(item) for item in range(PARTITIONS)}))
    receipt = Receipt(id="f1", tenant=TENANT, kind="user", subject="u", requested_at=lived.clock(), until=until)
    await save_receipt(lived.redis, receipt)
    numbers = NumberKeys(TENANT, "memory")
    given = await number(lived.redis, numbers, ["a", "b"])
    discarded = {item: (await lived.log.read(item, START, 3))[-1] for item in range(PARTITIONS)}
    for partition, row in discarded.items():
        letter = letter_of(row, "invalid", "no", 5, lived.clock())
        noted = Discarded(letter=letter, reason="x", agent_id="ada", discarded_at=lived.clock())
        async with lived.redis.pipeline() as pipe:
            queue_discarded(pipe, PartitionKeys(partition), noted)
            await pipe.execute()
        await lived.redis.set(PartitionKeys(partition).enriched, str(row.position))
    await grown(lived, target, compared=False)
    stored = await load_receipt(target, "f1")
    assert stored is not None
    assert Token.parse(stored.until) == {part: Token.parse(until)[part % PARTITIONS] for part in range(GROWN)}
    assert await number(target, numbers, ["b", "a", "c"]) == [given[1], given[0], 3]
    for partition, row in discarded.items():
        event = decode(row.payload, row.position)
        home = partition_of(route_of(event.envelope, event.data), GROWN)
        for part in range(partition, GROWN, PARTITIONS):
            places = await discarded_places(target, PartitionKeys(part))
            assert places == ({row.position} if part == home else set())
            assert await target.get(PartitionKeys(part).enriched) == str(row.position).encode()


async def test_api_keys_go_on_letting_in(lived: Workshop, target: Client):
    made = await Registry(lived.redis, lived.clock).create(Grant(name="fleet", roles=["read"], tenant=TENANT))
    await grown(lived, target)
    ring = Keyring(Registry(target, lived.clock), TENANT, None, loopback=False, clock=lived.clock)
    await ring.load()
    caller = await ring.identify(str(made.token))
    assert caller is not None
    assert caller.key_id == made.key.id


async def test_cached_vectors_come_along_for_the_time_they_have_left(lived: Workshop, target: Client):
    name = embedding(b"x" * 32)
    await lived.redis.set(name, b"vector", ex=100)
    await grown(lived, target)
    assert await target.get(name) == b"vector"
    assert 0 < await target.ttl(name) <= 100  # type: ignore[attr-defined]


async def test_what_was_forgotten_just_before_is_purged_from_the_new_log(lived: Workshop, target: Client):
    await lived.redis.sadd(PartitionKeys(0).purging, b"an earlier one")
    keys = [PartitionKeys(partition) for partition in range(PARTITIONS)]
    notes = {key: {*await lived.redis.smembers(key.purge), *await lived.redis.smembers(key.purging)} for key in keys}
    await grown(lived, target)
    assert {key: await target.smembers(key.purge) for key in keys} == notes
    assert sum(map(len, notes.values())) > 2


async def test_a_backup_of_a_grown_log_keeps_how_it_was_grown(lived: Workshop, target: Client, tmp_path: Path):
    log = await grown(lived, target)
    store = StoreTarget(DirectoryStore(tmp_path / "backups"))
    store.put((await write_backup(target, log, tmp_path / "made", lived.clock)).name, tmp_path / "made")
    await target.flushdb()  # type: ignore[attr-defined]
    chosen = choose(store, None, tmp_path / "work")
    assert chosen is not None
    await restore(target, GROWN, chosen)
    again = RedisLog(target, GROWN)
    await again.create_or_check()
    assert again.history == log.history
    assert again.history.growths


@pytest.mark.nightly
async def test_a_log_is_grown_into_a_cluster_and_from_there_again(lived: Workshop, target: Client, tmp_path: Path):
    before, documents = await entries(lived.log, PARTITIONS), await manifest_of(lived.redis, range(PARTITIONS))
    old = Token({partition: await lived.log.head(partition) for partition in range(PARTITIONS)})
    name = embedding(b"x" * 32)
    await lived.redis.set(name, b"vector", ex=100)
    with serving("cluster", tmp_path / "cluster") as cluster:
        between = connect(cluster.url)
        try:
            first = await grown(lived, between)
            await folded(first, between)
            second = await run(Growing(between, first, target, 2 * GROWN), target, 2 * GROWN)
        finally:
            await between.aclose()
    assert await target.get(name) == b"vector"
    assert await entries(second, PARTITIONS) == before
    await folded(second, target)
    assert manifest_differences(await documents_of(target, 2 * GROWN, PARTITIONS), documents) == []
    with pytest.raises(CommandRejected, match="from before the number of partitions was increased"):
        second.history.check_cursor(old)


# interruptions


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["make_room", "clear", "restore_entries", "put_keys", "discarded_places", "finish"])
async def test_what_was_killed_goes_on_when_it_is_run_again(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch, step: str, when: str
):
    before = await entries(lived.log, PARTITIONS)
    await killed(lived, target, monkeypatch, step, when)
    with pytest.raises(LogMoved):
        await refuse_if_closed(lived.redis)
    if (step, when) != ("finish", "after"):
        if (step, when) != ("make_room", "before"):
            with pytest.raises(GrowthUnfinished):
                await RedisLog(target, GROWN).create_or_check()
        await grown(lived, target)
    log = RedisLog(target, GROWN)
    await log.create_or_check()
    assert await entries(log, PARTITIONS) == before
    await folded(log, target)
    expected = await manifest_of(lived.redis, range(PARTITIONS))
    assert manifest_differences(await documents_of(target, GROWN, PARTITIONS), expected) == []


async def test_no_backup_is_restored_over_an_interrupted_growth(
    lived: Workshop, valkey: Server, target: Client, tmp_path: Path
):
    growing = grow_of(lived, target)
    await growing.begin()
    copied = await growing.copy()
    changes: dict[str, Any] = {"redis_url": f"{valkey.url}?db=1", "partitions": GROWN, "backup": str(tmp_path / "b")}
    settings = Settings(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", **changes)
    with pytest.raises(GrowthUnfinished):
        await asyncio.to_thread(restore_at_start, settings, print)
    assert sum(map(len, await entries(RedisLog(target, GROWN), PARTITIONS))) == copied


async def test_counts_are_by_tenant_and_type_and_what_was_copied_is_not_copied_again(lived: Workshop, target: Client):
    growing = grow_of(lived, target)
    await growing.begin()
    total = await growing.copy()
    counts = await growing.compare()
    assert counts.total() == total
    assert {tenant for tenant, _ in counts} == {TENANT, "second"}
    assert counts[TENANT, "memory.recorded"] > counts["second", "memory.recorded"] > 0
    again = grow_of(lived, target)
    await again.begin()
    assert await again.copy() == 0
    assert total == (await again.compare()).total()


@pytest.mark.parametrize("kill", ["", "before", "after"])
async def test_an_old_log_that_changed_is_copied_from_the_beginning(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch, kill: str
):
    """What was erased meanwhile must not be left where it was copied to, also when deleting that was interrupted."""
    secret = await lived.remember(f"the other key is {MARK}")
    await lived.project()
    growing = await begun(lived, target)
    assert await take_back(lived.redis)
    await forget(lived, secret.id)
    if kill:
        await killed(lived, target, monkeypatch, "clear", kill)
    else:
        with pytest.raises(GrowRefused, match="written to while it was copied"):
            await growing.finish()
    assert await with_mark(await grown(lived, target)) == []


async def test_nothing_is_left_of_another_log_whose_growth_was_interrupted(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch
):
    made = await Registry(lived.redis, lived.clock).create(Grant(name="fleet", roles=["read"], tenant=TENANT))
    await lived.redis.set(EMBEDDER, b"of the first")
    await killed(lived, target, monkeypatch, "finish", "before")
    assert await target.hget(MANIFEST, "grown") is not None
    await target.hset(MANIFEST, "restored", b"{}")
    await lived.redis.delete(ACCESS_KEYS, ACCESS_VERSION, EMBEDDER, row_key(access_row_pk(made.key.id)))
    await lived.remember("this is another log")
    assert await take_back(lived.redis)
    await grow_of(lived, target).begin(projected=False)
    assert not await target.exists(ACCESS_KEYS, EMBEDDER, row_key(access_row_pk(made.key.id)))
    assert await target.hmget(MANIFEST, ["grown", "restored"]) == [None, None]


async def test_digests_of_imported_tombstones_are_there_before_what_they_are_of(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch
):
    growing = grow_of(lived, target)
    await growing.begin()
    noted = Routed("x", Entry("ab" * 16, b"x"), noted=True)
    monkeypatch.setattr(restoring, "restore_entries", killing(restoring.restore_entries, "after"))
    with pytest.raises(Killed):
        await growing._append(0, [(Position(1, 0), noted)])  # pyright: ignore[reportPrivateUsage]
    assert await target.smembers(PartitionKeys(0).imported) == {b"\xab" * 16}


async def test_a_difference_is_found(lived: Workshop, target: Client):
    growing = await begun(lived, target)
    log = RedisLog(target, GROWN)
    partition, *_ = [partition for partition in range(GROWN) if await log.read(partition, START, 1)]
    (row,) = await log.read(partition, START, 1)
    await erase(target, partition, row.position, b"another thing")
    with pytest.raises(restoring.CopyDiffers):
        await growing.compare()


# refusals


@pytest.mark.parametrize("partitions", [PARTITIONS, 2 * PARTITIONS + 1, 1])
async def test_another_number_than_a_multiple_is_refused(lived: Workshop, target: Client, partitions: int):
    with pytest.raises(GrowRefused, match="MNEMOLOG_PARTITIONS=6, 12, 24"):
        grow_of(lived, target, partitions)


async def refused(shop: Workshop, target: Client, error: type[MnemologError], match: str) -> None:
    """Growing is refused, and the old log may be used as before."""
    with pytest.raises(error, match=match):
        await grow_of(shop, target).begin()
    await refuse_if_closed(shop.redis)


@pytest.mark.parametrize("partitions", [GROWN, GROWN + 1])
async def test_a_new_log_that_has_something_or_another_size_is_refused(
    lived: Workshop, target: Client, partitions: int
):
    if partitions == GROWN:
        await RedisLog(target, GROWN).append({0: [Entry("x", b"x")]})
        await refused(lived, target, RestoreRefused, "not empty")
    else:
        await RedisLog(target, partitions).create_or_check()
        await refused(lived, target, PartitionCountMismatch, str(partitions))


async def test_a_log_in_use_is_refused(lived: Workshop, target: Client):
    ttl = LEASE_TTL // timedelta(milliseconds=1)
    await beat(lived.redis, WORKERS, "worker", ttl)
    await refused(lived, target, GrowRefused, "a worker is using the old log")
    await lived.redis.delete(WORKERS)
    await beat(target, WORKERS, "worker", ttl)
    await refused(lived, target, RestoreRefused, "is using the log")


@pytest.mark.parametrize(("what", "match"), [("starts", "is using the log"), ("writes", "not empty")])
async def test_a_process_that_uses_the_new_log_meanwhile_is_seen(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch, what: str, match: str
):
    """Behind the first look, ahead of the mark; what it wrote is kept."""
    measure = restoring.measure

    async def measured(redis: Client, log: EventLog) -> LogState:
        if what == "starts":
            await beat(target, WORKERS, "worker", LEASE_TTL // timedelta(milliseconds=1))
        else:
            await RedisLog(target, GROWN).append({0: [Entry("x", b"x")]})
        return await measure(redis, log)

    monkeypatch.setattr(restoring, "measure", measured)
    await refused(lived, target, RestoreRefused, match)
    log = RedisLog(target, GROWN)
    if what == "starts":
        await log.create_or_check()
    assert len(await log.read(0, START, 2)) == (0 if what == "starts" else 1)


async def test_a_process_that_goes_unseen_stops_writing_while_the_log_is_closed(lived: Workshop, target: Client):
    unseen = RedisLog(lived.redis, PARTITIONS)
    await unseen.create_or_check()
    await grow_of(lived, target).begin()
    await unseen.look_whether_open()
    with pytest.raises(LogRefused, match=f"grown into a log with {GROWN} partitions"):
        await GroupCommit(unseen).append([(0, Entry("x", b"x"))])
    half = RedisLog(target, GROWN)
    await half.look_whether_open()
    with pytest.raises(LogRefused, match="run `mnemolog grow` again"):
        await half.append({0: [Entry("x", b"x")]})
    assert await take_back(lived.redis)
    await unseen.look_whether_open()
    assert await GroupCommit(unseen).append([(0, Entry("x", b"x"))])


@pytest.mark.parametrize("process", ["api", "worker"])
async def test_a_process_that_had_begun_to_start_on_the_old_log_does_not(
    lived: Workshop, valkey: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, process: str
):
    """It looked before the log was closed, and says that it is up behind that."""
    changes: dict[str, Any] = {"redis_url": valkey.url, "partitions": PARTITIONS, "embedder": "none"}
    settings = Settings(data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", **changes)

    async def opened(settings: Settings, redis: Client) -> RedisLog:
        log = await open_to_write(settings, redis)
        await lived.redis.hset(MANIFEST, MOVED, msgspec.json.encode(Moved(GROWN, lived.clock())))
        return log

    where: Any = wiring if process == "api" else worker
    monkeypatch.setattr(where, "open_to_write", opened)
    async with AsyncExitStack() as stack:
        starting = (
            wiring.wire(settings, stack) if where is wiring else where.WorkerProcess(settings).run(asyncio.Event())
        )
        with pytest.raises(LogMoved):
            await starting


async def test_an_empty_log_is_refused(shop: Workshop, target: Client):
    await refused(shop, target, GrowRefused, "empty")


async def test_a_log_that_is_not_projected_is_refused_where_documents_are_compared(lived: Workshop, target: Client):
    await lived.remember("nobody projected this")
    await refused(lived, target, GrowRefused, "1 events of the old log are pending")
    await grow_of(lived, target).begin(projected=False)


async def test_a_new_server_whose_clock_is_behind_is_refused(
    lived: Workshop, target: Client, monkeypatch: pytest.MonkeyPatch
):
    async def of_old(redis: Client, *sections: str) -> list[dict[str, Any]]:
        return [{"server_time_usec": 1}]

    growing = await begun(lived, target)
    monkeypatch.setattr(restoring, "info_of_nodes", of_old)
    with pytest.raises(GrowRefused, match="clock is behind"):
        await growing.finish()


async def test_the_old_log_can_be_taken_back_and_a_grown_log_is_not_grown_into_again(lived: Workshop, target: Client):
    before = await entries(lived.log, PARTITIONS)
    await grown(lived, target)
    with pytest.raises(RestoreRefused, match="not empty"):
        await grow_of(lived, target).begin()
    with pytest.raises(LogMoved, match=f"{GROWN} partitions"):
        await refuse_if_closed(lived.redis)
    assert await take_back(lived.redis)
    await refuse_if_closed(lived.redis)
    assert not await take_back(lived.redis)
    assert await entries(lived.log, PARTITIONS) == before


# tokens and cursors


async def test_a_listing_goes_on_in_the_grown_log_and_refuses_a_cursor_from_before(lived: Workshop, target: Client):
    async def rest(log: RedisLog, redis: Client, after: str, most: int = 1_000) -> tuple[list[str], str]:
        listing = LogEvents(log, None, DocumentReader(redis, log.partitions))  # type: ignore[arg-type]
        names: list[str] = []
        for _ in range(most):
            page = await listing.page(EventFilter(ADMIN), after, 7, None)
            if not page.events:
                break
            names += [event["position"].partition(":")[2] for event in page.events]
            after = page.next or ""
        return names, after

    everything, end = await rest(lived.log, lived.redis, "")
    cursors = [await rest(lived.log, lived.redis, "", pages) for pages in (0, 1, 9, 20)]
    log = await grown(lived, target)
    for cursor in (*(cursor for _, cursor in cursors if cursor), end):
        with pytest.raises(CommandRejected, match="from before the number of partitions was increased"):
            await rest(log, target, cursor)
    names, cursor = await rest(log, target, "", 5)
    assert sorted(names + (await rest(log, target, cursor))[0]) == sorted(everything)


async def test_a_live_stream_goes_on_in_the_grown_log_and_refuses_an_earlier_one(lived: Workshop, target: Client):
    class Replica(NamedTuple):
        applied: dict[int, Position]

    async def stream(log: RedisLog, redis: Client, after: Token, most: int = 10_000) -> tuple[list[str], str]:
        replica: Any = Replica({partition: await log.head(partition) for partition in range(log.partitions)})
        events, names, last = LogEvents(log, replica, DocumentReader(redis, log.partitions)), list[str](), str(after)
        while len(names) < most and (results := await events.newly_applied(EventFilter(ADMIN), after, 7)):
            names += [partition["position"].partition(":")[2] for partition in results]
            last = results[-1]["after"]
        return names, last

    everything, _ = await stream(lived.log, lived.redis, Token())
    _, last = await stream(lived.log, lived.redis, Token(), 150)
    log = await grown(lived, target)
    with pytest.raises(CommandRejected, match="from before the number of partitions was increased"):
        log.history.check_cursor(Token.parse(last))
    names, last = await stream(log, target, Token(), 20)
    behind, _ = await stream(log, target, log.history.check_cursor(Token.parse(last)))
    assert sorted(names + behind) == sorted(everything)


async def test_the_audit_log_goes_on_in_the_grown_log_and_refuses_a_cursor_from_before(lived: Workshop, target: Client):
    async def rest(log: RedisLog, cursor: str | None, most: int = 1_000) -> tuple[list[str], str | None]:
        names: list[str] = []
        for _ in range(most):
            page = await Audit(log).entries(ADMIN, "*", "", None, cursor, 10)
            names += [entry.position.partition(":")[2] for entry in page.entries]
            if (cursor := page.next) is None:
                break
        return names, cursor

    everything, _ = await rest(lived.log, None)
    _, old = await rest(lived.log, None, 4)
    log = await grown(lived, target)
    assert (await rest(log, None))[0] == everything
    with pytest.raises(CommandRejected, match="not a cursor"):
        await rest(log, old)
    names, cursor = await rest(log, None, 4)
    assert names + (await rest(log, cursor))[0] == everything


async def test_a_token_of_another_log_is_refused(lived: Workshop, target: Client):
    log = await grown(lived, target)
    began = log.history.began_at
    assert began is not None
    assert began < datetime.now(UTC)
    earlier = Token({0: Position(int(began.timestamp() * 1000) - 3_600_000, 0)})
    with pytest.raises(CommandRejected, match="another log"):
        log.history.check_token(earlier)


async def test_a_memory_is_found_by_its_id(lived: Workshop, target: Client):
    memory = await lived.remember("a memory of before")
    await lived.project()
    await folded(await grown(lived, target), target)
    document = await DocumentReader(target, GROWN).find(memory.id)  # type: ignore[arg-type]
    assert document is not None
    assert isinstance(document.document, Memory)
