"""Each fault is planted in a real Valkey, found, repaired, and not found again. A clean store is left as it is.

Left open: which events of the log are sampled; how many partitions a run looks at.

What a sweep forgets: memories whose time has run out, and old observations that hardly mattered.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from altering import alter
from desk import ADA, NOBODY, Desk
from fixed_embedder import FixedEmbedder
from hash_embedder import DIMENSIONS, HashEmbedder
from workshop import PARTITIONS, TENANT, Workshop

from api.importing.mapping import Mapped, Step, events_of
from ingest.commands.decide import Caller, LinkCommit, Observe
from ingest.commands.handler import CommandHandler
from ingest.ids import DocumentId
from ingest.log.event_log import Stored
from ingest.log.group_commit import GroupCommit
from ingest.log.keys import CONSUMER, CONSUMER_GROUP, GenerationKeys, PartitionKeys
from ingest.log.position import Position, Token
from ingest.nouns.observation import ObservationCompressed
from ingest.platform.clock import system_clock
from ingest.platform.connections import Client
from projections.forgetting.forget import KEPT, Forgetting, Sweep, Swept
from projections.maintenance.differences import manifest_of
from projections.maintenance.reconciling import EVERY, Fault, NewestSnapshot, ReconcileJob, ReconcileReport, load_report
from projections.nouns.access import Reader
from projections.nouns.document import listings
from projections.nouns.observation import Observation
from projections.operations.current import Current
from projections.rebuilding.documents import fill
from projections.store.dead_letters import dead_letter
from projections.store.feed import Put, Remove, entry_fields, read_entry
from projections.vectors.embedder import Embedder


class Sized(HashEmbedder):
    """An embedder with vectors of so many dimensions."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions


class Store:
    """A log with documents of every kind, one of them at hand to be damaged."""

    def __init__(self, shop: Workshop, name: str, partition: int) -> None:
        self.shop, self.redis, self.name, self.partition = shop, shop.redis, DocumentId(name), partition

    @property
    def keys(self) -> GenerationKeys:
        """The keys of its partition."""
        return PartitionKeys(self.partition).of_generation(1)

    def job(self, dimensions: int = 0, slice_s: float = 60.0) -> ReconcileJob:
        """The job of a worker; without an embedder unless told otherwise."""
        return ReconcileJob(
            self.redis, self.shop.log, newest_of(self.shop), FixedEmbedder(Sized(dimensions)),
            self.shop.clock, slice_s,
        )  # fmt: skip

    async def found(self, dimensions: int = 0) -> dict[Fault, int]:
        """What a whole run finds."""
        report = await self.job(dimensions).run(force=True)
        assert report is not None
        assert report.finished_at is not None
        assert all(not partition.not_compared for partition in report.partitions)
        return {fault: count for fault, count in report.found.items() if count}

    async def missing(self) -> list[str]:
        """What of the log left nothing, as many runs tell that each sample other events."""
        results: dict[str, None] = {}
        for _ in range(20):
            report = await self.job().run(force=True)
            assert report is not None
            for partition in report.partitions:
                results |= dict.fromkeys(partition.first.get("document_missing", []))
            self.shop.clock.advance(timedelta(seconds=1))
        return list(results)

    async def feed(self) -> list[Any]:
        """The items of the partition's feed, in order."""
        rows = await self.redis.xrange(self.keys.changes)
        return [item for _, fields in rows for item in read_entry(fields)[0]]


@pytest.fixture
async def store(redis: Client, tmp_path: Path) -> Store:
    """Everything is projected, nothing is wrong."""
    shop = Workshop(redis, tmp_path)
    await shop.log.create_or_check()
    written = await shop.observe("the build failed")
    for n in range(5):
        await shop.observe(f"it failed {n} more times", session=f"s{n}")
    await shop.learn("rebase before pushing")
    gone = await shop.remember("a secret")
    await shop.remember("green tea, no sugar", user_id="u1")
    await shop.project()
    await Forgetting(shop.current).document(gone.id, Reader(TENANT, operator=True), Caller(TENANT))
    await shop.project()
    (partition,) = Token.parse(written.position)
    for number in range(PARTITIONS):
        await redis.delete(PartitionKeys(number).of_generation(1).embed_queue)
    return Store(shop, written.id, partition)


