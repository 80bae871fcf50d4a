"""What a backup is, where backups are stored, when a new one is due, which ones are deleted; the arq job that does it.

A backup has the log as segments, up to its head, and as segments the keys that are stored beside it. The manifest has
the SHA-256 of the index, and the index that of each segment.

A backup that was made before something was forgotten still has it: it is replaced by a new one, and then deleted. The
new one is complete before any other is touched, so a crash at any point leaves the old backups, and the next run
finishes. Calls of a target block; use a thread.
"""

import asyncio
import hashlib
import logging
import re
import shutil
from collections.abc import AsyncIterator, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ingest.errors import MnemologError
from ingest.ids import new_event_id
from ingest.log.archived import count_erased
from ingest.log.event_log import EventLog, Stored, pages
from ingest.log.keys import (
    BACKUP_LEASE,
    BACKUP_STATUS,
    FORGOTTEN_BEFORE,
    NUMBERS,
    RECEIPTS,
    PartitionKeys,
)
from ingest.log.keys import MANIFEST as MANIFEST_KEY
from ingest.log.lease import lease
from ingest.log.position import START, Position
from ingest.log.segments import ArchiveManifest as Chain
from ingest.log.segments import (
    ArchiveUnavailable,
    DamagedArchive,
    MissingFile,
    appended,
    content_of,
    filled,
    pack,
    unpack,
)
from ingest.log.store import Store
from ingest.platform.clock import Clock, system_clock
from ingest.platform.connections import Client
from ingest.platform.processes import release
from ingest.platform.tasks import end
from projections.store.receipts import all_receipts

logger = logging.getLogger(__name__)

FORMAT, FORMAT_VERSION = "mnemolog-backup", 2
MANIFEST, INDEX = "manifest.json", "segments.json"
"""The files of a backup besides its segments."""
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{8}")
"""What `name_of` makes."""


class BackupFailed(MnemologError):
    """No backup was made, or none could be read; the message says where and why."""

    code = "backup_failed"


class DamagedBackup(MnemologError):
    """A backup is not what its manifest says, or of a release that this one does not know."""

    code = "damaged_backup"

    def __init__(self, name: str, trouble: str) -> None:
        super().__init__(f"backup {name} is damaged: {trouble}")
        self.name, self.trouble = name, trouble


class RestoreRefused(MnemologError):
    """The log is not one to restore into: nothing was written."""

    code = "restore_refused"


class LogState(Struct, frozen=True, kw_only=True):
    """What decides whether a log has changed since a backup.

    `log` is when the log was created, which identifies it. `forgotten` counts the entries ever erased from it and the
    requests to forget that are done: a backup with a smaller number still has what was forgotten since.
    """

    log: str
    heads: dict[int, str]
    forgotten: int

    @property
    def empty(self) -> bool:
        """Whether nothing was ever written."""
        return all(Position.parse(head) == START for head in self.heads.values())


class BackupManifest(LogState, frozen=True, kw_only=True):
    """What a backup is. `heads` are its position: the segments hold each partition exactly up to there.

    `records` counts entries and keys beside the log, `bytes` is the size of all segments, `sha256` is of the index.
    """

    format: str = FORMAT
    version: int = FORMAT_VERSION
    name: str
    created_at: datetime
    release: str
    partitions: int
    events: int
    records: int
    bytes: int
    sha256: str


class ListedBackup(NamedTuple):
    """A backup in a target. `manifest` is None where it cannot be read; `trouble` says why."""

    name: str
    manifest: BackupManifest | None
    trouble: str = ""


