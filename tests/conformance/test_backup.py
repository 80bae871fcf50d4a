"""What backups guarantee, against a real Valkey: made when the log changed, restored whole or up to a position.

Left open: how segments are compressed; in what order partitions are written; how many records are replayed at once.
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
import zstandard
from msgspec.structs import replace
from workshop import PARTITIONS, TENANT, Workshop

from ingest.commands.decide import Caller, ForgetSubject, Remember
from ingest.errors import CommandRejected, PartitionCountMismatch, RestoreUnfinished
from ingest.log.event_log import Entry, Stored
from ingest.log.keys import BACKUP_LEASE, MANIFEST, RESTORED, WORKERS, NumberKeys, PartitionKeys
from ingest.log.position import START, Position, Token
from ingest.log.redis_log import RedisLog
from ingest.log.scripts import beat, number
from ingest.log.store import DirectoryStore
from ingest.platform.connections import Client
from projections.forgetting.forget import Forgetting
from projections.maintenance import backups as backup_module
from projections.maintenance import restoring
from projections.maintenance.backups import (
    INDEX,
    BackupFailed,
    BackupJob,
    BackupManifest,
    DamagedBackup,
    ListedBackup,
    RestoreRefused,
    StoreTarget,
    choose,
    listed,
    load_status,
    write_backup,
)
from projections.maintenance.backups import MANIFEST as MANIFEST_FILE
from projections.maintenance.differences import DocumentManifest, manifest_differences, manifest_of
from projections.maintenance.restoring import Restored, Verified, point_of, restore, verify
from projections.nouns.access import Reader
from projections.operations.transfer import export_events
from projections.store.receipts import Receipt, load_receipt, save_receipt

HOUR = timedelta(hours=1)
MARK = "zqxvkmarker7"
SECRET, KEPT = f"the key is {MARK}", "the kettle is green"
ADMIN = Reader(TENANT, operator=True)


@pytest.fixture
def target(tmp_path: Path) -> StoreTarget:
    return StoreTarget(DirectoryStore(tmp_path / "backups"))


@pytest.fixture
def job(shop: Workshop, target: StoreTarget, tmp_path: Path) -> BackupJob:
    return BackupJob(shop.redis, shop.log, target, tmp_path / "work", every=HOUR, keep=3, clock=shop.clock)


async def made(job: BackupJob, shop: Workshop, content: str) -> BackupManifest:
    """Say something, and back it up an hour later."""
    await shop.remember(content)
    shop.clock.advance(HOUR)
    backup = await job.run()
    assert backup is not None
    return backup


async def wiped(shop: Workshop) -> Workshop:
    """An empty server, and what works on it."""
    await shop.redis.flushall()
    return Workshop(shop.redis, shop.folder)


async def restored(redis: Client, target: StoreTarget, work: Path, name: str | None = None) -> BackupManifest:
    """Restore the newest backup, or one by name."""
    chosen = choose(target, name, work)
    assert chosen is not None
    await restore(redis, PARTITIONS, chosen)
    return chosen.manifest


async def replaced(shop: Workshop, target: StoreTarget, name: str | None = None) -> Workshop:
    """An empty server, on which the newest backup is restored, or one by name."""
    again = await wiped(shop)
    await restored(again.redis, target, shop.folder / "w", name)
    return again


async def exported(shop: Workshop) -> bytes:
    """A whole export."""
    return b"".join([chunk async for chunk in export_events(shop.log, shop.documents, ADMIN, None)])


async def stored(shop: Workshop) -> list[list[Stored]]:
    """Every entry of the log, with its position."""
    return [await shop.log.read(partition, START, 10_000) for partition in range(PARTITIONS)]


def project_receipt(shop: Workshop) -> Receipt:
    return Receipt(id="r1", tenant=TENANT, kind="project", subject="atlas", requested_at=shop.clock())


def held(folder: Path) -> bytes:
    """All bytes of all backups, unpacked."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    unpack = zstandard.ZstdDecompressor().decompressobj
    return b"\n".join(unpack().decompress(f.read_bytes()) if f.suffix == ".zst" else f.read_bytes() for f in files)


async def forget(shop: Workshop, *names: str) -> None:
    """Forget documents, and fold that; a second later."""
    shop.clock.advance(timedelta(seconds=1))
    await Forgetting(shop.current).documents(names, ADMIN, Caller(TENANT))
    await shop.project()