async def everything(redis: Client) -> dict[bytes, bytes]:
    """Every key and its value, but for the report."""
    server = cast(Any, redis)
    return {
        key: await server.dump(key) async for key in redis.scan_iter(match="*", count=1000) if b"reconcil" not in key
    }


async def test_a_clean_store_reports_nothing_and_is_not_changed(store: Store):
    before = await everything(store.redis)
    report = await store.job().run(force=True)
    assert report is not None
    assert {fault: count for fault, count in report.found.items() if count} == {}
    assert report.advice == []
    assert sum(partition.documents for partition in report.partitions) > 10
    assert sum(partition.events_sampled for partition in report.partitions) > 0
    assert await everything(store.redis) == before
    assert await load_report(store.redis) == report


async def test_a_document_that_lacks_in_its_listings_is_listed(store: Store):
    before = await manifest_of(store.redis, range(PARTITIONS))
    results = listings(await store.shop.document(store.name, Observation))
    for listing, member in results:
        await store.redis.zrem(store.keys.listing(listing), member)
    assert await store.found() == {"missing_from_listing": len(results)}
    assert await manifest_of(store.redis, range(PARTITIONS)) == before
    assert await store.found() == {}


async def test_a_member_whose_document_is_gone_or_belongs_elsewhere_is_taken_out(store: Store):
    before = await manifest_of(store.redis, range(PARTITIONS))
    await store.redis.zadd(store.keys.listing(f"timeline:{TENANT}\0atlas"), {f"00000000000001|obs_{'0' * 20}": 0})
    await store.redis.zadd(store.keys.listing(f"memories:{TENANT}\0other"), {f"1|{store.name}": 0})
    assert await store.found() == {"stale_in_listing": 2}
    assert await manifest_of(store.redis, range(PARTITIONS)) == before
    assert await store.found() == {}


async def test_a_document_that_the_feed_never_told_of_is_announced(store: Store):
    await store.redis.delete(store.keys.changes)
    kinds = (await manifest_of(store.redis, [store.partition])).partitions[store.partition].kinds
    searched = sum(kinds.get(kind, 0) for kind in ("observation", "memory", "lesson", "summary"))
    assert await store.found() == {"missing_from_index": searched}
    announced = [item.entry.id for item in await store.feed() if isinstance(item, Put)]
    assert store.name in announced
    assert len(announced) == searched
    assert await store.found() == {}


async def test_what_the_index_has_of_a_document_that_is_gone_is_removed(store: Store):
    entries = [item for item in await store.feed() if isinstance(item, Put) and item.entry.id == store.name]
    ghost = cast(Any, entries[-1].entry).__class__(**{
        name: getattr(entries[-1].entry, name) for name in entries[-1].entry.__struct_fields__ if name != "id"
    } | {"id": f"obs_{'0' * 20}"})  # fmt: skip
    await store.redis.xadd(store.keys.changes, entry_fields([Put(ghost)], None))
    assert await store.found() == {"stale_in_index": 1}
    assert (await store.feed())[-1] == Remove(f"obs_{'0' * 20}")
    assert await store.found() == {}


async def test_a_text_without_a_vector_that_waits_for_none_is_queued(store: Store):
    results = await store.found(DIMENSIONS)
    assert results.keys() == {"vector_missing"}
    queued = {raw.decode() for raw in await store.redis.zrange(store.keys.embed_queue, 0, -1)}
    assert store.name in queued
    assert await store.found(DIMENSIONS) == {}, "it waits now"


async def test_what_waits_for_a_vector_and_is_gone_is_taken_off(store: Store):
    await store.redis.zadd(store.keys.embed_queue, {f"mem_{'0' * 20}": 1e13, store.name: 1e13})
    assert await store.found() == {"stale_in_embed_queue": 1}
    assert await store.redis.zrange(store.keys.embed_queue, 0, -1) == [store.name.encode()]