def read_manifest(name: str, raw: bytes) -> BackupManifest:
    """The manifest of a backup; raises DamagedBackup."""
    try:
        manifest = msgspec.json.decode(raw, type=BackupManifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedBackup(name, f"{MANIFEST} cannot be read: {error}") from None
    if (manifest.format, manifest.version) != (FORMAT, FORMAT_VERSION):
        raise DamagedBackup(name, f"this release reads version {FORMAT_VERSION}, but it is version {manifest.version}")
    if manifest.name != name:
        raise DamagedBackup(name, f"{MANIFEST} belongs to {manifest.name}")
    return manifest


def name_of(created_at: datetime, sha256: str) -> str:
    """`<UTC time>-<hash>`; names sort by time."""
    return f"{stamp_of(created_at)}-{sha256[:8]}"


def stamp_of(created_at: datetime) -> str:
    """The time in the name of a backup."""
    return f"{created_at:%Y%m%dT%H%M%S.%fZ}"


def newest_of(log: str, backups: Iterable[BackupManifest]) -> BackupManifest | None:
    """The newest of one log's backups; None without any."""
    return max(_of(log, backups), key=_age, default=None)


def changed(state: LogState, newest: LogState | None) -> bool:
    """Whether a backup would have something that the newest one lacks, or lack what was forgotten since."""
    if newest is None or newest.log != state.log:
        return not state.empty
    return (state.heads, state.forgotten) != (newest.heads, newest.forgotten)


def due(state: LogState, newest: LogState | None, listed_at: datetime | None, now: datetime, every: timedelta) -> bool:
    """Whether it is time to look at the existing backups: at once when they have what was forgotten since."""
    if newest is None or newest.log != state.log or state.forgotten > newest.forgotten:
        return changed(state, newest)
    return listed_at is None or now - listed_at >= every


def to_delete(newest: BackupManifest, backups: Iterable[BackupManifest], keep: int) -> list[str]:
    """Names of the backups of one log that have what was forgotten since, and of the oldest beyond `keep`.

    Those of another log in the same target are left alone.
    """
    own = sorted(_of(newest.log, backups), key=_age)
    stale = [backup for backup in own if backup.forgotten < newest.forgotten]
    good = [backup for backup in own if backup.forgotten >= newest.forgotten]
    return [backup.name for backup in (*stale, *good[: max(0, len(good) - keep)])]


def _of(log: str, backups: Iterable[BackupManifest]) -> list[BackupManifest]:
    return [backup for backup in backups if backup.log == log]


def _age(backup: BackupManifest) -> tuple[datetime, str]:
    return backup.created_at, backup.name


LATE_AFTER = timedelta(minutes=5)
"""How late a job may be: others run before it, and a large log takes time."""


class Status(Struct, frozen=True, kw_only=True):
    """The newest backup in `target`, when it was last found to be new enough, and what failed since."""

    target: str
    newest: BackupManifest | None = None
    listed_at: datetime | None = None
    error: str = ""


async def measure(redis: Client, log: EventLog) -> LogState:
    """The state of a log. What is read of the log afterward is at least as new."""
    created, before = await redis.hmget(MANIFEST_KEY, ["created_at", FORGOTTEN_BEFORE])
    return LogState(
        log=(created or b"").decode(),
        forgotten=int(before or 0) + await count_forgotten(redis, log.partitions),
        heads={partition: str(await log.head(partition)) for partition in range(log.partitions)},
    )


async def count_forgotten(redis: Client, partitions: int) -> int:
    """Entries that this log erased, and requests to forget that are done."""
    erased = await count_erased(redis, partitions)
    return erased + sum(receipt.status == "done" for receipt in await all_receipts(redis))


def backup_trouble(status: Status | None, now: datetime, every: timedelta) -> str:
    """What is wrong with the backups of a log, if anything; empty where no worker has looked yet."""
    if status is None:
        return ""
    if status.error:
        return f"the newest backup failed: {status.error}"
    if status.listed_at is not None and now - status.listed_at > max(3 * every, LATE_AFTER):
        return f"the backups have not been checked since {status.listed_at:%Y-%m-%d %H:%M} UTC; is a worker running?"
    return ""


async def load_status(redis: Client) -> Status | None:
    """The last stored status, if any."""
    raw = await redis.get(BACKUP_STATUS)
    return msgspec.json.decode(raw, type=Status) if raw else None


async def save_status(redis: Client, status: Status) -> None:
    """Store the status."""
    await redis.set(BACKUP_STATUS, msgspec.json.encode(status))


_BEING_WRITTEN = "being-written.json"
"""A copy of the manifest, written first: it says which log an unfinished backup is of."""


class Target(Protocol):
    """Where backups are stored. Everything raises BackupFailed when it cannot be reached or refuses."""

    def names(self) -> list[str]:
        """The complete backups, oldest first; empty where the target does not exist yet."""
        ...

    def read(self, name: str, file: str, work: Path) -> bytes:
        """A file of a backup; a copy may be cached in `work`. Raises MissingFile."""
        ...

    def put(self, name: str, folder: Path) -> None:
        """Store the files in `folder` as backup `name`: all of them, or (also when it is killed) none."""
        ...

    def delete(self, names: Sequence[str]) -> None:
        """Delete backups permanently, history included. A missing one is not an error."""
        ...


@dataclass
class StoreTarget:
    """Backups as folders of a store. One counts as soon as it has its manifest, which is written last."""

    _store: Store

    def __str__(self) -> str:
        return str(self._store)

    def names(self) -> list[str]:
        """See Target. Folders that are not named like a backup are skipped."""
        with _failing():
            return [name for name in self._folders() if MANIFEST in self._store.names(name)]

    def read(self, name: str, file: str, work: Path) -> bytes:
        """See Target."""
        with _failing():
            return self._store.read(f"{name}/{file}")

    def put(self, name: str, folder: Path) -> None:
        """See Target. Also deletes what interrupted backups of the same log left."""
        manifest = (folder / MANIFEST).read_bytes()
        files = sorted(path.name for path in folder.iterdir() if path.name != MANIFEST)
        with _failing(f"backup {name} cannot be written"):
            log = msgspec.json.decode(manifest, type=LogState).log
            for folder_name in self._folders():
                there, mark = self._store.names(folder_name), f"{folder_name}/{_BEING_WRITTEN}"
                is_unfinished = MANIFEST not in there and _BEING_WRITTEN in there
                if is_unfinished and msgspec.json.decode(self._store.read(mark), type=LogState).log == log:
                    self._delete(folder_name, _BEING_WRITTEN)
            self._store.write(f"{name}/{_BEING_WRITTEN}", manifest)
            for file in files:
                self._store.write(f"{name}/{file}", (folder / file).read_bytes())
            if not {*files} <= {*self._store.names(name)}:
                raise BackupFailed(f"backup {name}: another process deleted its files from {self}")
            # last: a backup without its manifest does not count, so one that is killed here was never made
            self._store.write(f"{name}/{MANIFEST}", manifest)
            self._store.delete([f"{name}/{_BEING_WRITTEN}"])

    def delete(self, names: Sequence[str]) -> None:
        """See Target. Manifests go last, so that one whose deletion was interrupted is still there to be deleted."""
        with _failing("backups cannot be deleted"):
            for name in names:
                self._delete(name, MANIFEST)

    def _folders(self) -> list[str]:
        return [name for name in self._store.names("") if _NAME.fullmatch(name)]

    def _delete(self, name: str, last: str) -> None:
        files = self._store.names(name)
        self._store.delete([f"{name}/{file}" for file in files if file != last])
        if last in files:
            self._store.delete([f"{name}/{last}"])


def listed(target: Target, work: Path) -> list[ListedBackup]:
    """All backups of a target with their manifests, oldest first."""
    backups: list[ListedBackup] = []
    for name in target.names():
        try:
            backups.append(ListedBackup(name, read_manifest(name, target.read(name, MANIFEST, work))))
        except DamagedBackup as error:
            backups.append(ListedBackup(name, None, error.trouble))
        except MissingFile:
            continue  # it was deleted a moment ago
    return backups


@contextmanager
def _failing(what: str = "") -> Generator[None]:
    try:
        yield
    except MissingFile:
        raise
    except ArchiveUnavailable as error:
        raise BackupFailed(f"{what}: {error}" if what else str(error)) from error


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


StoredKey = HashField | Text | Member
encode_key = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(StoredKey).decode


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
            try:
                raw = self.target.read(self.manifest.name, sealed.name, self.work)
                entries = unpack(raw, chain.partition, sealed)
            except MissingFile:
                raise DamagedBackup(self.manifest.name, f"{sealed.name} is missing") from None
            except DamagedArchive as error:
                raise DamagedBackup(self.manifest.name, f"{sealed.name}: {error.trouble}") from error
            yield entries

    def kept(self) -> Iterator[list[StoredKey]]:
        """The keys beside the log, a segment at a time."""
        for entries in self.entries(self.index.kept):
            try:
                yield [_decode_key(entry.payload) for entry in entries]
            except msgspec.MsgspecError as error:
                raise DamagedBackup(self.manifest.name, f"a kept key cannot be read: {error}") from None

    def check(self) -> None:
        """Read everything; raises DamagedBackup unless all of it is what was written."""
        for _ in self.kept():
            pass
        for chain in self.index.partitions:
            for _ in self.entries(chain):
                pass


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
        raise DamagedBackup(name, f"{INDEX} was altered (its SHA-256 differs)")
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
    try:
        return _checked(target, backups[-1], work)
    except DamagedBackup as damaged:
        error = damaged
    for backup in backups[-2::-1]:
        with suppress(DamagedBackup):
            _checked(target, backup, work)
            advice = f"the newest intact backup before it: `mnemolog admin restore --backup {backup.name}`"
            break
    else:
        advice = "there is no intact backup before it"
    raise DamagedBackup(error.name, f"{error.trouble}; {advice}") from error


def no_such_backup(name: str, target: Target) -> BackupFailed:
    """The error for a name that no backup has."""
    return BackupFailed(f"there is no backup {name} in {target}; `mnemolog admin backups` lists the existing ones")


def _checked(target: Target, backup: ListedBackup, work: Path) -> Backup:
    whole = opened(target, backup, work)
    whole.check()
    return whole


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

    async def numbered() -> AsyncIterator[list[Stored]]:
        number = 0
        async for records in keys_beside_log(redis, log.partitions):
            yield [Stored(Position(n, 0), encode_key(record)) for n, record in enumerate(records, number + 1)]
            number += len(records)

    # receipts before the log: one that says `done` must not be stored with what it says is gone
    beside = await _sealed(folder, chain(KEPT), numbered())
    partitions: list[Chain] = []
    for partition, head in state.heads.items():
        sealed = await _sealed(folder, chain(partition), pages(log, partition, Position.parse(head)))
        if str(sealed.sealed) != head:
            raise BackupFailed(f"partition {partition} was read only up to {sealed.sealed}, which is not its end")
        partitions.append(sealed)
    index = msgspec.json.encode(BackupIndex(beside, partitions))
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
        records=events + sum(segment.content.entries for segment in beside.segments),
        bytes=sum(segment.content.bytes for chain in (beside, *partitions) for segment in chain.segments),
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


async def keys_beside_log(redis: Client, partitions: int) -> AsyncIterator[list[StoredKey]]:
    """What is permanent and cannot be made from the log: receipts, document numbers, requests
    to a model, and which dead letters are discarded.
    """
    hashes = [RECEIPTS, *sorted([key.decode() async for key in redis.scan_iter(match=NUMBERS, count=1000)])]
    for key in hashes:
        fields: list[StoredKey] = []
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


SLICE_S = 240.0
"""How long a job waits for its backup; one that takes longer continues, and the next job waits for it."""
WAIT_FOR_OTHER_S = 60.0


@dataclass
class BackupJob:
    """Keeps the backups of a log in `target` as new as they should be. `work` is a folder of this process's own."""

    _redis: Client
    _log: EventLog
    _target: Target
    _work: Path
    _: KW_ONLY
    every: timedelta
    keep: int
    clock: Clock = system_clock

    def __post_init__(self) -> None:
        self._id = str(new_event_id())
        self._under_way: asyncio.Task[None] | None = None

    async def start_or_go_on(self) -> bool:
        """Run as a job whose time is limited; returns whether the backup is over. Failures are logged."""

        async def run() -> None:
            try:
                await self.run()
            except MnemologError as error:
                logger.warning("the backup failed: %s", error)
            except Exception:  # a bug: the next run tries again
                logger.exception("the backup failed")

        if self._under_way is None:
            self._under_way = asyncio.create_task(run(), name="backup")
        over, _ = await asyncio.wait({self._under_way}, timeout=SLICE_S)
        if over:
            self._under_way = None
        return bool(over)

    async def aclose(self) -> None:
        """Stop a backup that is in progress; nothing of it remains."""
        await end(self._under_way)

    async def run(self, *, force: bool = False) -> BackupManifest | None:
        """Back up if it is due, or (`force`) if the log has changed; returns the new manifest, or None.

        Raises BackupFailed when the target cannot be reached, or (`force`) when another worker's backup takes too long;
        a failure is also stored in the status, and the next run tries again.
        """
        wait_s = WAIT_FOR_OTHER_S if force else 0.0
        # one worker at a time: two would each delete what the other has just written as unfinished
        async with lease(self._redis, BACKUP_LEASE, self._id, wait_s=wait_s) as mine:
            if not mine and force:
                raise BackupFailed(
                    f"another backup has been running for {wait_s:.0f} s; try again when it has finished"
                )
            if not mine:
                logger.info("another worker is making a backup")
                return None
            status = await load_status(self._redis)
            if status is None or status.target != str(self._target):
                status = Status(target=str(self._target))
            state = await measure(self._redis, self._log)
            if not force and not due(state, status.newest, status.listed_at, self.clock(), self.every):
                return None
            try:
                newest, is_new = await self._renew(state)
            except Exception as error:  # whatever it is, the status shows it
                await save_status(self._redis, replace(status, error=str(error)[:500]))
                raise
            finally:
                await asyncio.to_thread(shutil.rmtree, self._work, ignore_errors=True)
            await save_status(self._redis, Status(target=str(self._target), newest=newest, listed_at=self.clock()))
            return newest if is_new else None

    async def _renew(self, state: LogState) -> tuple[BackupManifest | None, bool]:
        """The newest backup of the log, and whether it was made just now."""
        existing = await asyncio.to_thread(listed, self._target, self._work / "there")
        for backup in existing:
            if backup.manifest is None:
                logger.warning("backup %s in %s is damaged: %s", backup.name, self._target, backup.trouble)
        backups = [backup.manifest for backup in existing if backup.manifest is not None]
        newest = newest_of(state.log, backups)
        is_new = changed(state, newest)
        if is_new:
            newest = await write_backup(self._redis, self._log, self._work / "new", self.clock)
            await asyncio.to_thread(self._target.put, newest.name, self._work / "new")
            backups.append(newest)
            logger.info("backup %s: %d events, %d bytes, in %s", newest.name, newest.events, newest.bytes, self._target)
        # after `put` has checked that the new one is complete: until then the older ones are all there is to restore
        if newest is not None and (outdated := to_delete(newest, backups, self.keep)):
            await asyncio.to_thread(self._target.delete, outdated)
            logger.info("backups deleted: %s", ", ".join(outdated))
        return newest, is_new
