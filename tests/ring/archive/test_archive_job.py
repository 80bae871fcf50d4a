"""What archiving guarantees, against a real Valkey: the log reads the same before, meanwhile and after.

Whatever is killed; and what was forgotten is gone from every file of the archive after the next purge, whatever it
raced with. Left open: how entries are divided into segments, and how files are named.

A torn, altered, missing or older file of the archive is found and named, and harms nothing else.

Whoever reads it is told; nothing is trimmed behind it; the other partitions are archived. A log whose beginning is in
an archive is not opened without it, and one that was restored begins another.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from archiving import seal_next
from rebuilding import rebuild
from replay_compare import assert_equals_replay
from workshop import PARTITIONS, TENANT, Workshop

from ingest.errors import ArchiveUnavailable, DurabilityUnavailable, InvalidSetting
from ingest.log import segments as segments_module
from ingest.log.archive.archive import Archive, look, verify
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.sealing import ArchiveJob, ArchiveRun, Sealing
from ingest.log.archived import count_erased, load_archived
from ingest.log.event_log import EventLog, Stored
from ingest.log.keys import ARCHIVE_ID, ARCHIVE_LEASE, CONSUMER, CONSUMER_GROUP, MANIFEST, PartitionKeys
from ingest.log.lag import entries_behind
from ingest.log.opening import ArchiveNotConfigured, open_log
from ingest.log.position import START, Position, partition_of, project_route
from ingest.log.segments import DamagedArchive, DamagedSegment, MissingFile, Outrun
from ingest.log.store import DirectoryStore
from ingest.platform.connections import Client
from ingest.platform.settings import from_environment
from projections.maintenance.backups import BackupJob, StoreTarget, choose, count_forgotten
from projections.maintenance.restoring import restore
from tests.conformance.interruptions import Killed, files_with, forget, killing

MARK = "zqxvkmarker7"
SECRET = f"the key is {MARK}"
HOME = partition_of(project_route(TENANT, "atlas"), PARTITIONS)
"""The partition of all memories of these tests."""


@pytest.fixture
async def shop(redis: Client, tmp_path: Path) -> Workshop:
    made = Workshop(redis, tmp_path, archived=True)
    await made.log.create_or_check()
    return made


async def remembered(shop: Workshop, *texts: str) -> list[str]:
    """The ids of memories that are projected."""
    names = [(await shop.remember(text)).id for text in texts]
    await shop.project()
    return names


async def whole(shop: Workshop) -> list[list[Stored]]:
    """The log as a process reads it that starts now."""
    log = shop.archived_log()
    forwards = [await log.read(partition, START, 10_000) for partition in range(PARTITIONS)]
    backwards = [await log.read_back(partition, None, 10_000) for partition in range(PARTITIONS)]
    assert [rows[::-1] for rows in backwards] == forwards
    return forwards


def segments(shop: Workshop) -> list[str]:
    """The names of all segment files."""
    return sorted(path.name for path in shop.archive.rglob("segment-*"))


async def in_stream(shop: Workshop) -> int:
    """Entries of all streams."""
    return sum([int(await shop.redis.xlen(PartitionKeys(partition).log)) for partition in range(PARTITIONS)])


def with_one_before(step: Callable[..., Any], other: Callable[[], Awaitable[None]]) -> Callable[..., Any]:
    """The step, ahead of which another worker does something, once."""
    left = [other]

    async def overtaken(*args: Any, **options: Any) -> Any:
        if left:
            await left.pop()()
        return await step(*args, **options)

    return overtaken


# when something goes


async def test_what_is_old_enough_is_sealed_and_trimmed_and_the_rest_stays(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(segments_module, "SEGMENT_ENTRIES", 3)
    await remembered(shop, *(f"early {n}" for n in range(7)))
    before = await whole(shop)
    shop.clock.advance(timedelta(hours=1))
    job = shop.archive_job(after=timedelta(minutes=50))
    assert await job.run() == ArchiveRun(sealed=2, trimmed=6, rewritten=0)
    assert len(segments(shop)) == 2
    assert await in_stream(shop) == 1, "less than a segment takes"
    assert await whole(shop) == before
    assert await job.run() == ArchiveRun()


async def test_what_does_not_fill_a_segment_goes_when_it_is_much_older(shop: Workshop):
    await remembered(shop, "one", "two")
    shop.clock.advance(timedelta(hours=20))
    assert await shop.archive_job(after=timedelta(hours=1)).run() == ArchiveRun()
    shop.clock.advance(timedelta(hours=5))
    assert await shop.archive_job(after=timedelta(hours=1)).run() == ArchiveRun(sealed=1, trimmed=2)


async def test_what_is_not_projected_yet_is_not_sealed(shop: Workshop):
    await remembered(shop, "projected")
    await shop.remember("not yet")
    assert await shop.archive_job().run(force=True) == ArchiveRun(sealed=1, trimmed=1)
    assert await in_stream(shop) == 1
    await shop.project()
    assert await shop.archive_job().run(force=True) == ArchiveRun(sealed=1, trimmed=1)


async def test_what_is_sealed_and_not_projected_is_not_trimmed(shop: Workshop):
    """It cannot come about by itself; a server that lost its newest writes may be like that."""
    await remembered(shop, "one")
    keys = PartitionKeys(HOME)
    assert await Sealing(shop.redis, shop.archived_log()).seal(HOME, Position(10**13, 0), Position(10**13, 0))
    checkpoint = keys.of_generation(1).checkpoint
    stood = await shop.redis.get(checkpoint)
    await shop.redis.set(checkpoint, "1-0")
    assert await Sealing(shop.redis, shop.archived_log()).let_go(HOME) == 0
    assert await in_stream(shop) == 1
    await shop.redis.set(checkpoint, stood)
    assert await Sealing(shop.redis, shop.archived_log()).let_go(HOME) == 1


async def test_a_big_segment_ends_at_its_limit_in_bytes(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments_module, "SEGMENT_BYTES", 2_000)
    await remembered(shop, *(f"{n} {'x' * 600}" for n in range(7)))
    before = await whole(shop)
    done = await shop.archive_job().run(force=True)
    assert done.trimmed == 7
    assert done.sealed >= 3
    assert await whole(shop) == before


async def test_only_one_worker_archives_at_a_time(shop: Workshop):
    await remembered(shop, "one")
    await shop.redis.set(ARCHIVE_LEASE, "another", ex=30)
    assert await shop.archive_job().run() == ArchiveRun()
    assert segments(shop) == []


async def test_two_at_once_who_both_think_that_they_hold_the_lease_do_no_harm(shop: Workshop):
    """A worker that was paused wakes up: each commit is one's own, or nothing."""
    await remembered(shop, *(f"text {n}" for n in range(30)))
    before = await whole(shop)

    async def archive() -> None:
        log = shop.archived_log()
        for _ in range(12):
            try:
                await seal_next(shop.redis, log, HOME, 3)
                await Sealing(shop.redis, log).let_go(HOME)
                await Sealing(shop.redis, log).rewrite(HOME)
            except (Outrun, MissingFile):
                continue  # who was outrun, or found a file replaced, begins again

    await asyncio.gather(*(archive() for _ in range(3)))
    assert await whole(shop) == before
    await shop.archive_job().run(force=True)
    assert await whole(shop) == before
    assert await in_stream(shop) == 0


