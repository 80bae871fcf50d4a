"""What is in a backup: the log as segments, sealed to its head, and the keys that are kept beside it, as segments, too.

The manifest has the SHA-256 of the index, and the index that of each segment.
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
"""In the place of a partition: the segments of the keys that are kept. Their positions only count them."""


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
    """The segments of the kept keys, and those of each partition."""

    kept: Chain
    partitions: list[Chain]


class Backup(Struct, frozen=True):
    """A backup whose index is what its manifest says. Reading raises DamagedBackup or BackupFailed, and blocks."""

    target: Target
    work: Path
    manifest: BackupManifest
    index: BackupIndex

    def entries(self, chain: Chain) -> Iterator[list[Stored]]:
        """The entries of a partition, a segment at a time."""
        for sealed in chain.segments:
            yield self._unpacked(chain, sealed)

    def kept(self) -> Iterator[list[Kept]]:
        """The keys that are kept, a segment at a time."""
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


def opened(target: Target, one: ListedBackup, work: Path) -> Backup:
    """A backup, with its index; raises DamagedBackup or BackupFailed."""
    if one.manifest is None:
        raise DamagedBackup(one.name, one.trouble)
    try:
        raw = target.read(one.name, INDEX, work)
    except MissingFile:
        raise DamagedBackup(one.name, f"{INDEX} is missing") from None
    if hashlib.sha256(raw).hexdigest() != one.manifest.sha256:
        raise DamagedBackup(one.name, f"{INDEX} is not the file that was written (its SHA-256 differs)")
    index = msgspec.json.decode(raw, type=BackupIndex)
    for chain in index.partitions:
        if str(chain.sealed) != one.manifest.heads.get(chain.partition):
            raise DamagedBackup(one.name, f"partition {chain.partition} does not end where the manifest says")
    return Backup(target, work, one.manifest, index)


def choose(target: Target, name: str | None, work: Path) -> Backup | None:
    """The newest backup, or the one of that name, with all of it checked; None when there is none at all.

    Raises BackupFailed where there is none of that name. Raises DamagedBackup for a damaged one, also naming the newest
    good one before it: which one is restored then is for a person to say.
    """
    found = listed(target, work)
    if name is not None:
        found = found[: next((place for place, one in enumerate(found, 1) if one.name == name), 0)]
        if not found:
            raise no_such_backup(name, target)
    if not found:
        return None
    *older, wanted = found
    try:
        return _checked(target, wanted, work)
    except DamagedBackup as error:
        raise DamagedBackup(error.name, f"{error.trouble}; {_instead(target, older, work)}") from error


def no_such_backup(name: str, target: Target) -> BackupFailed:
    """The refusal of a name that no backup has."""
    return BackupFailed(f"there is no backup {name} in {target}; `mnemolog backups` lists those there are")


def _checked(target: Target, one: ListedBackup, work: Path) -> Backup:
    backup = opened(target, one, work)
    backup.check()
    return backup


def _instead(target: Target, older: list[ListedBackup], work: Path) -> str:
    for one in reversed(older):
        try:
            _checked(target, one, work)
        except DamagedBackup:
            continue
        return f"the newest good one before it: `mnemolog restore --backup {one.name}`"
    return "there is no good one before it"


FIELDS_PER_PAGE = 500


async def write_backup(redis: Client, log: EventLog, folder: Path, clock: Clock) -> BackupManifest:
    """Write the log, up to where it is now, into the new folder `folder`; returns the manifest that is there.

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
        made = await _sealed(folder, chain(partition), pages(log, partition, Position.parse(head)))
        if str(made.sealed) != head:
            raise BackupFailed(f"partition {partition} was read up to {made.sealed}, which is not its end")
        partitions.append(made)
    index = msgspec.json.encode(BackupIndex(kept, partitions))
    await asyncio.to_thread((folder / INDEX).write_bytes, index)
    events = sum(one.content.entries for chain in partitions for one in chain.segments)
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
        records=events + sum(one.content.entries for one in kept.segments),
        bytes=sum(one.content.bytes for chain in (kept, *partitions) for one in chain.segments),
        sha256=sha256,
    )
    await asyncio.to_thread((folder / MANIFEST).write_bytes, msgspec.json.encode(manifest))
    return manifest


async def _sealed(folder: Path, chain: Chain, entries: AsyncIterator[Sequence[Stored]]) -> Chain:
    """Write entries as segments; returns the chain of them."""
    writer = "kept" if chain.partition == KEPT else f"p{chain.partition:02d}"
    async for segment in filled(entries):
        try:
            data = await asyncio.to_thread(pack, chain.partition, segment)
        except ValueError as error:  # a kept value of many megabytes: better no backup than one that cannot be read
            raise BackupFailed(f"{writer}: {error}") from None
        chain = appended(chain, content_of(data, segment), writer)
        await asyncio.to_thread((folder / chain.segments[-1].name).write_bytes, data)
    return chain


