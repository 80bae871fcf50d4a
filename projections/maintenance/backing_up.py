"""Writing and reading backups, and the arq job that keeps them new enough.

A backup has the log as segments, up to its head, and as segments the keys that are stored beside it. The manifest has
the SHA-256 of the index, and the index that of each segment.

A backup that was made before something was forgotten still has it: it is replaced by a new one, and then deleted. The
new one is complete before any other is touched, so a crash at any point leaves the old backups, and the next run
finishes.
"""

import asyncio
import hashlib
import logging
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import MnemologError
from ingest.ids import new_event_id
from ingest.log.archive.segments import ArchiveManifest as Chain
from ingest.log.archive.segments import DamagedArchive, MissingFile, Sealed, appended, content_of, filled, pack, unpack
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import BACKUP_LEASE, GROWN, JOB_LEASE_TTL, NUMBERS, RECEIPTS, PartitionKeys
from ingest.log.keys import MANIFEST as LOG_MANIFEST
from ingest.log.lease import lease
from ingest.log.position import Position
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from ingest.platform.processes import release
from ingest.platform.tasks import end
from projections.maintenance.backups import (
    INDEX,
    MANIFEST,
    BackupFailed,
    BackupManifest,
    DamagedBackup,
    ListedBackup,
    LogState,
    Status,
    Target,
    changed,
    due,
    listed,
    load_status,
    measure,
    name_of,
    newest_of,
    save_status,
    stamp_of,
    to_delete,
)

KEPT = -1
"""In place of a partition: the segments of the keys beside the log. Their positions only count them."""


class HashField(Struct, frozen=True, array_like=True, tag="field"):
    """A field of a hash."""

    key: str
    field: str
    value: bytes


class Text(Struct, frozen=True, array_like=True, tag="text"):
    """A string."""

    key: str
    value: bytes


class Member(Struct, frozen=True, array_like=True, tag="member"):
    """A member of a sorted set; all of them score 0."""

    key: str
    value: bytes


Kept = HashField | Text | Member
encode_kept = msgspec.msgpack.Encoder().encode
_decode_kept = msgspec.msgpack.Decoder(Kept).decode


class BackupIndex(Struct, frozen=True):
    """The segments of the keys beside the log, and those of each partition."""

    kept: Chain
    partitions: list[Chain]


class Backup(Struct, frozen=True):
    """A backup whose index matches its manifest. Reading raises DamagedBackup or BackupFailed, and blocks."""

    target: Target
    work: Path
    manifest: BackupManifest
    index: BackupIndex

    def entries(self, chain: Chain) -> Iterator[list[Stored]]:
        """The entries of a partition, a segment at a time."""
        for sealed in chain.segments:
            yield self._unpacked(chain, sealed)

    def kept(self) -> Iterator[list[Kept]]:
        """The keys beside the log, a segment at a time."""
        for entries in self.entries(self.index.kept):
            try:
                yield [_decode_kept(entry.payload) for entry in entries]
            except msgspec.MsgspecError as error:
                raise DamagedBackup(self.manifest.name, f"a kept key cannot be read: {error}") from None

    def check(self) -> None:
        """Read everything; raises DamagedBackup unless all of it is what was written."""
        for _ in self.kept():
            pass
        for chain in self.index.partitions:
            for _ in self.entries(chain):
                pass

    def _unpacked(self, chain: Chain, sealed: Sealed) -> list[Stored]:
        try:
            return unpack(self.target.read(self.manifest.name, sealed.name, self.work), chain.partition, sealed)
        except MissingFile:
            raise DamagedBackup(self.manifest.name, f"{sealed.name} is missing") from None
        except DamagedArchive as error:
            raise DamagedBackup(self.manifest.name, f"{sealed.name}: {error.trouble}") from error


def opened(target: Target, backup: ListedBackup, work: Path) -> Backup:
    """A backup, with its index; raises DamagedBackup or BackupFailed."""
    name, manifest = backup.name, backup.manifest
    if manifest is None:
        raise DamagedBackup(name, backup.trouble)
    try:
        raw = target.read(name, INDEX, work)
    except MissingFile:
        raise DamagedBackup(name, f"{INDEX} is missing") from None
    if hashlib.sha256(raw).hexdigest() != manifest.sha256:
        raise DamagedBackup(name, f"{INDEX} is not the file that was written (its SHA-256 differs)")
    index = msgspec.json.decode(raw, type=BackupIndex)
    for chain in index.partitions:
        if str(chain.sealed) != manifest.heads.get(chain.partition):
            raise DamagedBackup(name, f"partition {chain.partition} does not end where the manifest says")
    return Backup(target, work, manifest, index)