# when one is made


async def test_a_log_that_changed_is_backed_up_once_in_the_time(shop: Workshop, job: BackupJob):
    assert await job.run() is None, "an empty log has nothing to say"
    await shop.remember(KEPT)
    first = await job.run()
    assert first is not None
    assert (first.events, first.partitions) == (1, PARTITIONS)
    await shop.remember("and more")
    assert await job.run() is None
    shop.clock.advance(HOUR)
    second = await job.run()
    assert second is not None
    assert second.events == 2


async def test_a_log_that_did_not_change_is_not_backed_up_again(shop: Workshop, job: BackupJob, target: StoreTarget):
    """And one that did at once, on request."""
    await made(job, shop, KEPT)
    shop.clock.advance(HOUR)
    assert await job.run() is None
    assert await job.run(force=True) is None
    assert len(target.names()) == 1
    await shop.remember("and more")
    await made_now(job)


async def test_only_the_newest_backups_are_kept(shop: Workshop, job: BackupJob, target: StoreTarget):
    names = [(await made(job, shop, f"thought {n}")).name for n in range(5)]
    assert target.names() == names[-3:]


async def test_backups_of_another_log_in_the_same_place_are_left_alone(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path
):
    others = [(await made(job, shop, f"thought {n}")).name for n in range(3)]
    other = await wiped(shop)
    other.clock.advance(10 * HOUR)
    await other.log.create_or_check()
    another_job = BackupJob(other.redis, other.log, target, tmp_path / "w", every=HOUR, keep=1, clock=other.clock)
    own = [(await made(another_job, other, f"idea {n}")).name for n in range(2)]
    assert target.names() == sorted([*others, own[-1]])


async def test_only_one_of_two_workers_makes_a_backup(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path
):
    await shop.remember(KEPT)
    other = BackupJob(shop.redis, shop.log, target, tmp_path / "other", every=HOUR, keep=3, clock=shop.clock)
    assert sorted(item is not None for item in await asyncio.gather(job.run(), other.run())) == [False, True]
    assert len(target.names()) == 1


async def test_a_job_whose_time_is_over_leaves_its_backup_to_the_next(
    shop: Workshop, job: BackupJob, target: StoreTarget, monkeypatch: pytest.MonkeyPatch
):
    await shop.remember(KEPT)
    monkeypatch.setattr(backup_module, "SLICE_S", 0)
    assert not await job.start_or_go_on()
    monkeypatch.setattr(backup_module, "SLICE_S", 30)
    assert await job.start_or_go_on()
    assert len(target.names()) == 1
    await job.aclose()