async def _numbered(found: AsyncIterator[list[Kept]]) -> AsyncIterator[list[Stored]]:
    number = 0
    async for some in found:
        yield [Stored(Position(number + place, 0), encode_kept(one)) for place, one in enumerate(some, 1)]
        number += len(some)


async def kept_keys(redis: Client, partitions: int) -> AsyncIterator[list[Kept]]:
    """What is for ever and does not come out of the log: receipts, numbers of documents, how the log was grown, what
    was asked of a model, and which dead letters are discarded.
    """
    if grown := await redis.hget(LOG_MANIFEST, GROWN):
        yield [HashField(LOG_MANIFEST, GROWN, grown)]
    hashes = [RECEIPTS, *sorted([key.decode() async for key in redis.scan_iter(match=NUMBERS, count=1000)])]
    for key in hashes:
        found: list[Kept] = []
        async for field, value in redis.hscan_iter(key, count=FIELDS_PER_PAGE):
            found.append(HashField(key, field.decode(), value))
            if len(found) >= FIELDS_PER_PAGE:
                yield found
                found = []
        yield found
    places = [PartitionKeys(partition).enriched for partition in range(partitions)]
    yield [Text(key, value) for key, value in zip(places, await redis.mget(*places), strict=True) if value is not None]
    for partition in range(partitions):
        key, start = PartitionKeys(partition).discarded, 0
        while members := await redis.zrange(key, start, start + FIELDS_PER_PAGE - 1):
            start += len(members)
            yield [Member(key, member) for member in members]


logger = logging.getLogger(__name__)

SLICE_S = 240.0
"""How long a job waits for its backup; one that takes longer goes on, and the next job waits for it."""
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
        """Run as a job whose time is limited; whether it is over. What failed is logged."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._logged(), name="backup")
        over, _ = await asyncio.wait({self._under_way}, timeout=SLICE_S)
        if over:
            self._under_way = None
        return bool(over)

    async def aclose(self) -> None:
        """Stop the backup that is under way, if any: there is none of it then."""
        if self._under_way is not None:
            await end(self._under_way)

    async def _logged(self) -> None:
        try:
            await self.run()
        except MnemologError as error:
            logger.warning("no backup was made: %s", error)
        except Exception:  # a fault of ours: the next run tries again
            logger.exception("no backup was made")

    async def run(self, *, force: bool = False) -> BackupManifest | None:
        """Back up if it is time, or (`force`) whenever the log has changed; returns the manifest, None without.

        Of all workers one does it at a time; while another does it, nothing is done. Raises BackupFailed when the
        target cannot be reached, or (`force`) when another takes too long; what failed is noted, too, and the next run
        tries again.
        """
        wait_s = WAIT_FOR_OTHER_S if force else 0.0
        async with lease(self._redis, BACKUP_LEASE, self._id, JOB_LEASE_TTL, wait_s=wait_s) as mine:
            if not mine and force:
                raise BackupFailed(f"another backup has been under way for {wait_s:.0f} s; try again when it is done")
            if not mine:
                logger.info("another worker makes a backup")
                return None
            noted = await load_status(self._redis)
            if noted is None or noted.target != str(self._target):
                noted = Status(target=str(self._target))
            state = await measure(self._redis, self._log)
            if not force and not due(state, noted.newest, noted.listed_at, self._clock(), self._every):
                return None
            try:
                newest, made = await self._renew(state)
            except Exception as error:  # whatever it is, the status shows it
                await save_status(self._redis, replace(noted, error=str(error)[:500]))
                raise
            finally:
                await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)
            done = Status(target=str(self._target), newest=newest, listed_at=self._clock())
            await save_status(self._redis, done)
            return newest if made else None

    async def _renew(self, state: LogState) -> tuple[BackupManifest | None, bool]:
        """The newest backup of the log, and whether it was made just now."""
        there = await asyncio.to_thread(listed, self._target, self._work / "there")
        for one in there:
            if one.manifest is None:
                logger.warning("backup %s in %s is damaged: %s", one.name, self._target, one.trouble)
        backups = [one.manifest for one in there if one.manifest is not None]
        newest = newest_of(state.log, backups)
        made = changed(state, newest)
        if made:
            newest = await write_backup(self._redis, self._log, self._work / "new", self._clock)
            await asyncio.to_thread(self._target.put, newest.name, self._work / "new")
            backups.append(newest)
            logger.info("backup %s: %d events, %d bytes, in %s", newest.name, newest.events, newest.bytes, self._target)
        if newest is not None and (outdated := to_delete(newest, backups, self._keep)):
            await asyncio.to_thread(self._target.delete, outdated)
            logger.info("backups deleted: %s", ", ".join(outdated))
        return newest, made