def choose(target: Target, name: str | None, work: Path) -> Backup | None:
    """The newest backup, or the one of that name, with all of it checked; None when the target has no backup.

    Raises BackupFailed for an unknown name; DamagedBackup for a damaged backup, which also names the newest intact one
    before it: which one to restore then is left to a person.
    """
    backups = listed(target, work)
    if name is not None:
        backups = backups[: next((count for count, backup in enumerate(backups, 1) if backup.name == name), 0)]
        if not backups:
            raise no_such_backup(name, target)
    if not backups:
        return None
    *older, newest = backups
    try:
        return _checked(target, newest, work)
    except DamagedBackup as error:
        raise DamagedBackup(error.name, f"{error.trouble}; {_instead(target, older, work)}") from error


def no_such_backup(name: str, target: Target) -> BackupFailed:
    """The error for a name that no backup has."""
    return BackupFailed(f"there is no backup {name} in {target}; `mnemolog backups` lists those there are")


def _checked(target: Target, backup: ListedBackup, work: Path) -> Backup:
    whole = opened(target, backup, work)
    whole.check()
    return whole


def _instead(target: Target, older: list[ListedBackup], work: Path) -> str:
    for backup in reversed(older):
        try:
            _checked(target, backup, work)
        except DamagedBackup:
            continue
        return f"the newest good one before it: `mnemolog restore --backup {backup.name}`"
    return "there is no good one before it"


FIELDS_PER_PAGE = 500


async def write_backup(redis: Client, log: EventLog, folder: Path, clock: Clock) -> BackupManifest:
    """Write the log, up to its current head, into the new folder `folder`; returns the manifest written there.

    Raises BackupFailed when the log cannot be read up to its head.
    """
    state = await measure(redis, log)
    created_at = clock()
    await asyncio.to_thread(folder.mkdir, parents=True, mode=0o700)

    def chain(partition: int) -> Chain:
        return Chain(log=state.log, archive=stamp_of(created_at), partition=partition)

    # receipts before the log: one that says `done` must not stand beside what it says is gone
    kept = await _sealed(folder, chain(KEPT), _numbered(kept_keys(redis, log.partitions)))
    partitions: list[Chain] = []
    for partition, head in state.heads.items():
        sealed = await _sealed(folder, chain(partition), pages(log, partition, Position.parse(head)))
        if str(sealed.sealed) != head:
            raise BackupFailed(f"partition {partition} was read up to {sealed.sealed}, which is not its end")
        partitions.append(sealed)
    index = msgspec.json.encode(BackupIndex(kept, partitions))
    await asyncio.to_thread((folder / INDEX).write_bytes, index)
    events = sum(segment.content.entries for chain in partitions for segment in chain.segments)
    sha256 = hashlib.sha256(index).hexdigest()
    manifest = BackupManifest(
        log=state.log,
        heads=state.heads,
        forgotten=state.forgotten,
        name=name_of(created_at, sha256),
        created_at=created_at,
        release=release(),
        partitions=log.partitions,
        events=events,
        records=events + sum(segment.content.entries for segment in kept.segments),
        bytes=sum(segment.content.bytes for chain in (kept, *partitions) for segment in chain.segments),
        sha256=sha256,
    )
    await asyncio.to_thread((folder / MANIFEST).write_bytes, msgspec.json.encode(manifest))
    return manifest


async def _sealed(folder: Path, chain: Chain, entries: AsyncIterator[Sequence[Stored]]) -> Chain:
    writer = "kept" if chain.partition == KEPT else f"p{chain.partition:02d}"
    async for segment in filled(entries):
        try:
            data = await asyncio.to_thread(pack, chain.partition, segment)
        except ValueError as error:  # a kept value of many megabytes: better no backup than one that cannot be read
            raise BackupFailed(f"{writer}: {error}") from None
        chain = appended(chain, content_of(data, segment), writer)
        await asyncio.to_thread((folder / chain.segments[-1].name).write_bytes, data)
    return chain


async def _numbered(pages_of_keys: AsyncIterator[list[Kept]]) -> AsyncIterator[list[Stored]]:
    number = 0
    async for records in pages_of_keys:
        yield [Stored(Position(n, 0), encode_kept(record)) for n, record in enumerate(records, number + 1)]
        number += len(records)