async def test_an_applied_entry_that_nobody_acknowledged_is_acknowledged(store: Store):
    log = PartitionKeys(store.partition).log
    await store.redis.xgroup_create(log, CONSUMER_GROUP, id="0-0", mkstream=True)
    await store.redis.xreadgroup(CONSUMER_GROUP, CONSUMER, {log: ">"}, count=1, block=None)
    assert await store.found() == {"pending_behind_checkpoint": 1}
    (group,) = await store.redis.xinfo_groups(log)
    assert group["pending"] == 0


async def test_a_missing_document_is_named_with_the_advice_to_rebuild(store: Store):
    """Nothing but a replay makes it again."""
    for partition in range(PARTITIONS):
        keys = PartitionKeys(partition).of_generation(1)
        for prefix in (keys.doc(""), keys.row("")):
            async for key in store.redis.scan_iter(match=f"{prefix}*", count=1000):
                await store.redis.delete(key.decode())
    report = await store.job().run(force=True)
    assert report is not None
    assert report.found["document_missing"] > 0
    assert f"documents are missing: `mnemolog admin rebuild --partition {store.partition}`" in report.advice
    assert "observation.recorded at" in str(report.partitions[store.partition].first["document_missing"])


async def test_an_applied_entry_that_was_altered_is_parked_and_named_once(store: Store):
    """Its document is right. A rebuild does not take the altered text for what was said."""
    keys = PartitionKeys(store.partition)
    document = await store.shop.document(store.name, Observation)
    await alter(
        store.redis,
        keys.log,
        Position.parse(document.position),
        lambda was: was | {b"e": was[b"e"].replace(b"fail", b"pass")},
    )
    report = await store.job().run(force=True)
    assert report is not None
    assert report.found["altered_entry"] == 1
    assert report.partitions[store.partition].first["altered_entry"] == [document.position]
    assert any("entries of the log were altered" in item for item in report.advice)
    assert await store.redis.zcard(store.keys.dead) == 1
    letter = await dead_letter(store.redis, store.keys, Position.parse(document.position))
    assert letter is not None
    assert letter.code == "altered_entry"
    assert await store.found() == {}
    assert await store.shop.document(store.name, Observation) == document
    await fill(store.redis, store.shop.log, store.partition, 2, 60.0)
    assert await store.redis.zcard(keys.of_generation(2).dead) > 0


async def test_what_is_forgotten_without_a_trace_is_not_missing(store: Store):
    """A commit, a lesson, a slot, an action and a relation may be made anew, so their tombstones leave nothing."""
    shop = store.shop
    await shop.observe("it works", session="s9")
    await shop.say(LinkCommit(commit="abc", project="atlas", session_id="s9"))
    lesson = await shop.learn("wait for the event")
    await shop.project()
    forgetting = Forgetting(shop.current)
    await forgetting.session(await shop.session("s9"), Caller(TENANT))
    await forgetting.document(lesson.id, Reader(TENANT, operator=True), Caller(TENANT))
    await shop.project()
    assert await store.missing() == []
    for name in [key async for key in store.redis.scan_iter(match="mnemolog:{p*:doc:obs_*", count=1000)]:
        await store.redis.delete(name.decode())
    assert "subject.forgotten" in " ".join(await store.missing())


async def test_a_run_goes_on_where_the_last_one_stopped(store: Store):
    reports: list[ReconcileReport] = []
    while not reports or reports[-1].next is not None:
        report = await store.job(slice_s=0).run(force=not reports)
        assert report is not None
        reports.append(report)
    assert [report.next for report in reports] == [*range(1, PARTITIONS), None]
    assert [partition.partition for partition in reports[-1].partitions] == list(range(PARTITIONS))


async def test_it_runs_once_a_day(store: Store):
    assert await store.job().run() is None, "the log is younger than a day"
    store.shop.clock.advance(EVERY + timedelta(minutes=1))
    assert await store.job().run() is not None
    assert await store.job().run() is None
    store.shop.clock.advance(EVERY + timedelta(minutes=1))
    assert await store.job().run() is not None


def newest_of(shop: Workshop) -> Callable[[Embedder], NewestSnapshot]:
    """What the newest snapshot has."""
    return lambda embedder: NewestSnapshot(shop.folder / "snapshots", embedder.model)