# whatever is killed

SEALING: list[tuple[type, str]] = [
    (DirectoryStore, "write"),
    (Archive, "write"),
    (Archive, "write_manifest"),
    (Sealing, "_name_sealed"),
    (Archive, "sweep"),
    (Archive, "entries_from_store"),
    (Sealing, "_trim"),
    (Sealing, "let_go"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), SEALING, ids=[f"{owner.__name__}.{step}" for owner, step in SEALING])
async def test_an_archiving_that_is_killed_at_any_step_is_done_by_the_next(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, when: str
):
    """At no moment does the log read otherwise; and nothing is left that no manifest has."""
    names = await remembered(shop, "kept", SECRET, "also kept")
    await forget(shop, names[0])
    await shop.archive_job().run(force=True)
    await remembered(shop, "later")
    before, erased = await whole(shop), await count_erased(shop.redis, PARTITIONS)
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, killing(getattr(owner, step), when))
        with pytest.raises(Killed):
            await shop.archive_job().run(force=True)
    assert await whole(shop) == before
    await shop.redis.delete(ARCHIVE_LEASE)
    await shop.archive_job().run(force=True)
    assert await whole(shop) == before
    assert await in_stream(shop) == 0
    assert await count_erased(shop.redis, PARTITIONS) == erased
    await assert_no_stray_files(shop)
    await assert_equals_replay(shop.redis, shop.archived_log(), PARTITIONS)


