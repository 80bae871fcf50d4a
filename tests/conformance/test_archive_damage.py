"""A torn, altered, missing or older file of the archive is found and named, and harms nothing else.

Whoever reads it is told; nothing is trimmed behind it; the other partitions are archived. A log whose beginning is in
an archive is not opened without it, and one that was restored begins another.
"""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from workshop import PARTITIONS, Workshop

from ingest.errors import ArchiveUnavailable, DurabilityUnavailable, InvalidSetting
from ingest.log.archive import segments as segments_module
from ingest.log.archive.archive import look, verify
from ingest.log.archive.archived_log import ArchivedLog
from ingest.log.archive.room import open_log
from ingest.log.archive.sealing import ArchiveJob, ArchiveRun, Sealing
from ingest.log.archive.segments import ArchiveNotConfigured, DamagedArchive, DamagedSegment, MissingFile
from ingest.log.archive.store import DirectoryStore
from ingest.log.event_log import EventLog
from ingest.log.keys import ARCHIVE_ID, MANIFEST, PartitionKeys
from ingest.log.position import START, Position
from ingest.platform.connections import Client
from ingest.platform.settings import from_environment
from projections.maintenance.backups import BackupJob, StoreTarget, choose, count_forgotten
from projections.maintenance.restoring import restore

LATE = Position(10**13, 0)