class SnapshotMeanwhile:
    """The log of a store where a snapshot is written, and the feeds trimmed, while the first partition is checked."""

    def __init__(self, shop: Workshop) -> None:
        self._shop, self.written = shop, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shop.log, name)

    async def read(self, partition: int, after: Position, limit: int) -> list[Stored]:
        if not self.written:
            self.written = True
            assert await self._shop.snapshot_job().run(force=True) is not None
        return await self._shop.log.read(partition, after, limit)


async def test_every_partition_is_compared_though_a_snapshot_trims_the_feeds_meanwhile(store: Store):
    log = SnapshotMeanwhile(store.shop)
    job = ReconcileJob(
        store.redis, cast(Any, log), newest_of(store.shop), FixedEmbedder(Sized(0)), store.shop.clock, 60
    )
    report = await job.run(force=True)
    assert report is not None
    assert log.written
    assert [partition.not_compared for partition in report.partitions] == [""] * PARTITIONS
    assert not any(report.found.values())


async def observe(desk: Desk, content: str, days_ago: float, importance: int) -> str:
    """An observation of some days ago, compressed with this importance."""
    command = Observe(content=content, project="atlas", session_id=content)
    short = ObservationCompressed(
        observation="", title=content, narrative=content, facts=[], concepts=[], files=[], importance=importance,
        model="m", prompt_version="1",
    )  # fmt: skip
    step = Step(command, content, system_clock() - timedelta(days=days_ago), short)
    handler = CommandHandler(GroupCommit(desk.log), PARTITIONS)
    events = events_of(Mapped([step]), "test", TENANT)
    await handler.append_events(events)
    compressed = events[1].data
    assert isinstance(compressed, ObservationCompressed)
    return compressed.observation


async def swept(desk: Desk, *, dry_run: bool = False) -> Swept:
    """What a sweep for nobody in particular does now."""

    async def fold(token: Token) -> None:
        await desk.settle()

    handler = CommandHandler(GroupCommit(desk.log), PARTITIONS)
    current = Current(handler, desk.documents, desk.log, fold)
    sweep = Sweep(current, desk.lookup, Forgetting(current))
    results = await sweep.run(NOBODY, Caller(TENANT), dry_run=dry_run)
    await desk.settle()
    return results


async def there(desk: Desk, *names: str) -> list[str]:
    results = await desk.lookup.documents(names, NOBODY)
    return [result.document.id for result in results]


async def test_only_what_is_old_and_hardly_mattered_goes(desk: Desk):
    old = KEPT.days + 1
    trifle = await observe(desk, "trifle", old, 2)
    stored = [
        await observe(desk, "weighty", old, 3),
        await observe(desk, "recent", KEPT.days - 1, 1),
    ]
    await desk.settle()
    planned = await swept(desk, dry_run=True)
    assert (planned.unimportant, planned.expired, planned.position) == ([trifle], [], "")
    assert await there(desk, trifle, *stored) == [trifle, *stored]
    assert (await swept(desk)).unimportant == [trifle]
    assert await there(desk, trifle, *stored) == stored
    assert (await swept(desk)).unimportant == []


async def test_an_observation_that_something_was_made_of_stays(desk: Desk):
    """Forgetting it would take along what was made of it."""
    source = await observe(desk, "source", KEPT.days + 1, 1)
    memory = await desk.remember("made of it", derived_from=[source])
    await desk.settle()
    assert (await swept(desk)).unimportant == []
    assert await there(desk, source, memory) == [source, memory]


async def test_a_memory_goes_when_its_time_has_run_out(desk: Desk):
    over = await desk.remember("soon over", ttl_days=1e-9)
    private = await desk.remember("somebody's", ttl_days=1e-9, visibility="private")
    lasting = await desk.remember("for a while", ttl_days=1)
    untrue = await desk.remember("it was so", valid_until=datetime(2020, 1, 1, tzinfo=UTC))
    await desk.settle()
    await asyncio.sleep(0.01)
    assert (await swept(desk, dry_run=True)).expired == [over]
    assert (await swept(desk)).expired == [over]
    assert await there(desk, over, lasting, untrue) == [lasting, untrue]
    mine = await desk.lookup.documents([private], ADA)
    assert [document.document.id for document in mine] == [private]