REWRITING: list[tuple[type, str]] = [
    (DirectoryStore, "write"),
    (Sealing, "_with_stubs"),
    (Archive, "write_manifest"),
    (Sealing, "_replace"),
    (DirectoryStore, "delete"),
    (Archive, "sweep"),
    (Sealing, "rewrite"),
]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), REWRITING, ids=[f"{owner.__name__}.{step}" for owner, step in REWRITING])
async def test_a_purge_that_is_killed_while_it_rewrites_the_archive_is_done_by_the_next(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, when: str
):
    names = await remembered(shop, "kept", SECRET, "also kept")
    await shop.archive_job().run(force=True)
    await forget(shop, names[1])
    before, erased = await whole(shop), await count_erased(shop.redis, PARTITIONS)
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, killing(getattr(owner, step), when))
        with pytest.raises(Killed):
            await shop.purge().run()
    assert await whole(shop) == before
    assert await count_erased(shop.redis, PARTITIONS) == erased
    assert await shop.purge().wanted()
    await shop.redis.delete(ARCHIVE_LEASE)
    await shop.purge().run()
    assert files_with(shop.archive, MARK) == []
    assert await whole(shop) == before
    assert await count_erased(shop.redis, PARTITIONS) == erased
    await assert_no_stray_files(shop)


async def assert_no_stray_files(shop: Workshop) -> None:
    """Of each partition one manifest, and the segments that it has."""
    log = shop.archived_log()
    folder = shop.archive / (await log.archive.identity()).archive
    for partition in range(PARTITIONS):
        archived = await load_archived(shop.redis, PartitionKeys(partition))
        if archived.version:
            manifest = await log.archive.manifest(partition, archived)
            there = {path.name for path in (folder / f"p{partition:02d}").iterdir()}
            assert there == {manifest.name, *(segment.name for segment in manifest.segments)}


# forgetting


async def test_what_is_forgotten_is_out_of_the_log_at_once_and_out_of_the_files_after_the_purge(shop: Workshop):
    names = await remembered(shop, "kept", SECRET, "also kept")
    await shop.archive_job().run(force=True)
    assert files_with(shop.archive, MARK), "the search would prove nothing"
    old = segments(shop)
    await forget(shop, names[1])
    after = await whole(shop)
    assert MARK.encode() not in b"".join(row.payload for rows in after for row in rows)
    assert files_with(shop.archive, MARK)
    erased = await count_erased(shop.redis, PARTITIONS)
    removed = await shop.purge().run()
    assert removed.archive_segments == 1
    assert files_with(shop.archive, MARK) == []
    assert files_with(shop.archive, "also kept")
    assert not set(old) & set(segments(shop)), "the old file is gone"
    assert await shop.redis.zcard(PartitionKeys(HOME).erased) == 0, "its stubs are in the segment"
    assert await count_erased(shop.redis, PARTITIONS) == erased == 1
    assert await whole(shop) == after
    await assert_equals_replay(shop.redis, shop.archived_log(), PARTITIONS)