async def test_what_failed_is_noted_until_it_works(shop: Workshop, redis: Client, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    where = tmp_path / "file" / "below"
    job = BackupJob(
        redis, shop.log, StoreTarget(DirectoryStore(where)), tmp_path / "work", every=HOUR, keep=3, clock=shop.clock
    )
    await shop.remember(KEPT)
    with pytest.raises(BackupFailed):
        await job.run()
    status = await load_status(redis)
    assert status is not None
    assert (status.listed_at, str(where) in status.error) == (None, True)
    assert await job.start_or_go_on(), "as a job it is logged"
    (tmp_path / "file").unlink()
    assert await job.run() is not None
    status = await load_status(redis)
    assert status is not None
    assert (status.listed_at, status.error) == (shop.clock(), "")


async def test_what_is_deleted_by_hand_is_made_again(shop: Workshop, job: BackupJob, target: StoreTarget):
    first = await made(job, shop, KEPT)
    target.delete([first.name])
    assert await job.run() is None
    shop.clock.advance(HOUR)
    assert await job.run() is not None


# what was forgotten


async def test_what_was_forgotten_is_in_no_backup_after_the_next_run(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path
):
    gone = await shop.remember(SECRET)
    await shop.project()
    await made(job, shop, KEPT)
    assert MARK.encode() in held(tmp_path / "backups")
    await forget(shop, gone.id)
    assert await job.run() is not None, "at once, not in an hour"
    assert MARK.encode() not in held(tmp_path / "backups")
    assert len(target.names()) == 1
    again = await replaced(shop, target)
    await again.project()
    assert MARK.encode() not in await exported(again)
    assert await again.gone(gone.id)


async def test_one_that_was_made_between_the_tombstone_and_the_fold_goes_too(
    shop: Workshop, job: BackupJob, tmp_path: Path
):
    gone = await shop.remember(SECRET)
    await shop.project()
    await shop.say(ForgetSubject(kind="memory", subject=gone.id, project="atlas", documents=[gone.id]))
    assert await job.run() is not None
    assert MARK.encode() in held(tmp_path / "backups")
    await shop.project()
    shop.clock.advance(timedelta(seconds=1))
    assert await job.run() is not None
    assert MARK.encode() not in held(tmp_path / "backups")


async def test_a_name_in_a_receipt_goes_when_the_receipt_is_done(shop: Workshop, job: BackupJob, tmp_path: Path):
    await made(job, shop, KEPT)
    pending = Receipt(id="r1", tenant=TENANT, kind="user", subject="usr_1", name=MARK, requested_at=shop.clock())
    await save_receipt(shop.redis, pending)
    await made(job, shop, "more")
    assert MARK.encode() in held(tmp_path / "backups")
    await save_receipt(shop.redis, replace(pending, name="", status="done"))
    shop.clock.advance(timedelta(seconds=1))
    assert await job.run() is not None
    assert MARK.encode() not in held(tmp_path / "backups")


async def test_a_deletion_that_failed_is_done_by_the_next_run(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    gone = await shop.remember(SECRET)
    await shop.project()
    await made(job, shop, KEPT)
    await forget(shop, gone.id)

    def away(names: Sequence[str]) -> None:
        raise BackupFailed("away")

    with monkeypatch.context() as patch:
        patch.setattr(target, "delete", away)
        with pytest.raises(BackupFailed):
            await job.run()
    assert MARK.encode() in held(tmp_path / "backups")
    assert await job.run() is None
    assert MARK.encode() not in held(tmp_path / "backups")
    assert len(target.names()) == 1


# restoring


async def test_a_restored_log_is_the_same_log(shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path):
    gone = await shop.remember(SECRET)
    await shop.observe("tests are red", event_id="o1")
    await shop.learn("rebase")
    await shop.project()
    await forget(shop, gone.id)
    before = await stored(shop), await exported(shop), sorted(map(str, await shop.everything()))
    backup = await made_now(job)
    again = await wiped(shop)
    assert (await restored(again.redis, target, tmp_path / "w")).name == backup.name
    await again.log.create_or_check()
    await again.project()
    assert (await stored(again), await exported(again), sorted(map(str, await again.everything()))) == before


async def test_a_retry_after_a_restore_stores_nothing_twice(shop: Workshop, job: BackupJob, target: StoreTarget):
    memory = Remember(content=KEPT, project="atlas", event_id="m1")
    first, observed = await shop.say(memory), await shop.observe("red", event_id="o1")
    await made_now(job)
    again = await replaced(shop, target)
    retried = await again.say(memory), await again.observe("red", event_id="o1")
    assert [(item.id, item.position, item.duplicate) for item in retried] == [
        (item.id, item.position, True) for item in (first, observed)
    ]
    assert not (await again.say(Remember(content=KEPT, project="atlas", event_id="m2"))).duplicate


async def test_receipts_and_numbers_and_what_is_no_event_come_back(shop: Workshop, job: BackupJob, target: StoreTarget):
    keys = NumberKeys(TENANT, "memory")
    names = [f"mem_{n}" for n in range(1_200)]
    assert await number(shop.redis, keys, names) == list(range(1, 1_201))
    receipt = project_receipt(shop)
    await save_receipt(shop.redis, receipt)
    await shop.redis.set(PartitionKeys(1).enriched, "5-0")
    await shop.remember(KEPT)
    await shop.log.append({1: [Entry("x", b"\xc1 no event")]})
    before = await stored(shop)
    await made_now(job)
    again = await replaced(shop, target)
    assert await stored(again) == before
    assert await number(again.redis, keys, ["new", *names[::-1]]) == [1_201, *range(1_200, 0, -1)]
    assert await load_receipt(again.redis, "r1") == receipt
    assert await again.redis.get(PartitionKeys(1).enriched) == b"5-0"


async def test_backups_go_on_where_they_were_after_a_restore(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path
):
    gone = await shop.remember(SECRET)
    await shop.project()
    await forget(shop, gone.id)
    await save_receipt(shop.redis, replace(project_receipt(shop), status="done"))
    await made(job, shop, KEPT)
    names = [*target.names(), (await made(job, shop, "more")).name]
    again = await replaced(shop, target)
    await again.project()
    next_job = BackupJob(again.redis, again.log, target, tmp_path / "n", every=HOUR, keep=3, clock=shop.clock)
    assert await next_job.run() is None, "nothing has changed"
    assert target.names() == names
    assert len([*names, await made(next_job, shop, "and more")]) == len(target.names())


async def test_an_older_one_can_be_restored_and_newer_ones_stay(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path
):
    older, newer = await made(job, shop, KEPT), await made(job, shop, "more")
    again = await replaced(shop, target, older.name)
    assert sum(map(len, await stored(again))) == 1
    next_job = BackupJob(again.redis, again.log, target, tmp_path / "n", every=HOUR, keep=3, clock=shop.clock)
    third = await made(next_job, shop, "another way")
    assert target.names() == [older.name, newer.name, third.name]


async def test_an_interrupted_restore_is_begun_again(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for n in range(7):
        await shop.remember(f"thought {n}", project=f"p{n}")
    before = await stored(shop)
    backup = await made_now(job)
    again = await wiped(shop)
    monkeypatch.setattr(restoring, "RECORDS_PER_WRITE", 2)

    def killed(done: int, of: int) -> None:
        if done > 3:
            raise KeyboardInterrupt

    chosen = choose(target, None, tmp_path / "w")
    assert chosen is not None
    with pytest.raises(KeyboardInterrupt):
        await restore(again.redis, PARTITIONS, chosen, killed)
    assert 0 < sum(map(len, await stored(again))) < 7
    with pytest.raises(RestoreUnfinished, match=backup.name):
        await again.log.create_or_check()
    await restored(again.redis, target, tmp_path / "w")
    await again.log.create_or_check()
    assert await stored(again) == before


async def test_a_restore_is_refused_where_it_would_destroy_data(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path
):
    await made(job, shop, KEPT)
    with pytest.raises(RestoreRefused, match="not empty"):
        await restored(shop.redis, target, tmp_path / "w")
    again = await wiped(shop)
    chosen = choose(target, None, tmp_path / "w")
    assert chosen is not None
    with pytest.raises(PartitionCountMismatch, match=f"MNEMOLOG_PARTITIONS={PARTITIONS}"):
        await restore(again.redis, PARTITIONS + 1, chosen)
    await RedisLog(again.redis, PARTITIONS + 2).create_or_check()
    with pytest.raises(PartitionCountMismatch, match=f"MNEMOLOG_PARTITIONS={PARTITIONS + 2}"):
        await restore(again.redis, PARTITIONS, chosen)
    await again.redis.delete(MANIFEST)
    await beat(again.redis, WORKERS, "w", 5_000)
    with pytest.raises(RestoreRefused, match="a worker or an API process is using the log"):
        await restore(again.redis, PARTITIONS, chosen)
    assert await stored(again) == [[]] * PARTITIONS


# damage


def cut(file: Path) -> None:
    """Lose the end."""
    file.write_bytes(file.read_bytes()[:-5])


def flip(file: Path) -> None:
    """Turn one bit over."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("harm", "file", "text"),
    [
        (flip, "segment-*-p0?.zst", "SHA-256 does not match the sealed one"),
        (cut, "segment-*-p0?.zst", "were sealed"),
        (Path.unlink, "segment-*-p0?.zst", "is missing"),
        (flip, "segment-*-kept.zst", "SHA-256 does not match the sealed one"),
        (cut, INDEX, "SHA-256 differs"),
        (Path.unlink, INDEX, "is missing"),
        (cut, "manifest.json", "cannot be read"),
    ],
)
async def test_a_damaged_backup_is_named_and_an_older_good_one_offered(
    shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path,
    harm: Callable[[Path], None], file: str, text: str,
):  # fmt: skip
    await save_receipt(shop.redis, project_receipt(shop))
    good, harmed, newest = [await made(job, shop, f"thought {n}") for n in range(3)]
    for document in (harmed, newest):
        harm(next((tmp_path / "backups" / document.name).glob(file)))
    with pytest.raises(DamagedBackup, match=rf"{newest.name} .*({text}).*--backup {good.name}"):
        choose(target, None, tmp_path / "w")
    flip(tmp_path / "backups" / good.name / INDEX)
    with pytest.raises(DamagedBackup, match="there is no intact backup before it"):
        choose(target, None, tmp_path / "w")


async def test_a_missing_backup_is_reported(shop: Workshop, job: BackupJob, target: StoreTarget, tmp_path: Path):
    assert choose(target, None, tmp_path / "w") is None
    await made(job, shop, KEPT)
    with pytest.raises(BackupFailed, match="there is no backup yesterday in"):
        choose(target, "yesterday", tmp_path / "w")


async def test_a_lease_that_another_keeps_is_told_to_who_asks(
    shop: Workshop, job: BackupJob, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backup_module, "WAIT_FOR_OTHER_S", 0)
    await shop.redis.set(BACKUP_LEASE, "other", ex=HOUR)
    assert await job.run() is None
    with pytest.raises(BackupFailed, match="another backup has been running"):
        await job.run(force=True)
    await shop.redis.delete(BACKUP_LEASE)


async def made_now(job: BackupJob) -> BackupManifest:
    """A backup of what there is."""
    backup = await job.run(force=True)
    assert backup is not None
    return backup


class BackedUpLog:
    """A log that is backed up, wiped and restored."""

    def __init__(self, redis: Client, folder: Path) -> None:
        self.redis, self.folder = redis, folder
        self.target = StoreTarget(DirectoryStore(folder / "backups"))
        self.shop = Workshop(redis, folder)

    async def head(self) -> str:
        """The token of everything that was said."""
        return str(Token({partition: await self.shop.log.head(partition) for partition in range(PARTITIONS)}))

    async def live(self) -> DocumentManifest:
        """The manifest of the documents, with everything projected."""
        await self.shop.project()
        return await manifest_of(self.redis, range(PARTITIONS))

    async def say_more(self, word: str) -> None:
        """Something of every kind."""
        for n in range(4):
            await self.shop.observe(f"{word} the build failed {n} times", session=f"s{n}")
        await self.shop.remember(f"{word} green tea", user_id="u1")
        await self.shop.learn(f"{word} rebase before pushing")

    async def back_up(self) -> BackupManifest:
        """A backup of everything."""
        made = self.folder / "made"
        manifest = await write_backup(self.redis, self.shop.log, made, self.shop.clock)
        self.target.put(manifest.name, made)
        return manifest

    async def restore(self, at: str) -> int:
        """Lose everything, and restore the newest backup; returns how much was left out."""
        await self.redis.flushall()
        chosen = choose(self.target, None, self.folder / "work")
        assert chosen is not None
        left_out = await restore(self.redis, PARTITIONS, chosen, at=point_of(at, chosen.manifest))
        self.shop = Workshop(self.redis, self.folder)
        return left_out

    def listed(self) -> ListedBackup:
        """The newest backup."""
        return listed(self.target, self.folder / "work")[-1]

    async def verify(self, at: str = "") -> Verified:
        """The newest backup, replayed."""
        item = self.listed()
        assert item.manifest is not None
        return await verify(self.target, item, self.folder / "work", point_of(at, item.manifest) if at else None)


@pytest.fixture
async def place(redis: Client, tmp_path: Path) -> BackedUpLog:
    """A log with something in every partition."""
    place = BackedUpLog(redis, tmp_path)
    await place.shop.log.create_or_check()
    await place.say_more("first")
    return place


# restoring


async def test_a_log_restored_at_a_position_has_the_documents_of_then(place: BackedUpLog):
    then, documents = await place.head(), await place.live()
    await place.say_more("later")
    now = await place.live()
    assert manifest_differences(documents, now) != []
    await place.back_up()
    assert await place.restore(then) == 6
    assert await place.head() == then
    assert manifest_differences(await place.live(), documents) == []
    assert manifest_differences((await place.verify(then)).documents, documents) == []
    assert manifest_differences((await place.verify()).documents, now) == []


async def test_a_partition_that_the_token_does_not_name_stops_at_its_time(place: BackedUpLog):
    last = (await place.shop.remember("the last one then")).position
    (position,) = Token.parse(last).values()
    documents = await place.live()
    while (await _newest(place)).ms <= position.ms:  # the next millisecond
        await place.shop.observe("later", session="of another partition")
    await place.say_more("later")
    await place.back_up()
    await place.restore(last)
    restored = await place.live()
    assert (await _newest(place)).ms <= position.ms
    for partition, before in documents.partitions.items():
        assert before.documents.keys() <= restored.partitions[partition].documents.keys()


async def _newest(place: BackedUpLog) -> Position:
    return max([await place.shop.log.head(partition) for partition in range(PARTITIONS)])


async def test_a_time_is_a_point_too(place: BackedUpLog):
    documents = await place.live()
    then = await _newest(place)
    while (await _newest(place)).ms <= then.ms:
        await place.shop.observe("later")
    await place.say_more("later")
    place.shop.clock.advance(timedelta(hours=1))
    await place.back_up()
    await place.restore(then.recorded_at.isoformat())
    assert manifest_differences(await place.live(), documents) == []


async def test_what_the_log_was_restored_from_is_written_down(place: BackedUpLog):
    then = await place.head()
    await place.say_more("later")
    manifest = await place.back_up()
    await place.restore(then)
    note = msgspec.json.decode(await place.redis.hget(MANIFEST, RESTORED) or b"", type=Restored)
    assert (note.backup, note.at, note.left_out) == (manifest.name, then, 6)


async def test_what_was_forgotten_behind_the_point_stays_forgotten(place: BackedUpLog):
    """Erased before the backup it is a stub; asked for, and not carried out when the backup was made, it is obeyed."""
    gone = await place.shop.remember("a secret of u7")
    also = await place.shop.remember("another secret of u7")
    await place.shop.project()
    then = await place.head()
    forgetting = Forgetting(place.shop.current)
    await forgetting.document(gone.id, ADMIN, Caller(TENANT))
    await place.shop.project()
    await forgetting.document(also.id, ADMIN, Caller(TENANT))  # in the log, and not projected yet
    await place.back_up()
    await place.restore(then)
    await place.shop.project()
    assert await place.shop.gone(gone.id)
    assert await place.shop.gone(also.id)
    assert all("secret" not in repr(document) for document in await place.shop.everything())


@pytest.mark.parametrize(
    ("at", "error", "match"),
    [
        *((at, RestoreRefused, "does not reach") for at in ("0:9999999999999-0", "2999-01-01T00:00:00Z")),
        *((at, CommandRejected, None) for at in ("yesterday", "2026-01-31T12:00:00", "99:1-1")),
    ],
)
async def test_a_point_that_the_backup_does_not_reach_or_that_is_none_is_refused(
    place: BackedUpLog, at: str, error: type[Exception], match: str | None
):
    await place.back_up()
    with pytest.raises(error, match=match):
        await place.verify(at)


# verifying


async def test_a_damaged_segment_is_found_and_named(place: BackedUpLog):
    manifest = await place.back_up()
    for path in sorted((place.folder / "backups" / manifest.name).glob("*.zst")):
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"\xc1 no segment", b""):
            path.write_bytes(damaged)
            with pytest.raises(DamagedBackup, match=path.name):
                await place.verify()
        path.write_bytes(whole)
    await place.verify()


async def test_an_index_that_was_altered_is_damaged(place: BackedUpLog):
    manifest = await place.back_up()
    folder = place.folder / "backups" / manifest.name
    index = msgspec.json.decode((folder / INDEX).read_bytes())
    (chain,) = [partition for partition in index["partitions"] if partition["partition"] == 0]
    chain["segments"].pop()
    altered = msgspec.json.encode(index)
    (folder / INDEX).write_bytes(altered)
    with pytest.raises(DamagedBackup, match="SHA-256 differs"):
        await place.verify()
    answer = msgspec.structs.replace(manifest, sha256=hashlib.sha256(altered).hexdigest())
    (folder / MANIFEST_FILE).write_bytes(msgspec.json.encode(answer))
    with pytest.raises(DamagedBackup, match="does not end where the manifest says"):
        await place.verify()


async def test_a_backup_without_a_readable_manifest_is_damaged(place: BackedUpLog):
    manifest = await place.back_up()
    (place.folder / "backups" / manifest.name / MANIFEST_FILE).write_text("{")
    with pytest.raises(DamagedBackup, match="manifest"):
        await verify(place.target, place.listed(), place.folder / "work")