async def kept_keys(redis: Client, partitions: int) -> AsyncIterator[list[Kept]]:
    """What is permanent and cannot be made from the log: receipts, document numbers, how the log was grown, what was
    asked of a model, and which dead letters are discarded.
    """
    if grown := await redis.hget(LOG_MANIFEST, GROWN):
        yield [HashField(LOG_MANIFEST, GROWN, grown)]
    hashes = [RECEIPTS, *sorted([key.decode() async for key in redis.scan_iter(match=NUMBERS, count=1000)])]
    for key in hashes:
        fields: list[Kept] = []
        async for field, value in redis.hscan_iter(key, count=FIELDS_PER_PAGE):
            fields.append(HashField(key, field.decode(), value))
            if len(fields) >= FIELDS_PER_PAGE:
                yield fields
                fields = []
        yield fields
    names = [PartitionKeys(partition).enriched for partition in range(partitions)]
    yield [Text(key, value) for key, value in zip(names, await redis.mget(*names), strict=True) if value is not None]
    for partition in range(partitions):
        key, start = PartitionKeys(partition).discarded, 0
        while members := await redis.zrange(key, start, start + FIELDS_PER_PAGE - 1):
            start += len(members)
            yield [Member(key, member) for member in members]


logger = logging.getLogger(__name__)

SLICE_S = 240.0
"""How long a job waits for its backup; one that takes longer continues, and the next job waits for it."""
WAIT_FOR_OTHER_S = 60.0


class BackupJob:
    """Keeps the backups of a log in `target` as new as they should be. `work` is a folder of this process's own."""

    def __init__(
        self,
        redis: Client,
        log: EventLog,
        target: Target,
        work: Path,
        *,
        every: timedelta,
        keep: int,
        clock: Clock = system_clock,
    ) -> None:
        self._redis, self._log, self._target, self._work = redis, log, target, work
        self._every, self._keep, self._clock = every, keep, clock
        self._id = str(new_event_id())
        self._under_way: asyncio.Task[None] | None = None

    async def start_or_go_on(self) -> bool:
        """Run as a job whose time is limited; returns whether the backup is over. Failures are logged."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._logged(), name="backup")
        over, _ = await asyncio.wait({self._under_way}, timeout=SLICE_S)
        if over:
            self._under_way = None
        return bool(over)

    async def aclose(self) -> None:
        """Stop a backup that is in progress; nothing of it remains."""
        if self._under_way is not None:
            await end(self._under_way)

    async def _logged(self) -> None:
        try:
            await self.run()
        except MnemologError as error:
            logger.warning("no backup was made: %s", error)
        except Exception:  # a bug: the next run tries again
            logger.exception("no backup was made")

    async def run(self, *, force: bool = False) -> BackupManifest | None:
        """Back up if it is due, or (`force`) if the log has changed; returns the new manifest, or None.

        Raises BackupFailed when the target cannot be reached, or (`force`) when another worker's backup takes too long;
        a failure is also stored in the status, and the next run tries again.
        """
        wait_s = WAIT_FOR_OTHER_S if force else 0.0
        # one worker at a time: two would each delete what the other has just written as unfinished
        async with lease(self._redis, BACKUP_LEASE, self._id, JOB_LEASE_TTL, wait_s=wait_s) as mine:
            if not mine and force:
                raise BackupFailed(f"another backup has been under way for {wait_s:.0f} s; try again when it is done")
            if not mine:
                logger.info("another worker makes a backup")
                return None
            status = await load_status(self._redis)
            if status is None or status.target != str(self._target):
                status = Status(target=str(self._target))
            state = await measure(self._redis, self._log)
            if not force and not due(state, status.newest, status.listed_at, self._clock(), self._every):
                return None
            try:
                newest, made = await self._renew(state)
            except Exception as error:  # whatever it is, the status shows it
                await save_status(self._redis, replace(status, error=str(error)[:500]))
                raise
            finally:
                await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)
            await save_status(self._redis, Status(target=str(self._target), newest=newest, listed_at=self._clock()))
            return newest if made else None

    async def _renew(self, state: LogState) -> tuple[BackupManifest | None, bool]:
        """The newest backup of the log, and whether it was made just now."""
        existing = await asyncio.to_thread(listed, self._target, self._work / "there")
        for backup in existing:
            if backup.manifest is None:
                logger.warning("backup %s in %s is damaged: %s", backup.name, self._target, backup.trouble)
        backups = [backup.manifest for backup in existing if backup.manifest is not None]
        newest = newest_of(state.log, backups)
        made = changed(state, newest)
        if made:
            newest = await write_backup(self._redis, self._log, self._work / "new", self._clock)
            await asyncio.to_thread(self._target.put, newest.name, self._work / "new")
            backups.append(newest)
            logger.info("backup %s: %d events, %d bytes, in %s", newest.name, newest.events, newest.bytes, self._target)
        # after `put` has checked that the new one is complete: until then the older ones are all there is to restore
        if newest is not None and (outdated := to_delete(newest, backups, self._keep)):
            await asyncio.to_thread(self._target.delete, outdated)
            logger.info("backups deleted: %s", ", ".join(outdated))
        return newest, made