async def test_a_reader_that_knows_the_old_files_reads_the_new_ones(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """Another process has the manifest in memory and not the segment, which is replaced."""
    monkeypatch.setattr(segments_module, "SEGMENT_ENTRIES", 2)
    names = await remembered(shop, "one", "two", SECRET, "four")
    await shop.archive_job().run(force=True)
    reader = shop.archived_log()
    assert len(await reader.read(HOME, START, 2)) == 2
    archive, manifest = reader.archive, Archive.manifest

    async def replaced_meanwhile() -> None:
        await forget(shop, names[2])
        await shop.purge().run()

    monkeypatch.setattr(archive, "entries_from_store", with_one_before(archive.entries_from_store, replaced_meanwhile))
    rows = await reader.read(HOME, START, 4)
    assert len(rows) == 4
    assert MARK.encode() not in b"".join(row.payload for row in rows)
    assert Archive.manifest is manifest


RACES = [
    (Sealing, "_waiting"),
    (Archive, "write"),
    (Archive, "write_manifest"),
    (Sealing, "_name_sealed"),
    (Archive, "sweep"),
    (Archive, "entries_from_store"),
    (Sealing, "_trim"),
]


@pytest.mark.parametrize("purged", [False, True], ids=["", "and-purged"])
@pytest.mark.parametrize(("owner", "step"), RACES, ids=[f"{owner.__name__}.{step}" for owner, step in RACES])
async def test_what_is_forgotten_while_it_is_archived_is_gone_after_the_next_purge(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch, owner: type, step: str, purged: bool
):
    """Also when a purge came between, of a worker that held the lease because this one was paused."""
    names = await remembered(shop, "kept", SECRET, "also kept")

    async def forgotten_meanwhile() -> None:
        await forget(shop, names[1])
        if purged:
            await shop.redis.delete(ARCHIVE_LEASE)
            await shop.purge().run()

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, with_one_before(getattr(owner, step), forgotten_meanwhile))
        await shop.archive_job().run(force=True)
    assert await count_erased(shop.redis, PARTITIONS) == 1
    await shop.archive_job().run(force=True)
    await shop.purge().run()
    assert files_with(shop.archive, MARK) == []
    assert await in_stream(shop) == 0
    assert [len(rows) for rows in await whole(shop)] == [4 if n == HOME else 0 for n in range(PARTITIONS)]
    assert await count_erased(shop.redis, PARTITIONS) == 1
    await assert_equals_replay(shop.redis, shop.archived_log(), PARTITIONS)