@pytest.fixture
async def shop(redis: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
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


def files(shop: Workshop, partition: int, kind: str = "segment") -> list[Path]:
    """The files of a partition's archive, oldest first."""
    return sorted(shop.archive.glob(f"*/p{partition:02d}/{kind}-*"))


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


async def test_every_partition_has_something(shop: Workshop):
    await shop.archive_job().run(force=True)
    assert [await all_of(shop.archived_log(), n) for n in range(PARTITIONS)] == [12, 12, 12]
    assert [len(files(shop, n)) for n in range(PARTITIONS)] == [4, 4, 4]


async def test_a_whole_archive_has_no_faults_and_tells_what_it_holds(shop: Workshop):
    await shop.archive_job().run(force=True)
    log = shop.archived_log()
    pages: list[int] = []
    for partition in range(PARTITIONS):
        assert await verify(shop.redis, log.archive, partition, lambda: pages.append(1)) == []
        answer = await look(shop.redis, log.archive, partition)
        assert (answer.segments, answer.entries, answer.waiting) == (4, 12, 0)
        assert answer.sealed == answer.trimmed == str(await log.head(partition))
        assert answer.bytes == sum(path.stat().st_size for path in files(shop, partition))
    assert len(pages) == 12


@pytest.mark.parametrize("damage", [flip, tear, swap, Path.unlink], ids=["altered", "torn", "swapped", "gone"])
async def test_a_damaged_segment_is_found_and_named(shop: Workshop, damage: Callable[[Path], None]):
    await shop.archive_job().run(force=True)
    broken = files(shop, 1)[2]
    damage(broken)
    log = shop.archived_log()
    (fault,) = await verify(shop.redis, log.archive, 1)
    assert (fault.partition, fault.name) == (1, broken.name)
    assert await verify(shop.redis, log.archive, 0) == []
    stored = await log.read(1, START, 6)
    assert len(stored) == 6, "what is before it can be read"
    with pytest.raises((DamagedSegment, MissingFile), match=broken.name):
        await log.read(1, START, 7)
    with pytest.raises((DamagedSegment, MissingFile), match=broken.name):
        await log.read_back(1, None, 7)
    assert await all_of(log, 0) == 12


async def test_nothing_is_trimmed_behind_a_segment_that_cannot_be_read_back(
    shop: Workshop, caplog: pytest.LogCaptureFixture
):
    log = shop.archived_log()
    assert await Sealing(shop.redis, log).seal(1, LATE, LATE)
    (broken,) = files(shop, 1)
    flip(broken)
    with pytest.raises(DamagedSegment, match=broken.name):
        await shop.archive_job().run(force=True)
    assert await shop.redis.xlen(PartitionKeys(1).log) == 12
    assert [await shop.redis.xlen(PartitionKeys(n).log) for n in (0, 2)] == [0, 0], "the others are archived"
    assert await all_of(shop.archived_log(), 1) == 12, "the stream has everything"
    caplog.clear()
    shop.clock.advance(timedelta(hours=2))
    assert await shop.archive_job().run() == ArchiveRun()
    assert broken.name in caplog.text
    flip(broken)
    assert (await shop.archive_job().run(force=True)).trimmed == 12


async def test_an_earlier_manifest_in_the_place_of_the_newest_is_found(shop: Workshop):
    log = shop.archived_log()
    await Sealing(shop.redis, log).seal(1, LATE, LATE)
    (older,) = files(shop, 1, "manifest")
    put_back = older.read_bytes()
    await shop.archive_job().run(force=True)
    (newest,) = files(shop, 1, "manifest")
    good = newest.read_bytes()
    newest.write_bytes(put_back)
    (fault,) = await verify(shop.redis, shop.archived_log().archive, 1)
    assert "version" in str(fault)
    newest.write_bytes(put_back.replace(b'"version":1', b'"version":4'))
    (fault,) = await verify(shop.redis, shop.archived_log().archive, 1)
    assert "chain" in str(fault)
    with pytest.raises(DamagedArchive, match="partition 1"):
        await shop.archived_log().read(1, START, 1)
    newest.unlink()
    (fault,) = await verify(shop.redis, shop.archived_log().archive, 1)
    assert (fault.name, fault.trouble) == (newest.name, "it is not there")
    newest.write_bytes(good)
    assert await verify(shop.redis, shop.archived_log().archive, 1) == []


async def test_a_place_that_cannot_be_written_to_is_told_and_nothing_is_trimmed(shop: Workshop):
    shop.archive.write_text("a file in the place of the folder")
    shop.clock.advance(timedelta(hours=2))
    with pytest.raises(ArchiveUnavailable):
        await shop.archive_job().run()
    assert await all_of(shop.log, 0) == 12
    shop.archive.unlink()
    assert (await shop.archive_job().run(force=True)).trimmed == 36


# opening


def configured(tmp_path: Path, **changes: str) -> dict[str, str]:
    """An environment."""
    return {"HOME": str(tmp_path), "MNEMOLOG_PARTITIONS": str(PARTITIONS), **changes}


async def test_a_log_whose_beginning_is_in_an_archive_is_not_opened_without_it(shop: Workshop, tmp_path: Path):
    """It would be read as if it began in the middle, and a rebuild would lose the rest."""
    without = from_environment(configured(tmp_path))
    within = from_environment(configured(tmp_path, MNEMOLOG_ARCHIVE=str(shop.archive)))
    assert not isinstance(await open_log(without, shop.redis), ArchivedLog)
    await shop.archive_job().run(force=True)
    with pytest.raises(ArchiveNotConfigured, match="set MNEMOLOG_ARCHIVE"):
        await open_log(without, shop.redis)
    log = await open_log(within, shop.redis)
    assert await all_of(log, 0) == 12


async def test_an_archive_in_another_place_than_it_was_is_told(shop: Workshop, tmp_path: Path):
    await shop.archive_job().run(force=True)
    elsewhere = from_environment(configured(tmp_path, MNEMOLOG_ARCHIVE=str(tmp_path / "elsewhere")))
    log = await open_log(elsewhere, shop.redis)
    with pytest.raises(ArchiveUnavailable, match="elsewhere"):
        await log.read(0, START, 1)


async def test_an_impossible_place_is_refused(shop: Workshop, tmp_path: Path):
    nowhere = from_environment(configured(tmp_path, MNEMOLOG_ARCHIVE="nonsense://bucket/path"))
    with pytest.raises(InvalidSetting, match="not a directory or an fsspec URL"):
        await open_log(nowhere, shop.redis)


# backups


async def test_a_log_that_was_archived_is_backed_up_whole_and_restored_with_an_archive_of_its_own(
    shop: Workshop, tmp_path: Path
):
    """The old archive stays as it is: nothing of it is read, changed or deleted."""
    names = [(await shop.remember(f"memory {n}")).id for n in range(3)]
    await shop.project()
    await shop.archive_job().run(force=True)
    await shop.remember("in the stream")
    await shop.project()
    before = [await shop.log.read(n, START, 1000) for n in range(PARTITIONS)]
    old = {path: path.read_bytes() for path in shop.archive.rglob("*") if path.is_file()}
    target = StoreTarget(DirectoryStore(tmp_path / "backups"))
    job = BackupJob(shop.redis, shop.log, target, tmp_path / "work", every=timedelta(hours=1), keep=3)
    made = await job.run(force=True)
    assert made is not None
    assert made.events == sum(len(rows) for rows in before)
    identity = await shop.redis.hget(MANIFEST, ARCHIVE_ID)

    await shop.redis.flushall()
    chosen = choose(target, None, tmp_path / "work")
    assert chosen is not None
    await restore(shop.redis, PARTITIONS, chosen)
    assert await shop.redis.hget(MANIFEST, ARCHIVE_ID) is None
    again = Workshop(shop.redis, tmp_path, archived=True)
    assert [await again.log.read(n, START, 1000) for n in range(PARTITIONS)] == before
    await again.project()
    assert (await again.archive_job().run(force=True)).trimmed == sum(len(rows) for rows in before)
    assert [await again.archived_log().read(n, START, 1000) for n in range(PARTITIONS)] == before
    assert await shop.redis.hget(MANIFEST, ARCHIVE_ID) != identity
    assert {path: path.read_bytes() for path in old} == old
    assert identity.decode() in await again.archived_log().archive.others()
    assert not await again.gone(names[0])


async def test_what_was_forgotten_is_counted_once_wherever_its_stubs_are(shop: Workshop):
    """Backups that are older than a forgetting are found by this number: it must not shrink."""
    forgotten = await count_forgotten(shop.redis, PARTITIONS)
    entries = await shop.log.read(0, START, 3)
    keys = PartitionKeys(0)
    for entry in entries:
        await shop.redis.zadd(keys.erased, {f"{entry.position.sort_key}|stub".encode(): 0})
        await shop.redis.xdel(keys.log, str(entry.position))
    assert await count_forgotten(shop.redis, PARTITIONS) == forgotten + 3
    await shop.archive_job().run(force=True)
    assert await shop.redis.zcard(keys.erased) == 0
    assert await count_forgotten(shop.redis, PARTITIONS) == forgotten + 3


async def test_only_one_of_two_archives_at_once_waits_for_the_other_in_vain(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
):
    """`mnemolog archive seal` says so instead of doing nothing in silence."""
    from ingest.log.archive import sealing as job_module

    monkeypatch.setattr(job_module, "WAIT_FOR_OTHER_S", 0.1)
    await shop.redis.set(job_module.ARCHIVE_LEASE, "another", ex=30)
    job: ArchiveJob = shop.archive_job()
    with pytest.raises(Exception, match="another worker has been at the archive"):
        await job.run(force=True)
    with pytest.raises(Exception, match="another worker has been at the archive"):
        await job.rewrite()


@pytest.fixture
async def configurable(shop: Workshop) -> AsyncIterator[Any]:
    """The server's CONFIG SET; afterwards it writes to disk as before."""
    server = cast(Any, shop.redis)
    yield server.config_set
    await server.config_set("appendonly", "yes")
    await server.config_set("appendfsync", "always")


async def test_a_server_that_writes_to_disk_every_second_is_asked_to_confirm(shop: Workshop, configurable: Any):
    """Files that it does not name any more are deleted only when it cannot name them again."""
    await configurable("appendfsync", "everysec")
    assert (await shop.archive_job().run(force=True)).trimmed == 36
    assert [len(files(shop, n, "manifest")) for n in range(PARTITIONS)] == [1, 1, 1]


async def test_the_log_of_a_server_that_writes_nothing_to_disk_is_not_archived(shop: Workshop, configurable: Any):
    await configurable("appendonly", "no")
    with pytest.raises(DurabilityUnavailable, match="no append-only file"):
        await shop.archive_job().run(force=True)
    assert await all_of(shop.log, 0) == 12
    assert [await shop.redis.xlen(PartitionKeys(n).log) for n in range(PARTITIONS)] == [12, 12, 12]
