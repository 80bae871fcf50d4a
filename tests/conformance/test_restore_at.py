"""A backup restored at a position, and verified by replay, against a real Valkey.

Left open: how many records are replayed at once.
"""

import hashlib
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from workshop import PARTITIONS, TENANT, Workshop

from ingest.commands.decide import Caller
from ingest.errors import CommandRejected
from ingest.log.archive.store import DirectoryStore
from ingest.log.keys import MANIFEST, RESTORED
from ingest.log.position import Position, Token
from ingest.platform.connections import Client
from projections.documents.access import Reader
from projections.forgetting.forget import Forgetting
from projections.maintenance.backing_up import choose, write_backup
from projections.maintenance.backups import (
    INDEX,
    BackupManifest,
    DamagedBackup,
    ListedBackup,
    RestoreRefused,
    StoreTarget,
    listed,
)
from projections.maintenance.backups import MANIFEST as MANIFEST_FILE
from projections.maintenance.differences import DocumentManifest, differences, manifest_of
from projections.maintenance.restoring import Restored, Verified, point_of, restore, verify

ADMIN = Reader(TENANT, operator=True)


class DocumentLocation:
    """A log that is backed up, wiped and restored."""

    def __init__(self, redis: Client, folder: Path) -> None:
        self.redis, self.folder = redis, folder
        self.target = StoreTarget(DirectoryStore(folder / "backups"))
        self.shop = Workshop(redis, folder)

    async def head(self) -> str:
        """The token of everything that was said."""
        return str(Token({one: await self.shop.log.head(one) for one in range(PARTITIONS)}))

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
        one = self.listed()
        assert one.manifest is not None
        return await verify(self.target, one, self.folder / "work", point_of(at, one.manifest) if at else None)


@pytest.fixture
async def place(redis: Client, tmp_path: Path) -> DocumentLocation:
    """A log with something in every partition."""
    place = DocumentLocation(redis, tmp_path)
    await place.shop.log.create_or_check()
    await place.say_more("first")
    return place


# restoring


async def test_a_log_restored_at_a_position_has_the_documents_of_then(place: DocumentLocation):
    then, documents = await place.head(), await place.live()
    await place.say_more("later")
    now = await place.live()
    assert differences(documents, now) != []
    await place.back_up()
    assert await place.restore(then) == 6
    assert await place.head() == then
    assert differences(await place.live(), documents) == []
    assert differences((await place.verify(then)).documents, documents) == []
    assert differences((await place.verify()).documents, now) == []


async def test_a_partition_that_the_token_does_not_name_stops_at_its_time(place: DocumentLocation):
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


async def _newest(place: DocumentLocation) -> Position:
    return max([await place.shop.log.head(one) for one in range(PARTITIONS)])


async def test_a_time_is_a_point_too(place: DocumentLocation):
    documents = await place.live()
    then = await _newest(place)
    while (await _newest(place)).ms <= then.ms:
        await place.shop.observe("later")
    await place.say_more("later")
    place.shop.clock.advance(timedelta(hours=1))
    await place.back_up()
    await place.restore(then.recorded_at.isoformat())
    assert differences(await place.live(), documents) == []


async def test_what_the_log_was_restored_from_is_written_down(place: DocumentLocation):
    then = await place.head()
    await place.say_more("later")
    manifest = await place.back_up()
    await place.restore(then)
    note = msgspec.json.decode(await place.redis.hget(MANIFEST, RESTORED) or b"", type=Restored)
    assert (note.backup, note.at, note.left_out) == (manifest.name, then, 6)


async def test_what_was_forgotten_behind_the_point_stays_forgotten(place: DocumentLocation):
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
    assert all("secret" not in repr(one) for one in await place.shop.everything())


@pytest.mark.parametrize("at", ["0:9999999999999-0", "2999-01-01T00:00:00Z"])
async def test_a_point_that_the_backup_does_not_reach_is_refused(place: DocumentLocation, at: str):
    await place.back_up()
    with pytest.raises(RestoreRefused, match="does not reach"):
        await place.verify(at)


@pytest.mark.parametrize("at", ["yesterday", "2026-01-31T12:00:00", "99:1-1"])
async def test_a_point_that_is_none_is_refused(place: DocumentLocation, at: str):
    await place.back_up()
    with pytest.raises(CommandRejected):
        await place.verify(at)


# verifying


async def test_a_damaged_segment_is_found_and_named(place: DocumentLocation):
    manifest = await place.back_up()
    for path in sorted((place.folder / "backups" / manifest.name).glob("*.zst")):
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b"\xc1 no segment", b""):
            path.write_bytes(damaged)
            with pytest.raises(DamagedBackup, match=path.name):
                await place.verify()
        path.write_bytes(whole)
    await place.verify()


async def test_an_index_that_was_altered_is_damaged(place: DocumentLocation):
    manifest = await place.back_up()
    folder = place.folder / "backups" / manifest.name
    index = msgspec.json.decode((folder / INDEX).read_bytes())
    (chain,) = [one for one in index["partitions"] if one["partition"] == 0]
    chain["segments"].pop()
    altered = msgspec.json.encode(index)
    (folder / INDEX).write_bytes(altered)
    with pytest.raises(DamagedBackup, match="SHA-256 differs"):
        await place.verify()
    told = msgspec.structs.replace(manifest, sha256=hashlib.sha256(altered).hexdigest())
    (folder / MANIFEST_FILE).write_bytes(msgspec.json.encode(told))
    with pytest.raises(DamagedBackup, match="does not end where the manifest says"):
        await place.verify()


async def test_a_backup_without_a_readable_manifest_is_damaged(place: DocumentLocation):
    manifest = await place.back_up()
    (place.folder / "backups" / manifest.name / MANIFEST_FILE).write_text("{")
    with pytest.raises(DamagedBackup, match="manifest"):
        await verify(place.target, place.listed(), place.folder / "work")