async def test_a_file_that_never_counted_is_rid_of_what_was_forgotten(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """Its writer was killed before Redis named it, and nothing of it is sealed."""
    names = await remembered(shop, SECRET)
    with monkeypatch.context() as patched:
        patched.setattr(Sealing, "_name_sealed", killing(Sealing._name_sealed, "before"))  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(Killed):
            await shop.archive_job().run(force=True)
    await shop.redis.delete(ARCHIVE_LEASE)
    assert files_with(shop.archive, MARK)
    await forget(shop, names[0])
    await shop.purge().run()
    assert files_with(shop.archive, MARK) == []


async def test_a_writer_that_was_paused_cannot_let_count_what_it_wrote(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    """Meanwhile the same entries were sealed by another one, and rewritten; the paused one takes its files away."""
    names = await remembered(shop, "kept", SECRET)
    paused, go_on = asyncio.Event(), asyncio.Event()
    name_it = Sealing._name_sealed  # pyright: ignore[reportPrivateUsage]

    async def wait_first(self: Sealing, *args: Any) -> None:
        paused.set()
        await go_on.wait()
        await name_it(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Sealing, "_name_sealed", wait_first)
        late = asyncio.create_task(shop.archive_job().run(force=True))
        await paused.wait()
    await shop.redis.delete(ARCHIVE_LEASE)
    await shop.archive_job().run(force=True)
    await forget(shop, names[1])
    await shop.purge().run()
    after = await whole(shop)
    go_on.set()
    await late
    assert files_with(shop.archive, MARK) == []
    assert await whole(shop) == after


async def test_an_archive_that_is_away_keeps_the_notes_of_the_purge(shop: Workshop):
    names = await remembered(shop, SECRET)
    await shop.archive_job().run(force=True)
    await forget(shop, names[0])
    in_thread = shop.archive.rename(shop.archive.with_name("aside"))
    with pytest.raises(Exception, match="it does not exist"):
        await shop.purge().run()
    assert await shop.purge().wanted()
    in_thread.rename(shop.archive)
    await shop.purge().run()
    assert files_with(shop.archive, MARK) == []
    assert not await shop.purge().wanted()


# what is made of the log


async def test_a_rebuild_reads_the_archive_and_then_the_stream(shop: Workshop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segments_module, "SEGMENT_ENTRIES", 4)
    names = await remembered(shop, *(f"text number {n} of a few" for n in range(10)))
    await shop.observe("seen")
    await forget(shop, names[3])
    await shop.archive_job().run(force=True)
    await forget(shop, names[5])
    await remembered(shop, "in the stream")
    log = shop.archived_log()
    for partition in range(PARTITIONS):
        assert await rebuild(shop.redis, log, partition, 20) == 1
    assert int(await shop.redis.get(PartitionKeys(HOME).generation)) == 2
    await assert_equals_replay(shop.redis, log, PARTITIONS)
    assert await shop.gone(names[3])
    assert await shop.gone(names[5])
    assert not await shop.gone(names[6])


async def test_the_lag_is_right_behind_a_trim(shop: Workshop):
    """The consumer group counts on: what was trimmed was read, what came later was not."""
    keys = PartitionKeys(HOME)
    await shop.redis.xgroup_create(keys.log, CONSUMER_GROUP, id="0-0", mkstream=True)
    names = await remembered(shop, *(f"text {n}" for n in range(6)))
    await forget(shop, names[5])
    read: Any = await shop.redis.xreadgroup(CONSUMER_GROUP, CONSUMER, {keys.log: ">"}, count=100, block=None)
    await shop.redis.xack(keys.log, CONSUMER_GROUP, *(position.decode() for position, _ in read[0][1]))
    await shop.archive_job().run(force=True)
    assert await in_stream(shop) == 0
    assert await entries_behind(shop.redis, PARTITIONS) == {}
    for n in range(3):
        await shop.remember(f"later {n}")
    assert await entries_behind(shop.redis, PARTITIONS) == {HOME: 3}


async def test_the_purge_of_a_log_without_an_archive_rewrites_none(redis: Client, tmp_path: Path):
    shop = Workshop(redis, tmp_path)
    await shop.log.create_or_check()
    assert not isinstance(shop.log, ArchivedLog)
    names = await remembered(shop, SECRET)
    await forget(shop, *names)
    assert (await shop.purge().run()).archive_segments == 0
    assert isinstance(shop.archive_job(), ArchiveJob)


LATE = Position(10**13, 0)


@pytest.fixture
async def filled(redis: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    """A log with twelve observations in each of its partitions, in segments of three."""
    monkeypatch.setattr(segments_module, "SEGMENT_ENTRIES", 3)
    made = Workshop(redis, tmp_path, archived=True)
    await made.log.create_or_check()
    for n in range(12):
        for partition in range(PARTITIONS):
            await made.observe(f"observation {n}", session=f"s{SESSIONS[partition]}")
    await made.project()
    return made


SESSIONS = [0, 1, 2]
"""Sessions that are in partitions 0, 1 and 2; `test_every_partition_has_something` says so."""


def files(filled: Workshop, partition: int, kind: str = "segment") -> list[Path]:
    """The files of a partition's archive, oldest first."""
    return sorted(filled.archive.glob(f"*/p{partition:02d}/{kind}-*"))


def flip(path: Path) -> None:
    """Alter one bit."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def tear(path: Path) -> None:
    """Cut the file off."""
    path.write_bytes(path.read_bytes()[:-7])


def swap(path: Path) -> None:
    """Put another segment in its place."""
    path.write_bytes(next(item for item in sorted(path.parent.glob("segment-*")) if item != path).read_bytes())


async def all_of(log: EventLog, partition: int) -> int:
    """How many entries a partition has, read in both directions."""
    forwards = await log.read(partition, START, 1000)
    assert await log.read_back(partition, None, 1000) == forwards[::-1]
    return len(forwards)


async def test_every_partition_has_something(filled: Workshop):
    await filled.archive_job().run(force=True)
    assert [await all_of(filled.archived_log(), n) for n in range(PARTITIONS)] == [12, 12, 12]
    assert [len(files(filled, n)) for n in range(PARTITIONS)] == [4, 4, 4]


async def test_a_whole_archive_has_no_faults_and_tells_what_it_holds(filled: Workshop):
    await filled.archive_job().run(force=True)
    log = filled.archived_log()
    pages: list[int] = []
    for partition in range(PARTITIONS):
        assert await verify(filled.redis, log.archive, partition, lambda: pages.append(1)) == []
        answer = await look(filled.redis, log.archive, partition)
        assert (answer.segments, answer.entries, answer.waiting) == (4, 12, 0)
        assert answer.sealed == answer.trimmed == str(await log.head(partition))
        assert answer.bytes == sum(path.stat().st_size for path in files(filled, partition))
    assert len(pages) == 12


@pytest.mark.parametrize("damage", [flip, tear, swap, Path.unlink], ids=["altered", "torn", "swapped", "gone"])
async def test_a_damaged_segment_is_found_and_named(filled: Workshop, damage: Callable[[Path], None]):
    await filled.archive_job().run(force=True)
    broken = files(filled, 1)[2]
    damage(broken)
    log = filled.archived_log()
    (fault,) = await verify(filled.redis, log.archive, 1)
    assert (fault.partition, fault.name) == (1, broken.name)
    assert await verify(filled.redis, log.archive, 0) == []
    stored = await log.read(1, START, 6)
    assert len(stored) == 6, "what is before it can be read"
    with pytest.raises((DamagedSegment, MissingFile), match=broken.name):
        await log.read(1, START, 7)
    with pytest.raises((DamagedSegment, MissingFile), match=broken.name):
        await log.read_back(1, None, 7)
    assert await all_of(log, 0) == 12


async def test_nothing_is_trimmed_behind_a_segment_that_cannot_be_read_back(
    filled: Workshop, caplog: pytest.LogCaptureFixture
):
    log = filled.archived_log()
    assert await Sealing(filled.redis, log).seal(1, LATE, LATE)
    (broken,) = files(filled, 1)
    flip(broken)
    with pytest.raises(DamagedSegment, match=broken.name):
        await filled.archive_job().run(force=True)
    assert await filled.redis.xlen(PartitionKeys(1).log) == 12
    assert [await filled.redis.xlen(PartitionKeys(n).log) for n in (0, 2)] == [0, 0], "the others are archived"
    assert await all_of(filled.archived_log(), 1) == 12, "the stream has everything"
    caplog.clear()
    filled.clock.advance(timedelta(hours=2))
    assert await filled.archive_job().run() == ArchiveRun()
    assert broken.name in caplog.text
    flip(broken)
    assert (await filled.archive_job().run(force=True)).trimmed == 12


async def test_an_earlier_manifest_in_the_place_of_the_newest_is_found(filled: Workshop):
    log = filled.archived_log()
    await Sealing(filled.redis, log).seal(1, LATE, LATE)
    (older,) = files(filled, 1, "manifest")
    put_back = older.read_bytes()
    await filled.archive_job().run(force=True)
    (newest,) = files(filled, 1, "manifest")
    good = newest.read_bytes()
    newest.write_bytes(put_back)
    (fault,) = await verify(filled.redis, filled.archived_log().archive, 1)
    assert "version" in str(fault)
    newest.write_bytes(put_back.replace(b'"version":1', b'"version":4'))
    (fault,) = await verify(filled.redis, filled.archived_log().archive, 1)
    assert "chain" in str(fault)
    with pytest.raises(DamagedArchive, match="partition 1"):
        await filled.archived_log().read(1, START, 1)
    newest.unlink()
    (fault,) = await verify(filled.redis, filled.archived_log().archive, 1)
    assert (fault.name, fault.trouble) == (newest.name, "it does not exist")
    newest.write_bytes(good)
    assert await verify(filled.redis, filled.archived_log().archive, 1) == []


async def test_a_place_that_cannot_be_written_to_is_told_and_nothing_is_trimmed(filled: Workshop):
    filled.archive.write_text("a file in the place of the folder")
    filled.clock.advance(timedelta(hours=2))
    with pytest.raises(ArchiveUnavailable):
        await filled.archive_job().run()
    assert await all_of(filled.log, 0) == 12
    filled.archive.unlink()
    assert (await filled.archive_job().run(force=True)).trimmed == 36


# opening


def configured(tmp_path: Path, **changes: str) -> dict[str, str]:
    """An environment."""
    return {"HOME": str(tmp_path), "MNEMOLOG_PARTITIONS": str(PARTITIONS), **changes}


async def test_a_log_whose_beginning_is_in_an_archive_is_not_opened_without_it(filled: Workshop, tmp_path: Path):
    """It would be read as if it began in the middle, and a rebuild would lose the rest."""
    without = from_environment(configured(tmp_path))
    within = from_environment(configured(tmp_path, MNEMOLOG_ARCHIVE=str(filled.archive)))
    assert not isinstance(await open_log(without, filled.redis), ArchivedLog)
    await filled.archive_job().run(force=True)
    with pytest.raises(ArchiveNotConfigured, match="set MNEMOLOG_ARCHIVE"):
        await open_log(without, filled.redis)
    log = await open_log(within, filled.redis)
    assert await all_of(log, 0) == 12


async def test_an_archive_in_another_place_than_it_was_is_told(filled: Workshop, tmp_path: Path):
    await filled.archive_job().run(force=True)
    elsewhere = from_environment(configured(tmp_path, MNEMOLOG_ARCHIVE=str(tmp_path / "elsewhere")))
    log = await open_log(elsewhere, filled.redis)
    with pytest.raises(ArchiveUnavailable, match="elsewhere"):
        await log.read(0, START, 1)


async def test_an_impossible_place_is_refused(filled: Workshop, tmp_path: Path):
    nowhere = from_environment(configured(tmp_path, MNEMOLOG_ARCHIVE="nonsense://bucket/path"))
    with pytest.raises(InvalidSetting, match="not a directory or an fsspec URL"):
        await open_log(nowhere, filled.redis)


# backups


async def test_a_log_that_was_archived_is_backed_up_whole_and_restored_with_an_archive_of_its_own(
    filled: Workshop, tmp_path: Path
):
    """The old archive stays as it is: nothing of it is read, changed or deleted."""
    names = [(await filled.remember(f"memory {n}")).id for n in range(3)]
    await filled.project()
    await filled.archive_job().run(force=True)
    await filled.remember("in the stream")
    await filled.project()
    before = [await filled.log.read(n, START, 1000) for n in range(PARTITIONS)]
    old = {path: path.read_bytes() for path in filled.archive.rglob("*") if path.is_file()}
    target = StoreTarget(DirectoryStore(tmp_path / "backups"))
    job = BackupJob(filled.redis, filled.log, target, tmp_path / "work", every=timedelta(hours=1), keep=3)
    made = await job.run(force=True)
    assert made is not None
    assert made.events == sum(len(rows) for rows in before)
    identity = await filled.redis.hget(MANIFEST, ARCHIVE_ID)

    await filled.redis.flushall()
    chosen = choose(target, None, tmp_path / "work")
    assert chosen is not None
    await restore(filled.redis, PARTITIONS, chosen)
    assert await filled.redis.hget(MANIFEST, ARCHIVE_ID) is None
    again = Workshop(filled.redis, tmp_path, archived=True)
    assert [await again.log.read(n, START, 1000) for n in range(PARTITIONS)] == before
    await again.project()
    assert (await again.archive_job().run(force=True)).trimmed == sum(len(rows) for rows in before)
    assert [await again.archived_log().read(n, START, 1000) for n in range(PARTITIONS)] == before
    assert await filled.redis.hget(MANIFEST, ARCHIVE_ID) != identity
    assert {path: path.read_bytes() for path in old} == old
    assert identity.decode() in await again.archived_log().archive.others()
    assert not await again.gone(names[0])


async def test_what_was_forgotten_is_counted_once_wherever_its_stubs_are(filled: Workshop):
    """Backups that are older than a forgetting are found by this number: it must not shrink."""
    forgotten = await count_forgotten(filled.redis, PARTITIONS)
    entries = await filled.log.read(0, START, 3)
    keys = PartitionKeys(0)
    for entry in entries:
        await filled.redis.zadd(keys.erased, {f"{entry.position.sort_key}|stub".encode(): 0})
        await filled.redis.xdel(keys.log, str(entry.position))
    assert await count_forgotten(filled.redis, PARTITIONS) == forgotten + 3
    await filled.archive_job().run(force=True)
    assert await filled.redis.zcard(keys.erased) == 0
    assert await count_forgotten(filled.redis, PARTITIONS) == forgotten + 3


async def test_only_one_of_two_archives_at_once_waits_for_the_other_in_vain(
    filled: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """`mnemolog admin archive seal` says so instead of doing nothing in silence."""
    from ingest.log.archive import sealing as job_module

    monkeypatch.setattr(job_module, "WAIT_FOR_OTHER_S", 0.1)
    await filled.redis.set(job_module.ARCHIVE_LEASE, "another", ex=30)
    job: ArchiveJob = filled.archive_job()
    with pytest.raises(Exception, match="another worker has been using the archive"):
        await job.run(force=True)
    with pytest.raises(Exception, match="another worker has been using the archive"):
        await job.rewrite()


@pytest.fixture
async def configurable(filled: Workshop) -> AsyncIterator[Any]:
    """The server's CONFIG SET; afterwards it writes to disk as before."""
    server = cast(Any, filled.redis)
    yield server.config_set
    await server.config_set("appendonly", "yes")
    await server.config_set("appendfsync", "always")


async def test_a_server_that_writes_to_disk_every_second_is_asked_to_confirm(filled: Workshop, configurable: Any):
    """Files that it does not name any more are deleted only when it cannot name them again."""
    await configurable("appendfsync", "everysec")
    assert (await filled.archive_job().run(force=True)).trimmed == 36
    assert [len(files(filled, n, "manifest")) for n in range(PARTITIONS)] == [1, 1, 1]


async def test_the_log_of_a_server_that_writes_nothing_to_disk_is_not_archived(filled: Workshop, configurable: Any):
    await configurable("appendonly", "no")
    with pytest.raises(DurabilityUnavailable, match="no append-only file"):
        await filled.archive_job().run(force=True)
    assert await all_of(filled.log, 0) == 12
    assert [await filled.redis.xlen(PartitionKeys(n).log) for n in range(PARTITIONS)] == [12, 12, 12]
